"""Scoring packed choices by a network: compiled forward and backward passes that torch sees as one operation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.learn.gradients import add_gradients, make_slopes, score_choices
from slipstream.learn.networks import CandidateScorer
from slipstream.policies.inference import make_network
from slipstream.policies.operations import lay_out

SERIAL_PRODUCT = 1 << 18
"""Multiplications up to which a matrix product runs in the thread that asks for it: beyond, OpenBLAS starts its own."""
CHOICES_PER_BLOCK = 64


@dataclass(frozen=True)
class Choices:
    """Choices as they were seen: candidates packed one behind the other, and globals."""

    rows: np.ndarray
    """(N, F) float32."""
    global_rows: np.ndarray
    """(S, G) float32."""
    begin: np.ndarray
    """(S,) int64: where the candidates of a choice begin."""
    count: np.ndarray
    """(S,) int32: how many they are."""

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True)
class Scored:
    """Logits and values of some choices."""

    logits: Tensor
    values: Tensor
    choice_of: Tensor
    """Which of the choices a logit belongs to."""
    first: Tensor
    """Where the logits of a choice begin."""


def minibatches(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the choices of an order in minibatches of about the same size."""
    return np.array_split(order, max(1, round(len(order) / size)))


class Scorer:
    """Runs a network on packed choices of at most `most_candidates`, in several threads; torch gets the gradients."""

    def __init__(self, network: CandidateScorer, most_candidates: int, threads: int = 1) -> None:
        self.network = network
        self.threads = threads
        shapes = {name: tuple(tensor.shape) for name, tensor in network.tensors().items()}
        widths = (len(network.row_scale), len(network.global_scale))
        widest = max(int(np.prod(shape)) for shape in shapes.values())
        candidates = max(most_candidates, SERIAL_PRODUCT // widest)
        self.layout = lay_out(network.operations(), shapes, widths, candidates, CHOICES_PER_BLOCK)
        self.pool = ThreadPoolExecutor(threads)

    def flat_weights(self) -> Tensor:
        """Return the parameters as one vector, as the layout wants them."""
        tensors = self.network.tensors()
        return torch.cat([tensors[name].t().reshape(-1) for name, _, _ in self.layout.parameters])

    def score(self, choices: Choices, picks: np.ndarray) -> Scored:
        """Return logits and values of the picked choices."""
        counts = choices.count[picks].astype(np.int64)
        ends = np.cumsum(counts)
        work = _Work(self, choices, picks, ends - counts, int(ends[-1]))
        logits, values = _Score.apply(self.flat_weights(), work)  # type: ignore[no-untyped-call]
        choice_of = np.repeat(np.arange(len(picks)), counts)
        return Scored(logits, values, torch.from_numpy(choice_of), torch.from_numpy(work.offsets))


@dataclass
class _Work:
    """Which choices are scored, and where their logits go."""

    scorer: Scorer
    choices: Choices
    picks: np.ndarray
    offsets: np.ndarray
    logits: int

    def each_part(self, function: Any, structs: list[tuple[Any, ...]], packed: np.ndarray, each: np.ndarray) -> None:
        """Call a compiled function in every thread, on its structs and its part of the choices."""
        seen = (self.choices.rows, self.choices.begin, self.choices.count, self.choices.global_rows)
        sizes = np.array([self.scorer.layout.candidates, self.scorer.layout.choices])
        borders = np.linspace(0, len(self.picks), self.scorer.threads + 1).astype(int)
        futures = []
        for own, first, end in zip(structs, borders[:-1], borders[1:], strict=True):
            part = slice(first, end)
            arguments = (*own, sizes, *seen, self.picks[part], self.offsets[part], packed, each[part])
            futures.append(self.scorer.pool.submit(function, *arguments))
        for future in futures:
            future.result()


class _Score(torch.autograd.Function):
    """Weights to logits and values, through compiled code in both directions."""

    @staticmethod
    def forward(context: Any, weights: Tensor, work: _Work) -> tuple[Tensor, Tensor]:
        flat, layout = weights.detach().numpy(), work.scorer.layout
        networks = [make_network(layout, flat) for _ in range(work.scorer.threads)]
        logits, values = np.empty(work.logits, np.float32), np.empty(len(work.picks), np.float32)
        work.each_part(score_choices, [(network,) for network in networks], logits, values)
        context.work, context.networks = work, networks
        return torch.from_numpy(logits), torch.from_numpy(values)

    @staticmethod
    def backward(context: Any, d_logits: Tensor, d_values: Tensor) -> tuple[Tensor, None]:
        layout = context.work.scorer.layout
        gradients = np.zeros((len(context.networks), layout.weights), np.float32)
        slopes = [make_slopes(layout, gradient) for gradient in gradients]
        structs = list(zip(context.networks, slopes, strict=True))
        context.work.each_part(add_gradients, structs, d_logits.contiguous().numpy(), d_values.contiguous().numpy())
        return torch.from_numpy(gradients.sum(axis=0)), None
