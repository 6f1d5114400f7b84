"""Invariants of every event log of the cluster family.

Jobs arrive once, in order, then start, are interrupted and start again, and end once, on the GPUs that they want. At no
time do running jobs hold more GPUs than the cluster, or a node, has; users keep their quotas, and the power its budget.
Jobs that run when the episode begins start as they arrive, where they were; quotas and budget bind later starts.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from slipstream.families.cluster.beginning import pieces_of_beginning
from slipstream.families.cluster.build import compiled_scenario, idle_milliwatts, level_milliwatts
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.invariants import ReplayChecker
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, PREEMPT, START, TAKE

LOGGED = (ARRIVAL, START, TAKE, PREEMPT, FINISH, END)
"""Kinds of events in a log of this family."""


class _LogChecker(ReplayChecker):
    """Waiting and running jobs, their allocations, and the GPUs and power in use."""

    logged = LOGGED

    def __init__(self, scenario: ClusterScenario) -> None:
        parts = compiled_scenario(scenario)
        self.scenario, self.workload = scenario, parts.workload
        self.sizes, self.kinds = (parts.spec["nodes"][name].tolist() for name in ("gpus", "kind"))
        self.added, self.idle = level_milliwatts(scenario).tolist(), idle_milliwatts(scenario)
        self.flat = scenario.placement == "flat"
        self.workload_index: list[int] = []
        self.waiting: set[int] = set()
        self.running: dict[int, list[tuple[int, int, int]]] = {}
        """Of each running job: (node, GPUs, level); node 0 of a flat cluster."""
        self.taken: Counter[int] = Counter()
        self.held: Counter[int] = Counter()
        self.power = self.idle
        self.starting = -1
        """The job whose allocation is being logged."""
        self.begun = dict(pieces_of_beginning(scenario, self.workload))
        """By index in the workload, allocations of jobs that run at the beginning: (node, GPUs), none if flat."""
        self.arrived_running = -1
        """The job that has arrived and has to start next, since it ran at the beginning."""

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        if kind != TAKE:
            self._check_allocation()
        if self.arrived_running >= 0:
            at_once = kind == START and job == self.arrived_running
            self.require(at_once, f"job {self.arrived_running} ran at the beginning: expected its start")
            self.arrived_running = -1
        if kind == ARRIVAL:
            self.require(
                job == len(self.workload_index), f"arrival of job {job}: expected job {len(self.workload_index)}"
            )
            self.require(0 <= task < len(self.workload), f"arrival of job {task} of the workload: there is none")
            self.workload_index.append(task)
            self.waiting.add(job)
            self.arrived_running = job if task in self.begun else -1
        elif kind == START:
            self._start(job, task, variant)
        elif kind == TAKE:
            self.require(job == self.starting, f"allocation of job {job}, which does not start")
            self.require_resource(resource, len(self.sizes), "node")
            self._take(job, resource, task, variant)
        elif kind in (PREEMPT, FINISH):
            self._stop(job, kind == PREEMPT)
        else:
            self.require(not self.waiting and not self.running, "jobs have not ended at the end")

    def _start(self, job: int, gpus: int, level: int) -> None:
        self.require(job in self.waiting, f"start of job {job}, which does not wait")
        self.waiting.remove(job)
        self.running[job] = []
        self.starting = job
        self.require(0 <= level < len(self.added[0]), f"level {level}: expected one from 0 to {len(self.added[0]) - 1}")
        wanted = int(self.workload.gpus[self.workload_index[job]])
        self.require(gpus == wanted, f"start of job {job} on {gpus} GPUs: expected {wanted}")
        if self.flat:
            self._take(job, 0, gpus, level)

    def _take(self, job: int, node: int, gpus: int, level: int) -> None:
        self.running[job].append((node, gpus, level))
        self._change(job, node, gpus, level)
        most = self.scenario.gpus if self.flat else self.sizes[node]
        self.require(gpus > 0 and self.taken[node] <= most, f"{self.taken[node]} GPUs of {most} are taken")
        if self.workload_index[job] in self.begun:
            return
        name = self.workload.users[self.workload.user[self.workload_index[job]]]
        quota = self.scenario.limits.get(name, self.scenario.gpus)
        held = self.held[int(self.workload.user[self.workload_index[job]])]
        self.require(held <= quota, f"user '{name}' holds {held} GPUs: expected at most {quota}")
        budget = self.scenario.power.budget_w
        self.require(
            budget is None or self.power <= budget * 1000.0, f"{self.power} mW are drawn: more than the budget"
        )

    def _change(self, job: int, node: int, gpus: int, level: int) -> None:
        self.taken[node] += gpus
        self.held[int(self.workload.user[self.workload_index[job]])] += gpus
        self.power += gpus * self.added[self.kinds[node]][level]

    def _check_allocation(self) -> None:
        """Check that the job that started last holds all the GPUs that it wants."""
        if self.starting >= 0:
            found = sum(gpus for _, gpus, _ in self.running[self.starting])
            wanted = int(self.workload.gpus[self.workload_index[self.starting]])
            self.require(found == wanted, f"job {self.starting} has {found} GPUs: expected {wanted}")
            held = self.begun.pop(self.workload_index[self.starting], None)
            pieces = [] if self.flat else [(node, gpus) for node, gpus, _ in self.running[self.starting]]
            self.require(held in (None, pieces), f"job {self.starting} starts on {pieces}: expected {held}")
            self.starting = -1

    def _stop(self, job: int, waits: bool) -> None:
        self.require(job in self.running, f"job {job} stops, but does not run")
        for node, gpus, level in self.running.pop(job):
            self._change(job, node, -gpus, level)
        if waits:
            self.waiting.add(job)


def check(events: np.ndarray, scenario: ClusterScenario) -> None:
    """Raise a InvariantError that names the row where the log of an episode breaks an invariant."""
    _LogChecker(scenario).check_log(events)
