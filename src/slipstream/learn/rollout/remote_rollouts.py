"""Rollouts on remote workers: a call carries the state of a group and returns the state after it.

Workers hold no state of their own, so a call that is lost with its worker is repeated elsewhere with the same result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.contract import Scenario
from slipstream.learn.rollout.rollout import PACKED, Group, LanePool, Rollout, RolloutPlan
from slipstream.policies.base import Heuristic, find
from slipstream.scale.executor import Executor
from slipstream.scenario import digest

KEPT_GROUPS = 64

_groups: OrderedDict[tuple[Any, ...], Group] = OrderedDict()
"""Groups that this worker built, by recipe; each call restores the state that came with it."""

State = list[np.ndarray]


def _state(group: Group) -> State:
    return [array.copy() for array in (*group.arrays.values(), group.expected)]


def _restore(group: Group, state: State) -> None:
    for array, saved in zip((*group.arrays.values(), group.expected), state, strict=True):
        array[...] = saved


@dataclass(frozen=True)
class _GroupRecipe:
    """What a group is built from."""

    scenario: Scenario
    digest: str
    first_lane: int
    count: int
    timescale: float
    expert: str | None

    def group(self, graph: bool, judges: Sequence[str]) -> Group:
        key = (self.digest, self.count, graph, *judges)
        if key not in _groups:
            found = [find(name, self.scenario.family) for name in judges]
            heuristics = [judge for judge in found if isinstance(judge, Heuristic)]
            _groups[key] = Group(self.scenario, self.first_lane, self.count, graph, heuristics, self.timescale)
            while len(_groups) > KEPT_GROUPS:
                _groups.popitem(last=False)
        group = _groups[key]
        group.first_lane, group.timescale = self.first_lane, self.timescale
        expert = None if self.expert is None else find(self.expert, self.scenario.family)
        group.expert = expert if isinstance(expert, Heuristic) else None
        return group


@dataclass(frozen=True)
class _RemoteCall:
    """Call of `function` on a group: takes its recipe and state, returns the result and the state after it."""

    function: Callable[[Group], Any]
    graph: bool
    judges: tuple[str, ...]

    def __call__(self, item: tuple[_GroupRecipe, State]) -> tuple[Any, State]:
        recipe, state = item
        group = recipe.group(self.graph, self.judges)
        _restore(group, state)
        return self.function(group), _state(group)


@dataclass(frozen=True)
class _RemoteRollout:
    """Rollout of one group, packed into arrays of its own."""

    plan: RolloutPlan

    def __call__(self, group: Group) -> dict[str, np.ndarray]:
        arrays = self.plan.allocate(group.count)
        rows, nodes, edges = self.plan.collect_into(group, arrays, (0, 0, 0))
        ends = {"rows": rows, "row_node": rows, "nodes": nodes, "node_job": nodes, "edges": edges}
        shared = ("free", "graph_free")
        return {name: array[: ends.get(name)].copy() for name, array in arrays.items() if name not in shared}


class RemotePool(LanePool):
    """Groups of lanes that play on an executor; the results are those of `LanePool`."""

    def __init__(
        self,
        executor: Executor,
        scenarios: Sequence[Scenario],
        lane_count: int,
        graph: bool = False,
        judges: Sequence[Heuristic] = (),
        bounds: Sequence[int] | None = None,
        timescales: Sequence[float] | None = None,
    ) -> None:
        """See `LanePool`."""
        super().__init__(scenarios, lane_count, 1, graph, judges, bounds, timescales)
        self.executor = executor
        self._reads_graph, self._judges = graph, tuple(judge.name for judge in judges)
        self._digests = [digest(group.scenario) for group in self.groups]

    def _recipe(self, group: Group, known: str) -> _GroupRecipe:
        expert = None if group.expert is None else group.expert.name
        own = group.first_lane, group.count, group.timescale, expert
        return _GroupRecipe(group.scenario, known, *own)

    def map(self, function: Callable[[Group], Any]) -> list[Any]:
        """Return the result of `function`, which is pickled, for every group."""
        work = _RemoteCall(function, self._reads_graph, self._judges)
        items = [
            (self._recipe(group, known), _state(group)) for group, known in zip(self.groups, self._digests, strict=True)
        ]
        results = []
        for group, (result, state) in zip(self.groups, self.executor.map(work, items), strict=True):
            _restore(group, state)
            results.append(result)
        return results

    def play(self, plan: RolloutPlan) -> Rollout:
        """Collect the rollout of `plan` remotely, and copy the groups' parts to where `LanePool` has them."""
        arrays = self._arrays(plan)
        for group, part in zip(self.groups, self.map(_RemoteRollout(plan)), strict=True):
            rows, nodes, edges = plan.offsets(group)
            first = {"rows": rows, "row_node": rows, "nodes": nodes, "node_job": nodes, "edges": edges}
            for name, found in part.items():
                at = first[name] if name in PACKED else group.first_lane
                arrays[name][at : at + len(found)] = found
            own = slice(group.first_lane, group.first_lane + group.count)
            arrays["begin"][own] += rows
            arrays["spans"]["node_begin"][own] += nodes
            arrays["spans"]["edge_begin"][own] += edges
        return Rollout(arrays)
