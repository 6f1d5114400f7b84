"""Slurm's own scheduler, simulated: the main loop of `slurmctld`, and the plans of `sched/backfill`.

The main loop starts jobs in the order of the queue, up to the first that does not fit, in the second after an event. A
pass of `sched/backfill`, once per interval, plans all waiting jobs in that order, each at the earliest time at which it
finds nodes that no job before it is going to need. It differs from EASY in three points: every waiting job gets a
reservation; a reservation blocks whole nodes; and jobs that end within half a minute, later within longer times, are
expected to end together, with the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

END_WINDOW_S = 30.0
"""Ends of running jobs that lie this close together count as one; twice as long after each attempt."""
TICK_S = 1.0
"""Time between two moments at which `slurmctld` notices changes and starts batch jobs."""
MANY_CPUS = 64
"""CPUs of a node. A job takes one of each of its nodes; they only decide which nodes are fullest."""


@dataclass(frozen=True)
class QueuedJob:
    """A job as Slurm's own scheduler knows it, and how long it really runs."""

    submit_s: float
    gpus: int
    limit_s: float
    """Time limit."""
    run_s: float


@dataclass
class SimulatedRun:
    """The run of a job: when it started, and GPUs by number of node; its end is unknown to the scheduler."""

    job: QueuedJob
    start_s: float
    held: dict[int, int]

    @property
    def end_s(self) -> float:
        """When it ends."""
        return self.start_s + min(self.job.run_s, self.job.limit_s)

    @property
    def expected_end_s(self) -> float:
        """When its time limit ends."""
        return self.start_s + self.job.limit_s


@dataclass(frozen=True)
class Window:
    """A span of time in which some nodes are not reserved."""

    begin_s: float
    end_s: float
    nodes: frozenset[int]


def simulate_backfill(gpus: Sequence[int], jobs: Sequence[QueuedJob], interval_s: float) -> list[SimulatedRun]:
    """Return the runs of `jobs` on nodes with `gpus` GPUs each, in the order of the jobs.

    `interval_s` is `bf_interval`, the time between two passes. No job wants more GPUs than there are.
    """
    order = sorted(range(len(jobs)), key=lambda number: jobs[number].submit_s)
    scheduler = _Scheduler(gpus)
    arrived, changed, now = 0, False, 0.0
    while arrived < len(jobs) or scheduler.queue or scheduler.running:
        submit = jobs[order[arrived]].submit_s if arrived < len(jobs) else math.inf
        event = min([submit, *(run.end_s for run in scheduler.running.values())])
        change = math.ceil(event / TICK_S) * TICK_S if math.isfinite(event) else math.inf
        next_pass = (math.floor(now / interval_s) + 1) * interval_s if changed and scheduler.queue else math.inf
        now = min(change, next_pass)
        if change <= now:
            changed = True
            scheduler.finish(now)
            while arrived < len(jobs) and jobs[order[arrived]].submit_s <= now:
                scheduler.queue[order[arrived]] = jobs[order[arrived]]
                arrived += 1
            scheduler.start_in_order(now)
        if next_pass <= now or now % interval_s == 0.0:
            changed = False
            scheduler.backfill(now)
    return [scheduler.runs[number] for number in range(len(jobs))]


