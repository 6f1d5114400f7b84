"""Choices as a network saw them: everything of one choice behind that of another, and nothing that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

PLACE = np.dtype([("node_begin", "i8"), ("edge_begin", "i8"), ("nodes", "i4"), ("edges", "i4"), ("jobs", "i4")])
"""Where the graph of a choice lies among those of others, and how large it is."""


def _nothing(*shape: int, kind: str = "i4") -> np.ndarray:
    return np.zeros(shape, kind)


@dataclass(frozen=True)
class Graphs:
    """The graphs of choices; choices that follow each other may share one. Empty where work is none."""

    nodes: np.ndarray = field(default_factory=lambda: _nothing(0, 0, kind="f4"))
    """(M, columns) float32."""
    node_job: np.ndarray = field(default_factory=lambda: _nothing(0))
    """(M,) int32: the job of each node, counted from 0 in each graph."""
    edges: np.ndarray = field(default_factory=lambda: _nothing(0, 2))
    """(K, 2) int32: parent and child, counted from 0 in each graph."""
    row_node: np.ndarray = field(default_factory=lambda: _nothing(0))
    """(N,) int32: the node of each packed candidate, counted from 0 in its graph; -1: none."""
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, PLACE))
    """(S,) of PLACE."""

    PACKED: ClassVar[tuple[str, ...]] = ("nodes", "node_job", "edges", "row_node")

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of it, as compiled code takes it."""
        return self.nodes, self.node_job, self.edges, self.row_node, self.places

    def picked(self, rows: np.ndarray, choices: np.ndarray) -> Graphs:
        """Return the graphs of some choices, packed anew; `rows` are the places of their candidates."""
        if not len(self.places):
            return self
        places = self.places[choices].copy()
        nodes = _spans(places["node_begin"], places["nodes"])
        edges = _spans(places["edge_begin"], places["edges"])
        places["node_begin"] = np.cumsum(places["nodes"]) - places["nodes"]
        places["edge_begin"] = np.cumsum(places["edges"]) - places["edges"]
        return Graphs(self.nodes[nodes], self.node_job[nodes], self.edges[edges], self.row_node[rows], places)

    @classmethod
    def joined(cls, parts: Sequence[Graphs]) -> Graphs:
        """Return the graphs of several parts as one."""
        places = np.concatenate([part.places for part in parts])
        for name, sizes in (("node_begin", "nodes"), ("edge_begin", "edges")):
            lengths = [len(getattr(part, sizes)) for part in parts]
            counts = [len(part.places) for part in parts]
            places[name] += np.repeat(np.cumsum(lengths) - lengths, counts)
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.PACKED}
        return cls(**joined, places=places)


@dataclass(frozen=True)
class Choices:
    """Choices as they were seen: candidates packed one behind the other, globals, and graphs where there are any."""

    rows: np.ndarray
    """(N, F) float32."""
    global_rows: np.ndarray
    """(S, G) float32."""
    begin: np.ndarray
    """(S,) int64: where the candidates of a choice begin."""
    count: np.ndarray
    """(S,) int32: how many they are."""
    graphs: Graphs = field(default_factory=Graphs)

    def __len__(self) -> int:
        return len(self.begin)

    def picked(self, choices: np.ndarray) -> Choices:
        """Return some of the choices, packed anew."""
        count = self.count[choices]
        rows = _spans(self.begin[choices], count)
        begin = (np.cumsum(count) - count).astype(np.int64)
        return Choices(self.rows[rows], self.global_rows[choices], begin, count, self.graphs.picked(rows, choices))

    @classmethod
    def joined(cls, parts: Sequence[Choices]) -> Choices:
        """Return the choices of several parts, each without gaps, as one."""
        count = np.concatenate([part.count for part in parts])
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.global_rows for part in parts]),
            (np.cumsum(count) - count).astype(np.int64),
            count,
            Graphs.joined([part.graphs for part in parts]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as plain arrays."""
        own = {name: array for name, array in vars(self).items() if name != "graphs"}
        places = self.graphs.places
        if not len(places):
            return own
        told = {f"graph_{name}": np.ascontiguousarray(places[name]) for name in PLACE.names or ()}
        return {**own, **{name: getattr(self.graphs, name) for name in Graphs.PACKED}, **told}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Choices:
        """Return what `arrays` gave."""
        graphs = Graphs()
        if "nodes" in arrays:
            graphs = cls._graphs_from(arrays)
        return cls(arrays["rows"], arrays["global_rows"], arrays["begin"], arrays["count"], graphs)

    @staticmethod
    def _graphs_from(arrays: dict[str, np.ndarray]) -> Graphs:
        places = np.zeros(len(arrays["graph_nodes"]), PLACE)
        for name in PLACE.names or ():
            places[name] = arrays[f"graph_{name}"]
        return Graphs(**{name: arrays[name] for name in Graphs.PACKED}, places=places)


def _spans(begin: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the indices of several stretches, one stretch behind the other."""
    offsets = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    indices: np.ndarray = np.repeat(begin, count) + offsets
    return indices
