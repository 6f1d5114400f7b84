"""Scaling of a network's inputs, measured once from observed choices."""

from __future__ import annotations

import numpy as np
import torch

from slipstream.families.contract import Family
from slipstream.learn.networks.networks import Scorer
from slipstream.learn.rollout.batch import Choices

MEASURED_CHOICES = 20_000
"""Choices from which the scales of inputs are measured."""
LOG_RANGE = 100.0
"""Ratio of a column's mean size to the size below which its logarithm is linear."""
LEAST_DEVIATION = 0.02
"""Lower limit of the deviation that a column is divided by."""


def scale_inputs(
    network: Scorer, family: Family, seen: Choices, global_rows: np.ndarray, hidden: tuple[str, ...]
) -> None:
    """Set the scales of rows, globals and, where the network reads them, nodes; columns of `hidden` get a scale of 0.

    Sums over a graph are scaled by the mean number of nodes per job, and of jobs per choice.
    """
    rows = [*family.candidate_features.observed.names, *network.guides]
    _set_scale(network.row_scale, network.row_shift, seen.rows, rows, hidden)
    names = family.global_features.observed.names
    _set_scale(network.global_scale, network.global_shift, global_rows, names, hidden)
    if network.settings.logarithms:
        for kind, values, columns in (("row", seen.rows, rows), ("global", global_rows, names)):
            logs = _set_resolution(network.get_buffer(f"{kind}_resolution"), values)
            scale, shift = network.get_buffer(f"{kind}_log_scale"), network.get_buffer(f"{kind}_log_shift")
            _set_scale(scale, shift, logs, columns, hidden)
    if not network.reads_graph:
        return
    graphs = seen.graphs
    scale, shift = network.get_buffer("node_scale"), network.get_buffer("node_shift")
    _set_scale(scale, shift, graphs.nodes, family.node_features.observed.names, hidden)
    jobs, buffers = int(graphs.spans["jobs"].sum()), dict(network.named_buffers())
    for name, share in (("job_scale", jobs / len(graphs.nodes)), ("total_scale", len(graphs.spans) / jobs)):
        if name in buffers:
            buffers[name][:] = share


def _set_resolution(resolution: torch.Tensor, values: np.ndarray) -> np.ndarray:
    """Set the factors of columns before their logarithm by their mean size where they are not 0; return the logarithms.

    What is far below the mean divided by `LOG_RANGE` stays linear.
    """
    size = np.abs(values)
    mean = size.sum(axis=0) / np.maximum(1, (size > 0.0).sum(axis=0))
    factor = (LOG_RANGE / np.where(mean > 0.0, mean, LOG_RANGE)).astype(np.float32)
    resolution[:] = torch.from_numpy(factor)
    return np.asarray(np.sign(values) * np.log1p(size * factor))


def _set_scale(
    scale: torch.Tensor, shift: torch.Tensor, values: np.ndarray, names: list[str], hidden: tuple[str, ...]
) -> None:
    """Scale columns to mean 0 and deviation 1; hide those of `hidden` and those that never vary."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    factor = 1.0 / np.maximum(deviation, LEAST_DEVIATION)
    factor[[name in hidden for name in names] | (deviation < 1e-6)] = 0.0
    scale[:] = torch.from_numpy(factor.astype(np.float32))
    shift[:] = torch.from_numpy((-mean * factor).astype(np.float32))
