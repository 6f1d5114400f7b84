"""Invariants of every event log of the serving family.

Requests arrive in order. Each is rejected or dropped, or starts on an accelerator that hosts a variant of its model and
has the weights, and finishes there with all that started with it; what arrived = finished + dropped + rejected +
running + waiting. No accelerator runs two batches at once, or hosts two variants. The clock never runs backwards, and
the end is the last row.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.invariants import ReplayChecker
from slipstream.sim.eventlog import ARRIVAL, DROP, END, EVICT, FINISH, KINDS, MOVE, READY, REJECT, START

LOGGED = (ARRIVAL, START, FINISH, REJECT, DROP, END, READY, EVICT, MOVE)


class _LogChecker(ReplayChecker):
    """Waiting requests, and the variant, loaded weights and running batch of every accelerator."""

    logged = LOGGED

    def __init__(self, scenario: ServingScenario) -> None:
        spec = compiled_scenario(scenario).spec
        self.accelerators = len(spec["kinds"])
        self.kind = spec["kinds"].tolist()
        self.model_of = spec["variants"]["model"].tolist()
        self.column_of = compiled_scenario(scenario).column_of
        self.most = scenario.batch_sizes[-1]
        self.arrived = [0] * len(spec["models"])
        self.waiting: set[tuple[int, int]] = set()
        self.hosts: dict[int, int] = {}
        self.ready: set[int] = set()
        self.batch: dict[int, list[tuple[int, int]]] = {}
        self.last: dict[int, int] = {}
        self.variant: dict[int, int] = {}

    def arrival(self, model: int, number: int) -> None:
        self.require(0 <= model < len(self.arrived), f"arrival for model {model}: unknown")
        expected = self.arrived[model]
        self.require(number == expected, f"request {number} of model {model} arrives: expected request {expected}")
        self.arrived[model] += 1
        self.waiting.add((model, number))

    def leaves_queue(self, model: int, number: int, what: str) -> None:
        event = f"{what} of request {number} of model {model}"
        self.require((model, number) in self.waiting, f"{event}, which does not wait")
        self.waiting.discard((model, number))

    def start(self, model: int, number: int, variant: int, accelerator: int) -> None:
        event = f"request {number} of model {model} starts on accelerator {accelerator}"
        self.leaves_queue(model, number, "start")
        self.require(self.hosts.get(accelerator) == variant, f"{event}, which does not host variant {variant}")
        self.require(accelerator in self.ready, f"{event}, which has not loaded")
        self.require(self.model_of[variant] == model, f"{event} with variant {variant} of another model")
        batch = self.batch.setdefault(accelerator, [])
        # The requests of a batch start in consecutive rows.
        self.require(not batch or self.row == self.last[accelerator] + 1, f"{event}, which is busy")
        batch.append((model, number))
        self.last[accelerator] = self.row
        self.variant[accelerator] = variant
        self.require(len(batch) <= self.most, f"{event}: more than fit a batch")

    def finish(self, model: int, number: int, variant: int, accelerator: int) -> None:
        event = f"request {number} of model {model} finishes on accelerator {accelerator}"
        batch = self.batch.get(accelerator, [])
        self.require(bool(batch) and batch[0] == (model, number), f"{event}: not the next of its batch")
        self.require(self.variant[accelerator] == variant, f"{event} with another variant than it started with")
        batch.pop(0)

    def move(self, variant: int, accelerator: int) -> None:
        event = f"accelerator {accelerator} begins to host variant {variant}"
        self.require(accelerator not in self.hosts, f"{event}, but hosts one")
        self.require(self.column_of[self.kind[accelerator], variant] >= 0, f"{event}, which cannot serve there")
        self.hosts[accelerator] = variant

    def has_loaded(self, variant: int, accelerator: int) -> None:
        event = f"accelerator {accelerator} has loaded variant {variant}"
        self.require(self.hosts.get(accelerator) == variant, f"{event}, but does not host it")
        self.ready.add(accelerator)

    def evict(self, variant: int, accelerator: int) -> None:
        event = f"accelerator {accelerator} is freed of variant {variant}"
        self.require(self.hosts.pop(accelerator, -1) == variant, f"{event}, which it did not host")
        self.ready.discard(accelerator)

    def end(self) -> None:
        self.require(not any(self.batch.values()), "the end: a batch still runs")

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        if kind in (START, FINISH, MOVE, READY, EVICT):
            self.require_resource(resource, self.accelerators, "accelerator")
            self.require(0 <= variant < len(self.model_of), f"variant {variant}: unknown")
        if kind == ARRIVAL:
            self.arrival(task, job)
        elif kind == START:
            self.start(task, job, variant, resource)
        elif kind == FINISH:
            self.finish(task, job, variant, resource)
        elif kind in (REJECT, DROP):
            self.leaves_queue(task, job, KINDS[kind])
        elif kind == MOVE:
            self.move(variant, resource)
        elif kind == READY:
            self.has_loaded(variant, resource)
        elif kind == EVICT:
            self.evict(variant, resource)
        else:
            self.end()


def check(events: np.ndarray, scenario: ServingScenario) -> None:
    """Raise a InvariantError that names the row where the log of an episode breaks an invariant."""
    _LogChecker(scenario).check_log(events)
