"""Invariants of every event log of the cluster family.

Jobs arrive once, in order, then start, are interrupted and start again, and end once, on the GPUs that they want. At no
time do running jobs hold more GPUs than the cluster, or a node, has; users keep their quotas, and the power its budget.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from slipstream.families.cluster.build import built, idle_milliwatts, level_milliwatts
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.invariants import Books
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, PREEMPT, START, TAKE

LOGGED = (ARRIVAL, START, TAKE, PREEMPT, FINISH, END)
"""Kinds of events in a log of this family."""


class _LogChecker(Books):
    """Waiting and running jobs, their allocations, and the GPUs and power in use."""

    logged = LOGGED

    def __init__(self, scenario: ClusterScenario) -> None:
        parts = built(scenario)
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

    def enter(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        if kind != TAKE:
            self._check_allocation()
        if kind == ARRIVAL:
            self.demand(
                job == len(self.workload_index), f"arrival of job {job}: expected job {len(self.workload_index)}"
            )
            self.demand(0 <= task < len(self.workload), f"arrival of job {task} of the workload: there is none")
            self.workload_index.append(task)
            self.waiting.add(job)
        elif kind == START:
            self._start(job, task, variant)
        elif kind == TAKE:
            self.demand(job == self.starting, f"allocation of job {job}, which does not start")
            self.demand_resource(resource, len(self.sizes), "node")
            self._take(job, resource, task, variant)
        elif kind in (PREEMPT, FINISH):
            self._stop(job, kind == PREEMPT)
        else:
            self.demand(not self.waiting and not self.running, "jobs have not ended at the end")

    def _start(self, job: int, gpus: int, level: int) -> None:
        self.demand(job in self.waiting, f"start of job {job}, which does not wait")
        self.waiting.remove(job)
        self.running[job] = []
        self.starting = job
        self.demand(0 <= level < len(self.added[0]), f"level {level}: expected one from 0 to {len(self.added[0]) - 1}")
        wanted = int(self.workload.gpus[self.workload_index[job]])
        self.demand(gpus == wanted, f"start of job {job} on {gpus} GPUs: expected {wanted}")
        if self.flat:
            self._take(job, 0, gpus, level)

    def _take(self, job: int, node: int, gpus: int, level: int) -> None:
        self.running[job].append((node, gpus, level))
        self._change(job, node, gpus, level)
        most = self.scenario.gpus if self.flat else self.sizes[node]
        self.demand(gpus > 0 and self.taken[node] <= most, f"{self.taken[node]} GPUs of {most} are taken")
        name = self.workload.users[self.workload.user[self.workload_index[job]]]
        quota = self.scenario.limits.get(name, self.scenario.gpus)
        held = self.held[int(self.workload.user[self.workload_index[job]])]
        self.demand(held <= quota, f"user '{name}' holds {held} GPUs: expected at most {quota}")
        budget = self.scenario.power.budget_w
        self.demand(budget is None or self.power <= budget * 1000.0, f"{self.power} mW are drawn: more than the budget")

    def _change(self, job: int, node: int, gpus: int, level: int) -> None:
        self.taken[node] += gpus
        self.held[int(self.workload.user[self.workload_index[job]])] += gpus
        self.power += gpus * self.added[self.kinds[node]][level]

    def _check_allocation(self) -> None:
        """Check that the job that started last holds all the GPUs that it wants."""
        if self.starting >= 0:
            found = sum(gpus for _, gpus, _ in self.running[self.starting])
            wanted = int(self.workload.gpus[self.workload_index[self.starting]])
            self.demand(found == wanted, f"job {self.starting} has {found} GPUs: expected {wanted}")
            self.starting = -1

    def _stop(self, job: int, waits: bool) -> None:
        self.demand(job in self.running, f"job {job} stops, but does not run")
        for node, gpus, level in self.running.pop(job):
            self._change(job, node, -gpus, level)
        if waits:
            self.waiting.add(job)


def check(events: np.ndarray, scenario: ClusterScenario) -> None:
    """Raise a LawError that names the row where the log of an episode breaks an invariant."""
    _LogChecker(scenario).read(events)
