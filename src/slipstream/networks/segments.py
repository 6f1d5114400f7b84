"""Functions over packed rows: a segment is the rows of one choice, `values[offsets[c]:offsets[c + 1]]`.

Networks made of these, `nn.Linear`, `nn.LayerNorm`, ReLU, tanh and sums can be compiled
(`slipstream.learn.networks.translation`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

__all__ = ["choice_of_rows", "pad_rows", "segment_attend", "segment_max", "segment_mean", "segment_sum", "spread"]


def choice_of_rows(offsets: Tensor) -> Tensor:
    """Return the choice of every row, (N,)."""
    return torch.repeat_interleave(torch.arange(len(offsets) - 1, device=offsets.device), offsets.diff())


def spread(values: Tensor, offsets: Tensor) -> Tensor:
    """Return for every row the vector of its choice: (choices, width) becomes (N, width)."""
    if has_torch_function((values, offsets)):
        return handle_torch_function(spread, (values, offsets), values, offsets)
    return values[choice_of_rows(offsets)]


def segment_sum(values: Tensor, offsets: Tensor) -> Tensor:
    """Return the sum of the rows of each choice: (N, width) becomes (choices, width)."""
    if has_torch_function((values, offsets)):
        return handle_torch_function(segment_sum, (values, offsets), values, offsets)
    start = values.new_zeros((len(offsets) - 1, *values.shape[1:]))
    return start.index_add(0, choice_of_rows(offsets), values)


def segment_mean(values: Tensor, offsets: Tensor) -> Tensor:
    """Return the mean of the rows of each choice: (N, width) becomes (choices, width)."""
    if has_torch_function((values, offsets)):
        return handle_torch_function(segment_mean, (values, offsets), values, offsets)
    return segment_sum(values, offsets) / offsets.diff().unsqueeze(1)


def segment_max(values: Tensor, offsets: Tensor) -> Tensor:
    """Return the maximum of each column over the rows of each choice: (N, width) becomes (choices, width)."""
    if has_torch_function((values, offsets)):
        return handle_torch_function(segment_max, (values, offsets), values, offsets)
    start = values.new_full((len(offsets) - 1, values.shape[1]), -torch.inf)
    return start.scatter_reduce(0, choice_of_rows(offsets).unsqueeze(1).expand_as(values), values, "amax")


def segment_attend(values: Tensor, scores: Tensor, offsets: Tensor) -> Tensor:
    """Return the mean of the rows of each choice, weighted by the softmax of `scores` (N, heads).

    Every head weights its own share of the columns: (N, width) becomes (choices, width).
    """
    if has_torch_function((values, scores, offsets)):
        return handle_torch_function(segment_attend, (values, scores, offsets), values, scores, offsets)
    choice_of = choice_of_rows(offsets)
    weights = (scores - segment_max(scores.detach(), offsets)[choice_of]).exp()
    weights = weights / segment_sum(weights, offsets)[choice_of]
    parts = values.view(len(values), scores.shape[1], -1) * weights.unsqueeze(2)
    return segment_sum(parts.flatten(1), offsets)


def pad_rows(values: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as (choices, most rows, width), padded with zeros, and a mask of those that are not padding.

    `padded[mask]` is `values` again.
    """
    counts = offsets.diff()
    most = int(counts.max()) if len(counts) else 0
    mask = torch.arange(most, device=values.device) < counts.unsqueeze(1)
    padded = values.new_zeros((*mask.shape, *values.shape[1:]))
    padded[mask] = values
    return padded, mask
