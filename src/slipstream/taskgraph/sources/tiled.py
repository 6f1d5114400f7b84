"""Dense linear algebra on tiles: the tasks of the sequential programs, in their order."""

from __future__ import annotations

import random

import numpy as np

from slipstream.taskgraph.scenario import SpGemm, Tiled
from slipstream.taskgraph.templates import GraphBuilder, Template


def template(graph: Tiled) -> Template:
    """Return the graph of a factorisation or product."""
    builder = GraphBuilder(graph.tile_bytes)
    {"cholesky": _cholesky, "lu": _lu, "qr": _qr, "gemm": _gemm}[graph.kind](builder, graph.n)
    return builder.template(f"{graph.kind}-{graph.n}")


def _cholesky(graph: GraphBuilder, n: int) -> None:
    for k in range(n):
        graph.task(f"POTRF {k}", "POTRF", [(_at(k, k), "rw")])
        for i in range(k + 1, n):
            graph.task(f"TRSM {i} {k}", "TRSM", [(_at(k, k), "r"), (_at(i, k), "rw")])
        for i in range(k + 1, n):
            for j in range(k + 1, i):
                tiles = [(_at(i, k), "r"), (_at(j, k), "r"), (_at(i, j), "rw")]
                graph.task(f"GEMM {i} {j} {k}", "GEMM", tiles)
            graph.task(f"SYRK {i} {k}", "SYRK", [(_at(i, k), "r"), (_at(i, i), "rw")])


def _lu(graph: GraphBuilder, n: int) -> None:
    for k in range(n):
        graph.task(f"LU {k}", "LU", [(_at(k, k), "rw")])
        for j in range(k + 1, n):
            graph.task(f"FWD {k} {j}", "FWD", [(_at(k, k), "r"), (_at(k, j), "rw")])
        for i in range(k + 1, n):
            graph.task(f"BDIV {i} {k}", "BDIV", [(_at(k, k), "r"), (_at(i, k), "rw")])
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                tiles = [(_at(i, k), "r"), (_at(k, j), "r"), (_at(i, j), "rw")]
                graph.task(f"BMOD {i} {j} {k}", "BMOD", tiles)


def _qr(graph: GraphBuilder, n: int) -> None:
    """Submit a factorisation with a flat tree: below the diagonal, one tile after the other is folded into it."""
    for k in range(n):
        # The reflectors go into a tile of their own, so that ORMQR can read them while TSQRT changes the diagonal.
        graph.task(f"GEQRT {k}", "GEQRT", [(_at(k, k), "rw"), (f"V{k}", "w")])
        for j in range(k + 1, n):
            graph.task(f"ORMQR {k} {j}", "ORMQR", [(f"V{k}", "r"), (_at(k, j), "rw")])
        for i in range(k + 1, n):
            graph.task(f"TSQRT {i} {k}", "TSQRT", [(_at(k, k), "rw"), (_at(i, k), "rw")])
            for j in range(k + 1, n):
                tiles = [(_at(i, k), "r"), (_at(k, j), "rw"), (_at(i, j), "rw")]
                graph.task(f"TSMQR {i} {j} {k}", "TSMQR", tiles)


def _gemm(graph: GraphBuilder, n: int) -> None:
    _product(graph, np.ones((n, n), bool), np.ones((n, n), bool))


def sparse_product(source: SpGemm) -> Template:
    """Return the product of two matrices with random tiles."""
    draws = random.Random(source.seed)
    left, right = (np.array([draws.random() < source.density for _ in range(source.n**2)]) for _ in range(2))
    builder = GraphBuilder(source.tile_bytes)
    _product(builder, left.reshape(source.n, -1), right.reshape(source.n, -1))
    if not builder.tasks:
        # A job must have something to do: two factors without a tile in common still write one of the result.
        builder.task("GEMM 0 0 0", "GEMM", [("C0,0", "rw")])
    return builder.template(f"spgemm-{source.n}-{source.seed}")


def _product(graph: GraphBuilder, left: np.ndarray, right: np.ndarray) -> None:
    n = len(left)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                if left[i, k] and right[k, j]:
                    tiles = [(f"A{i},{k}", "r"), (f"B{k},{j}", "r"), (f"C{i},{j}", "rw")]
                    graph.task(f"GEMM {i} {j} {k}", "GEMM", tiles)


def _at(row: int, column: int) -> str:
    return f"{row},{column}"
