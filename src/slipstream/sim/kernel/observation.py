"""Sheets: the candidates of lanes as the kernel writes them, raw for policies or observed for agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from slipstream.families.shared.features import FeatureTable, GraphShape
from slipstream.jit.decorators import COMPILED, INNER, inlined, kernel
from slipstream.jit.structs import make_struct, struct

OUTCOMES = {
    "reward": np.float64,
    "elapsed": np.float64,
    "time": np.float64,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "illegal": np.bool_,
}

GRAPH = ("nodes", "node_image", "node_job", "edges", "candidate_node")


@struct("globals", "rows", "mask", "legal", "counts", "global_image", "row_image", *OUTCOMES, *GRAPH)
class ObservationBufferType(types.StructRef):
    """The candidates of some lanes.

    globals (L, G), rows (L, A, F): float64 when raw, float32 when observed; mask (L, A) int8; legal (L, A) int32, the
    packed indices of the legal rows, dispatch rows first; counts (L, 8) int32: dispatch rows, legal rows, and how much
    of the buffer is filled, in places that have names below; global_image (3, G), row_image (3, F): scale, low and high
    of each column; reward, elapsed, time, terminated, truncated, illegal (L,): how the last step of each lane came out,
    times in ns.

    Where work is a graph: nodes (L, N, Fn) with node_image (3, Fn), node_job (L, N), edges (L, 2, E) and
    candidate_node (L, A) int32, -1 where there is none; elsewhere these have no rows.
    """


DISPATCH_ROWS, LEGAL_ROWS, ROWS, ROWS_BEHIND, NODES, EDGES, ROW_NODES = range(7)
"""What the counts of a buffer say: the first two to everybody, the others to the family that filled it."""


def make_buffer(arrays: dict[str, np.ndarray]) -> Any:
    """Build a buffer over the caller's arrays."""
    return make_struct(ObservationBufferType, arrays)


def buffer_arrays(
    lanes: int,
    rows: int,
    global_features: FeatureTable,
    row_features: FeatureTable,
    raw: bool,
    graph: GraphShape | None = None,
) -> dict[str, np.ndarray]:
    """Return fresh arrays for a buffer; observed buffers leave out the columns that agents do not see."""
    if not raw:
        global_features, row_features = global_features.observed, row_features.observed
    real = np.float64 if raw else np.float32
    return {
        "globals": np.zeros((lanes, len(global_features)), real),
        "rows": np.zeros((lanes, rows, len(row_features)), real),
        "mask": np.zeros((lanes, rows), np.int8),
        "legal": np.zeros((lanes, rows), np.int32),
        "counts": np.zeros((lanes, 8), np.int32),
        "global_image": global_features.identity() if raw else global_features.image(),
        "row_image": row_features.identity() if raw else row_features.image(),
        **{name: np.zeros(lanes, number) for name, number in OUTCOMES.items()},
        **_graph_arrays(lanes, rows, real, graph),
    }


def _graph_arrays(lanes: int, rows: int, real: type, graph: GraphShape | None) -> dict[str, np.ndarray]:
    columns = graph.features.observed if graph is not None else FeatureTable(())
    nodes, edges = (graph.nodes, graph.edges) if graph is not None else (0, 0)
    return {
        "nodes": np.zeros((lanes, nodes, len(columns)), real),
        "node_image": columns.image(),
        "node_job": np.full((lanes, nodes), -1, np.int32),
        "edges": np.full((lanes, 2, edges), -1, np.int32),
        "candidate_node": np.full((lanes, rows if graph is not None else 0), -1, np.int32),
    }


def shown(rows, image, column, value):
    """Return a value as a column of such rows shows it: scaled, then clipped."""
    return min(max(value * image[0, column], image[1, column]), image[2, column])


def put(row, image, column, value):
    """Write one value of a row as its column shows it."""
    row[column] = shown(row, image, column, value)


def _shown_raw(rows, image, column, value):
    return value


if COMPILED:

    @overload(shown, jit_options=INNER)
    def _choose_image(rows, image, column, value):
        # Which of the two a kernel needs is known from the type of the rows, so a raw write costs one store.
        return _shown_raw if rows.dtype == types.float64 else shown

    @overload(put, jit_options=INNER)
    def _compile_put(row, image, column, value):
        return put


@inlined
def allow(buffer, slot, row, place):
    """Note that a row may be chosen, as so many before it."""
    buffer.mask[slot, row] = 1
    buffer.legal[slot, place] = row


@kernel
def clear_rows(buffer, slot, first, last):
    """Empty rows that no longer stand for anything."""
    for row in range(first, last):
        buffer.mask[slot, row] = 0
        for column in range(buffer.rows.shape[2]):
            buffer.rows[slot, row, column] = 0.0


@inlined
def close_rows(buffer, slot, dispatch, waits):
    """Note whether waiting, the last row, may be chosen behind so many dispatch rows."""
    last = buffer.mask.shape[1] - 1
    buffer.mask[slot, last] = 1 if waits else 0
    if waits:
        buffer.legal[slot, dispatch] = last
    buffer.counts[slot, DISPATCH_ROWS] = dispatch
    buffer.counts[slot, LEGAL_ROWS] = dispatch + (1 if waits else 0)


@kernel
def put_static_rows(spec, buffer):
    """Write the rows `spec.static_rows` (A, F) into every slot of a buffer."""
    for slot in range(buffer.rows.shape[0]):
        for row in range(buffer.rows.shape[1]):
            for column in range(buffer.rows.shape[2]):
                put(buffer.rows[slot, row], buffer.row_image, column, spec.static_rows[row, column])


@kernel
def allow_all(buffer, slot, asking):
    """Allow every row, the last of which waits, while a decision is due; else none."""
    last = buffer.mask.shape[1] - 1
    for row in range(last):
        buffer.mask[slot, row] = 1 if asking else 0
        buffer.legal[slot, row] = row
    close_rows(buffer, slot, last if asking else 0, asking)


@kernel
def clear_graph(buffer, slot):
    """Let a new buffer show no graph."""
    for edge in range(buffer.edges.shape[2]):
        buffer.edges[slot, 0, edge] = -1
        buffer.edges[slot, 1, edge] = -1
    for node in range(buffer.node_job.shape[1]):
        buffer.node_job[slot, node] = -1
    for row in range(buffer.candidate_node.shape[1]):
        buffer.candidate_node[slot, row] = -1


@kernel
def close_graph(buffer, slot, nodes, edges):
    """Empty what the last graph had behind so many nodes and edges."""
    for node in range(nodes, buffer.counts[slot, NODES]):
        buffer.node_job[slot, node] = -1
        for column in range(buffer.nodes.shape[2]):
            buffer.nodes[slot, node, column] = 0.0
    for edge in range(edges, buffer.counts[slot, EDGES]):
        buffer.edges[slot, 0, edge] = -1
        buffer.edges[slot, 1, edge] = -1
    buffer.counts[slot, NODES] = nodes
    buffer.counts[slot, EDGES] = edges


@kernel
def close_candidate_nodes(buffer, slot, listed):
    """Empty what stood behind the nodes of so many rows."""
    for row in range(listed, buffer.counts[slot, ROW_NODES]):
        buffer.candidate_node[slot, row] = -1
    buffer.counts[slot, ROW_NODES] = listed
