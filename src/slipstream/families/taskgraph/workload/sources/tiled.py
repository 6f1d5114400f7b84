"""Tiled linear algebra: the tasks of the sequential algorithms, in the order of submission.

A program consists of blocks of tasks, one for each kernel; tasks are sorted by their keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.scenario import SpGemm, Tiled
from slipstream.families.taskgraph.workload.templates import MODES, GraphBuilder, RaggedArray, Template, find_parents

Indices = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Block:
    """All tasks of one kernel."""

    kernel: str
    indices: Indices
    """Indices in the names of the tasks."""
    key: tuple[np.ndarray | int, ...]
    """Sort key of submission: step of the outer loop, stage within it, then row and column."""
    accesses: tuple[tuple[int, np.ndarray, np.ndarray, str], ...]
    """Matrix, row, column and access mode of each tile."""


Program = tuple[list[Block], Callable[[int, int, int], str]]
"""Blocks, and the name of a tile by matrix, row and column."""


def template(graph: Tiled) -> Template:
    """Return the graph of a factorisation or product."""
    programs = {"cholesky": _cholesky, "lu": _lu, "qr": _qr, "gemm": _gemm}
    return _assemble(f"{graph.kind}-{graph.n}", programs[graph.kind](graph.n), graph.n, graph.tile_bytes)


def _below(n: int) -> Indices:
    """Return row and column of each tile below the diagonal."""
    return np.tril_indices(n, -1)


def _index_triples(inside: np.ndarray) -> Indices:
    """Return the index triples where the condition `inside` holds."""
    return np.nonzero(inside)


def _cholesky(n: int) -> Program:
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    gi, gj, gk = _index_triples((r[:, None, None] > r[:, None]) & (r[:, None] > r))
    return [
        Block("POTRF", (k,), (k, 0, 0, 0), ((0, k, k, "rw"),)),
        Block("TRSM", (i, kk), (kk, 1, i, 0), ((0, kk, kk, "r"), (0, i, kk, "rw"))),
        Block("GEMM", (gi, gj, gk), (gk, 2, gi, gj), ((0, gi, gk, "r"), (0, gj, gk, "r"), (0, gi, gj, "rw"))),
        Block("SYRK", (i, kk), (kk, 2, i, i), ((0, i, kk, "r"), (0, i, i, "rw"))),
    ], _tile_name


def _lu(n: int) -> Program:
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    bi, bj, bk = _index_triples((r[:, None, None] > r) & (r[:, None] > r))
    return [
        Block("LU", (k,), (k, 0, 0, 0), ((0, k, k, "rw"),)),
        Block("FWD", (kk, i), (kk, 1, 0, i), ((0, kk, kk, "r"), (0, kk, i, "rw"))),
        Block("BDIV", (i, kk), (kk, 2, i, 0), ((0, kk, kk, "r"), (0, i, kk, "rw"))),
        Block("BMOD", (bi, bj, bk), (bk, 3, bi, bj), ((0, bi, bk, "r"), (0, bk, bj, "r"), (0, bi, bj, "rw"))),
    ], _tile_name


def _qr(n: int) -> Program:
    """Return the QR factorisation with a flat reduction tree: tiles below the diagonal are reduced one at a time."""
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    ti, tj, tk = _index_triples((r[:, None, None] > r) & (r[:, None] > r))
    # A separate tile holds the reflectors, so that ORMQR can read them while TSQRT updates the diagonal.
    return [
        Block("GEQRT", (k,), (k, 0, 0, 0), ((0, k, k, "rw"), (1, k, k, "w"))),
        Block("ORMQR", (kk, i), (kk, 1, 0, i), ((1, kk, kk, "r"), (0, kk, i, "rw"))),
        Block("TSQRT", (i, kk), (kk, 2, i, 0), ((0, kk, kk, "rw"), (0, i, kk, "rw"))),
        Block("TSMQR", (ti, tj, tk), (tk, 2, ti, tj), ((0, ti, tk, "r"), (0, tk, tj, "rw"), (0, ti, tj, "rw"))),
    ], lambda matrix, row, column: f"V{row}" if matrix else _tile_name(matrix, row, column)


def _gemm(n: int) -> Program:
    return _product(np.ones((n, n), bool), np.ones((n, n), bool))


def sparse_product(source: SpGemm) -> Template:
    """Return the product of two matrices with random tiles."""
    draws = random.Random(source.seed)
    left, right = (np.array([draws.random() < source.density for _ in range(source.n**2)]) for _ in range(2))
    name = f"spgemm-{source.n}-{source.seed}"
    program = _product(left.reshape(source.n, -1), right.reshape(source.n, -1))
    if not len(program[0][0].indices[0]):
        # A job needs at least one task: factors without a common tile write one tile of the result.
        builder = GraphBuilder(source.tile_bytes)
        builder.task("GEMM 0 0 0", "GEMM", [("C0,0", "rw")])
        return builder.template(name)
    return _assemble(name, program, source.n, source.tile_bytes)


def _product(left: np.ndarray, right: np.ndarray) -> Program:
    i, j, k = _index_triples(left[:, None, :] & right.T[None, :, :])
    accesses = ((0, i, k, "r"), (1, k, j, "r"), (2, i, j, "rw"))
    return [Block("GEMM", (i, j, k), (i, j, k), accesses)], lambda matrix, row, column: f"{'ABC'[matrix]}{row},{column}"


def _tile_name(matrix: int, row: int, column: int) -> str:
    return f"{row},{column}"


def _assemble(name: str, program: Program, n: int, tile_bytes: int) -> Template:
    """Return the template of all blocks in the order of their keys; tiles are numbered by first use."""
    blocks, tile_name = program
    sizes = [len(block.indices[0]) for block in blocks]
    keys = [[np.broadcast_to(part, size) for part in block.key] for block, size in zip(blocks, sizes, strict=True)]
    order = np.lexsort([np.concatenate(part) for part in zip(*keys, strict=True)][::-1])
    width = max(len(block.accesses) for block in blocks)
    tiles, modes = np.full((sum(sizes), width), -1), np.zeros((sum(sizes), width), np.int64)
    first = 0
    for block, size in zip(blocks, sizes, strict=True):
        for access_index, (matrix, row, column, mode) in enumerate(block.accesses):
            tiles[first : first + size, access_index] = (matrix * n + row) * n + column
            modes[first : first + size, access_index] = MODES[mode]
        first += size
    tiles, modes = tiles[order], modes[order]
    there = tiles >= 0
    known, seen, number = np.unique(tiles[there], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(seen))
    used = RaggedArray(np.concatenate([[0], np.cumsum(there.sum(axis=1))]), rank[number])

    def task_names() -> list[str]:
        rows = [(block.kernel, *one) for block in blocks for one in zip(*block.indices, strict=True)]
        names = [" ".join(map(str, row)) for row in rows]
        return [names[index] for index in order.tolist()]

    def tile_names() -> list[str]:
        return [tile_name(key // (n * n), key // n % n, key % n) for key in known[np.argsort(seen)].tolist()]

    return Template(
        name,
        tuple(block.kernel for block in blocks),
        np.repeat(np.arange(len(blocks)), sizes)[order],
        used,
        modes[there],
        find_parents(used, modes[there], np.zeros((0, 2), np.int64)),
        (tile_bytes,) * len(known),
        task_names,
        tile_names,
        {},
    )
