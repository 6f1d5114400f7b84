"""Tiled linear algebra with real numbers: kernels on tiles, matrices to begin with, and how far a result is off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import lapack, qr, solve_triangular

Tiles = Sequence[np.ndarray]
"""Tiles of a task in the order of its accesses; the kernel overwrites those that it writes."""


def _potrf(tiles: Tiles) -> None:
    tiles[0][:] = np.linalg.cholesky(tiles[0])


def _trsm(tiles: Tiles) -> None:
    tiles[1][:] = solve_triangular(tiles[0], tiles[1].T, lower=True, check_finite=False).T


def _update_transposed(tiles: Tiles) -> None:
    tiles[2][:] -= tiles[0] @ tiles[1].T


def _syrk(tiles: Tiles) -> None:
    tiles[1][:] -= tiles[0] @ tiles[0].T


def _lu(tiles: Tiles) -> None:
    """Factorise without exchanging rows, which a matrix with a dominant diagonal does not need."""
    factors, pivots, info = lapack.dgetrf(tiles[0])
    if info or (pivots != np.arange(len(pivots))).any():
        raise ArithmeticError("the diagonal is not dominant")
    tiles[0][:] = factors


def _forward(tiles: Tiles) -> None:
    tiles[1][:] = solve_triangular(tiles[0], tiles[1], lower=True, unit_diagonal=True, check_finite=False)


def _divide(tiles: Tiles) -> None:
    tiles[1][:] = solve_triangular(tiles[0], tiles[1].T, trans="T", check_finite=False).T


def _update(tiles: Tiles) -> None:
    tiles[2][:] -= tiles[0] @ tiles[1]


def _multiply(tiles: Tiles) -> None:
    tiles[2][:] += tiles[0] @ tiles[1]


def _geqrt(tiles: Tiles) -> None:
    tiles[1][:], tiles[0][:] = qr(tiles[0], check_finite=False)


def _ormqr(tiles: Tiles) -> None:
    tiles[1][:] = tiles[0].T @ tiles[1]


def _tsqrt(tiles: Tiles) -> None:
    """Factorise a triangle on top of a square; the square then holds the reflectors below the unit part."""
    triangle, reflectors, _, info = lapack.dtpqrt(0, len(tiles[0]), tiles[0], tiles[1])
    if info:
        raise ArithmeticError(f"the factorisation failed with {info}")
    tiles[0][:], tiles[1][:] = np.triu(triangle), reflectors


def _tsmqr(tiles: Tiles) -> None:
    """Apply the reflectors V of TSQRT to two tiles; the triangle T of Q = 1 - V T V' follows from V'V = 1/T + 1/T'."""
    reflectors, top, bottom = tiles
    products = np.eye(len(reflectors)) + reflectors.T @ reflectors
    inverse = np.triu(products, 1) + np.diag(np.diag(products)) / 2.0
    change = solve_triangular(inverse, top + reflectors.T @ bottom, trans="T", check_finite=False)
    top[:] -= change
    bottom[:] -= reflectors @ change


KERNELS: dict[str, dict[str, Callable[[Tiles], None]]] = {
    "cholesky": {"POTRF": _potrf, "TRSM": _trsm, "GEMM": _update_transposed, "SYRK": _syrk},
    "lu": {"LU": _lu, "FWD": _forward, "BDIV": _divide, "BMOD": _update},
    "qr": {"GEQRT": _geqrt, "ORMQR": _ormqr, "TSQRT": _tsqrt, "TSMQR": _tsmqr},
    "gemm": {"GEMM": _multiply},
}
"""Kernels by kind of graph and name."""


def matrices(kind: str, size: int, seed: int) -> dict[str, np.ndarray]:
    """Return the matrices that a graph begins with, by the letter of their tiles; the empty letter if there is one."""
    draws = np.random.default_rng(seed)
    if kind == "gemm":
        return {letter: draws.standard_normal((size, size)) for letter in "ABC"}
    matrix = draws.standard_normal((size, size))
    if kind == "cholesky":
        return {"": matrix @ matrix.T / size + np.eye(size)}
    return {"": matrix if kind == "qr" else matrix + np.diag(np.abs(matrix).sum(axis=0) + 1.0)}


def place(name: str) -> tuple[str, int, int] | None:
    """Return matrix, row and column of a tile by its name; None for one that holds reflectors."""
    if name.startswith("V"):
        return None
    letter = name[0] if name[0] in "ABC" else ""
    row, column = name.removeprefix(letter).split(",")
    return letter, int(row), int(column)


def residual(kind: str, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> float:
    """Return how far the result is off, relative to the largest number of what it should give."""
    if kind == "gemm":
        expected, found = before["C"] + before["A"] @ before["B"], after["C"]
    elif kind == "cholesky":
        expected, lower = before[""], np.tril(after[""])
        found = lower @ lower.T
    elif kind == "lu":
        expected = before[""]
        found = (np.tril(after[""], -1) + np.eye(len(expected))) @ np.triu(after[""])
    else:
        expected, upper = before[""].T @ before[""], np.triu(after[""])
        found = upper.T @ upper
    return float(np.abs(found - expected).max() / np.abs(expected).max())
