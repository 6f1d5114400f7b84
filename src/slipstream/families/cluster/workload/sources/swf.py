"""Logs in the Standard Workload Format of the Parallel Workloads Archive, plain or gzip."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import numpy as np

from slipstream.errors import TraceError
from slipstream.families.cluster.workload.arrivals import RawJobs
from slipstream.files.inputs import read_bytes, unpacked_limit
from slipstream.files.tables import table_error

FIELDS = 18
NUMBER, SUBMIT, RUN, ALLOCATED, ASKED, REQUESTED, USER = 0, 1, 3, 4, 7, 8, 11
"""Columns that are read; -1 is a missing value in each of them."""
MOST = 2**53
"""Largest number up to which floats represent all integers."""
FEWEST_FIELDS = USER + 1
"""Some logs omit the fields after the user."""


def jobs(path: Path) -> RawJobs:
    """Return the jobs of a log; the greater of the allocated and the requested processors count as GPUs."""
    lines = _text(path).split("\n")
    rows, numbers = [], []
    for number, line in enumerate(lines, start=1):
        if line and not line.lstrip().startswith(";"):
            cells = line.split()
            if cells:
                rows.append(cells)
                numbers.append(number)
    table = _numbers(path, rows, numbers)
    requested = table[:, REQUESTED]
    return RawJobs(
        key=table[:, NUMBER].tolist(),
        submit=table[:, SUBMIT],
        run=table[:, RUN],
        requested=np.where(requested > 0.0, requested, np.nan),
        gpus=np.maximum(table[:, ALLOCATED], table[:, ASKED]).astype(np.int64),
        user=[f"user {number:.0f}" for number in table[:, USER].tolist()],
    )


def _text(path: Path) -> str:
    raw = read_bytes(path, "a log in the Standard Workload Format", TraceError)
    if raw[:2] == b"\x1f\x8b":
        limit = unpacked_limit(len(raw))
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                raw = packed.read(limit + 1)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise table_error(path, f"cannot be read ({error}): expected a log, plain or gzip") from error
        if len(raw) > limit:
            raise table_error(path, f"unpacks to over {limit >> 20} MB: expected a log, plain or gzip")
    # Names in old headers are in many encodings; numbers are ASCII in all of them.
    return raw.decode("latin-1")


def _numbers(path: Path, rows: list[list[str]], numbers: list[int]) -> np.ndarray:
    """Return the first columns as numbers; errors name the line."""
    for cells, number in zip(rows, numbers, strict=True):
        if not FEWEST_FIELDS <= len(cells) <= FIELDS:
            text = f"expected {FIELDS} fields, or the first {FEWEST_FIELDS} of them at least, got {len(cells)}"
            raise table_error(path, f"row {number}: {text}")
    try:
        table = np.array([cells[:FEWEST_FIELDS] for cells in rows], np.float64).reshape(-1, FEWEST_FIELDS)
    except ValueError:
        table = None
    if table is None or not (np.abs(table) <= MOST).all():
        for cells, number in zip(rows, numbers, strict=True):
            for column, cell in enumerate(cells[:FEWEST_FIELDS], start=1):
                if not _is_finite(cell):
                    raise table_error(path, f"row {number}: field {column}: expected a number, got '{cell[:40]}'")
    assert table is not None
    return table


def _is_finite(cell: str) -> bool:
    try:
        return abs(float(cell)) <= MOST
    except ValueError:
        return False
