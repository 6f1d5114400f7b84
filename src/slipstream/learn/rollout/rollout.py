"""Rollouts: groups of lanes that play by a network in parallel, and the transitions they collect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.contract import Scenario, family_of
from slipstream.learn.compiled.collect import NO_EXPERT, collect, make_rollout, reset_lanes, rollout_arrays, rollout_key
from slipstream.learn.rollout.batch import Choices, Graphs
from slipstream.policies.base import Heuristic
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import NO_GRAPH, GraphCapacity, Layout
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.kernel.snapshot import lane_bytes
from slipstream.sim.simulator import split_code

SLOTS = 33
"""Lanes that are observed together, and one more slot for the observation after a step."""
PACKED = ("rows", "free", *Graphs.PACKED, "graph_free")
"""Arrays that all lanes of a rollout share."""


@dataclass(frozen=True)
class Rollout:
    """Transitions of all lanes, (lanes, steps) each; `learn.compiled.collect.Rollout` documents the arrays."""

    arrays: dict[str, np.ndarray]

    def __getattr__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @classmethod
    def empty(
        cls, lane_count: int, steps: int, candidates: int, widths: tuple[int, int], graph: GraphCapacity = NO_GRAPH
    ) -> Rollout:
        """Return an empty rollout with these capacities."""
        return cls(rollout_arrays(lane_count, steps, candidates, widths, graph))

    @property
    def made(self) -> np.ndarray:
        """Mask of the steps that were made; lanes that stop at the end of an episode have fewer."""
        steps = self.arrays["begin"].shape[1]
        made: np.ndarray = np.arange(steps) < self.arrays["length"][:, None]
        return made

    def choices(self) -> Choices:
        """Return the choices that were made, lane by lane."""
        made = self.made
        seen = {name: self.arrays[name][made] for name in ("globals", "begin", "count")}
        graphs = Graphs()
        if self.arrays["spans"].size:
            packed = {name: self.arrays[name] for name in Graphs.PACKED}
            graphs = Graphs(**packed, spans=self.arrays["spans"][made])
        return Choices(self.arrays["rows"], seen["globals"], seen["begin"], seen["count"], graphs)


class Group:
    """Lanes of one scenario with their structs; one thread runs a group at a time."""

    def __init__(
        self,
        scenario: Scenario,
        first_lane: int,
        count: int,
        graph: bool = False,
        judges: Sequence[Heuristic] = (),
        timescale: float = 1.0,
    ) -> None:
        """Observe graphs with `graph`; with `judges`, add one lane for their simulations.

        `timescale` is the unit in which horizons of the group are given, in ns.
        """
        family = family_of(scenario)
        shape = family.graph(scenario) if graph else None
        self.graph = NO_GRAPH
        if shape is not None:
            self.graph = GraphCapacity(len(shape.features.observed), shape.nodes, shape.edges)
        self.scenario, self.first_lane, self.count, self.timescale = scenario, first_lane, count, timescale
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
        """The judges' expected return of each lane, NaN where it is unknown."""
        forms = np.array([judge.form for judge in judges], np.int64)
        addresses = np.array([judge.address for judge in judges], np.int64)
        self.judging = (lane_bytes(self.arrays), forms, addresses, self.expected) if judges else None
        self.expert: Heuristic | None = None
        """The expert of this group; None: the one that all groups share."""
        self._copies: Group | None = None

    def set_parameter(self, heuristic: Heuristic) -> None:
        """Set the parameter of `heuristic`, if it has one, in all lanes."""
        if heuristic.parameter is not None:
            self.arrays["lanes"]["parameter"] = heuristic.parameter

    def copies(self, count: int) -> Group:
        """Return a reusable group of at least `count` lanes of the same scenario, for branches."""
        if self._copies is None or self._copies.count < count:
            self._copies = Group(self.scenario, 0, count + count // 4, self.graph.nodes > 0)
        return self._copies


@dataclass(frozen=True)
class RolloutPlan:
    """Inputs of a rollout that all groups share."""

    layout: Layout
    weights: np.ndarray
    steps: int
    draws: int
    """Key of all random numbers."""
    candidates: int
    """Capacity for the candidates of a choice, over all groups."""
    graph: GraphCapacity
    expert: Heuristic | None
    expert_probability: float
    until_end: bool

    def allocate(self, lane_count: int) -> dict[str, np.ndarray]:
        """Return the arrays of a rollout of `lane_count` lanes."""
        return rollout_arrays(lane_count, self.steps, self.candidates, self.layout.widths[:2], self.graph)

    def offsets(self, group: Group) -> tuple[int, int, int]:
        """Return the first row, node and edge of a group in arrays that all groups share."""
        before = group.first_lane * self.steps
        return before * self.candidates, before * self.graph.nodes, before * self.graph.edges

    def collect_into(
        self, group: Group, own: dict[str, np.ndarray], offsets: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        """Collect a group's transitions into `own`, packed from `offsets` on; return the end of each range."""
        expert = None if self.expert is None else group.expert or self.expert
        form, address = (NO_EXPERT, 0) if expert is None else (expert.form, expert.address)
        own["free"], own["graph_free"] = np.array(offsets[:1]), np.array(offsets[1:])
        if expert is not None:
            group.set_parameter(expert)
            expert.prepare_for(group.scenario)
        network = make_network(self.layout, self.weights)
        structs = (group.spec, group.state, group.buffer, network, make_rollout(own), group.raw)
        draws = np.uint64(self.draws)
        collect(
            *structs, form, address, self.expert_probability, group.judging, draws, group.first_lane, self.until_end
        )
        return int(own["free"][0]), int(own["graph_free"][0]), int(own["graph_free"][1])


class LanePool:
    """Groups of lanes, one per scenario, that collect rollouts in threads."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        lane_count: int,
        threads: int,
        graph: bool = False,
        judges: Sequence[Heuristic] = (),
        bounds: Sequence[int] | None = None,
        timescales: Sequence[float] | None = None,
    ) -> None:
        """Observe graphs with `graph`. With `judges`, the reward of a step is minus its estimated regret.

        `bounds` are the first lanes of the groups and the number of lanes; by default, groups are equally large.
        `timescales` are the units in which the groups' horizons are given, in ns; by default 1.

        The regret is the highest expected return under one of the judges before the step, less the reward of the step
        and that expected return after it.
        """
        if bounds is None:
            bounds = [lane_count * index // len(scenarios) for index in range(len(scenarios) + 1)]
        self.lane_count = lane_count
        self.groups = [
            Group(scenario, first, end - first, graph, judges, timescale)
            for scenario, first, end, timescale in zip(
                scenarios, bounds[:-1], bounds[1:], timescales or [1.0] * len(scenarios), strict=True
            )
        ]
        self.candidates = max(group.candidates for group in self.groups)
        capacities = [group.graph for group in self.groups]
        self.graph = GraphCapacity(
            *(max(getattr(capacity, name) for capacity in capacities) for name in ("columns", "nodes", "edges"))
        )
        self._pool = ThreadPoolExecutor(threads)
        self._buffers: dict[int, dict[str, np.ndarray]] = {}

    @property
    def timescales(self) -> np.ndarray:
        """Unit of every lane's horizons in ns, (lanes, 1)."""
        return np.repeat([group.timescale for group in self.groups], [group.count for group in self.groups])[:, None]

    def start(self, seeds: np.ndarray, split: str = "train") -> None:
        """Start an episode in every lane."""
        code = split_code(split)
        for group in self.groups:
            part = slice(group.first_lane, group.first_lane + group.count)
            reset_lanes(group.spec, group.state, seeds[part].astype(np.int64), code)
            group.expected[:] = np.nan

    def collect(
        self,
        layout: Layout,
        weights: np.ndarray,
        steps: int,
        key: tuple[int, int],
        expert: Heuristic | None = None,
        expert_probability: float = 0.0,
        until_end: bool = False,
    ) -> Rollout:
        """Play `steps` choices in every lane by the network; the arrays are reused by the next call.

        `key` is the seed and the number of the update: together they determine all draws.
        """
        plan = RolloutPlan(
            layout,
            weights,
            steps,
            rollout_key(*key),
            self.candidates,
            self.graph,
            expert,
            expert_probability,
            until_end,
        )
        return self.play(plan)

    def play(self, plan: RolloutPlan) -> Rollout:
        """Collect the rollout of `plan` in all groups."""
        arrays = self._arrays(plan)

        def run(group: Group) -> None:
            part = slice(group.first_lane, group.first_lane + group.count)
            own = {name: array if name in PACKED else array[part] for name, array in arrays.items()}
            # Every group packs into a range of its own; pages that no group writes take no memory.
            plan.collect_into(group, own, plan.offsets(group))

        self.map(run)
        return Rollout(arrays)

    def map(self, function: Callable[[Group], Any]) -> list[Any]:
        """Return the result of `function` for every group, computed in threads."""
        return [future.result() for future in [self._pool.submit(function, group) for group in self.groups]]

    def _arrays(self, plan: RolloutPlan) -> dict[str, np.ndarray]:
        if plan.steps not in self._buffers:
            self._buffers = {plan.steps: plan.allocate(self.lane_count)}
        return self._buffers[plan.steps]
