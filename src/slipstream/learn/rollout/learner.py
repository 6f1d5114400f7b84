"""Improving a network from packed choices: compiled gradients in several threads, and the steps taken along them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.compiled.gradients import add_gradients, make_slopes
from slipstream.learn.compiled.objective import FIGURES, LESSON, Objective
from slipstream.learn.networks.networks import Scorer
from slipstream.learn.rollout.batch import Choices
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import NO_GRAPH, GraphRoom, lay_out

SERIAL_PRODUCT = 1 << 18
"""Multiplications up to which a matrix product runs in the thread that asks for it: beyond, OpenBLAS starts its own."""
CHOICES_PER_BLOCK = 64
LEAST_PER_THREAD = 32
"""Choices below which another thread costs more than it helps."""


@dataclass(frozen=True)
class Lessons:
    """Choices and what they teach."""

    choices: Choices
    lessons: np.ndarray
    """(S,) of `learn.objective.LESSON`."""
    worth: np.ndarray
    """What every packed candidate is worth; empty where the objective does not ask."""

    def __len__(self) -> int:
        return len(self.choices)

    @classmethod
    def of(
        cls,
        choices: Choices,
        taken: np.ndarray,
        gain: np.ndarray,
        log_chance: np.ndarray | None = None,
        goal: np.ndarray | None = None,
    ) -> Lessons:
        """Return lessons from what was taken; what an objective does not ask for may be left out."""
        lessons = np.zeros(len(choices), LESSON)
        lessons["taken"], lessons["gain"] = taken, gain
        if log_chance is not None:
            lessons["log_chance"] = log_chance
        if goal is not None:
            lessons["goal"] = goal
        return cls(choices, lessons, np.zeros(0, np.float32))


def minibatches(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the choices of an order in minibatches of about the same size."""
    return np.array_split(order, max(1, round(len(order) / size)))


class Learner:
    """A network of at most `most_candidates` a choice; its tensors become views of one vector, for compiled code."""

    def __init__(
        self, network: Scorer, most_candidates: int, threads: int = 1, most_of_graph: GraphRoom = NO_GRAPH
    ) -> None:
        self.network = network
        shapes = {name: tuple(tensor.shape) for name, tensor in network.tensors().items()}
        widths = (len(network.row_scale), len(network.global_scale))
        widest = max(int(np.prod(shape)) for shape in shapes.values())
        candidates = max(most_candidates, SERIAL_PRODUCT // widest)
        room = NO_GRAPH
        if network.reads_graph:
            own = network.settings.node_width
            nodes = max(most_of_graph.nodes, SERIAL_PRODUCT // (own * max(own, most_of_graph.columns)))
            room = GraphRoom(most_of_graph.columns, nodes, max(most_of_graph.edges, 2 * nodes))
        self.layout = lay_out(network.operations(), shapes, widths, candidates, CHOICES_PER_BLOCK, room)
        self.weights = self.layout.flat(network.arrays())
        tensors = network.tensors()
        for name, place, shape in self.layout.parameters:
            part = self.weights[place : place + int(np.prod(shape))]
            tensors[name].data = torch.from_numpy(part.reshape(shape[::-1])).t()
        self._gradients = np.zeros((threads, self.layout.weights), np.float32)
        self._structs = [
            (make_network(self.layout, self.weights), make_slopes(self.layout, g)) for g in self._gradients
        ]
        self._pool = ThreadPoolExecutor(threads)

    def gradient(
        self, lessons: Lessons, picks: np.ndarray, objective: Objective, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the picked choices' losses, each weighing `share`, and the sums of their terms."""
        parts = max(1, min(len(self._structs), len(picks) // LEAST_PER_THREAD))
        rules = objective.rules(float(self.network.value_scale), share)
        sums = np.zeros((parts, FIGURES))
        self._gradients[:parts] = 0.0
        seen = lessons.choices
        data = (seen.rows, seen.begin, seen.count, seen.global_rows, seen.graphs.arrays)
        futures = []
        for part, own in enumerate(np.array_split(picks, parts)):
            arguments = (*self._structs[part], *data, own, rules, lessons.lessons, lessons.worth, sums[part])
            if part + 1 < parts:
                futures.append(self._pool.submit(add_gradients, *arguments))
            else:
                add_gradients(*arguments)
        for future in futures:
            future.result()
        return self._gradients[:parts].sum(axis=0), sums.sum(axis=0)


class Descent:
    """Steps of Adam (Kingma and Ba 2015) down a learner's gradients."""

    def __init__(self, learner: Learner, learning_rate: float, gradient_norm: float, eps: float = 1e-8) -> None:
        """Gradients longer than `gradient_norm` are shortened to it."""
        self.learner, self.learning_rate, self.gradient_norm = learner, learning_rate, gradient_norm
        self._weights = torch.nn.Parameter(torch.from_numpy(learner.weights))
        self.optimizer = torch.optim.Adam([self._weights], lr=learning_rate, eps=eps)

    def slow_down(self, progress: float) -> None:
        """Let the learning rate fall linearly to a tenth as progress goes from 0 to 1."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * (1.0 - 0.9 * progress)

    def step(self, gradient: np.ndarray) -> None:
        """Take one step."""
        length = float(np.sqrt(gradient @ gradient))
        gradient *= min(1.0, self.gradient_norm / (length + 1e-6))
        self._weights.grad = torch.from_numpy(gradient)
        self.optimizer.step()

    def learn(self, lessons: Lessons, picks: np.ndarray, objective: Objective) -> np.ndarray:
        """Take one step from the mean loss of the picked choices; return the means of its terms."""
        gradient, sums = self.learner.gradient(lessons, picks, objective, 1.0 / len(picks))
        self.step(gradient)
        return sums / len(picks)
