"""Inputs of a network: columns of the observations, and packed graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from slipstream.families.contract import Family


@dataclass(frozen=True)
class Columns:
    """Names of the columns that a network reads."""

    rows: tuple[str, ...]
    """Columns of a candidate."""
    globals: tuple[str, ...]
    """Columns of the globals."""
    nodes: tuple[str, ...] = ()
    """Columns of a node of the graph; empty in families whose work is no graph."""

    @classmethod
    def of(cls, family: Family) -> Columns:
        """Return the observed columns of a family."""
        tables = (family.candidate_features, family.global_features, family.node_features)
        return cls(*(tuple(table.observed.names) for table in tables))


@dataclass(frozen=True)
class GraphInputs:
    """Concatenated graphs of several choices; indices of nodes and jobs count through all graphs."""

    nodes: Tensor
    """(M, columns) float32."""
    edges: Tensor
    """(2, E) int64, from a parent to a child."""
    job_of: Tensor
    """(M,) int64: the job of every node."""
    choice_of: Tensor
    """(jobs,) int64: the choice of every job."""
    node_of: Tensor
    """(N,) int64: the node of every row, -1 if it has none."""


def reads_graph(network: nn.Module | type[nn.Module]) -> bool:
    """Return whether a network of a user's own, or its class, reads the graph of a choice."""
    return bool(getattr(network, "reads_graph", False))


def run_scaled(
    module: nn.Module,
    scales: Mapping[str, Tensor],
    rows: Tensor,
    offsets: Tensor,
    global_rows: Tensor,
    graph: GraphInputs | None,
) -> tuple[Tensor, Tensor]:
    """Return logits and values of `module` for inputs that are scaled by `scales` (x * scale + shift)."""
    inputs = [
        rows * scales["row_scale"] + scales["row_shift"],
        offsets,
        global_rows * scales["global_scale"] + scales["global_shift"],
    ]
    if graph is None:
        logits, values = module(*inputs)
    else:
        nodes = graph.nodes * scales["node_scale"] + scales["node_shift"]
        logits, values = module(*inputs, replace(graph, nodes=nodes))
    return logits, values * scales["value_scale"] + scales["value_shift"]


def offsets_of(counts: Tensor) -> Tensor:
    """Return the offsets of choices with `counts` rows each: 0, and the sums up to each choice."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
