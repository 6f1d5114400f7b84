"""Gradient steps on packed choices: compiled gradients in several threads, and the optimizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.compiled.gradients import accumulate_gradients, make_gradients
from slipstream.learn.compiled.objective import N_STATS, SAMPLE, Objective
from slipstream.learn.networks.networks import Scorer
from slipstream.learn.rollout.batch import Choices
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import MOST_EDGES, NO_GRAPH, GraphCapacity, Layout, lay_out

SERIAL_PRODUCT = 1 << 18
"""Multiplications up to which OpenBLAS computes a matrix product in the calling thread."""
CHOICES_PER_BLOCK = 64
LEAST_PER_THREAD = 32
"""Fewest choices per thread: below, another thread costs more than it saves."""


@dataclass(frozen=True)
class Batch:
    """Choices with the targets of their losses."""

    choices: Choices
    samples: np.ndarray
    """(S,) of SAMPLE."""
    action_values: np.ndarray
    """Value of every packed candidate, for the objective EXPECTED; empty for the others."""

    def __len__(self) -> int:
        return len(self.choices)

    @classmethod
    def of(
        cls,
        choices: Choices,
        taken: np.ndarray,
        advantage: np.ndarray,
        log_prob: np.ndarray | None = None,
        value_target: np.ndarray | None = None,
    ) -> Batch:
        """Return a batch from the candidates taken; targets that the objective does not use may be left out."""
        samples = np.zeros(len(choices), SAMPLE)
        samples["taken"], samples["advantage"] = taken, advantage
        if log_prob is not None:
            samples["log_prob"] = log_prob
        if value_target is not None:
            samples["value_target"] = value_target
        return cls(choices, samples, np.zeros(0, np.float32))


def minibatches(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Split `order` into minibatches of about `size` choices."""
    return np.array_split(order, max(1, round(len(order) / size)))


class Learner:
    """Network for choices of up to `candidate_capacity` candidates; its tensors become views of one vector."""

    def __init__(
        self, network: Scorer, candidate_capacity: int, threads: int = 1, graph_capacity: GraphCapacity = NO_GRAPH
    ) -> None:
        self.network = network
        self.layout = self._layout(candidate_capacity, graph_capacity)
        self.weights = self.layout.flat(network.arrays())
        tensors = network.tensors()
        for name, offset, shape in self.layout.parameters:
            part = self.weights[offset : offset + int(np.prod(shape))]
            tensors[name].data = torch.from_numpy(part.reshape(shape[::-1])).t()
        self._gradients = np.zeros((threads, self.layout.weights), np.float32)
        self._make_structs()
        self._pool = ThreadPoolExecutor(threads)

    def _layout(self, candidate_capacity: int, graph_capacity: GraphCapacity) -> Layout:
        """Return the layout for choices of these capacities, or of the greatest whose products stay serial."""
        network = self.network
        shapes = {name: tuple(tensor.shape) for name, tensor in network.tensors().items()}
        widths = (len(network.row_scale), len(network.global_scale))
        widest = max(int(np.prod(shape)) for shape in shapes.values())
        candidates = max(candidate_capacity, SERIAL_PRODUCT // widest)
        graph = NO_GRAPH
        if network.reads_graph:
            own = network.settings.node_width
            nodes = max(graph_capacity.nodes, SERIAL_PRODUCT // (own * max(own, graph_capacity.columns)))
            graph = GraphCapacity(graph_capacity.columns, nodes, max(graph_capacity.edges, 2 * nodes))
        return lay_out(network.operations(), shapes, widths, candidates, CHOICES_PER_BLOCK, graph, network.heuristics)

    def _make_structs(self) -> None:
        self._structs = [
            (make_network(self.layout, self.weights), make_gradients(self.layout, g)) for g in self._gradients
        ]

    def enlarge(self, candidate_capacity: int, graph_capacity: GraphCapacity) -> None:
        """Raise the capacities to at least these; weights stay."""
        candidates, _, nodes = self.layout.capacities
        edges = int(self.layout.ports[MOST_EDGES])
        if candidate_capacity > candidates or graph_capacity.nodes > nodes or graph_capacity.edges > edges:
            graph = GraphCapacity(
                graph_capacity.columns, max(nodes, graph_capacity.nodes), max(edges, graph_capacity.edges)
            )
            self.layout = self._layout(max(candidates, candidate_capacity), graph)
            self._make_structs()

    def gradient(
        self, batch: Batch, picks: np.ndarray, objective: Objective, weight: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the picked choices' losses, each with weight `weight`, and the sums of their terms."""
        parts = max(1, min(len(self._structs), len(picks) // LEAST_PER_THREAD))
        loss_settings = objective.as_array(float(self.network.value_scale), weight)
        sums = np.zeros((parts, N_STATS))
        self._gradients[:parts] = 0.0
        seen = batch.choices
        data = (seen.rows, seen.begin, seen.count, seen.global_rows, seen.graphs.arrays)
        futures = []
        for part, own in enumerate(np.array_split(picks, parts)):
            arguments = (
                *self._structs[part],
                *data,
                own,
                loss_settings,
                batch.samples,
                batch.action_values,
                sums[part],
            )
            if part + 1 < parts:
                futures.append(self._pool.submit(accumulate_gradients, *arguments))
            else:
                accumulate_gradients(*arguments)
        for future in futures:
            future.result()
        return self._gradients[:parts].sum(axis=0), sums.sum(axis=0)


class Optimizer:
    """Adam (Kingma and Ba 2015) on the gradients of a learner, with a learning rate that falls linearly."""

    def __init__(self, learner: Learner, learning_rate: float, max_grad_norm: float, eps: float = 1e-8) -> None:
        """Gradients with a norm above `max_grad_norm` are scaled down to it."""
        self.learner, self.learning_rate, self.max_grad_norm = learner, learning_rate, max_grad_norm
        self._weights = torch.nn.Parameter(torch.from_numpy(learner.weights))
        self.adam = torch.optim.Adam([self._weights], lr=learning_rate, eps=eps)

    def anneal(self, progress: float) -> None:
        """Set the learning rate for `progress` from 0 to 1: it falls linearly to a tenth."""
        for group in self.adam.param_groups:
            group["lr"] = self.learning_rate * (1.0 - 0.9 * progress)

    def step(self, gradient: np.ndarray) -> None:
        """Clip `gradient` and take one step of Adam."""
        length = float(np.sqrt(gradient @ gradient))
        gradient *= min(1.0, self.max_grad_norm / (length + 1e-6))
        self._weights.grad = torch.from_numpy(gradient)
        self.adam.step()

    def learn(self, batch: Batch, picks: np.ndarray, objective: Objective) -> np.ndarray:
        """Take one step on the mean loss of the picked choices; return the means of its terms."""
        gradient, sums = self.learner.gradient(batch, picks, objective, 1.0 / len(picks))
        self.step(gradient)
        return sums / len(picks)
