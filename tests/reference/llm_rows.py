"""What a policy may know of LLM engines, in plain Python, from docs/llm-machine.md."""

from __future__ import annotations

from typing import Any

from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.features import CANDIDATE
from tests.reference.llm import Engine, ReferenceMachine, Request
from tests.reference.numbers import stream_key, uniform

Row = dict[str, float]
HOUR = 3600e9


class ReferenceLlm(ReferenceMachine):
    """One episode, stopped at each decision, with all that is shown there."""

    def request_row(self, request: Request, order: int) -> Row:
        priority, ttft, tpot = self.limits[request.group]
        due = ttft > 0 and request.first < 0
        machine = self.tables["machine"][0]
        return dict.fromkeys(CANDIDATE.names, 0.0) | {
            "prompt": float(request.prompt),
            "generated": float(request.generated),
            "predicted": float(request.predicted),
            "waited": float(self.now - request.arrival),
            "order": float(order),
            "priority": float(priority),
            "slack": float(request.arrival + ttft - self.now) if due else HOUR,
            "tpot_limit": float(tpot),
            "service": float(self.service[request.group]),
            "work": self.height("dense", request.known) + float(machine["decode_token"]) * request.left,
            "preemptions": float(request.preemptions),
            "number": float(request.place),
            "class": float(request.group),
        }

    def peak(self, engine: Engine, request: Request) -> int:
        """Return the most tokens held when a request of the batch, or this one, is predicted to end."""
        batch = [*engine.running, request]
        return max(sum(one.known + end.left for one in batch if one.left >= end.left) for end in batch)

    def admission_row(self, request: Request, order: int) -> Row:
        needed, hits = self.needs(self.engine, request)
        size = self.rules.block_tokens
        return self.request_row(request, order) | {
            "cached": float(len(hits) * size),
            "blocks": needed / self.usable,
            "fits": float(needed <= self.available(self.engine)),
            "peak": self.peak(self.engine, request) / (self.usable * size),
            "admit": 1.0,
            "dispatch": 1.0,
        }

    def candidate_row(self, candidate: Any, index: int) -> Row:
        if self.kind == "admit":
            return self.admission_row(candidate, index)
        if self.kind == "evict":
            row = self.request_row(candidate, self.engine.running.index(candidate))
            return row | {"blocks": len(candidate.blocks) / self.usable, "evict": 1.0}
        if self.kind == "level":
            budget, kept = candidate
            row = dict.fromkeys(CANDIDATE.names, 0.0)
            return row | {"budget": float(budget), "headroom": kept / self.usable, "level": 1.0}
        assert self.pending is not None
        return self.request_row(self.pending, 0) | {
            "cached": float(len(self.found(candidate, self.pending)) * self.rules.block_tokens),
            "running": float(len(candidate.running)),
            "waiting": float(len(candidate.waiting)),
            "free": len(candidate.free) / self.usable,
            "send": 1.0,
            "number": float(candidate.place),
        }

    def rows(self) -> list[Row]:
        rows = [dict.fromkeys(CANDIDATE.names, 0.0) for _ in range(compiled_scenario(self.scenario).all_rows)]
        for index, (row, candidate) in enumerate(zip(self.indices(), self.candidates(), strict=True)):
            rows[row] = self.candidate_row(candidate, index)
        rows[-1]["wait"] = 1.0
        return rows

    def globals(self) -> Row:
        engine, found = self.engine, self.candidates()
        width = int(self.tables["machine"]["rows"][0])
        behind = max(0, len(found) - width)
        return {
            "time": float(self.now),
            "asks_admit": float(self.kind == "admit"),
            "asks_level": float(self.kind == "level"),
            "asks_evict": float(self.kind == "evict"),
            "asks_send": float(self.kind == "send"),
            "engine": float(engine.place),
            "queued": float(len(engine.waiting)),
            "batch": float(len(engine.running)),
            "seats": float(self.rules.seats - len(engine.running)),
            "free_blocks": len(engine.free) / self.usable,
            "left": float(engine.left),
            "scheduled": float(engine.budget - engine.left),
            "in_flight": float(len(engine.steps)),
            "token_budget": float(engine.budget),
            "kept_free": engine.kept_free / self.usable,
            "last_step": float(engine.duration),
            "unfinished": float(len(self.unfinished)),
            "rows": float(width + 1 + behind if behind else len(found)),
            "parameter": 0.0,
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }
