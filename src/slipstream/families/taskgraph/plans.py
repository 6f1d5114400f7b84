"""Static list schedules on expected durations: HEFT, PEFT and CPOP.

HEFT and CPOP: Topcuoglu, Hariri, Wu, IEEE TPDS 2002. PEFT: Arabnejad, Barbosa, IEEE TPDS 2014. A task is
inserted into the first sufficient gap of a processor. In HEFT a gap must exceed the duration, as in READYS, and among
tasks of equal rank the later one goes first: of the common rules, these reproduce the makespans known for READYS's
graphs. In PEFT and CPOP an exact fit is sufficient, and the earlier task goes first. Ties between processors go to the
lower number. Data written by a task and read by a child on another node is transferred; initial loads, memory limits
and contention for links are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from slipstream.families.taskgraph.build import Sizes, compiled_scenario
from slipstream.families.taskgraph.kernel.state import PLANNERS, READ, WRITE
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Library
from slipstream.sim.compiled_scenario import CompiledScenario

Placement = list[tuple[int, int]]
"""Processor of each task, and its position among the tasks of its job on that processor."""


@dataclass(frozen=True)
class Problem:
    """Scheduling problem of one graph on the machine; times in ns."""

    durations: np.ndarray  # (tasks, processors)
    children: list[list[int]]
    parents: list[list[int]]
    transfer_times: dict[tuple[int, int], tuple[int, int, int]]
    """Transfer times of each edge with data: to a device, to the host, and between devices."""
    node: list[int]

    @property
    def tasks(self) -> int:
        return len(self.durations)

    @property
    def processors(self) -> int:
        return len(self.node)

    def delay(self, parent: int, child: int, source: int, target: int) -> int:
        """Return the transfer time of the data of an edge from processor `source` to processor `target`."""
        if self.node[source] == self.node[target] or (parent, child) not in self.transfer_times:
            return 0
        to_device, to_host, between = self.transfer_times[parent, child]
        return to_host if self.node[target] == 0 else to_device if self.node[source] == 0 else between

    def mean_delay(self, parent: int, child: int) -> float:
        """Return the mean delay over all pairs of different processors."""
        count = self.processors
        if (parent, child) not in self.transfer_times or count == 1:
            return 0.0
        pairs = [(p, q) for p in range(count) for q in range(count) if p != q]
        return sum(self.delay(parent, child, p, q) for p, q in pairs) / len(pairs)


@dataclass
class Schedule:
    """Partial or complete schedule."""

    problem: Problem
    intervals: list[list[tuple[int, int, int]]]
    """(start, end, task) by processor and time."""
    where: list[int]
    end: list[int]
    slack: int
    """Least difference between a usable gap and the duration of the task."""

    @staticmethod
    def of(problem: Problem, slack: int = 0) -> Schedule:
        """Return an empty schedule."""
        return Schedule(problem, [[] for _ in problem.node], [-1] * problem.tasks, [0] * problem.tasks, slack)

    def earliest_end(self, task: int, processor: int) -> int:
        """Return the earliest finish time of a task on a processor."""
        problem = self.problem
        ready = 0
        for parent in problem.parents[task]:
            delay = problem.delay(parent, task, self.where[parent], processor)
            ready = max(ready, self.end[parent] + delay)
        length = int(problem.durations[task, processor])
        before = ready
        for start, end, _ in self.intervals[processor]:
            if end > ready:
                if start - before >= length + self.slack:
                    break
                before = max(before, end)
        return before + length

    def assign(self, task: int, processor: int) -> None:
        """Assign a task to a processor at its earliest finish time."""
        end = self.earliest_end(task, processor)
        self.intervals[processor].append((end - int(self.problem.durations[task, processor]), end, task))
        self.intervals[processor].sort()
        self.where[task], self.end[task] = processor, end

    def best_processor(self, task: int, cost: Callable[[int], float] = lambda processor: 0.0) -> int:
        """Return the processor that minimises the earliest finish time of a task plus `cost`."""
        return min(range(self.problem.processors), key=lambda p: (self.earliest_end(task, p) + cost(p), p))

    @property
    def makespan(self) -> int:
        """End of the last task."""
        return max(self.end)

    def placement(self) -> Placement:
        """Return processor and position of each task."""
        result = [(-1, -1)] * self.problem.tasks
        for processor, intervals in enumerate(self.intervals):
            for position, (_, _, task) in enumerate(intervals):
                result[task] = (processor, position)
        return result


def heft(problem: Problem) -> Schedule:
    """Schedule by upward rank: mean durations and delays along the longest path from a task."""
    rank = _upward_ranks(problem)
    schedule = Schedule.of(problem, slack=1)
    for task in sorted(range(problem.tasks), key=lambda task: (-rank[task], -task)):
        schedule.assign(task, schedule.best_processor(task))
    return schedule


def peft(problem: Problem) -> Schedule:
    """Schedule by the optimistic cost table: least remaining path per task and processor."""
    table = np.zeros((problem.tasks, problem.processors))
    for task in range(problem.tasks - 1, -1, -1):
        for child in problem.children[task]:
            delay = problem.mean_delay(task, child)
            ends = table[child] + problem.durations[child]
            # A child on the same processor has no delay.
            np.maximum(table[task], np.minimum(ends, ends.min() + delay), out=table[task])
    return _list_schedule(
        problem, table.sum(axis=1), lambda schedule, task: schedule.best_processor(task, table[task].item)
    )


def cpop(problem: Problem) -> Schedule:
    """Schedule by the longest path through a task; the critical path goes to its fastest processor."""
    upward = _upward_ranks(problem)
    downward = [0.0] * problem.tasks
    means = problem.durations.sum(axis=1)
    scale = problem.processors
    for task in range(problem.tasks):
        for parent in problem.parents[task]:
            through = downward[parent] + means[parent] + problem.mean_delay(parent, task) * scale
            downward[task] = max(downward[task], through)
    priority = np.array(upward) + np.array(downward)
    # Critical path from its entry task; sums that differ only by rounding count as equal.
    longest = priority.max() * (1.0 - 1e-12)
    roots = [task for task in range(problem.tasks) if not problem.parents[task] and priority[task] >= longest]
    path = roots[:1]
    while path and problem.children[path[-1]]:
        path.append(max(problem.children[path[-1]], key=lambda child: (priority[child], -child)))
    best = int(problem.durations[path].sum(axis=0).argmin())
    critical = set(path)
    return _list_schedule(
        problem, priority, lambda schedule, task: best if task in critical else schedule.best_processor(task)
    )


def _upward_ranks(problem: Problem) -> list[float]:
    """Return the upward ranks times the number of processors, which are integers without delays."""
    rank = [0.0] * problem.tasks
    sums = problem.durations.sum(axis=1)
    for task in range(problem.tasks - 1, -1, -1):
        after = (rank[one] + problem.mean_delay(task, one) * problem.processors for one in problem.children[task])
        rank[task] = float(sums[task]) + max(after, default=0.0)
    return rank


def _list_schedule(problem: Problem, priority: np.ndarray, choose: Callable[[Schedule, int], int]) -> Schedule:
    """Return a list schedule: repeatedly assign the ready task of highest `priority` to the processor of `choose`."""
    schedule = Schedule.of(problem)
    waits = [len(parents) for parents in problem.parents]
    ready: list[tuple[float, int]] = [
        (-float(priority[task]), task) for task in range(problem.tasks) if not waits[task]
    ]
    ready.sort()
    while ready:
        _, task = heappop(ready)
        schedule.assign(task, choose(schedule, task))
        for child in problem.children[task]:
            waits[child] -= 1
            if waits[child] == 0:
                heappush(ready, (-float(priority[child]), child))
    return schedule


SCHEDULERS: dict[str, Callable[[Problem], Schedule]] = {"heft": heft, "peft": peft, "cpop": cpop}


def problems(scenario: TaskgraphScenario) -> list[Problem]:
    """Return the scheduling problem of each graph of a scenario."""
    parts = compiled_scenario(scenario)
    return [_problem(parts, number) for number in range(len(parts.library.templates))]


def _problem(parts: CompiledScenario[Sizes, Library], number: int) -> Problem:
    template = parts.library.templates[number]
    spec = parts.spec
    first_tile = int(spec["templates"][number]["first_tile"])
    transfer_times: dict[tuple[int, int], tuple[int, int, int]] = {}
    if spec["machine"]["transfers"][0]:
        peer = bool(spec["machine"]["peer"][0])
        for parent, child in template.edges:
            written = {tile for tile, mode in template.tasks[parent].accesses if mode & WRITE}
            read = [tile for tile, mode in template.tasks[child].accesses if mode & READ and tile in written]
            rows = spec["tiles"][[first_tile + tile for tile in read]]
            to_device, to_host, direct = (int(rows[name].sum()) for name in ("load_time", "send_time", "peer_time"))
            if read:
                transfer_times[parent, child] = (to_device, to_host, direct if peer else to_host + to_device)
    return Problem(
        parts.library.durations[number][:, spec["processors"]["kind"]],
        [list(ones) for ones in template.children],
        [list(task.parents) for task in template.tasks],
        transfer_times,
        spec["processors"]["node"].tolist(),
    )


_PLANS: list[tuple[TaskgraphScenario, str, list[Placement]]] = []
MOST_KEPT = 12


def plan(scenario: TaskgraphScenario, planner: str) -> list[Placement]:
    """Return the placement of each graph of a scenario by `planner`; recent ones are cached."""
    for known, name, result in _PLANS:
        if known is scenario and name == planner:
            return result
    result = [SCHEDULERS[planner](problem).placement() for problem in problems(scenario)]
    _PLANS.insert(0, (scenario, planner, result))
    del _PLANS[MOST_KEPT:]
    return result


def write_plan(scenario: TaskgraphScenario, planner: str) -> None:
    """Write the plan of `planner` into the specification arrays of a scenario."""
    rows = compiled_scenario(scenario).spec["plans"][PLANNERS.index(planner)]
    if rows[0]["processor"] < 0:
        placement = [pair for graph in plan(scenario, planner) for pair in graph]
        rows[:] = np.array(placement, rows.dtype)
