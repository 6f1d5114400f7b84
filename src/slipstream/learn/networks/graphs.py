"""Encoders for work that is a graph: nodes and edges in, a vector per node out.

A family whose jobs are graphs puts an encoder before its candidate scorer. The result does not depend on the numbering
of nodes. These are the definitions; compiled code (`policies.compiled.graphs`) computes the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

from slipstream.learn.rollout.batch import Choices
from slipstream.networks.inputs import GraphInputs


class PackedGraphs(GraphInputs):
    """Concatenated graphs of several choices."""

    @classmethod
    def of(cls, choices: Choices) -> PackedGraphs:
        """Return the graphs of choices that are packed without gaps."""
        graphs = choices.graphs
        sizes = {name: torch.from_numpy(graphs.spans[name].astype("int64")) for name in ("nodes", "edges", "jobs")}
        first = torch.cumsum(sizes["nodes"], 0) - sizes["nodes"]
        first_job = torch.cumsum(sizes["jobs"], 0) - sizes["jobs"]
        choice = torch.arange(len(choices))
        row_node = torch.from_numpy(graphs.row_node.astype("int64"))
        shift = torch.repeat_interleave(first, torch.from_numpy(choices.count.astype("int64")))
        return cls(
            torch.from_numpy(graphs.nodes),
            torch.from_numpy(graphs.edges.astype("int64")).t() + torch.repeat_interleave(first, sizes["edges"]),
            torch.from_numpy(graphs.node_job.astype("int64")) + torch.repeat_interleave(first_job, sizes["nodes"]),
            torch.repeat_interleave(choice, sizes["jobs"]),
            torch.where(row_node >= 0, row_node + shift, row_node),
        )


def levels(edges: Tensor, nodes: int) -> Tensor:
    """Return the level of each node: the number of edges on its longest path to a leaf."""
    found = torch.zeros(nodes, dtype=torch.long)
    while True:
        above = found.scatter_reduce(0, edges[0], found[edges[1]] + 1, "amax")
        if torch.equal(above, found):
            return found
        found = above


class MessagePassing(nn.Module):
    """Decima's message passing (Mao et al. 2019): h = start + update(merge(sum over children of message(h))).

    Every node is computed once, level by level from the leaves, which keep `start`. Message and merge have a ReLU,
    update is linear; a second linear layer of the message would be redundant with the merge, because only a sum is
    between them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Linear(width, width)
        self.merge = nn.Linear(width, width)
        self.update = nn.Linear(width, width)

    def forward(self, start: Tensor, edges: Tensor) -> Tensor:
        """Return the vectors of all nodes, (N, width)."""
        level_of = levels(edges, len(start))
        vectors = start
        for level in range(1, int(level_of.max()) + 1 if len(start) else 0):
            parents, children = edges[:, level_of[edges[0]] == level]
            messages = torch.relu(self.message(vectors[children]))
            nodes = torch.nonzero(level_of == level).squeeze(1)
            received = scatter(messages, parents, 0, len(start), reduce="sum")[nodes]
            vectors = vectors.index_add(0, nodes, self.update(torch.relu(self.merge(received))))
        return vectors
