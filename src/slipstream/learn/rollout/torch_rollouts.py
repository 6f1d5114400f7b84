"""Rollouts of lanes that play by a network in torch, for networks that compiled code cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from slipstream.families.contract import Scenario
from slipstream.learn.compiled.collect import NO_EXPERT, make_rollout
from slipstream.learn.compiled.stepwise import observe_lanes, take_candidates
from slipstream.learn.networks.networks import Scorer
from slipstream.learn.rollout.batch import Choices, Graphs
from slipstream.learn.rollout.rollout import PACKED, Group, LanePool, Rollout, RolloutPlan
from slipstream.policies.base import Heuristic
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import GLOBALS, LOGITS, ROWS, VALUE, GraphCapacity, Layout, Operation, lay_out


def inputs_layout(widths: tuple[int, int], candidates: int, graph: GraphCapacity) -> Layout:
    """Return the layout of a network that holds the inputs of a choice, its logits and its value."""
    shapes = {"row": (1, widths[0]), "choice": (1, widths[1]), "bias": (1,)}
    operations = [
        Operation("linear", ROWS, LOGITS, "row", "bias"),
        Operation("linear", GLOBALS, VALUE, "choice", "bias"),
    ]
    return lay_out(operations, shapes, widths, candidates, graph=graph)


def score(network: Scorer, choices: Choices) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits of choices that are packed without gaps, and their values."""
    counts = torch.from_numpy(choices.count.astype(np.int64))
    inputs = [torch.from_numpy(choices.rows), torch.from_numpy(choices.global_rows), counts]
    graph = []
    if network.reads_graph:
        from slipstream.learn.networks.graphs import PackedGraphs  # which imports torch_geometric

        graph = [PackedGraphs.of(choices)]
    logits, values = network(*inputs, *graph)
    return logits, values


class TorchPool(LanePool):
    """Groups of lanes whose choices a network in torch scores, those of all groups together."""

    def __init__(
        self,
        network: Scorer,
        scenarios: Sequence[Scenario],
        lane_count: int,
        judges: Sequence[Heuristic] = (),
        bounds: Sequence[int] | None = None,
        timescales: Sequence[float] | None = None,
    ) -> None:
        """See `LanePool`."""
        super().__init__(scenarios, lane_count, 1, network.reads_graph, judges, bounds, timescales)
        self.network = network
        self.legal = np.zeros((lane_count, self.candidates), np.int64)
        """Legal rows of every lane's observation, by candidate."""
        self.waiting = np.zeros(lane_count, np.int8)
        """Whether a lane plays the present step."""
        self._after: dict[str, np.ndarray] = {}

    def play(self, plan: RolloutPlan) -> Rollout:
        """Collect the rollout of `plan`: every lane takes a step, then every lane the next."""
        arrays = self._arrays(plan)
        if not self._after:
            self._after = replace(plan, steps=1).allocate(self.lane_count)
        players = [_GroupPlayer(self, group, plan, arrays, self._after) for group in self.groups]
        arrays["length"][:] = 0
        for step in range(plan.steps):
            for player in players:
                player.observe(step)
            asked = np.flatnonzero(self.waiting)
            if not len(asked):
                break
            logits, values = self._score(arrays, asked, step)
            rows = np.cumsum(arrays["count"][asked, step])
            for player in players:
                own = slice(*np.searchsorted(asked, (player.own.start, player.own.stop)))
                first, end = (0 if at == 0 else int(rows[at - 1]) for at in (own.start, own.stop))
                player.take(step, logits[first:end], values[own])
            ended = np.flatnonzero(self._after["length"])
            if len(ended):
                arrays["next_value"][ended, step] = self._score(self._after, ended, 0)[1]
        return Rollout(arrays)

    def _score(self, arrays: dict[str, np.ndarray], lanes: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits and values of the network for the observations of some lanes at a step."""
        graphs = Graphs()
        if arrays["spans"].size:
            packed = {name: arrays[name] for name in Graphs.PACKED}
            graphs = Graphs(**packed, spans=arrays["spans"][lanes, step])
        global_rows, begin, count = (arrays[name][lanes, step] for name in ("globals", "begin", "count"))
        choices = Choices(arrays["rows"], global_rows, begin, count, graphs)
        with torch.no_grad():
            logits, values = score(self.network, choices.picked(np.arange(len(lanes))))
        return logits.numpy(), values.numpy()


class _GroupPlayer:
    """Compiled structs of one group during a rollout."""

    def __init__(
        self,
        pool: TorchPool,
        group: Group,
        plan: RolloutPlan,
        arrays: dict[str, np.ndarray],
        after: dict[str, np.ndarray],
    ) -> None:
        self.group, self.plan = group, plan
        self.own = slice(group.first_lane, group.first_lane + group.count)
        self._legal, self._waiting = pool.legal[self.own], pool.waiting[self.own]
        form, address = (NO_EXPERT, 0) if plan.expert is None else (plan.expert.form, plan.expert.address)
        self._expert = (form, address, plan.expert_probability)
        if plan.expert is not None:
            group.set_parameter(plan.expert)
            plan.expert.prepare_for(group.scenario)
        network = make_network(plan.layout, np.zeros(plan.layout.weights, np.float32))
        rollout = make_rollout(self._own_part(arrays, plan.offsets(group)))
        self._structs = (group.spec, group.state, group.buffer, network, rollout)
        self._after_offsets = replace(plan, steps=1).offsets(group)
        self._after_arrays = self._own_part(after, self._after_offsets)
        self._after = make_rollout(self._after_arrays)

    def _own_part(self, arrays: dict[str, np.ndarray], offsets: tuple[int, int, int]) -> dict[str, np.ndarray]:
        """Return the group's part of arrays of all lanes, packed from `offsets` on."""
        own = {name: array if name in PACKED else array[self.own] for name, array in arrays.items()}
        return {**own, "free": np.array(offsets[:1]), "graph_free": np.array(offsets[1:])}

    def observe(self, step: int) -> None:
        """Store the observations of the lanes that play a step."""
        observe_lanes(*self._structs, self.group.raw, self._legal, self._waiting, step, self.plan.until_end)

    def take(self, step: int, logits: np.ndarray, values: np.ndarray) -> None:
        """Take a candidate in every lane that plays the step, by packed logits."""
        self._after_arrays["free"][:] = self._after_offsets[:1]
        self._after_arrays["graph_free"][:] = self._after_offsets[1:]
        lanes = (self._legal, self._waiting, logits, values, step, self.group.raw, *self._expert)
        key = np.uint64(self.plan.draws)
        take_candidates(*self._structs, self._after, *lanes, self.group.judging, key, self.group.first_lane)
