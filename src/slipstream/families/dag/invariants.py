"""Invariants of the event log of a dag episode, for any policy.

Jobs arrive once, numbered from 0. A stage starts no task before its parents are complete, starts and finishes each of
its tasks once per attempt, and fails only when all of them have finished. A task that failed, which only happens on an
engine, is started once more. A job is done when all its stages are complete. An executor does one thing at a time;
after a move its next event is at the target job, and it runs tasks only of the job where it is. Times never decrease,
and the end is the last row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.scenario import DagScenario
from slipstream.families.dag.workload.templates import JobTemplate, Library
from slipstream.families.shared.invariants import ReplayChecker
from slipstream.sim.eventlog import ARRIVAL, DONE, END, FAIL, FINISH, MOVE, READY, START

LOGGED = (ARRIVAL, START, FINISH, END, READY, MOVE, FAIL, DONE)
"""Kinds of events in a log of this family."""


@dataclass
class _Job:
    """State of a job after the rows read."""

    template: JobTemplate
    started: list[int] = field(init=False)
    finished: list[int] = field(init=False)
    parents: list[list[int]] = field(init=False)
    done: bool = False

    def __post_init__(self) -> None:
        count = len(self.template.stages)
        self.started, self.finished = [0] * count, [0] * count
        self.parents = [[] for _ in range(count)]
        for parent, child in self.template.edges:
            self.parents[child].append(parent)

    def is_complete(self, stage: int) -> bool:
        return self.finished[stage] == self.template.stages[stage].tasks

    def is_finished(self) -> bool:
        return all(self.is_complete(stage) for stage in range(len(self.template.stages)))


class _LogState(ReplayChecker):
    """State of executors and jobs after the rows read."""

    logged = LOGGED

    def __init__(self, library: Library, executors: int) -> None:
        self.library = library
        self.jobs: list[_Job] = []
        self.running: list[tuple[int, int] | None] = [None] * executors
        self.target: list[int | None] = [None] * executors
        self.at: list[int | None] = [None] * executors

    def arrival(self, job: int, template: int) -> None:
        self.require(job == len(self.jobs), f"arrival of job {job}: expected job {len(self.jobs)}")
        self.require(0 <= template < len(self.library.templates), f"job {job} is of template {template}: unknown")
        self.jobs.append(_Job(self.library.templates[template]))

    def known(self, job: int, stage: int, what: str) -> _Job:
        self.require(0 <= job < len(self.jobs), f"{what} of job {job}, which never arrived")
        found = self.jobs[job]
        self.require(0 <= stage < len(found.template.stages), f"{what} of stage {stage} of job {job}: unknown")
        self.require(not found.done, f"{what} of job {job}, which is done")
        return found

    def start(self, job: int, stage: int, executor: int) -> None:
        found = self.known(job, stage, "start")
        event = f"start of stage {stage} of job {job} on executor {executor}"
        self.require(self.running[executor] is None and self.target[executor] is None, f"{event}, which is busy")
        self.require(self.at[executor] == job, f"{event}, which is not at the job")
        ready = all(found.is_complete(parent) for parent in found.parents[stage])
        self.require(ready, f"{event} before its parents are complete")
        found.started[stage] += 1
        self.require(found.started[stage] <= found.template.stages[stage].tasks, f"{event}: it has no task left")
        self.running[executor] = (job, stage)

    def finish(self, job: int, stage: int, executor: int) -> None:
        found = self.known(job, stage, "finish")
        event = f"finish of stage {stage} of job {job} on executor {executor}"
        self.require(self.running[executor] == (job, stage), f"{event}, which does not run it")
        self.running[executor] = None
        found.finished[stage] += 1

    def move(self, job: int, stage: int, executor: int) -> None:
        self.known(job, stage, "move")
        event = f"move of executor {executor} to job {job}"
        self.require(self.running[executor] is None and self.target[executor] is None, f"{event}, but it is busy")
        self.at[executor], self.target[executor] = None, job

    def ready(self, job: int, executor: int) -> None:
        event = f"executor {executor} comes to job {job}"
        self.require(self.target[executor] == job, f"{event}, but was not on its way there")
        self.at[executor], self.target[executor] = job, None

    def fail(self, job: int, stage: int, executor: int) -> None:
        found = self.known(job, stage, "fail")
        if executor >= 0:
            event = f"fail of a task of stage {stage} of job {job} on executor {executor}"
            self.require(executor < len(self.running) and self.running[executor] == (job, stage), f"{event}: not there")
            self.running[executor] = None
            found.started[stage] -= 1
            return
        self.require(found.is_complete(stage), f"fail of stage {stage} of job {job}, which had not ended")
        found.started[stage] = found.finished[stage] = 0

    def complete(self, job: int) -> None:
        found = self.known(job, 0, "done")
        self.require(found.is_finished(), f"job {job} is done, but not all of its stages")
        found.done = True

    def end(self) -> None:
        for number, job in enumerate(self.jobs):
            self.require(
                job.done == job.is_finished(), f"the end: all stages of job {number} are complete, but it is not done"
            )

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        if kind in (START, FINISH, MOVE, READY):
            self.require_resource(resource, len(self.running), "executor")
        if kind == ARRIVAL:
            self.arrival(job, task)
        elif kind == START:
            self.start(job, task, resource)
        elif kind == FINISH:
            self.finish(job, task, resource)
        elif kind == MOVE:
            self.move(job, task, resource)
        elif kind == READY:
            self.ready(job, resource)
        elif kind == FAIL:
            self.fail(job, task, resource)
        elif kind == DONE:
            self.complete(job)
        else:
            self.end()


def check(events: np.ndarray, scenario: DagScenario) -> None:
    """Raise a InvariantError that names the first row of `events` that violates an invariant."""
    _LogState(compiled_scenario(scenario).library, scenario.executors).check_log(events)
