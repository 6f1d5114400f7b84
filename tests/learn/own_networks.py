"""Networks of a user's own: one of compiled operations, one that torch has to play, one that reads graphs."""

from __future__ import annotations

import torch
from torch import nn

from slipstream.networks import segment_attend, segment_max, segment_mean, segment_sum, spread


class Pooled(nn.Module):
    """Pools, sums, activations and norms that compiled code has too."""

    def __init__(self, columns, width=16):
        super().__init__()
        self.row = nn.Linear(len(columns.rows), width)
        self.globals = nn.Linear(len(columns.globals), width)
        self.norm = nn.LayerNorm(width)
        self.mean, self.peak, self.heads = (nn.Linear(width, width) for _ in range(3))
        self.scores = nn.Linear(width, 4)
        self.deep = nn.Sequential(nn.Linear(width, width), nn.Identity())
        self.logit = nn.Linear(width, 1)
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 1))

    def forward(self, rows, offsets, global_rows):
        hidden = torch.relu(self.norm(self.row(rows) + spread(self.globals(global_rows), offsets)))
        context = self.mean(segment_mean(hidden, offsets)) + self.peak(segment_max(hidden, offsets))
        context = nn.functional.relu(context + self.heads(segment_attend(hidden, self.scores(hidden), offsets)))
        deep = torch.tanh(spread(context, offsets) + self.deep(hidden))
        return self.logit(deep).squeeze(-1), self.value(context).squeeze(1)


class Products(nn.Module):
    """Products of vectors, which are no operation of compiled code."""

    def __init__(self, columns, width=8):
        super().__init__()
        self.row = nn.Linear(len(columns.rows), width)
        self.gate = nn.Linear(len(columns.globals), width)
        self.logit, self.value = nn.Linear(width, 1), nn.Linear(width, 1, bias=False)
        self.register_buffer("number", torch.tensor(3))
        self.frozen = nn.Parameter(torch.ones(()), requires_grad=False)

    def forward(self, rows, offsets, global_rows):
        hidden = torch.relu(self.row(rows)) * torch.sigmoid(spread(self.gate(global_rows), offsets)) * self.frozen
        return self.logit(hidden).squeeze(1), self.value(segment_mean(hidden, offsets)).squeeze(1)


class GraphSums(nn.Module):
    """Sums over the parents of a node, added to the row of its candidate."""

    reads_graph = True

    def __init__(self, columns, width=8):
        super().__init__()
        self.node, self.row = nn.Linear(len(columns.nodes), width), nn.Linear(len(columns.rows), width)
        self.logit, self.value = nn.Linear(width, 1), nn.Linear(len(columns.globals), 1)

    def forward(self, rows, offsets, global_rows, graph):
        own = torch.relu(self.node(graph.nodes))
        parents, children = graph.edges
        vectors = own.index_add(0, parents, own[children])
        known = (graph.node_of >= 0).unsqueeze(1)
        taken = vectors[graph.node_of.clamp(min=0)] * known if len(vectors) else vectors.new_zeros(len(rows), 8)
        return self.logit(torch.relu(self.row(rows) + taken)).squeeze(1), self.value(global_rows).squeeze(1)


class Wide(Products):
    """Returns logits of the wrong shape."""

    def forward(self, rows, offsets, global_rows):
        logits, values = super().forward(rows, offsets, global_rows)
        return logits.unsqueeze(1), values


class Mixed(Products):
    """Logits that depend on the other choices of the batch."""

    def forward(self, rows, offsets, global_rows):
        logits, values = super().forward(rows, offsets, global_rows)
        return logits + rows.mean(), values


class Summed(Products):
    """Sums over rows, which compiled code does not have."""

    def forward(self, rows, offsets, global_rows):
        hidden = self.row(rows)
        return self.logit(hidden).squeeze(1), self.value(segment_sum(hidden, offsets)).squeeze(1)


class Faulty(nn.Module):
    """Divides by zero when it is made."""

    def __init__(self, columns):
        super().__init__()
        self.width = 1 / 0
