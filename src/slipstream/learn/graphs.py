"""Encoders for work that is a graph: every node learns what lies around it.

A family whose jobs are graphs puts an encoder before its candidate scorer: nodes and edges in, a vector per node and
per graph out. An encoder does not care how many nodes there are nor how they are numbered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch_geometric.nn import SimpleConv, global_add_pool


class GraphEncoder(nn.Module, ABC):
    """Vectors for the nodes of several graphs, and one for each graph."""

    width: int

    @abstractmethod
    def forward(self, nodes: Tensor, edges: Tensor, graph_of: Tensor, graphs: int) -> tuple[Tensor, Tensor]:
        """Return (N, width) and (graphs, width).

        Args:
            nodes: (N, columns), the nodes of all graphs one behind the other.
            edges: (2, E), from a parent to a child.
            graph_of: (N,), the graph of every node.
            graphs: How many graphs there are.
        """


class UpstreamSums(GraphEncoder):
    """What Decima computes (Mao et al. 2019): a node's vector has in it a learned sum over those of its children.

    Each of `rounds` rounds carries information one edge further up, from children to parents; a node then knows of the
    work that waits for it within so many edges.
    """

    def __init__(self, columns: int, width: int = 16, rounds: int = 6) -> None:
        super().__init__()
        self.width, self.rounds = width, rounds
        self.entry = _perceptron(columns, width)
        self.message = _perceptron(width, width)
        self.merge = _perceptron(width, width)
        self.summary = _perceptron(columns + width, width)
        self.gather = SimpleConv(aggr="sum")

    def forward(self, nodes: Tensor, edges: Tensor, graph_of: Tensor, graphs: int) -> tuple[Tensor, Tensor]:
        """Return (N, width) and (graphs, width)."""
        start = self.entry(nodes)
        vectors, upward = start, edges.flip(0)
        for _ in range(self.rounds):
            vectors = start + self.merge(self.gather(self.message(vectors), upward))
        summed = global_add_pool(self.summary(torch.cat([nodes, vectors], 1)), graph_of, graphs)
        return vectors, summed


def _perceptron(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, n_out), nn.LeakyReLU(0.2), nn.Linear(n_out, n_out))
