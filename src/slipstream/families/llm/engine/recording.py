"""What a real engine did, as a scenario that lists its requests and the event log of its episode."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.families.llm.kernel.state import MOST_HITS
from slipstream.families.llm.scenario import Engine, LlmScenario
from slipstream.files.validation import validated
from slipstream.sim.eventlog import ARRIVAL, DONE, END, EVENT, EVICT, FINISH, PREEMPT, READY, REJECT, START

ENGINE = 0
MOST_REQUESTS = 100_000
"""Requests of a recording; later ones are not recorded."""
Row = tuple[int, int, int, int, int, int]
"""time, job, task, resource, variant, kind."""


@dataclass
class _Request:
    """A request of the recording."""

    place: int
    job: int
    group: int
    seat: int = -1
    hits: int = 0
    runs: bool = False
    shown: bool = False
    """Whether it has had a token since its last start."""
    output: int = 0


@dataclass
class Recorder:
    """Collects the events of an engine's requests, which it names as the lane numbers them."""

    rows: list[Row] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    _present: dict[int, _Request] = field(default_factory=dict)
    _arrived: Counter[int] = field(default_factory=Counter)
    _free_seats: list[int] = field(default_factory=list)
    _seats: int = 0

    def arrive(self, number: int, now: int, group: int, prompt: int, predicted: int | None, pieces: list[int]) -> None:
        """Record an arrival; `pieces` stand for the tokens of the blocks of the prompt."""
        if len(self.requests) == MOST_REQUESTS:
            return
        request = _Request(len(self.requests), self._arrived[group], group)
        self._arrived[group] += 1
        self._present[number] = request
        self.requests.append({"arrival_ns": now, "prompt": prompt, "output": 1, "group": group, "hashes": pieces})
        if predicted is not None:
            self.requests[-1]["predicted"] = predicted
        self.rows.append((now, request.job, group, prompt, -1, ARRIVAL))

    def start(self, number: int, now: int, hits: int) -> None:
        """Record that a request joins the batch with `hits` blocks from the cache."""
        request = self._present.get(number)
        if request is None:
            return
        if not self._free_seats:
            heapq.heappush(self._free_seats, self._seats)
            self._seats += 1
        request.seat, request.hits = heapq.heappop(self._free_seats), hits
        request.runs, request.shown = True, False
        self.rows.append((now, request.job, request.group, request.seat, 0, START))

    def _leave_seat(self, request: _Request, now: int, kind: int) -> None:
        self.rows.append((now, request.job, request.group, request.seat, 0, kind))
        heapq.heappush(self._free_seats, request.seat)
        request.runs = False

    def preempt(self, number: int, now: int) -> None:
        """Record a preemption."""
        if (request := self._present.get(number)) is not None:
            self._leave_seat(request, now, PREEMPT)

    def token(self, number: int, now: int, count: int) -> None:
        """Record `count` tokens of a request; only the first since its start is a row."""
        request = self._present.get(number)
        if request is None:
            return
        request.output += count
        if not request.shown:
            request.shown = True
            hits = min(request.hits, MOST_HITS)
            self.rows.append((now, request.job, request.group, request.seat, hits, READY))

    def leave(self, number: int, now: int) -> None:
        """Record that a request leaves for good; one without a token counts as rejected."""
        request = self._present.get(number)
        if request is None:
            return
        job, group, output = request.job, request.group, request.output
        if not output:
            if request.runs:
                self._leave_seat(request, now, PREEMPT)
            self.rows.append((now, job, group, -1, -1, REJECT))
        else:
            if not request.runs:
                self.start(number, now, 0)
            self._leave_seat(request, now, FINISH)
            self.rows.append((now, job, group, output, -1, EVICT))
            self.requests[request.place]["output"] = output
        del self._present[number]

    def leave_all(self, now: int) -> None:
        """Record that all requests leave that are present."""
        for number in list(self._present):
            self.leave(number, now)

    def step(self, now: int, used: int, tokens: int, sequences: int) -> None:
        """Record the end of a step with `used` blocks in use."""
        self.rows.append((now, tokens, used, ENGINE, sequences, DONE))

    def result(self, base: LlmScenario, engine: Engine) -> tuple[LlmScenario, np.ndarray]:
        """Return the requests as a scenario with the rules of `base`, and the event log; requests must have left."""
        zero = self.rows[0][0] if self.rows else 0
        last = max((row[0] for row in self.rows), default=0)
        events = np.array([*self.rows, (last, -1, -1, -1, -1, END)], EVENT)
        # An arrival is recorded after it happened.
        events = events[np.argsort(events["time"], kind="stable")]
        events["time"] -= zero
        shared = Counter(piece for one in self.requests for piece in one["hashes"])
        listed = []
        for one in self.requests:
            keep = max((place + 1 for place, piece in enumerate(one["hashes"]) if shared[piece] > 1), default=0)
            row = {
                "arrival_s": (one["arrival_ns"] - zero) / 1e9,
                "prompt": one["prompt"],
                "output": one["output"],
                "client": base.classes[one["group"]].name,
                "hashes": one["hashes"][:keep],
            }
            listed.append(row | ({"predicted": one["predicted"]} if "predicted" in one else {}))
        data = base.model_dump(mode="json", exclude_unset=True)
        if "path" in data["step_time"]:
            data["step_time"]["path"] = str(base._folder / data["step_time"]["path"])
        data |= {
            "name": f"{base.name}-recorded",
            "engines": 1,
            "engine": engine.model_dump(mode="json"),
            "decide": [one for one in base.decide if one != "route"],
            "requests": {"kind": "list", "requests": listed, "hash_tokens": engine.block_tokens},
        }
        return validated(data, LlmScenario, "the recorded run"), events
