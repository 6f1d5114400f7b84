"""Dense linear algebra on tiles: the tasks of the sequential programs, in their order.

A program is a few blocks of tasks, one for each kernel. Each task has a key, and goes where its key says.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.scenario import SpGemm, Tiled
from slipstream.families.taskgraph.workload.templates import MODES, GraphBuilder, Lists, Template, find_parents

Indices = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Block:
    """All tasks of one kernel."""

    kernel: str
    indices: Indices
    """What their names go by."""
    key: tuple[np.ndarray | int, ...]
    """When they are submitted: step of the outer loop, stage within it, then row and column."""
    accesses: tuple[tuple[int, np.ndarray, np.ndarray, str], ...]
    """Matrix, row and column of each tile, and what is done with it."""


Program = tuple[list[Block], Callable[[int, int, int], str]]
"""Blocks, and what a tile of a matrix is called."""


def template(graph: Tiled) -> Template:
    """Return the graph of a factorisation or product."""
    programs = {"cholesky": _cholesky, "lu": _lu, "qr": _qr, "gemm": _gemm}
    return _assembled(f"{graph.kind}-{graph.n}", programs[graph.kind](graph.n), graph.n, graph.tile_bytes)


def _below(n: int) -> Indices:
    """Return row and column of each tile below the diagonal."""
    return np.tril_indices(n, -1)


def _cube(inside: np.ndarray) -> Indices:
    """Return the three indices wherever a condition on them holds."""
    return np.nonzero(inside)


def _cholesky(n: int) -> Program:
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    gi, gj, gk = _cube((r[:, None, None] > r[:, None]) & (r[:, None] > r))
    return [
        Block("POTRF", (k,), (k, 0, 0, 0), ((0, k, k, "rw"),)),
        Block("TRSM", (i, kk), (kk, 1, i, 0), ((0, kk, kk, "r"), (0, i, kk, "rw"))),
        Block("GEMM", (gi, gj, gk), (gk, 2, gi, gj), ((0, gi, gk, "r"), (0, gj, gk, "r"), (0, gi, gj, "rw"))),
        Block("SYRK", (i, kk), (kk, 2, i, i), ((0, i, kk, "r"), (0, i, i, "rw"))),
    ], _plain


def _lu(n: int) -> Program:
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    bi, bj, bk = _cube((r[:, None, None] > r) & (r[:, None] > r))
    return [
        Block("LU", (k,), (k, 0, 0, 0), ((0, k, k, "rw"),)),
        Block("FWD", (kk, i), (kk, 1, 0, i), ((0, kk, kk, "r"), (0, kk, i, "rw"))),
        Block("BDIV", (i, kk), (kk, 2, i, 0), ((0, kk, kk, "r"), (0, i, kk, "rw"))),
        Block("BMOD", (bi, bj, bk), (bk, 3, bi, bj), ((0, bi, bk, "r"), (0, bk, bj, "r"), (0, bi, bj, "rw"))),
    ], _plain


def _qr(n: int) -> Program:
    """Return a factorisation with a flat tree: below the diagonal, one tile after the other is folded into it."""
    k, (i, kk) = np.arange(n), _below(n)
    r = np.arange(n)
    ti, tj, tk = _cube((r[:, None, None] > r) & (r[:, None] > r))
    # The reflectors go into a tile of their own, so that ORMQR can read them while TSQRT changes the diagonal.
    return [
        Block("GEQRT", (k,), (k, 0, 0, 0), ((0, k, k, "rw"), (1, k, k, "w"))),
        Block("ORMQR", (kk, i), (kk, 1, 0, i), ((1, kk, kk, "r"), (0, kk, i, "rw"))),
        Block("TSQRT", (i, kk), (kk, 2, i, 0), ((0, kk, kk, "rw"), (0, i, kk, "rw"))),
        Block("TSMQR", (ti, tj, tk), (tk, 2, ti, tj), ((0, ti, tk, "r"), (0, tk, tj, "rw"), (0, ti, tj, "rw"))),
    ], lambda matrix, row, column: f"V{row}" if matrix else _plain(matrix, row, column)


def _gemm(n: int) -> Program:
    return _product(np.ones((n, n), bool), np.ones((n, n), bool))


def sparse_product(source: SpGemm) -> Template:
    """Return the product of two matrices with random tiles."""
    draws = random.Random(source.seed)
    left, right = (np.array([draws.random() < source.density for _ in range(source.n**2)]) for _ in range(2))
    name = f"spgemm-{source.n}-{source.seed}"
    program = _product(left.reshape(source.n, -1), right.reshape(source.n, -1))
    if not len(program[0][0].indices[0]):
        # A job must have something to do: two factors without a tile in common still write one of the result.
        builder = GraphBuilder(source.tile_bytes)
        builder.task("GEMM 0 0 0", "GEMM", [("C0,0", "rw")])
        return builder.template(name)
    return _assembled(name, program, source.n, source.tile_bytes)


def _product(left: np.ndarray, right: np.ndarray) -> Program:
    i, j, k = _cube(left[:, None, :] & right.T[None, :, :])
    accesses = ((0, i, k, "r"), (1, k, j, "r"), (2, i, j, "rw"))
    return [Block("GEMM", (i, j, k), (i, j, k), accesses)], lambda matrix, row, column: f"{'ABC'[matrix]}{row},{column}"


def _plain(matrix: int, row: int, column: int) -> str:
    return f"{row},{column}"


def _assembled(name: str, program: Program, n: int, tile_bytes: int) -> Template:
    """Return the tasks of all blocks in their order; tiles are numbered as they are used first."""
    blocks, tile_name = program
    sizes = [len(block.indices[0]) for block in blocks]
    keys = [[np.broadcast_to(part, size) for part in block.key] for block, size in zip(blocks, sizes, strict=True)]
    order = np.lexsort([np.concatenate(part) for part in zip(*keys, strict=True)][::-1])
    width = max(len(block.accesses) for block in blocks)
    tiles, modes = np.full((sum(sizes), width), -1), np.zeros((sum(sizes), width), np.int64)
    first = 0
    for block, size in zip(blocks, sizes, strict=True):
        for place, (matrix, row, column, mode) in enumerate(block.accesses):
            tiles[first : first + size, place] = (matrix * n + row) * n + column
            modes[first : first + size, place] = MODES[mode]
        first += size
    tiles, modes = tiles[order], modes[order]
    there = tiles >= 0
    known, seen, number = np.unique(tiles[there], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(seen))
    used = Lists(np.concatenate([[0], np.cumsum(there.sum(axis=1))]), rank[number])

    def task_names() -> list[str]:
        rows = [(block.kernel, *one) for block in blocks for one in zip(*block.indices, strict=True)]
        names = [" ".join(map(str, row)) for row in rows]
        return [names[place] for place in order.tolist()]

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
