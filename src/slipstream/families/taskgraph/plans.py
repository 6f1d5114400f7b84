"""Static schedules, planned on expected durations before an episode: HEFT, PEFT and CPOP.

HEFT and CPOP: Topcuoglu, Hariri, Wu, IEEE TPDS 2002. PEFT: Arabnejad, Barbosa, IEEE TPDS 2014. A task goes into the
first gap of a processor that is long enough. In HEFT an exact fit is not enough, as READYS has it, and among tasks of
equal rank the later one goes first: of the usual rules, these were chosen because they give the makespans known for
READYS's graphs. In PEFT and CPOP an exact fit is enough, and the earlier one goes first. Equal processors: the
lower number. What a task writes and a child of it reads has to move if they run on different nodes; first loads, memory
limits and busy links are left out of the plan.
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

Placed = list[tuple[int, int]]
"""Processor and turn of each task: which place it has among the tasks of its job on that processor."""


@dataclass(frozen=True)
class Problem:
    """One graph on the machine, to be planned."""

    durations: np.ndarray  # (tasks, processors)
    children: list[list[int]]
    parents: list[list[int]]
    moves: dict[tuple[int, int], tuple[int, int, int]]
    """Of each edge with data: time to a device, to the host, and from device to device."""
    node: list[int]

    @property
    def tasks(self) -> int:
        return len(self.durations)

    @property
    def processors(self) -> int:
        return len(self.node)

    def delay(self, parent: int, child: int, source: int, target: int) -> int:
        """Return the time to bring what a child reads of its parent from a processor to another."""
        if self.node[source] == self.node[target] or (parent, child) not in self.moves:
            return 0
        to_device, to_host, between = self.moves[parent, child]
        return to_host if self.node[target] == 0 else to_device if self.node[source] == 0 else between

    def mean_delay(self, parent: int, child: int) -> float:
        """Return the mean delay over all pairs of different processors."""
        count = self.processors
        if (parent, child) not in self.moves or count == 1:
            return 0.0
        pairs = [(p, q) for p in range(count) for q in range(count) if p != q]
        return sum(self.delay(parent, child, p, q) for p, q in pairs) / len(pairs)


@dataclass
class Schedule:
    """What was planned so far."""

    problem: Problem
    slots: list[list[tuple[int, int, int]]]
    """(start, end, task) of each processor, by time."""
    where: list[int]
    end: list[int]
    spare: int
    """What a gap must be longer than a task, at the least."""

    @staticmethod
    def of(problem: Problem, spare: int = 0) -> Schedule:
        """Return an empty one."""
        return Schedule(problem, [[] for _ in problem.node], [-1] * problem.tasks, [0] * problem.tasks, spare)

    def earliest_end(self, task: int, processor: int) -> int:
        """Return when a task could end on a processor."""
        problem = self.problem
        ready = 0
        for parent in problem.parents[task]:
            delay = problem.delay(parent, task, self.where[parent], processor)
            ready = max(ready, self.end[parent] + delay)
        length = int(problem.durations[task, processor])
        before = ready
        for start, end, _ in self.slots[processor]:
            if end > ready:
                if start - before >= length + self.spare:
                    break
                before = max(before, end)
        return before + length

    def put(self, task: int, processor: int) -> None:
        """Plan a task on a processor, as early as it can."""
        end = self.earliest_end(task, processor)
        self.slots[processor].append((end - int(self.problem.durations[task, processor]), end, task))
        self.slots[processor].sort()
        self.where[task], self.end[task] = processor, end

    def soonest(self, task: int, cost: Callable[[int], float] = lambda processor: 0.0) -> int:
        """Return the processor where a task ends first, with something added to its end."""
        return min(range(self.problem.processors), key=lambda p: (self.earliest_end(task, p) + cost(p), p))

    @property
    def makespan(self) -> int:
        """When the last task ends."""
        return max(self.end)

    def placed(self) -> Placed:
        """Return processor and turn of each task."""
        result = [(-1, -1)] * self.problem.tasks
        for processor, slots in enumerate(self.slots):
            for turn, (_, _, task) in enumerate(slots):
                result[task] = (processor, turn)
        return result


def heft(problem: Problem) -> Schedule:
    """Plan by upward rank: the mean durations and delays on the longest path from a task on."""
    rank = _upward(problem)
    schedule = Schedule.of(problem, spare=1)
    for task in sorted(range(problem.tasks), key=lambda task: (-rank[task], -task)):
        schedule.put(task, schedule.soonest(task))
    return schedule


def peft(problem: Problem) -> Schedule:
    """Plan by optimistic costs: on each processor, the best that could follow of the path from a task on."""
    table = np.zeros((problem.tasks, problem.processors))
    for task in range(problem.tasks - 1, -1, -1):
        for child in problem.children[task]:
            delay = problem.mean_delay(task, child)
            ends = table[child] + problem.durations[child]
            # The child may follow on the same processor without the delay.
            np.maximum(table[task], np.minimum(ends, ends.min() + delay), out=table[task])
    return _by_priority(problem, table.sum(axis=1), lambda schedule, task: schedule.soonest(task, table[task].item))


def cpop(problem: Problem) -> Schedule:
    """Plan by the length of the longest path through a task; a critical path goes to the processor that suits it."""
    upward = _upward(problem)
    downward = [0.0] * problem.tasks
    means = problem.durations.sum(axis=1)
    scale = problem.processors
    for task in range(problem.tasks):
        for parent in problem.parents[task]:
            through = downward[parent] + means[parent] + problem.mean_delay(parent, task) * scale
            downward[task] = max(downward[task], through)
    priority = np.array(upward) + np.array(downward)
    # The longest of all, from its first task on; sums that differ by rounding only are the same.
    longest = priority.max() * (1.0 - 1e-12)
    roots = [task for task in range(problem.tasks) if not problem.parents[task] and priority[task] >= longest]
    path = roots[:1]
    while path and problem.children[path[-1]]:
        path.append(max(problem.children[path[-1]], key=lambda child: (priority[child], -child)))
    best = int(problem.durations[path].sum(axis=0).argmin())
    critical = set(path)
    return _by_priority(problem, priority, lambda schedule, task: best if task in critical else schedule.soonest(task))


def _upward(problem: Problem) -> list[float]:
    """Return the upward ranks, times the number of processors: so they are whole numbers without delays."""
    rank = [0.0] * problem.tasks
    sums = problem.durations.sum(axis=1)
    for task in range(problem.tasks - 1, -1, -1):
        after = (rank[one] + problem.mean_delay(task, one) * problem.processors for one in problem.children[task])
        rank[task] = float(sums[task]) + max(after, default=0.0)
    return rank


def _by_priority(problem: Problem, priority: np.ndarray, choose: Callable[[Schedule, int], int]) -> Schedule:
    """Plan the ready task of the highest priority, one after the other."""
    schedule = Schedule.of(problem)
    waits = [len(parents) for parents in problem.parents]
    ready: list[tuple[float, int]] = [
        (-float(priority[task]), task) for task in range(problem.tasks) if not waits[task]
    ]
    ready.sort()
    while ready:
        _, task = heappop(ready)
        schedule.put(task, choose(schedule, task))
        for child in problem.children[task]:
            waits[child] -= 1
            if waits[child] == 0:
                heappush(ready, (-float(priority[child]), child))
    return schedule


SCHEDULERS: dict[str, Callable[[Problem], Schedule]] = {"heft": heft, "peft": peft, "cpop": cpop}


def problems(scenario: TaskgraphScenario) -> list[Problem]:
    """Return the graphs of a scenario, each to be planned alone."""
    parts = compiled_scenario(scenario)
    return [_problem(parts, number) for number in range(len(parts.library.templates))]


def _problem(parts: CompiledScenario[Sizes, Library], number: int) -> Problem:
    template = parts.library.templates[number]
    spec = parts.spec
    first_tile = int(spec["templates"][number]["first_tile"])
    moves: dict[tuple[int, int], tuple[int, int, int]] = {}
    if spec["machine"]["transfers"][0]:
        peer = bool(spec["machine"]["peer"][0])
        for parent, child in template.edges:
            written = {tile for tile, mode in template.tasks[parent].accesses if mode & WRITE}
            read = [tile for tile, mode in template.tasks[child].accesses if mode & READ and tile in written]
            rows = spec["tiles"][[first_tile + tile for tile in read]]
            to_device, to_host, direct = (int(rows[name].sum()) for name in ("load_time", "send_time", "peer_time"))
            if read:
                moves[parent, child] = (to_device, to_host, direct if peer else to_host + to_device)
    return Problem(
        parts.library.durations[number][:, spec["processors"]["kind"]],
        [list(ones) for ones in template.children],
        [list(task.parents) for task in template.tasks],
        moves,
        spec["processors"]["node"].tolist(),
    )


_PLANS: list[tuple[TaskgraphScenario, str, list[Placed]]] = []
MOST_KEPT = 12


def plan(scenario: TaskgraphScenario, planner: str) -> list[Placed]:
    """Return the plan for each graph of a scenario."""
    for known, name, result in _PLANS:
        if known is scenario and name == planner:
            return result
    result = [SCHEDULERS[planner](problem).placed() for problem in problems(scenario)]
    _PLANS.insert(0, (scenario, planner, result))
    del _PLANS[MOST_KEPT:]
    return result


def write_plan(scenario: TaskgraphScenario, planner: str) -> None:
    """Let the rows of a scenario show a plan."""
    rows = compiled_scenario(scenario).spec["plans"][PLANNERS.index(planner)]
    if rows[0]["processor"] < 0:
        placed = [pair for graph in plan(scenario, planner) for pair in graph]
        rows[:] = np.array(placed, rows.dtype)
