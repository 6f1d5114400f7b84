"""Groups of lanes that play elsewhere: a piece of work takes their state along and brings it back changed.

So no worker holds anything that could be lost: if one dies, its piece is played again from the same state, with the
same draws, and nobody can tell.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.learn.rollout.rollout import PACKED, Group, LanePool, Play, Rollout
from slipstream.policies.base import Heuristic, find
from slipstream.scale.executor import Executor
from slipstream.scenario import digest

KEPT_GROUPS = 64

_groups: OrderedDict[tuple[Any, ...], Group] = OrderedDict()
"""Groups that this worker built, by what they were built of: they serve whoever sends a state."""

State = list[np.ndarray]


def _state(group: Group) -> State:
    return [array.copy() for array in (*group.arrays.values(), group.expected)]


def _restore(group: Group, state: State) -> None:
    for array, saved in zip((*group.arrays.values(), group.expected), state, strict=True):
        array[...] = saved


@dataclass(frozen=True)
class _Recipe:
    """What a group is built of."""

    scenario: Any
    digest: str
    first_lane: int
    count: int

    def group(self, graph: bool, judges: Sequence[str]) -> Group:
        key = (self.digest, self.count, graph, *judges)
        if key not in _groups:
            found = [find(name, self.scenario.family) for name in judges]
            heuristics = [judge for judge in found if isinstance(judge, Heuristic)]
            _groups[key] = Group(self.scenario, self.first_lane, self.count, graph, heuristics)
            while len(_groups) > KEPT_GROUPS:
                _groups.popitem(last=False)
        group = _groups[key]
        group.first_lane = self.first_lane
        return group


@dataclass(frozen=True)
class _Elsewhere:
    """The work of applying a function to groups: of a recipe and a state, it makes a result and the state after it."""

    function: Callable[[Group], Any]
    graph: bool
    judges: tuple[str, ...]

    def __call__(self, item: tuple[_Recipe, State]) -> tuple[Any, State]:
        recipe, state = item
        group = recipe.group(self.graph, self.judges)
        _restore(group, state)
        return self.function(group), _state(group)


@dataclass(frozen=True)
class _Part:
    """The part of a rollout that a group plays, packed into arrays of its own."""

    play: Play

    def __call__(self, group: Group) -> dict[str, np.ndarray]:
        arrays = self.play.room(group.count)
        rows, nodes, edges = self.play.into(group, arrays, (0, 0, 0))
        ends = {"rows": rows, "row_node": rows, "nodes": nodes, "node_job": nodes, "edges": edges}
        shared = ("free", "graph_free")
        return {name: array[: ends.get(name)].copy() for name, array in arrays.items() if name not in shared}


class FarmedPool(LanePool):
    """Groups of lanes that an executor plays; what comes back is what this process would have played."""

    def __init__(
        self,
        executor: Executor,
        scenarios: Sequence[Any],
        lane_count: int,
        graph: bool = False,
        judges: Sequence[Heuristic] = (),
    ) -> None:
        """See `LanePool`."""
        super().__init__(scenarios, lane_count, 1, graph, judges)
        self.executor = executor
        self._reads_graph, self._judges = graph, tuple(judge.name for judge in judges)
        self._recipes = [_Recipe(one.scenario, digest(one.scenario), one.first_lane, one.count) for one in self.groups]

    def map(self, function: Callable[[Group], Any]) -> list[Any]:
        """Return what a function, which is sent out, gives for every group."""
        work = _Elsewhere(function, self._reads_graph, self._judges)
        items = [(recipe, _state(group)) for recipe, group in zip(self._recipes, self.groups, strict=True)]
        results = []
        for group, (result, state) in zip(self.groups, self.executor.map(work, items), strict=True):
            _restore(group, state)
            results.append(result)
        return results

    def play(self, play: Play) -> Rollout:
        """Let every group play its part of a rollout, and put the parts where `LanePool` has them."""
        arrays = self._arrays(play)
        for group, part in zip(self.groups, self.map(_Part(play)), strict=True):
            rows, nodes, edges = play.stretch(group)
            first = {"rows": rows, "row_node": rows, "nodes": nodes, "node_job": nodes, "edges": edges}
            for name, found in part.items():
                at = first[name] if name in PACKED else group.first_lane
                arrays[name][at : at + len(found)] = found
            own = slice(group.first_lane, group.first_lane + group.count)
            arrays["begin"][own] += rows
            arrays["places"]["node_begin"][own] += nodes
            arrays["places"]["edge_begin"][own] += edges
        return Rollout(arrays)
