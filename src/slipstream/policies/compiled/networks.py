"""Networks of operations as structs of compiled code, and functions specialised for some kinds of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types

from slipstream.errors import PolicyError
from slipstream.jit.decorators import ALGEBRA, COMPILED, overload_inside
from slipstream.jit.structs import make_struct, struct
from slipstream.policies import operations as o
from slipstream.policies.base import Heuristic, find
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
    "row_position",
    "job_at",
    "level_starts",
    "child_starts",
    "child_at",
]
HEURISTIC_FIELDS = ["forms", "addresses"]


@struct(*FIELDS)
class NetworkType(types.StructRef):
    """Network: code (operations, COLUMNS), ports (13,) and starts (choices + 1,) int64, weights and registers float32.

    The candidates of choice c are those from starts[c] to starts[c + 1].
    """


@struct(*FIELDS, *GRAPH_FIELDS)
class GraphNetworkType(types.StructRef):
    """Network that also reads graphs, with additional fields of int64.

    node_starts, job_starts, edge_starts (choices + 1,), as `starts`; node_of (candidates,), the node of a candidate, -1
    if none; job_of (nodes,); edges (edges, 2), parent and child. Computed by `compiled.graphs.arrange`: level, position
    and job_at (nodes,), row_position (candidates,), level_starts and child_starts (nodes + 1,), child_at (edges,).
    """


@struct(*FIELDS, *HEURISTIC_FIELDS)
class GuidedNetworkType(types.StructRef):
    """Network that also reads what heuristics choose: calling conventions and addresses of these, int64."""


def make_network(layout: Layout, weights: np.ndarray) -> Any:
    """Return a network with its own registers over the caller's `weights`."""
    arrays = {
        "code": layout.code,
        "ports": layout.ports,
        "starts": np.zeros(layout.choices + 1, np.int64),
        "weights": weights,
        "registers": np.zeros(layout.size, np.float32),
    }
    if layout.heuristics:
        found = compiled_heuristics(*layout.heuristics)
        arrays["forms"] = np.array([heuristic.form for heuristic in found], np.int64)
        arrays["addresses"] = np.array([heuristic.address for heuristic in found], np.int64)
        return make_struct(GuidedNetworkType, arrays)
    nodes, edges = int(layout.ports[o.MOST_NODES]), int(layout.ports[o.MOST_EDGES])
    if not nodes:
        return make_struct(NetworkType, arrays)
    starts = (layout.choices + 1,)
    shapes = {"edges": (edges, 2), "child_at": (edges,)}
    shapes |= dict.fromkeys(("node_of", "row_position"), (layout.candidates,))
    shapes |= dict.fromkeys(("node_starts", "job_starts", "edge_starts"), starts)
    shapes |= dict.fromkeys(("level_starts", "child_starts"), (nodes + 1,))
    arrays |= {name: np.zeros(shapes.get(name, (nodes,)), np.int64) for name in GRAPH_FIELDS}
    return make_struct(GraphNetworkType, arrays)


def _function_for(struct_type: type) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function for networks of `struct_type`; for others it returns False.

    Few networks are of these types, and the code for them takes long to compile.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def choose(network: Any, *rest: Any) -> Any:
            return function(network, *rest) if network.struct_type is struct_type else False

        if COMPILED:

            @overload_inside(choose, ALGEBRA)
            def pick(network: Any, *rest: Any) -> Any:
                return function if isinstance(network, struct_type) else _nothing

        return choose

    return decorate


graph_function = _function_for(GraphNetworkType)
"""Compile a function for networks that read graphs; for other networks it returns False."""
guided_function = _function_for(GuidedNetworkType)
"""Compile a function for networks that read what heuristics choose; for other networks it returns False."""


def _nothing(*_: Any) -> bool:
    return False


def compiled_heuristics(family: str, names: Sequence[str]) -> list[Heuristic]:
    """Return the heuristics of these names, whose choices a network reads.

    Raises:
        PolicyError: One line: which of them no network can read.
    """
    found = []
    for name in names:
        one = find(name, family)
        # A number or a plan would have to be set in the lane, where the policy that plays may have set its own.
        if not isinstance(one, Heuristic) or one.parameter is not None or one.prepare is not None:
            raise PolicyError(f"heuristics: '{name}': expected heuristics with neither a number nor a plan")
        found.append(one)
    return found
