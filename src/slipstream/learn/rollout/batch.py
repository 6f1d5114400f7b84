"""Ragged batches of decisions: candidate rows and graphs concatenated without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

SPAN = np.dtype([("node_begin", "i8"), ("edge_begin", "i8"), ("nodes", "i4"), ("edges", "i4"), ("jobs", "i4")])
"""Where the graph of a choice begins among the packed nodes and edges, and its sizes."""


def _empty(*shape: int, kind: str = "i4") -> np.ndarray:
    return np.zeros(shape, kind)


@dataclass(frozen=True)
class Graphs:
    """Graphs of choices; consecutive choices may share one. Empty where work is no graph."""

    nodes: np.ndarray = field(default_factory=lambda: _empty(0, 0, kind="f4"))
    """(M, columns) float32."""
    node_job: np.ndarray = field(default_factory=lambda: _empty(0))
    """(M,) int32: the job of each node, counted from 0 in each graph."""
    edges: np.ndarray = field(default_factory=lambda: _empty(0, 2))
    """(K, 2) int32: parent and child, counted from 0 in each graph."""
    row_node: np.ndarray = field(default_factory=lambda: _empty(0))
    """(N,) int32: the node of each packed candidate, counted from 0 in its graph; -1: none."""
    spans: np.ndarray = field(default_factory=lambda: np.zeros(0, SPAN))
    """(S,) of PLACE."""

    PACKED: ClassVar[tuple[str, ...]] = ("nodes", "node_job", "edges", "row_node")

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays, in the order that compiled code takes."""
        return self.nodes, self.node_job, self.edges, self.row_node, self.spans

    def picked(self, rows: np.ndarray, choices: np.ndarray) -> Graphs:
        """Return the graphs of some choices, packed anew; `rows` are the indices of their candidates."""
        if not len(self.spans):
            return self
        spans = self.spans[choices].copy()
        nodes = _range_indices(spans["node_begin"], spans["nodes"])
        edges = _range_indices(spans["edge_begin"], spans["edges"])
        spans["node_begin"] = np.cumsum(spans["nodes"]) - spans["nodes"]
        spans["edge_begin"] = np.cumsum(spans["edges"]) - spans["edges"]
        return Graphs(self.nodes[nodes], self.node_job[nodes], self.edges[edges], self.row_node[rows], spans)

    @classmethod
    def joined(cls, parts: Sequence[Graphs]) -> Graphs:
        """Return the concatenation of several parts."""
        spans = np.concatenate([part.spans for part in parts])
        for name, sizes in (("node_begin", "nodes"), ("edge_begin", "edges")):
            lengths = [len(getattr(part, sizes)) for part in parts]
            counts = [len(part.spans) for part in parts]
            spans[name] += np.repeat(np.cumsum(lengths) - lengths, counts)
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.PACKED}
        return cls(**joined, spans=spans)


@dataclass(frozen=True)
class Choices:
    """Ragged batch of decisions: packed candidates, globals, and graphs where there are any."""

    rows: np.ndarray
    """(N, F) float32."""
    global_rows: np.ndarray
    """(S, G) float32."""
    begin: np.ndarray
    """(S,) int64: first row of a choice."""
    count: np.ndarray
    """(S,) int32: number of its candidates."""
    graphs: Graphs = field(default_factory=Graphs)

    def __len__(self) -> int:
        return len(self.begin)

    def rows_of(self, choices: np.ndarray) -> np.ndarray:
        """Return the indices of the packed rows of some choices."""
        return _range_indices(self.begin[choices], self.count[choices])

    def picked(self, choices: np.ndarray) -> Choices:
        """Return some of the choices, packed anew."""
        count = self.count[choices]
        rows = self.rows_of(choices)
        begin = (np.cumsum(count) - count).astype(np.int64)
        return Choices(self.rows[rows], self.global_rows[choices], begin, count, self.graphs.picked(rows, choices))

    @classmethod
    def joined(cls, parts: Sequence[Choices]) -> Choices:
        """Return the concatenation of several parts, each packed without gaps."""
        count = np.concatenate([part.count for part in parts])
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.global_rows for part in parts]),
            (np.cumsum(count) - count).astype(np.int64),
            count,
            Graphs.joined([part.graphs for part in parts]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all fields as plain arrays."""
        own = {name: array for name, array in vars(self).items() if name != "graphs"}
        spans = self.graphs.spans
        if not len(spans):
            return own
        graph_spans = {f"graph_{name}": np.ascontiguousarray(spans[name]) for name in SPAN.names or ()}
        return {**own, **{name: getattr(self.graphs, name) for name in Graphs.PACKED}, **graph_spans}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Choices:
        """Return the choices whose `arrays` were given."""
        graphs = Graphs()
        if "nodes" in arrays:
            graphs = cls._graphs_from(arrays)
        return cls(arrays["rows"], arrays["global_rows"], arrays["begin"], arrays["count"], graphs)

    @staticmethod
    def _graphs_from(arrays: dict[str, np.ndarray]) -> Graphs:
        spans = np.zeros(len(arrays["graph_nodes"]), SPAN)
        for name in SPAN.names or ():
            spans[name] = arrays[f"graph_{name}"]
        return Graphs(**{name: arrays[name] for name in Graphs.PACKED}, spans=spans)


def _range_indices(begin: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the concatenated indices of ranges that start at `begin` and have `count` elements."""
    offsets = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    indices: np.ndarray = np.repeat(begin, count) + offsets
    return indices
