"""Networks of operations as compiled code takes them, and functions that only those have which look at graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from slipstream.jit.decorators import ALGEBRA, COMPILED, overload_inside
from slipstream.jit.structs import make_struct, struct
from slipstream.policies import operations as o
from slipstream.policies.operations import Layout

FIELDS = ["code", "ports", "starts", "weights", "registers"]
GRAPH_FIELDS = [
    "node_starts",
    "job_starts",
    "edge_starts",
    "node_of",
    "job_of",
    "edges",
    "level",
    "position",
    "place_of",
    "job_at",
    "level_starts",
    "child_starts",
    "child_at",
]


@struct(*FIELDS)
class NetworkType(types.StructRef):
    """A network: code (operations, COLUMNS), ports (13,) and starts (choices + 1,) int64, weights, registers float32.

    Those of choice c are the candidates from starts[c] to starts[c + 1].
    """


@struct(*FIELDS, *GRAPH_FIELDS)
class GraphNetworkType(types.StructRef):
    """A network that looks at graphs as well, int64 each.

    node_starts, job_starts, edge_starts (choices + 1,), as `starts`; node_of (candidates,), the node of a candidate, -1
    if none; job_of (nodes,); edges (edges, 2), parent and child; and what `policies.graphs` finds out about them:
    level, position and job_at (nodes,), place_of (candidates,), level_starts and child_starts (nodes + 1,), child_at
    (edges,).
    """


def make_network(layout: Layout, weights: np.ndarray) -> Any:
    """Return the network with registers of its own; it reads the caller's weights."""
    arrays = {
        "code": layout.code,
        "ports": layout.ports,
        "starts": np.zeros(layout.choices + 1, np.int64),
        "weights": weights,
        "registers": np.zeros(layout.size, np.float32),
    }
    nodes, edges = int(layout.ports[o.MOST_NODES]), int(layout.ports[o.MOST_EDGES])
    if not nodes:
        return make_struct(NetworkType, arrays)
    starts = (layout.choices + 1,)
    shapes = {"edges": (edges, 2), "child_at": (edges,)}
    shapes |= dict.fromkeys(("node_of", "place_of"), (layout.candidates,))
    shapes |= dict.fromkeys(("node_starts", "job_starts", "edge_starts"), starts)
    shapes |= dict.fromkeys(("level_starts", "child_starts"), (nodes + 1,))
    arrays |= {name: np.zeros(shapes.get(name, (nodes,)), np.int64) for name in GRAPH_FIELDS}
    return make_struct(GraphNetworkType, arrays)


def graph_function(function: Callable[..., Any]) -> Any:
    """Compile a function of networks that look at graphs, where they do; for others it returns False.

    Few networks look at graphs, and what walks them takes long to compile.
    """

    @functools.wraps(function)
    def choose(network: Any, *rest: Any) -> Any:
        return function(network, *rest) if network.struct_type is GraphNetworkType else False

    if COMPILED:

        @overload_inside(choose, ALGEBRA)
        def pick(network: Any, *rest: Any) -> Any:
            return function if isinstance(network, GraphNetworkType) else _no_graph

    return choose


def _no_graph(*_: Any) -> bool:
    return False
