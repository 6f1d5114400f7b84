"""The least makespan that can still be reached, by CP-SAT: a bound, and a schedule to try in the simulator.

Each task that is left goes to one place, a device or the processors of one kind at the host, after its parents. Where
there are links, a version of a tile has to come to wherever it is read: at most once to each device, by a link that
carries one tile at a time, and not before some task that reads it there was taken. Memories are without limit here, and
links serve whom they like, so the machine can only be slower; and it can play what it finds as a schedule. Luck is
known: durations are those that the episode draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortools.sat.python import cp_model

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import HOST, LINKS_PER_DEVICE, PEER, READ, TO_DEVICE, TO_HOST
from slipstream.families.taskgraph.oracle.hindsight import Episode, last_writers
from slipstream.families.taskgraph.oracle.snapshot import Place, Situation, places_of

WORKERS = 8
"""Strategies of the solver that take turns: more than one finds what each alone would miss."""

Turn = tuple[int, int, int]
"""When a task is taken, when it starts, and by which place."""
Plan = dict[int, Turn]
"""The turn of each task."""


@dataclass(frozen=True)
class Solution:
    """What the solver found; times in ns."""

    makespan: int
    """Of the best schedule."""
    bound: int
    """No schedule is shorter."""
    plan: Plan


def solve(
    episode: Episode, situation: Situation, limits: tuple[int, int], seconds: float, hint: Plan
) -> Solution | None:
    """Return the best schedule from a situation on, between two times; None if none was found in time.

    The first is one before which nothing can end, the second one that can be reached.
    """
    model = _Model(episode, situation, limits[1])
    if limits[0] > situation.now:
        model.cp.add(model.makespan >= model.up(limits[0]))
    model.hint(hint)
    return model.solve(seconds)


@dataclass
class _Task:
    """The variables of a task, in units."""

    take: cp_model.LinearExprT
    start: cp_model.LinearExprT
    end: cp_model.LinearExprT
    chosen: list[cp_model.LiteralT]
    """By place."""


@dataclass(frozen=True)
class _Version:
    """What one task, or nobody, has written into a tile."""

    tile: int
    writer: int
    """-1 if that was before."""


class _Model:
    """One situation as a model; times are in units that all of them are whole multiples of."""

    def __init__(self, episode: Episode, situation: Situation, horizon: int) -> None:
        self.cp = cp_model.CpModel()
        self.episode, self.situation = episode, situation
        self.scenario = episode.scenario
        self.parts = compiled_scenario(self.scenario)
        self.places = places_of(self.scenario)
        self.place_of = {number: index for index, one in enumerate(self.places) for number in one.processors}
        self.limited = any(kind.memory_mb is not None for kind in self.scenario.processors)
        self.depth = self.scenario.pipeline + (self.scenario.prefetch if self.scenario.mode == "push" else 0)
        self.unit = self._unit(horizon)
        self.horizon = horizon // self.unit
        self.now = situation.now // self.unit
        self.makespan = self.cp.new_int_var(self.now, self.horizon, "makespan")
        self.links: dict[int, list[cp_model.IntervalVar]] = {
            link: [self.cp.new_fixed_size_interval_var(self.now, time // self.unit - self.now, "")]
            for link, time in situation.links.items()
        }
        self.tasks: dict[int, _Task] = {}
        for number, job in enumerate(episode.jobs):
            for task in range(len(job.durations)):
                if number * episode.stride + task not in situation.finished:
                    self._add_task(number, task)
        self._add_processors()
        self._add_duty()
        if self.scenario.links is not None:
            self._add_tiles()
            for intervals in self.links.values():
                self.cp.add_no_overlap(intervals)

    def _unit(self, horizon: int) -> int:
        tiles = self.parts.spec["tiles"]
        moves = [int(time) for name in ("load_time", "send_time", "peer_time") for time in set(tiles[name].tolist())]
        times = [time for job in self.episode.jobs for row in job.durations for time in row]
        ends = [end for _, end in self.situation.running.values()]
        arrivals = [job.arrival for job in self.episode.jobs]
        known = [time for where in self.situation.copies.values() for time in where.values()]
        busy = self.situation.links.values()
        return math.gcd(horizon, self.situation.now, *times, *moves, *ends, *arrivals, *known, *busy)

    def up(self, time: int) -> int:
        """Return a time in units, rounded up."""
        return -(-time // self.unit)

    # Tasks and processors

    def _add_task(self, number: int, task: int) -> None:
        job = self.episode.jobs[number]
        name = number * self.episode.stride + task
        if name in self.situation.running:
            processor, end = self.situation.running[name]
            chosen = [int(index == self.place_of[processor]) for index in range(len(self.places))]
            self.tasks[name] = _Task(self.now, self.now, end // self.unit, chosen)
            self.cp.add(self.makespan >= end // self.unit)
            return
        begin = max(self.now, job.arrival // self.unit)
        start, end_of = self.cp.new_int_var(begin, self.horizon, ""), self.cp.new_int_var(begin, self.horizon, "")
        take: cp_model.LinearExprT = start
        if self.scenario.links is not None:
            # What is held already was taken before.
            take = self.now if name in self.situation.held else self.cp.new_int_var(begin, self.horizon, "")
            self.cp.add(start >= take)
        literals = [self.cp.new_bool_var("") for _ in self.places]
        self.cp.add_exactly_one(literals)
        for known in (self.situation.held, self.situation.queued):
            if name in known:
                self.cp.add(literals[self.place_of[known[name]]] == 1)
        for parent in job.parents[task]:
            before = self.tasks.get(number * self.episode.stride + parent)
            if before is not None:
                self.cp.add(take >= before.end)
        self.cp.add(self.makespan >= end_of)
        self.tasks[name] = _Task(take, start, end_of, list(literals))

    def _add_processors(self) -> None:
        """Let every place do as much at a time as it has processors."""
        for index, place in enumerate(self.places):
            runs, holds = [], []
            for name, task in self.tasks.items():
                chosen = task.chosen[index]
                if name in self.situation.running:
                    if chosen:
                        span = self.cp.new_fixed_size_interval_var(self.now, task.end - self.now, "")
                        runs.append(span)
                        holds.append(span)
                    continue
                time = int(self.episode.times[name, place.kind]) // self.unit
                runs.append(self.cp.new_optional_interval_var(task.start, time, task.end, chosen, ""))
                if self.scenario.links is not None:
                    length = self.cp.new_int_var(time, self.horizon, "")
                    holds.append(self.cp.new_optional_interval_var(task.take, length, task.end, chosen, ""))
            count = len(place.processors)
            if self.scenario.links is None or self.depth > 1:
                self._at_most(runs, count)
            if self.scenario.links is not None:
                # With room for one task at a time, a processor has it from when it takes it.
                self._at_most(holds, count * self.depth)

    def _at_most(self, intervals: list[cp_model.IntervalVar], count: int) -> None:
        if count == 1:
            self.cp.add_no_overlap(intervals)
        else:
            self.cp.add_cumulative(intervals, [1] * len(intervals), count)

    def _add_duty(self) -> None:
        """Require that a processor which may not wait takes one of the ready tasks now."""
        asked, ready = self.situation.duty
        taken = []
        for name in ready:
            taken.append(self.cp.new_bool_var(""))
            self.cp.add_implication(taken[-1], self.tasks[name].chosen[self.place_of[asked]])
            self.cp.add(self.tasks[name].take == self.now).only_enforce_if(taken[-1])
        if taken:
            self.cp.add_bool_or(taken)

    # Tiles

    def _add_tiles(self) -> None:
        """Let each version of a tile come to wherever it is read."""
        readers: dict[_Version, list[int]] = {}
        for number, job in enumerate(self.episode.jobs):
            template = self.parts.library.templates[job.template]
            writers = last_writers(template)
            first = number * self.episode.stride
            for task, one in enumerate(template.tasks):
                if first + task not in self.tasks or first + task in self.situation.running:
                    continue
                for tile in (tile for tile, mode in one.accesses if mode & READ):
                    writer = first + writers[task, tile]
                    to_come = writers[task, tile] >= 0 and writer in self.tasks
                    version = _Version(number * self.parts.sizes.tiles + tile, writer if to_come else -1)
                    readers.setdefault(version, []).append(first + task)
        for version, own in readers.items():
            _Moves(self, version, own).add()

    # Solving

    def hint(self, plan: Plan) -> None:
        """Begin with a schedule."""
        for name, (take, start, place) in plan.items():
            task = self.tasks.get(name)
            if task is None or name in self.situation.running:
                continue
            if isinstance(task.start, cp_model.IntVar):
                self.cp.add_hint(task.start, start // self.unit)
            if isinstance(task.take, cp_model.IntVar) and self.scenario.links is not None:
                self.cp.add_hint(task.take, take // self.unit)
            for index, chosen in enumerate(task.chosen):
                self.cp.add_hint(chosen, index == place)

    def solve(self, seconds: float) -> Solution | None:
        """Return what the solver finds in time."""
        self.cp.minimize(self.makespan)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(0.1, seconds)
        solver.parameters.num_workers = WORKERS
        solver.parameters.random_seed = 1
        if solver.solve(self.cp) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        plan: Plan = {}
        for name, task in self.tasks.items():
            place = [bool(solver.value(one)) for one in task.chosen].index(True)
            plan[name] = (solver.value(task.take) * self.unit, solver.value(task.start) * self.unit, place)
        bound = math.ceil(solver.best_objective_bound - 1e-6)
        return Solution(round(solver.objective_value) * self.unit, bound * self.unit, plan)


@dataclass(frozen=True)
class _AtHost:
    """What the host has of a version."""

    since: cp_model.LinearExprT
    ways: list[cp_model.LiteralT]
    """How it may have come there, one of which has to be; none where it is there already."""


class _Moves:
    """The ways of one version of a tile to those who read it."""

    def __init__(self, model: _Model, version: _Version, readers: list[int]) -> None:
        self.model, self.version, self.readers = model, version, readers
        job, tile = divmod(version.tile, model.parts.sizes.tiles)
        first_tile = int(model.parts.spec["templates"][model.episode.jobs[job].template]["first_tile"])
        row = model.parts.spec["tiles"][first_tile + tile]
        self.load, self.send, self.peer = (
            int(row[name]) // model.unit for name in ("load_time", "send_time", "peer_time")
        )
        self.peers = model.scenario.links is not None and model.scenario.links.peer is not None
        self.writer = model.tasks.get(version.writer)
        self.copies: dict[int, int] = {}
        if self.writer is None:
            arrival = max(model.now, model.episode.jobs[job].arrival // model.unit)
            known = model.situation.copies.get(version.tile, {HOST: arrival * model.unit})
            self.copies = {node: time // model.unit for node, time in known.items()}

    def add(self) -> None:
        """Add them to the model."""
        host = self._to_host()
        for index, place in enumerate(self.model.places):
            if place.node == HOST:
                self._read_at_host(index, host)
            elif place.node in self.copies:
                for reader in self.readers:
                    task = self.model.tasks[reader]
                    self.model.cp.add(task.start >= self.copies[place.node]).only_enforce_if(task.chosen[index])
            else:
                self._load(index, place, host)

    def _read_at_host(self, index: int, host: _AtHost) -> None:
        for reader in self.readers:
            task = self.model.tasks[reader]
            self.model.cp.add(task.start >= host.since).only_enforce_if(task.chosen[index])
            if host.ways:
                self.model.cp.add_bool_or([*host.ways, _negated(task.chosen[index])])

    def _to_host(self) -> _AtHost:
        """Let the version come to the host, if it is not there."""
        model = self.model
        if HOST in self.copies:
            return _AtHost(self.copies[HOST], [])
        start, since = (model.cp.new_int_var(model.now, model.horizon, "") for _ in range(2))
        sent = model.cp.new_bool_var("")
        ways: list[cp_model.LiteralT] = [sent]
        model.cp.add(since >= start + self.send).only_enforce_if(sent)
        if self.writer is not None:
            model.cp.add(start >= self.writer.end)
            for index, place in enumerate(model.places):
                made_there = self.writer.chosen[index]
                if place.node == HOST:
                    ways.append(made_there)
                elif not self.peers and not _is_never(made_there):
                    both = model.cp.new_bool_var("")
                    model.cp.add_bool_or([both, ~sent, _negated(made_there)])
                    self._occupy(place.node, TO_HOST, start, self.send, both)
        else:
            model.cp.add(start >= min(self.copies.values(), default=model.now))
            # With links between devices there may be several that can send it.
            if len(self.copies) == 1 and not self.peers:
                self._occupy(next(iter(self.copies)), TO_HOST, start, self.send, sent)
        # A full memory sends unasked.
        if not model.limited:
            self._asked_for(start, sent, None)
        return _AtHost(since, ways)

    def _load(self, index: int, place: Place, host: _AtHost) -> None:
        """Let the version come to a device where it is read, unless it was made there."""
        model = self.model
        start, since = (model.cp.new_int_var(model.now, model.horizon, "") for _ in range(2))
        loaded = model.cp.new_bool_var("")
        made_there = [] if self.writer is None else [self.writer.chosen[index]]
        for reader in self.readers:
            task = model.tasks[reader]
            model.cp.add_bool_or([_negated(task.chosen[index]), loaded, *made_there])
            model.cp.add(task.start >= since).only_enforce_if(task.chosen[index], loaded)
        self._asked_for(start, loaded, index)
        by_host = loaded
        if self.peers:
            by_host, direct = model.cp.new_bool_var(""), model.cp.new_bool_var("")
            model.cp.add_bool_or([~loaded, by_host, direct])
            model.cp.add(since >= start + self.peer).only_enforce_if(direct)
            if self.writer is not None:
                model.cp.add(start >= self.writer.end).only_enforce_if(direct)
            self._occupy(place.node, PEER, start, self.peer, direct)
        model.cp.add(since >= start + self.load).only_enforce_if(by_host)
        model.cp.add(start >= host.since).only_enforce_if(by_host)
        if host.ways:
            model.cp.add_bool_or([*host.ways, ~by_host])
        self._occupy(place.node, TO_DEVICE, start, self.load, by_host)

    def _asked_for(self, start: cp_model.IntVar, present: cp_model.IntVar, index: int | None) -> None:
        """Let a link carry the version no sooner than some reader, at a place or away from it, was taken."""
        model = self.model
        asks = []
        for reader in self.readers:
            task = model.tasks[reader]
            asking = model.cp.new_bool_var("")
            if index is not None:
                model.cp.add_implication(asking, task.chosen[index])
            else:
                self._reads_elsewhere(task, asking)
            model.cp.add(start >= task.take).only_enforce_if(asking)
            asks.append(asking)
        model.cp.add_bool_or([*asks, ~present])

    def _reads_elsewhere(self, task: _Task, asking: cp_model.IntVar) -> None:
        """Let a reader that is where the version is not ask for it."""
        for index, place in enumerate(self.model.places):
            there = int(place.node in self.copies) if self.writer is None else self.writer.chosen[index]
            if place.node != HOST and not _is_never(there):
                self.model.cp.add_bool_or([~asking, _negated(task.chosen[index]), _negated(there)])

    def _occupy(self, node: int, which: int, start: cp_model.IntVar, time: int, present: cp_model.IntVar) -> None:
        """Let a link be busy with the version."""
        link = LINKS_PER_DEVICE * (node - 1) + which
        span = self.model.cp.new_optional_fixed_size_interval_var(start, time, present, "")
        self.model.links.setdefault(link, []).append(span)


def _is_never(literal: cp_model.LiteralT) -> bool:
    """Return whether a literal is known to be false."""
    return isinstance(literal, int) and not literal


def _negated(literal: cp_model.LiteralT) -> cp_model.LiteralT:
    """Return the opposite of a literal, which may be known."""
    return 1 - literal if isinstance(literal, int) else ~literal
