"""Batched observation buffers: candidate rows of lanes, raw for compiled policies or scaled for agents."""

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
    """Observations of a batch of lanes.

    globals (L, G), rows (L, A, F): float64 when raw, float32 when observed; mask (L, A) int8; legal (L, A) int32, the
    packed indices of the legal rows, dispatch rows first; counts (L, 8) int32: dispatch rows, legal rows, and fill
    levels, at the indices named below; global_image (3, G), row_image (3, F): scale, low and high of each column;
    reward, elapsed, time, terminated, truncated, illegal (L,): outcome of the last step of each lane, times in ns.

    In families whose work is a graph: nodes (L, N, Fn) with node_image (3, Fn), node_job (L, N), edges (L, 2, E) and
    candidate_node (L, A) int32, -1 where there is none; in other families these arrays are empty.
    """


DISPATCH_ROWS, LEGAL_ROWS, ROWS, ROWS_BEHIND, NODES, EDGES, ROW_NODES = range(7)
"""Indices into the counts of a buffer; all but the first two are private to the family that fills it."""


def make_buffer(arrays: dict[str, np.ndarray]) -> Any:
    """Return a buffer over the caller's `arrays`."""
    return make_struct(ObservationBufferType, arrays)


def buffer_arrays(
    lanes: int,
    rows: int,
    global_features: FeatureTable,
    row_features: FeatureTable,
    raw: bool,
    graph: GraphShape | None = None,
) -> dict[str, np.ndarray]:
    """Return new arrays for a buffer; unless `raw`, without the columns that agents do not see."""
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


def observed_value(rows, image, column, value):
    """Return `value` scaled and clipped as `column` of `image` says; raw rows (float64) keep it as it is."""
    return min(max(value * image[0, column], image[1, column]), image[2, column])


def put(row, image, column, value):
    """Write `value` into `column` of `row`, scaled and clipped unless the row is raw."""
    row[column] = observed_value(row, image, column, value)


def _raw_value(rows, image, column, value):
    return value


if COMPILED:

    @overload(observed_value, jit_options=INNER)
    def _compile_observed_value(rows, image, column, value):
        # The type of the rows decides at compile time, so a raw write costs one store.
        return _raw_value if rows.dtype == types.float64 else observed_value

    @overload(put, jit_options=INNER)
    def _compile_put(row, image, column, value):
        return put


@inlined
def mark_legal(buffer, index, row, rank):
    """Mark `row` as legal and store it at `rank` of the packed legal rows."""
    buffer.mask[index, row] = 1
    buffer.legal[index, rank] = row


@kernel
def clear_rows(buffer, index, first, last):
    """Zero the unused rows `first` to `last - 1` and mask them."""
    for row in range(first, last):
        buffer.mask[index, row] = 0
        for column in range(buffer.rows.shape[2]):
            buffer.rows[index, row, column] = 0.0


@inlined
def finish_rows(buffer, index, dispatch, waits):
    """Set the legality of the wait row, which is the last, and the counts: `dispatch` rows, then the wait row."""
    last = buffer.mask.shape[1] - 1
    buffer.mask[index, last] = 1 if waits else 0
    if waits:
        buffer.legal[index, dispatch] = last
    buffer.counts[index, DISPATCH_ROWS] = dispatch
    buffer.counts[index, LEGAL_ROWS] = dispatch + (1 if waits else 0)


@kernel
def put_static_rows(spec, buffer):
    """Write the rows `spec.static_rows` (A, F) into every entry of a buffer."""
    for index in range(buffer.rows.shape[0]):
        for row in range(buffer.rows.shape[1]):
            for column in range(buffer.rows.shape[2]):
                put(buffer.rows[index, row], buffer.row_image, column, spec.static_rows[row, column])


@kernel
def mark_all_legal(buffer, index, asking):
    """Mark every row legal, the last of which waits, while a decision is due; else none."""
    last = buffer.mask.shape[1] - 1
    for row in range(last):
        buffer.mask[index, row] = 1 if asking else 0
        buffer.legal[index, row] = row
    finish_rows(buffer, index, last if asking else 0, asking)


@kernel
def clear_graph(buffer, index):
    """Mark all edges, nodes and candidate nodes of a new buffer as absent."""
    for edge in range(buffer.edges.shape[2]):
        buffer.edges[index, 0, edge] = -1
        buffer.edges[index, 1, edge] = -1
    for node in range(buffer.node_job.shape[1]):
        buffer.node_job[index, node] = -1
    for row in range(buffer.candidate_node.shape[1]):
        buffer.candidate_node[index, row] = -1


@kernel
def truncate_graph(buffer, index, nodes, edges):
    """Clear the nodes and edges of the previous graph from `nodes` and `edges` on, and set the counts."""
    for node in range(nodes, buffer.counts[index, NODES]):
        buffer.node_job[index, node] = -1
        for column in range(buffer.nodes.shape[2]):
            buffer.nodes[index, node, column] = 0.0
    for edge in range(edges, buffer.counts[index, EDGES]):
        buffer.edges[index, 0, edge] = -1
        buffer.edges[index, 1, edge] = -1
    buffer.counts[index, NODES] = nodes
    buffer.counts[index, EDGES] = edges


@kernel
def truncate_candidate_nodes(buffer, index, listed):
    """Clear the candidate nodes of the previous observation from row `listed` on, and set their count."""
    for row in range(listed, buffer.counts[index, ROW_NODES]):
        buffer.candidate_node[index, row] = -1
    buffer.counts[index, ROW_NODES] = listed
