"""Invariants of every event log of elastic jobs.

Jobs arrive in the order of their numbers. A job without GPUs starts with those of one of its configurations, which a
take row repeats; its set-up may end there once; then it loses them, and may start again, or it finishes. The GPUs of a
kind are never exceeded. The clock never runs backwards, and the end is the last row, when all jobs have finished.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.invariants import ReplayChecker
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, KINDS, PREEMPT, READY, START, TAKE

LOGGED = (ARRIVAL, START, FINISH, END, PREEMPT, READY, TAKE)

Run = tuple[int, int, int]
"""Number of GPUs, configuration and kind."""


class _LogChecker(ReplayChecker):
    """Jobs that wait, and the GPUs of those that run."""

    logged = LOGGED

    def __init__(self, scenario: ElasticScenario) -> None:
        spec = compiled_scenario(scenario).spec
        self.templates, self.configurations = spec["templates"], spec["configurations"]
        self.free: list[int] = spec["kinds"]["gpus"].tolist()
        self.template: list[int] = []
        self.runs: dict[int, Run] = {}
        self.ready: set[int] = set()
        self.open: set[int] = set()
        self.taking: tuple[int, Run] | None = None

    def arrival(self, job: int, template: int) -> None:
        self.require_resource(template, len(self.templates), "template")
        self.require(job == len(self.template), f"job {job} arrives: expected job {len(self.template)}")
        self.template.append(template)
        self.open.add(job)

    def start(self, job: int, run: Run) -> None:
        event = f"job {job} starts"
        self.require(job in self.open and job not in self.runs, f"{event}, but does not wait")
        gpus, configuration, kind = run
        own = self.templates[self.template[job]]
        self.require_resource(configuration, int(own["configurations"]), "configuration")
        expected = self.configurations[int(own["first"]) + configuration]
        self.require((gpus, kind) == (int(expected["gpus"]), int(expected["kind"])), f"{event} with other GPUs")
        self.free[kind] -= gpus
        self.require(self.free[kind] >= 0, f"{event} on {gpus} GPUs of kind {kind}: more than are free")
        self.runs[job] = run
        self.taking = (job, run)

    def leave(self, job: int, run: Run, what: str) -> None:
        self.require(self.runs.get(job) == run, f"{what} of job {job} with GPUs that it does not have")
        del self.runs[job]
        self.ready.discard(job)
        self.free[run[2]] += run[0]

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        run = (task, variant, resource)
        self.require((kind == TAKE) == (self.taking is not None), f"{KINDS[kind]} out of order")
        if kind == ARRIVAL:
            self.arrival(job, task)
        elif kind == START:
            self.start(job, run)
        elif kind == TAKE:
            self.require(self.taking == (job, run), f"job {job} takes other GPUs than it started with")
            self.taking = None
        elif kind == READY:
            self.require(self.runs.get(job) == run and job not in self.ready, f"job {job} is ready, but has no set-up")
            self.ready.add(job)
        elif kind == PREEMPT:
            self.leave(job, run, "preemption")
        elif kind == FINISH:
            self.leave(job, run, "finish")
            self.open.discard(job)
        else:
            self.require(not self.open, "the end: a job still waits or runs")


def check(events: np.ndarray, scenario: ElasticScenario) -> None:
    """Raise an InvariantError that names the row where the log of an episode breaks an invariant."""
    _LogChecker(scenario).check_log(events)
