"""Gradients by autograd: the losses of the compiled learner in torch, for any network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.learn.compiled.objective import CLIPPED, EXPECTED, N_STATS, Objective
from slipstream.learn.networks.networks import Scorer, packed_entropy, packed_log_softmax
from slipstream.learn.networks.own import is_compilable, trainable
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import LEAST_PER_THREAD, Batch, Learner
from slipstream.learn.rollout.torch_rollouts import inputs_layout, score
from slipstream.policies.operations import NO_GRAPH, GraphCapacity, Layout

ALIGNED = 16
"""Weights of a parameter begin at a multiple of this many numbers: results of matrix products may depend on it."""


@dataclass(frozen=True)
class _Slot:
    """Where the flat weights hold a parameter."""

    offset: int
    shape: tuple[int, ...]
    transposed: bool

    def of(self, flat: np.ndarray) -> Tensor:
        """Return the parameter as a view of the flat weights."""
        part = torch.from_numpy(flat)[self.offset : self.offset + int(np.prod(self.shape))]
        return part.reshape(self.shape[::-1]).t() if self.transposed else part.reshape(self.shape)


class TorchLearner(Learner):
    """Learner whose gradients autograd computes.

    Where the network can be compiled, lanes play it compiled, and weights have the layout of compiled code; otherwise
    the layout holds inputs and outputs alone.
    """

    def __init__(
        self, network: Scorer, candidate_capacity: int, threads: int = 1, graph_capacity: GraphCapacity = NO_GRAPH
    ) -> None:
        """See `Learner`."""
        parameters = trainable(network)
        if is_compilable(network):
            super().__init__(network, candidate_capacity, 1, graph_capacity)
            self._slots = {name: _Slot(at, shape, True) for name, at, shape in self.layout.parameters}
        else:
            self.network = network
            self.layout = self._layout(candidate_capacity, graph_capacity)
            self._slots, size = {}, 0
            for name, parameter in parameters.items():
                self._slots[name] = _Slot(size, tuple(parameter.shape), False)
                size += -(-parameter.numel() // ALIGNED) * ALIGNED
            self.weights = torch.zeros(size).numpy()
            for name, parameter in parameters.items():
                view = self._slots[name].of(self.weights)
                view.copy_(parameter.data)
                parameter.data = view
        self._parameters = parameters
        self._threads = threads
        self._torch_pool = ThreadPoolExecutor(threads)

    def _layout(self, candidate_capacity: int, graph_capacity: GraphCapacity) -> Layout:
        if is_compilable(self.network):
            return super()._layout(candidate_capacity, graph_capacity)
        widths = (len(self.network.row_scale), len(self.network.global_scale))
        return inputs_layout(widths, candidate_capacity, graph_capacity)

    def _make_structs(self) -> None:
        if is_compilable(self.network):
            super()._make_structs()

    def gradient(
        self, batch: Batch, picks: np.ndarray, objective: Objective, weight: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the picked choices' losses, each with weight `weight`, and the sums of their terms."""
        parts = np.array_split(picks, max(1, min(self._threads, len(picks) // LEAST_PER_THREAD)))
        futures = [self._torch_pool.submit(self._gradient_of, batch, part, objective, weight) for part in parts]
        gradients, sums = zip(*(future.result() for future in futures), strict=True)
        return np.sum(gradients, axis=0), np.sum(sums, axis=0)

    def _gradient_of(
        self, batch: Batch, picks: np.ndarray, objective: Objective, weight: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and the sums of the terms of some choices, in one thread."""
        choices = batch.choices.picked(picks)
        loss, sums = summed_loss(self.network, batch, choices, picks, objective)
        learned = list(self._parameters.values())
        found = torch.autograd.grad(loss * weight, learned, allow_unused=True)
        flat = np.zeros_like(self.weights)
        for name, gradient in zip(self._parameters, found, strict=True):
            if gradient is not None:
                self._slots[name].of(flat).copy_(gradient)
        return flat, sums


def summed_loss(
    network: Scorer, batch: Batch, choices: Choices, picks: np.ndarray, objective: Objective
) -> tuple[Tensor, np.ndarray]:
    """Return the sum of the losses of the picked `choices` of a batch, and the sums of their terms.

    The terms are those of `learn.compiled.objective`: policy, value, entropy, KL divergence, clipped ratios.
    """
    logits, values = score(network, choices)
    count, samples = len(choices), batch.samples[picks]
    choice_of = torch.repeat_interleave(torch.arange(count), torch.from_numpy(choices.count.astype(np.int64)))
    log_probs = packed_log_softmax(logits, choice_of, count)
    stats = [torch.zeros(())] * N_STATS
    if objective.term == EXPECTED:
        action_values = torch.from_numpy(batch.action_values[batch.choices.rows_of(picks)])
        policy = -(log_probs.exp() * action_values).sum()
    else:
        taken = log_probs[torch.from_numpy(choices.begin + samples["taken"])]
        advantage = torch.from_numpy(samples["advantage"].copy())
        if objective.term == CLIPPED:
            change = taken - torch.from_numpy(samples["log_prob"].copy())
            ratio = change.exp()
            clipped = ratio.clamp(1.0 - objective.clip_range, 1.0 + objective.clip_range)
            policy = -torch.min(ratio * advantage, clipped * advantage).sum()
            stats[3:] = (ratio - 1.0 - change).sum(), (ratio != clipped).sum()
        else:
            policy = -(taken * advantage).sum()
    value_target = torch.from_numpy(samples["value_target"].copy())
    value = (((values - value_target) / network.value_scale) ** 2).sum()
    entropy = packed_entropy(log_probs, choice_of, count).sum()
    stats[:3] = policy, value, entropy
    loss = policy + objective.vf_coef * value - objective.ent_coef * entropy
    return loss, np.array([float(stat.detach()) for stat in stats])


def make_learner(
    network: Scorer, candidate_capacity: int, threads: int, graph_capacity: GraphCapacity, backend: str
) -> Learner:
    """Return the learner of `backend`, or that in torch where the network cannot be compiled."""
    kind = Learner if backend == "compiled" and is_compilable(network) else TorchLearner
    return kind(network, candidate_capacity, threads, graph_capacity)