class _Scheduler:
    """The queue, the nodes and what runs on them; jobs by number."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.queue: dict[int, QueuedJob] = {}
        """Waiting jobs, in the order of their submission."""
        self.running: dict[int, SimulatedRun] = {}
        self.runs: dict[int, SimulatedRun] = {}
        """All runs, those that have ended too."""
        self._free = list(gpus)
        self._all = frozenset(range(len(gpus)))

    def finish(self, now: float) -> None:
        """End the runs whose time has come."""
        for number in [number for number, run in self.running.items() if run.end_s <= now]:
            _release(self._free, self.running.pop(number))

    def start_in_order(self, now: float) -> None:
        """Start waiting jobs in their order, up to the first that does not fit."""
        for number, job in list(self.queue.items()):
            nodes = self._pick(self._all, self._free, self.running.values(), job.gpus)
            if not nodes:
                return
            self._start(number, nodes, now)

    def backfill(self, now: float) -> None:
        """Plan every waiting job; start those whose plan begins now."""
        windows = [Window(now, math.inf, self._all)]
        for number, job in list(self.queue.items()):
            plan = self._plan(job, windows, now)
            if plan is None:
                continue
            start, nodes = plan
            if start <= now:
                self._start(number, nodes, now)
            else:
                windows = _reserve(windows, start, start + job.limit_s, nodes)

    def _start(self, number: int, nodes: list[int], now: float) -> None:
        job = self.queue.pop(number)
        # One GPU of each node, and the rest from the first ones.
        held, left = dict.fromkeys(nodes, 1), job.gpus - len(nodes)
        for node in nodes:
            more = min(left, self._free[node] - 1)
            held[node] += more
            left -= more
        for node, count in held.items():
            self._free[node] -= count
        self.running[number] = self.runs[number] = SimulatedRun(job, now, held)

    def _plan(self, job: QueuedJob, windows: list[Window], now: float) -> tuple[float, list[int]] | None:
        """Return the planned start of a job and its nodes; None if it can be expected at no time."""
        earliest = now
        while True:
            nodes, later = _unreserved(windows, earliest, earliest + job.limit_s)
            found = self._expected(job, nodes, now) if nodes else None
            start = math.inf if found is None else max(found[0], earliest)
            if found is not None and start <= now:
                return start, found[1]
            if later is not None and start > later:
                earliest = later
            elif found is None:
                return None
            elif _is_reserved(windows, start, start + job.limit_s, found[1]):
                earliest = start
            else:
                return start, found[1]

    def _expected(self, job: QueuedJob, nodes: frozenset[int], now: float) -> tuple[float, list[int]] | None:
        """Return when and on which of `nodes` a job fits, if running jobs end at their limits; None if never."""
        running = list(self.running.values())
        if picked := self._pick(nodes, self._free, running, job.gpus):
            return now, picked
        free = list(self._free)
        ends = sorted((run for run in running if nodes & run.held.keys()), key=lambda run: run.expected_end_s)
        for group in _grouped(ends):
            for run in group:
                _release(free, run)
                running.remove(run)
            if picked := self._pick(nodes, free, running, job.gpus):
                return max(now, group[-1].expected_end_s), picked
        return None

    def _pick(self, nodes: frozenset[int], free: list[int], running: Collection[SimulatedRun], gpus: int) -> list[int]:
        """Return the nodes that Slurm takes for `gpus` GPUs, none if there are not enough.

        It fills sets of neighbouring nodes with free GPUs; of a set it takes the fullest node that suffices alone, else
        the nodes in their order.
        """
        usable = [node for node in sorted(nodes) if free[node]]
        if sum(free[node] for node in usable) < gpus:
            return []
        cpus = dict.fromkeys(usable, MANY_CPUS)
        for run in running:
            for node in run.held:
                if node in cpus:
                    cpus[node] -= 1
        sets = list(_neighbours(usable))
        picked: list[int] = []
        while gpus > 0:
            chosen = _best_set(sets, free, cpus, gpus)
            sets.remove(chosen)
            single = [node for node in chosen if free[node] >= gpus]
            for node in [min(single, key=lambda node: cpus[node])] if single else chosen:
                if gpus > 0:
                    picked.append(node)
                    gpus -= free[node]
        return sorted(picked)


def _best_set(sets: list[list[int]], free: list[int], cpus: dict[int, int], gpus: int) -> list[int]:
    """Return the set of nodes that Slurm fills first.

    One that suffices goes before one that does not, and then the smaller one; but a larger one that does not suffice
    goes before both, if it comes later. So jobs are spread although they would fit on one node.
    """
    best, best_is_enough, best_size = sets[0], False, -1
    for one in sets:
        is_enough, size = sum(free[node] for node in one) >= gpus, sum(cpus[node] for node in one)
        if size > best_size if not is_enough else not best_is_enough or size < best_size:
            best, best_is_enough, best_size = one, is_enough, size
    return best


def _release(free: list[int], run: SimulatedRun) -> None:
    for node, count in run.held.items():
        free[node] += count


def _neighbours(nodes: list[int]) -> Iterator[list[int]]:
    """Yield the sets of nodes with consecutive numbers."""
    found: list[int] = []
    for node in nodes:
        if found and node != found[-1] + 1:
            yield found
            found = []
        found.append(node)
    if found:
        yield found


def _grouped(runs: list[SimulatedRun]) -> Iterator[list[SimulatedRun]]:
    """Yield the runs that are expected to end together, in the order of their expected ends."""
    if not runs:
        return
    width = END_WINDOW_S
    barrier = (math.floor(runs[0].expected_end_s / width) + 1) * width
    group: list[SimulatedRun] = []
    for run in runs:
        if group and run.expected_end_s > barrier + width:
            yield group
            group = []
            width *= 2
            while run.expected_end_s > barrier + width:
                width *= 2
        group.append(run)
    yield group


def _unreserved(windows: list[Window], begin_s: float, end_s: float) -> tuple[frozenset[int], float | None]:
    """Return the nodes that are free of reservations in a span, and from when on there may be more of them, if ever."""
    nodes, later = frozenset.union(*(window.nodes for window in windows)), None
    for window, following in zip(windows, [*windows[1:], None], strict=True):
        if window.end_s <= begin_s:
            continue
        if later is None and following is not None and not following.nodes <= (nodes & window.nodes):
            later = window.end_s
        if window.begin_s > end_s:
            break
        nodes &= window.nodes
    return nodes, later


def _is_reserved(windows: list[Window], begin_s: float, end_s: float, nodes: list[int]) -> bool:
    """Return whether one of `nodes` is reserved in a span."""
    return any(
        window.end_s > begin_s and window.begin_s < end_s and not window.nodes.issuperset(nodes) for window in windows
    )


def _reserve(windows: list[Window], begin_s: float, end_s: float, nodes: list[int]) -> list[Window]:
    """Return `windows` with a reservation of `nodes`; neighbouring spans with equal nodes become one."""
    found: list[Window] = []
    for window in windows:
        cuts = [window.begin_s, *(cut for cut in (begin_s, end_s) if window.begin_s < cut < window.end_s), window.end_s]
        for begin, end in pairwise(cuts):
            left = window.nodes - set(nodes) if begin_s <= begin < end_s else window.nodes
            if found and found[-1].nodes == left:
                found[-1] = Window(found[-1].begin_s, end, left)
            else:
                found.append(Window(begin, end, left))
    return found
