"""What a policy may know of the serving machine, in plain Python, from docs/serving-machine.md."""

from __future__ import annotations

from tests.reference.numbers import stream_key, uniform
from tests.reference.serving import Accelerator, Column, Model, ReferenceMachine

Row = dict[str, float]
COLUMNS = [
    *["accuracy", "latency", "batch_latency", "peak", "load_time", "hosted", "loading", "free", "rate", "forecast"],
    *["capacity", "queued", "offered", "violations", "finish", "slack", "host", "release", "send", "dispatch", "wait"],
    *["model", "variant", "kind", "slo"],
]


class ReferenceServing(ReferenceMachine):
    """One episode, stopped at each choice, with all that is shown there."""

    def capacity(self, model: Model) -> float:
        total = 0.0
        for member in model.members:
            assert member.column is not None
            total += member.column.peak
        return total

    def waiting(self, model: Model) -> int:
        return sum(len(member.queue) for member in model.members)

    def _row(self, column: Column) -> Row:
        """Return what rows of both modes have in common."""
        model = self.models[column.model]
        variant = self.variants[column.variant][1]
        hosting = [a for a in self.accelerators if a.column is column]
        row = dict.fromkeys(COLUMNS, 0.0)
        row |= {
            "accuracy": variant.accuracy,
            "latency": float(self.service(column.kind, column.variant, 1)),
            "batch_latency": float(self.service(column.kind, column.variant, column.largest)),
            "peak": column.peak,
            "load_time": float(round(variant.load_s * 1e9)),
            "hosted": float(len(hosting)),
            "loading": float(sum(a.must_load for a in hosting)),
            "free": float(sum(a.column is None and a.kind == column.kind for a in self.accelerators)),
            "rate": model.rate,
            "forecast": model.forecast,
            "capacity": self.capacity(model),
            "queued": float(self.waiting(model)),
            "offered": float(model.offered),
            "violations": float(model.violations),
            "dispatch": 1.0,
            "model": float(column.model),
            "variant": float(column.variant),
            "kind": float(column.kind),
            "slo": float(model.slo),
        }
        return row

    def _member_row(self, a: Accelerator) -> Row:
        assert a.column is not None
        assert self.pending is not None
        finish = self.expected_finish(a)
        return self._row(a.column) | {
            "loading": float(a.must_load),
            "queued": float(len(a.queue)),
            "finish": float(finish - self.now),
            "slack": float(self.pending.deadline - finish),
            "send": 1.0,
        }

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        if self.scenario.mode == "route":
            width = min(self.scenario.rows, len(self.accelerators))
            if self.pending is not None:
                rows = [self._member_row(a) for a in self.pending.model.members[:width]]
            rows += [dict.fromkeys(COLUMNS, 0.0) for _ in range(width - len(rows))]
        else:
            for column in self.columns:
                rows.append(self._row(column) | {"host": 1.0})
                rows.append(self._row(column) | {"release": 1.0})
        return [*rows, dict.fromkeys(COLUMNS, 0.0) | {"wait": 1.0}]

    def globals(self) -> Row:
        plan = self.scenario.planning
        sums = dict.fromkeys(("rate", "forecast", "capacity", "offered", "violations"), 0.0)
        for model in self.models:
            values = (model.rate, model.forecast, self.capacity(model), model.offered, model.violations)
            for name, value in zip(sums, values, strict=True):
                sums[name] += value
        return {
            "time": float(self.now),
            "moves": float(self.moves if self.planning else 0),
            "interval": float(round(plan.interval_s * 1e9)),
            "accelerators": float(len(self.accelerators)),
            "idle": float(sum(a.column is None for a in self.accelerators)),
            **{f"all_{name}": sums[name] for name in ("rate", "forecast", "capacity")},
            "all_queued": float(sum(len(a.queue) for a in self.accelerators)),
            **{f"all_{name}": sums[name] for name in ("offered", "violations")},
            "asked_model": float(self.pending.model.place if self.pending is not None else 0),
            "asked_slack": float(self.pending.deadline - self.now if self.pending is not None else 0),
            "headroom": plan.headroom,
            "shortage": plan.shortage,
            "accuracy_weight": plan.accuracy_weight,
            "served_share": plan.served_share,
            "gap": plan.gap,
            "seconds": plan.seconds,
            "first": float(self.planning and self.plans == 0),
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }
