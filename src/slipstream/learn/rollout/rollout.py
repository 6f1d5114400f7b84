"""Many lanes that play by a network side by side, and what they bring home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.contract import family_of
from slipstream.learn.compiled.collect import NO_EXPERT, begin_lanes, collect, make_rollout, rollout_arrays, rollout_key
from slipstream.learn.rollout.batch import Choices, Graphs
from slipstream.policies.base import Heuristic
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import NO_GRAPH, GraphRoom, Layout
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.kernel.snapshot import lane_bytes
from slipstream.sim.simulator import split_code

SLOTS = 33
"""Lanes that are looked at together, and one more slot to look at what comes after a step."""
PACKED = ("rows", "free", *Graphs.PACKED, "graph_free")
"""What all lanes of a rollout share."""


@dataclass(frozen=True)
class Rollout:
    """What the lanes saw and did, (lanes, steps) each; `learn.collect.Rollout` says what the arrays hold."""

    arrays: dict[str, np.ndarray]

    def __getattr__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @classmethod
    def empty(
        cls, lane_count: int, steps: int, candidates: int, widths: tuple[int, int], graph: GraphRoom = NO_GRAPH
    ) -> Rollout:
        """Return room for a rollout."""
        return cls(rollout_arrays(lane_count, steps, candidates, widths, graph))

    @property
    def made(self) -> np.ndarray:
        """Whether a choice was made there: lanes that stop at the end of an episode are shorter than others."""
        steps = self.arrays["begin"].shape[1]
        made: np.ndarray = np.arange(steps) < self.arrays["length"][:, None]
        return made

    def choices(self) -> Choices:
        """Return the choices that were made, one lane behind the other."""
        made = self.made
        seen = {name: self.arrays[name][made] for name in ("globals", "begin", "count")}
        graphs = Graphs()
        if self.arrays["places"].size:
            packed = {name: self.arrays[name] for name in Graphs.PACKED}
            graphs = Graphs(**packed, places=self.arrays["places"][made])
        return Choices(self.arrays["rows"], seen["globals"], seen["begin"], seen["count"], graphs)


class Group:
    """Lanes of one scenario with their structs; a thread runs one group at a time."""

    def __init__(
        self, scenario: Any, first_lane: int, count: int, graph: bool = False, judges: Sequence[Heuristic] = ()
    ) -> None:
        """With `graph`, what the lanes show has it. With judges, there is one lane more, for them."""
        family = family_of(scenario)
        shape = family.graph(scenario) if graph else None
        self.graph = NO_GRAPH
        if shape is not None:
            self.graph = GraphRoom(len(shape.features.observed), shape.nodes, shape.edges)
        self.scenario, self.first_lane, self.count = scenario, first_lane, count
        self.candidates = family.candidate_rows(scenario)
        self.arrays = family.state_arrays(scenario, count + bool(judges), 0)
        self.spec = family.make_spec(family.spec_arrays(scenario))
        self.state = family.make_state(self.arrays)
        features = (family.global_features, family.candidate_features)
        self.buffer = make_buffer(buffer_arrays(SLOTS, self.candidates, *features, raw=False, graph=shape))
        self.raw = make_buffer(buffer_arrays(1, family.all_rows(scenario), *features, raw=True))
        for buffer in (self.buffer, self.raw):
            lanes.prepare_buffer(self.spec, self.state, buffer)
        for judge in judges:
            judge.prepare_for(scenario)
        self.expected = np.full(count, np.nan)
        """What the judges expect that each lane still earns; not a number where they were not asked yet."""
        forms = np.array([judge.form for judge in judges], np.int64)
        addresses = np.array([judge.address for judge in judges], np.int64)
        self.outlook = (lane_bytes(self.arrays), forms, addresses, self.expected) if judges else None
        self._copies: Group | None = None

    def take_number(self, heuristic: Heuristic) -> None:
        """Let the lanes know the number of a heuristic that has one."""
        if heuristic.parameter is not None:
            self.arrays["lanes"]["parameter"] = heuristic.parameter

    def copies(self, count: int) -> Group:
        """Return other lanes of the same scenario, at least so many, to try things in; they are reused."""
        if self._copies is None or self._copies.count < count:
            self._copies = Group(self.scenario, 0, count + count // 4, self.graph.nodes > 0)
        return self._copies


@dataclass(frozen=True)
class Play:
    """How the groups of a rollout play."""

    layout: Layout
    weights: np.ndarray
    steps: int
    draws: int
    """The key of everything that is drawn."""
    candidates: int
    """Most candidates of a choice, of all groups."""
    graph: GraphRoom
    expert: Heuristic | None
    loyalty: float
    until_end: bool

    def room(self, lane_count: int) -> dict[str, np.ndarray]:
        """Return room for what so many lanes bring home."""
        return rollout_arrays(lane_count, self.steps, self.candidates, self.layout.widths[:2], self.graph)

    def stretch(self, group: Group) -> tuple[int, int, int]:
        """Return where the rows, nodes and edges of a group begin in arrays that all groups share."""
        before = group.first_lane * self.steps
        return before * self.candidates, before * self.graph.nodes, before * self.graph.edges

    def into(self, group: Group, own: dict[str, np.ndarray], stretch: tuple[int, int, int]) -> tuple[int, int, int]:
        """Let a group play into its arrays, packed from `stretch` on; return where what it packed ends."""
        form, address = (NO_EXPERT, 0) if self.expert is None else (self.expert.form, self.expert.address)
        own["free"], own["graph_free"] = np.array(stretch[:1]), np.array(stretch[1:])
        if self.expert is not None:
            group.take_number(self.expert)
            self.expert.prepare_for(group.scenario)
        network = make_network(self.layout, self.weights)
        structs = (group.spec, group.state, group.buffer, network, make_rollout(own), group.raw)
        draws = np.uint64(self.draws)
        collect(*structs, form, address, self.loyalty, group.outlook, draws, group.first_lane, self.until_end)
        return int(own["free"][0]), int(own["graph_free"][0]), int(own["graph_free"][1])


class LanePool:
    """Groups of lanes, one per scenario given, that share the work of a rollout among threads."""

    def __init__(
        self,
        scenarios: Sequence[Any],
        lane_count: int,
        threads: int,
        graph: bool = False,
        judges: Sequence[Heuristic] = (),
    ) -> None:
        """With `graph`, the networks that play look at graphs. With judges, rewards are minus the regret.

        That of a step is estimated: what the best of the judges would still have earned before it, less what came of
        it and the best of them would earn after it.
        """
        borders = np.linspace(0, lane_count, len(scenarios) + 1).astype(int)
        self.lane_count = lane_count
        self.groups = [
            Group(scenario, int(first), int(end - first), graph, judges)
            for scenario, first, end in zip(scenarios, borders[:-1], borders[1:], strict=True)
        ]
        self.candidates = max(group.candidates for group in self.groups)
        rooms = [group.graph for group in self.groups]
        self.graph = GraphRoom(*(max(getattr(room, name) for room in rooms) for name in ("columns", "nodes", "edges")))
        self._pool = ThreadPoolExecutor(threads)
        self._room: dict[int, dict[str, np.ndarray]] = {}

    def start(self, seeds: np.ndarray, split: str = "train") -> None:
        """Start an episode in every lane."""
        code = split_code(split)
        for group in self.groups:
            part = slice(group.first_lane, group.first_lane + group.count)
            begin_lanes(group.spec, group.state, seeds[part].astype(np.int64), code)
            group.expected[:] = np.nan

    def collect(
        self,
        layout: Layout,
        weights: np.ndarray,
        steps: int,
        key: tuple[int, int],
        expert: Heuristic | None = None,
        loyalty: float = 0.0,
        until_end: bool = False,
    ) -> Rollout:
        """Let every lane make so many choices by the network; the arrays are reused by the next call.

        `key` is the seed and the number of the update: together they decide all draws.
        """
        play = Play(layout, weights, steps, rollout_key(*key), self.candidates, self.graph, expert, loyalty, until_end)
        return self.play(play)

    def play(self, play: Play) -> Rollout:
        """Let every group play its part of a rollout."""
        arrays = self._arrays(play)

        def run(group: Group) -> None:
            part = slice(group.first_lane, group.first_lane + group.count)
            own = {name: array if name in PACKED else array[part] for name, array in arrays.items()}
            # Every group packs into a stretch of its own; what no group reaches never takes memory.
            play.into(group, own, play.stretch(group))

        self.map(run)
        return Rollout(arrays)

    def map(self, function: Callable[[Group], Any]) -> list[Any]:
        """Return what a function gives for every group; the threads share the groups."""
        return [future.result() for future in [self._pool.submit(function, group) for group in self.groups]]

    def _arrays(self, play: Play) -> dict[str, np.ndarray]:
        if play.steps not in self._room:
            self._room = {play.steps: play.room(self.lane_count)}
        return self._room[play.steps]
