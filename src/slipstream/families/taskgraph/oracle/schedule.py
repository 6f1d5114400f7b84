"""Least makespan from a state by CP-SAT: a lower bound and a schedule to replay in the simulator.

Each remaining task runs in one processor group, a device or the processors of one kind at the host, after its parents.
With links, each version of a tile is transferred to every node where it is read: at most once to each device, on a link
that transfers one tile at a time, and not before a task that reads it there was taken. The model ignores memory limits
and the order in which links serve requests, so it is a relaxation of the simulator. Durations are those that the
episode draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortools.sat.python import cp_model

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import HOST, LINKS_PER_DEVICE, PEER, READ, TO_DEVICE, TO_HOST
from slipstream.families.taskgraph.oracle.hindsight import Episode, last_writers
from slipstream.families.taskgraph.oracle.snapshot import ProcessorGroup, Snapshot, processor_groups

WORKERS = 8
"""Workers of the solver: a portfolio of strategies, interleaved on few cores."""

Assignment = tuple[int, int, int]
"""Take time, start time and processor group of a task."""
Plan = dict[int, Assignment]
"""Assignment of each task."""


@dataclass(frozen=True)
class Solution:
    """Result of the solver; times in ns."""

    makespan: int
    """Makespan of the best schedule."""
    bound: int
    """Lower bound of the makespan."""
    plan: Plan


def solve(
    episode: Episode, snapshot: Snapshot, optimum_bounds: tuple[int, int], seconds: float, hint: Plan
) -> Solution | None:
    """Return the best schedule from `snapshot` on; None if none was found within `seconds`.

    `bracket` has a lower bound of the makespan and a makespan that is known to be feasible.
    """
    model = _Model(episode, snapshot, optimum_bounds[1])
    if optimum_bounds[0] > snapshot.now:
        model.cp.add(model.makespan >= model.up(optimum_bounds[0]))
    model.hint(hint)
    return model.solve(seconds)


@dataclass
class _Task:
    """Variables of a task, in units of the model."""

    take: cp_model.LinearExprT
    start: cp_model.LinearExprT
    end: cp_model.LinearExprT
    chosen: list[cp_model.LiteralT]
    """Literals by processor group."""


@dataclass(frozen=True)
class _Version:
    """Content of a tile as written by one task, or the initial content."""

    tile: int
    writer: int
    """-1 for content that exists in the snapshot."""


class _Model:
    """CP-SAT model of a snapshot; times are in units of their greatest common divisor."""

    def __init__(self, episode: Episode, snapshot: Snapshot, horizon: int) -> None:
        self.cp = cp_model.CpModel()
        self.episode, self.snapshot = episode, snapshot
        self.scenario = episode.scenario
        self.parts = compiled_scenario(self.scenario)
        self.groups = processor_groups(self.scenario)
        self.group_of = {number: index for index, one in enumerate(self.groups) for number in one.processors}
        self.limited = any(kind.memory_mb is not None for kind in self.scenario.processors)
        self.depth = self.scenario.pipeline + (self.scenario.prefetch if self.scenario.mode == "push" else 0)
        self.unit = self._unit(horizon)
        self.horizon = horizon // self.unit
        self.now = snapshot.now // self.unit
        self.makespan = self.cp.new_int_var(self.now, self.horizon, "makespan")
        self.links: dict[int, list[cp_model.IntervalVar]] = {
            link: [self.cp.new_fixed_size_interval_var(self.now, time // self.unit - self.now, "")]
            for link, time in snapshot.links.items()
        }
        self.tasks: dict[int, _Task] = {}
        for number, job in enumerate(episode.jobs):
            for task in range(len(job.durations)):
                if number * episode.stride + task not in snapshot.finished:
                    self._add_task(number, task)
        self._add_processors()
        self._add_forced_choice()
        if self.scenario.links is not None:
            self._add_tiles()
            for intervals in self.links.values():
                self.cp.add_no_overlap(intervals)

    def _unit(self, horizon: int) -> int:
        tiles = self.parts.spec["tiles"]
        moves = [int(time) for key in ("load_time", "send_time", "peer_time") for time in set(tiles[key].tolist())]
        times = [time for job in self.episode.jobs for row in job.durations for time in row]
        ends = [end for _, end in self.snapshot.running.values()]
        arrivals = [job.arrival for job in self.episode.jobs]
        known = [time for where in self.snapshot.copies.values() for time in where.values()]
        busy = self.snapshot.links.values()
        return math.gcd(horizon, self.snapshot.now, *times, *moves, *ends, *arrivals, *known, *busy)

    def up(self, time: int) -> int:
        """Return `time` in units of the model, rounded up."""
        return -(-time // self.unit)

    # Tasks and processors

    def _add_task(self, number: int, task: int) -> None:
        job = self.episode.jobs[number]
        key = number * self.episode.stride + task
        if key in self.snapshot.running:
            processor, end = self.snapshot.running[key]
            chosen = [int(index == self.group_of[processor]) for index in range(len(self.groups))]
            self.tasks[key] = _Task(self.now, self.now, end // self.unit, chosen)
            self.cp.add(self.makespan >= end // self.unit)
            return
        begin = max(self.now, job.arrival // self.unit)
        start, end_of = self.cp.new_int_var(begin, self.horizon, ""), self.cp.new_int_var(begin, self.horizon, "")
        take: cp_model.LinearExprT = start
        if self.scenario.links is not None:
            # Held tasks were taken before.
            take = self.now if key in self.snapshot.held else self.cp.new_int_var(begin, self.horizon, "")
            self.cp.add(start >= take)
        literals = [self.cp.new_bool_var("") for _ in self.groups]
        self.cp.add_exactly_one(literals)
        for known in (self.snapshot.held, self.snapshot.queued):
            if key in known:
                self.cp.add(literals[self.group_of[known[key]]] == 1)
        for parent in job.parents[task]:
            before = self.tasks.get(number * self.episode.stride + parent)
            if before is not None:
                self.cp.add(take >= before.end)
        self.cp.add(self.makespan >= end_of)
        # Intervals of several lengths that share their end variable make CP-SAT (9.15) exclude feasible schedules.
        times = self._times(key)
        self.cp.add(end_of == start + sum(time * literal for time, literal in zip(times, literals, strict=True)))
        self.tasks[key] = _Task(take, start, end_of, list(literals))

    def _times(self, key: int) -> list[int]:
        """Return the duration of a task in each processor group, in units of the model."""
        return [int(self.episode.durations[key, group.kind]) // self.unit for group in self.groups]

    def _add_processors(self) -> None:
        """Limit the tasks that run, and that are held, at a time in each processor group."""
        held = {
            key: self.cp.new_int_var(min(self._times(key)), self.horizon, "")
            for key in self.tasks.keys() - self.snapshot.running.keys()
            if self.scenario.links is not None
        }
        for key, length in held.items():
            self.cp.add(self.tasks[key].end == self.tasks[key].take + length)
        for index, group in enumerate(self.groups):
            runs, holds = [], []
            for key, task in self.tasks.items():
                chosen = task.chosen[index]
                if key in self.snapshot.running:
                    if chosen:
                        span = self.cp.new_fixed_size_interval_var(self.now, task.end - self.now, "")
                        runs.append(span)
                        holds.append(span)
                    continue
                time = self._times(key)[index]
                runs.append(self.cp.new_optional_fixed_size_interval_var(task.start, time, chosen, ""))
                if key in held:
                    holds.append(self.cp.new_optional_interval_var(task.take, held[key], task.end, chosen, ""))
            count = len(group.processors)
            if self.scenario.links is None or self.depth > 1:
                self._at_most(runs, count)
            if self.scenario.links is not None:
                # A held task occupies its processor from the time it is taken.
                self._at_most(holds, count * self.depth)

    def _at_most(self, intervals: list[cp_model.IntervalVar], count: int) -> None:
        if count == 1:
            self.cp.add_no_overlap(intervals)
        else:
            self.cp.add_cumulative(intervals, [1] * len(intervals), count)

    def _add_forced_choice(self) -> None:
        """Require that the deciding processor takes one of the ready tasks now if it may not wait."""
        asked, ready = self.snapshot.forced
        taken = []
        for key in ready:
            taken.append(self.cp.new_bool_var(""))
            self.cp.add_implication(taken[-1], self.tasks[key].chosen[self.group_of[asked]])
            self.cp.add(self.tasks[key].take == self.now).only_enforce_if(taken[-1])
        if taken:
            self.cp.add_bool_or(taken)

    # Tiles

    def _add_tiles(self) -> None:
        """Add the transfers of each version of a tile to the nodes where it is read."""
        readers: dict[_Version, list[int]] = {}
        for number, job in enumerate(self.episode.jobs):
            template = self.parts.library.templates[job.template]
            writers = last_writers(template)
            first = number * self.episode.stride
            for task, one in enumerate(template.tasks):
                if first + task not in self.tasks or first + task in self.snapshot.running:
                    continue
                for tile in (tile for tile, mode in one.accesses if mode & READ):
                    writer = first + writers[task, tile]
                    to_come = writers[task, tile] >= 0 and writer in self.tasks
                    version = _Version(number * self.parts.sizes.tiles + tile, writer if to_come else -1)
                    readers.setdefault(version, []).append(first + task)
        for version, own in readers.items():
            _Transfers(self, version, own).add()

    # Solving

    def hint(self, plan: Plan) -> None:
        """Add the hint of a feasible schedule."""
        for key, (take, start, group) in plan.items():
            task = self.tasks.get(key)
            if task is None or key in self.snapshot.running:
                continue
            if isinstance(task.start, cp_model.IntVar):
                self.cp.add_hint(task.start, start // self.unit)
            if isinstance(task.take, cp_model.IntVar) and self.scenario.links is not None:
                self.cp.add_hint(task.take, take // self.unit)
            for index, chosen in enumerate(task.chosen):
                self.cp.add_hint(chosen, index == group)

    def solve(self, seconds: float) -> Solution | None:
        """Solve the model within `seconds`; None if no schedule was found."""
        self.cp.minimize(self.makespan)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(0.1, seconds)
        solver.parameters.num_workers = WORKERS
        solver.parameters.random_seed = 1
        if solver.solve(self.cp) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        plan: Plan = {}
        for key, task in self.tasks.items():
            group = [bool(solver.value(one)) for one in task.chosen].index(True)
            plan[key] = (solver.value(task.take) * self.unit, solver.value(task.start) * self.unit, group)
        bound = math.ceil(solver.best_objective_bound - 1e-6)
        return Solution(round(solver.objective_value) * self.unit, bound * self.unit, plan)


@dataclass(frozen=True)
class _AtHost:
    """Availability of a version at the host."""

    available: cp_model.LinearExprT
    origins: list[cp_model.LiteralT]
    """Literals of which one must hold: sent by a device, or written at the host; none if it is there already."""


class _Transfers:
    """Transfers of one version of a tile to its readers."""

    def __init__(self, model: _Model, version: _Version, readers: list[int]) -> None:
        self.model, self.version, self.readers = model, version, readers
        job, tile = divmod(version.tile, model.parts.sizes.tiles)
        first_tile = int(model.parts.spec["templates"][model.episode.jobs[job].template]["first_tile"])
        row = model.parts.spec["tiles"][first_tile + tile]
        self.load, self.send, self.peer = (
            int(row[key]) // model.unit for key in ("load_time", "send_time", "peer_time")
        )
        self.peers = model.scenario.links is not None and model.scenario.links.peer is not None
        self.writer = model.tasks.get(version.writer)
        self.copies: dict[int, int] = {}
        if self.writer is None:
            arrival = max(model.now, model.episode.jobs[job].arrival // model.unit)
            known = model.snapshot.copies.get(version.tile, {HOST: arrival * model.unit})
            self.copies = {node: time // model.unit for node, time in known.items()}

    def add(self) -> None:
        """Add the transfers to the model."""
        host = self._to_host()
        for index, group in enumerate(self.model.groups):
            if group.node == HOST:
                self._read_at_host(index, host)
            elif group.node in self.copies:
                for reader in self.readers:
                    task = self.model.tasks[reader]
                    self.model.cp.add(task.start >= self.copies[group.node]).only_enforce_if(task.chosen[index])
            else:
                self._load(index, group, host)

    def _read_at_host(self, index: int, host: _AtHost) -> None:
        for reader in self.readers:
            task = self.model.tasks[reader]
            self.model.cp.add(task.start >= host.available).only_enforce_if(task.chosen[index])
            if host.origins:
                self.model.cp.add_bool_or([*host.origins, _negated(task.chosen[index])])

    def _to_host(self) -> _AtHost:
        """Add the transfer of the version to the host unless it is there."""
        model = self.model
        if HOST in self.copies:
            return _AtHost(self.copies[HOST], [])
        start, available = (model.cp.new_int_var(model.now, model.horizon, "") for _ in range(2))
        sent = model.cp.new_bool_var("")
        origins: list[cp_model.LiteralT] = [sent]
        model.cp.add(available >= start + self.send).only_enforce_if(sent)
        if self.writer is not None:
            model.cp.add(start >= self.writer.end)
            for index, group in enumerate(model.groups):
                written_here = self.writer.chosen[index]
                if group.node == HOST:
                    origins.append(written_here)
                elif not self.peers and not _is_false(written_here):
                    both = model.cp.new_bool_var("")
                    model.cp.add_bool_or([both, ~sent, _negated(written_here)])
                    self._occupy(group.node, TO_HOST, start, self.send, both)
        else:
            model.cp.add(start >= min(self.copies.values(), default=model.now))
            # With peer links several devices may be able to send it.
            if len(self.copies) == 1 and not self.peers:
                self._occupy(next(iter(self.copies)), TO_HOST, start, self.send, sent)
        # Limited memories write back without a request.
        if not model.limited:
            self._not_before_request(start, sent, None)
        return _AtHost(available, origins)

    def _load(self, index: int, group: ProcessorGroup, host: _AtHost) -> None:
        """Add the load of the version to a device that reads it, unless it was written there."""
        model = self.model
        start, available = (model.cp.new_int_var(model.now, model.horizon, "") for _ in range(2))
        loaded = model.cp.new_bool_var("")
        written_here = [] if self.writer is None else [self.writer.chosen[index]]
        for reader in self.readers:
            task = model.tasks[reader]
            model.cp.add_bool_or([_negated(task.chosen[index]), loaded, *written_here])
            model.cp.add(task.start >= available).only_enforce_if(task.chosen[index], loaded)
        self._not_before_request(start, loaded, index)
        by_host = loaded
        if self.peers:
            by_host, direct = model.cp.new_bool_var(""), model.cp.new_bool_var("")
            model.cp.add_bool_or([~loaded, by_host, direct])
            model.cp.add(available >= start + self.peer).only_enforce_if(direct)
            if self.writer is not None:
                model.cp.add(start >= self.writer.end).only_enforce_if(direct)
            self._occupy(group.node, PEER, start, self.peer, direct)
        model.cp.add(available >= start + self.load).only_enforce_if(by_host)
        model.cp.add(start >= host.available).only_enforce_if(by_host)
        if host.origins:
            model.cp.add_bool_or([*host.origins, ~by_host])
        self._occupy(group.node, TO_DEVICE, start, self.load, by_host)

    def _not_before_request(self, start: cp_model.IntVar, present: cp_model.IntVar, index: int | None) -> None:
        """Require that a transfer starts after a reader, in group `index` or away from the version, was taken."""
        model = self.model
        requests = []
        for reader in self.readers:
            task = model.tasks[reader]
            request = model.cp.new_bool_var("")
            if index is not None:
                model.cp.add_implication(request, task.chosen[index])
            else:
                self._reads_elsewhere(task, request)
            model.cp.add(start >= task.take).only_enforce_if(request)
            requests.append(request)
        model.cp.add_bool_or([*requests, ~present])

    def _reads_elsewhere(self, task: _Task, request: cp_model.IntVar) -> None:
        """Allow a request only from a reader at a node without the version."""
        for index, group in enumerate(self.model.groups):
            there = int(group.node in self.copies) if self.writer is None else self.writer.chosen[index]
            if group.node != HOST and not _is_false(there):
                self.model.cp.add_bool_or([~request, _negated(task.chosen[index]), _negated(there)])

    def _occupy(self, node: int, link_kind: int, start: cp_model.IntVar, time: int, present: cp_model.IntVar) -> None:
        """Occupy a link with the transfer of the version."""
        link = LINKS_PER_DEVICE * (node - 1) + link_kind
        span = self.model.cp.new_optional_fixed_size_interval_var(start, time, present, "")
        self.model.links.setdefault(link, []).append(span)


def _is_false(literal: cp_model.LiteralT) -> bool:
    """Return whether a literal is the constant false."""
    return isinstance(literal, int) and not literal


def _negated(literal: cp_model.LiteralT) -> cp_model.LiteralT:
    """Return the negation of a literal, which may be a constant."""
    return 1 - literal if isinstance(literal, int) else ~literal
