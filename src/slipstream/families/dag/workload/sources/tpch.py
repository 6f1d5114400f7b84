"""Profiled TPC-H queries in the format published with Decima.

Two .npy files per data size and query: `adj_mat_<q>.npy`, the adjacency matrix of the stages, and
`task_duration_<q>.npy`, a pickled dictionary of durations in ms. A pickle can execute code; this reader builds
dictionaries, lists and numbers only.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import TraceError
from slipstream.families.dag.scenario import Tpch
from slipstream.families.dag.workload.sources.synthetic import NS_PER_MS, PARALLELISM
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves
from slipstream.files.arrays import read_array
from slipstream.files.inputs import read_bytes
from slipstream.files.tables import table_error

LEAST_COMPAT_PARALLELISM = 5
"""The published simulators ignore durations measured with fewer executors."""
WAVES = ("fresh_durations", "first_wave", "rest_wave")
LONGEST_MS = 1e9


def library(source: Tpch, folder: Path, compat: str | None) -> Library:
    """Return the queries of `folder` / `source.path`."""
    root = folder / source.path
    try:
        is_there = root.is_dir()
    except OSError as error:
        raise table_error(root, f"cannot be read: {error.strerror}") from error
    if not is_there:
        raise table_error(root, "no such folder: expected one that holds the folders 2g, 5g and so on")
    templates = tuple(
        _query(root / size, query, f"q{query}-{size}") for query in source.queries for size in source.sizes
    )
    parallelism_values = (
        PARALLELISM
        if compat is None
        else tuple(parallelism for parallelism in PARALLELISM if parallelism >= LEAST_COMPAT_PARALLELISM)
    )
    return Library(templates, parallelism_values)


def _query(folder: Path, query: int, name: str) -> JobTemplate:
    matrix = _read_matrix(folder / f"adj_mat_{query}.npy")
    path = folder / f"task_duration_{query}.npy"
    profile = _read_profile(path)
    if sorted(profile) != list(range(len(matrix))):
        raise table_error(path, f"expected durations of the stages 0 to {len(matrix) - 1}, as in the matrix beside it")
    stages = tuple(_stage(path, index, profile[index]) for index in range(len(matrix)))
    edges = tuple((int(parent), int(child)) for parent, child in np.argwhere(matrix != 0.0))
    template = JobTemplate(name, stages, edges)
    if len(template.order()) < len(stages):
        raise table_error(folder / f"adj_mat_{query}.npy", "its stages wait for each other: expected no cycles")
    return template


# Files


def _read_matrix(path: Path) -> np.ndarray:
    matrix = read_array(path, "a matrix of numbers in .npy format", TraceError)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix) or matrix.dtype.kind not in "fiu":
        raise table_error(path, f"expected a square matrix of numbers, got {matrix.dtype} of shape {matrix.shape}")
    return matrix


class _ArrayStub:
    """Stand-in for a pickled numpy array: keeps its state without building the array."""

    content: Any = None

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.content = state


class _RefusedError(Exception):
    """A pickle refers to a global that could execute code."""


class _RestrictedUnpickler(pickle._Unpickler):
    """Unpickler of dictionaries, lists and numbers; other globals are refused or replaced by a stand-in.

    Based on the unpickler written in Python: the one in C allocates a memo as long as the largest index in the pickle,
    which ten bytes can set to four billion.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module.replace("_core", "core"), name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }:
            return _ArrayStub
        raise _RefusedError(f"{module}.{name}")


def _read_profile(path: Path) -> dict[int, Any]:
    file = io.BytesIO(read_bytes(path, "a profile of this query", TraceError))
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError
        np.lib.format.read_array_header_1_0(file)
        read = _RestrictedUnpickler(file, encoding="latin1").load()
        content = read.content[-1][0]
    except _RefusedError as error:
        raise table_error(path, f"asks for {error}: expected a dictionary of numbers, nothing that can run") from error
    except Exception as error:
        # A damaged pickle can raise any exception.
        raise table_error(path, "damaged: expected a dictionary of durations in .npy format") from error
    if not isinstance(content, dict):
        raise table_error(path, f"expected a dictionary of durations, got {type(content).__name__}")
    return content


# Durations


def _stage(path: Path, index: int, data: Any) -> StageTemplate:
    """Return a stage; its number of tasks is that of the first parallelism in the file."""
    lists = {wave: _durations_by_parallelism(path, index, data, wave) for wave in WAVES}
    parallelism_values = list(lists["first_wave"])
    if (
        not parallelism_values
        or set(parallelism_values) != set(lists["rest_wave"])
        or set(parallelism_values) != set(lists["fresh_durations"])
    ):
        raise table_error(path, f"stage {index}: expected the same numbers of executors in all waves")
    tasks = len(lists["first_wave"][parallelism_values[0]]) + len(lists["rest_wave"][parallelism_values[0]])
    if tasks == 0:
        raise table_error(path, f"stage {index}: expected durations for {parallelism_values[0]} executors, got none")
    first = _without_fresh(lists["first_wave"], lists["fresh_durations"])
    waves = {
        parallelism: Waves(
            _ns(lists["fresh_durations"][parallelism]), _ns(first[parallelism]), _ns(lists["rest_wave"][parallelism])
        )
        for parallelism in sorted(parallelism_values)
    }
    if any(not len(one.fresh) and not len(one.first) for one in waves.values()):
        raise table_error(path, f"stage {index}: expected first_wave or fresh_durations for every number of executors")
    return StageTemplate(f"stage-{index}", tasks, waves)


def _durations_by_parallelism(path: Path, index: int, data: Any, wave: str) -> dict[int, list[float]]:
    parallelism_values = data.get(wave) if isinstance(data, dict) else None
    if not isinstance(parallelism_values, dict):
        raise table_error(path, f"stage {index}: '{wave}' is missing: expected durations by number of executors")
    for parallelism, durations in parallelism_values.items():
        fine = isinstance(parallelism, int) and parallelism > 0 and isinstance(durations, list)
        if not fine or not all(isinstance(one, int | float) and 0 <= one <= LONGEST_MS for one in durations):
            raise table_error(path, f"stage {index}: {wave}[{parallelism}]: expected a list of times in ms")
    return parallelism_values


def _without_fresh(first: dict[int, list[float]], fresh: dict[int, list[float]]) -> dict[int, list[float]]:
    """Return the first wave without the fresh tasks; an empty list becomes that of the next lower parallelism."""
    cleaned: dict[int, list[float]] = {}
    below: list[float] = []
    for parallelism in sorted(first):
        left = Counter(fresh[parallelism])
        kept = []
        for duration in first[parallelism]:
            if left[duration] > 0:
                left[duration] -= 1
            else:
                kept.append(duration)
        cleaned[parallelism] = below = kept or below
    return cleaned


def _ns(durations_ms: list[float]) -> np.ndarray:
    return np.maximum(1, np.rint(np.array(durations_ms, np.float64) * NS_PER_MS)).astype(np.int64)
