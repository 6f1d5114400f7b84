"""The event log: what happened in a lane, row by row; metrics, pictures and laws all read it and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.core.atomic import AtomicFile, cannot_write
from slipstream.errors import TraceError

ARRIVAL, START, FINISH, EXPIRE, REJECT, DROP, END, PREEMPT, READY, EVICT, MOVE, FAIL, DONE, TAKE = range(14)
KINDS = (
    "arrival",
    "start",
    "finish",
    "expire",
    "reject",
    "drop",
    "end",
    "preempt",
    "ready",
    "evict",
    "move",
    "fail",
    "done",
    "take",
)
"""Names of the kinds, in the order of their codes."""

EVENT = np.dtype(
    [("time", "i8"), ("job", "i8"), ("task", "i4"), ("resource", "i4"), ("variant", "i2"), ("kind", "i2")], align=True
)
"""time in ns; job counts within its task; -1 where a column does not apply."""

COLUMNS = tuple(EVENT.names or ())
PIECE_ROWS = 1 << 16
"""Most rows of a recorded log that are read at a time, unless they were written as one group."""


def digest(events: np.ndarray) -> str:
    """Return the SHA-256 of the rows, column by column: the same log gives the same digest on any machine."""
    content = hashlib.sha256()
    for name in COLUMNS:
        content.update(np.ascontiguousarray(events[name]).astype(EVENT[name].newbyteorder("<")).tobytes())
    return content.hexdigest()


def to_arrow(events: np.ndarray) -> pa.RecordBatch:
    """Return the rows as Arrow columns."""
    return pa.record_batch([pa.array(np.ascontiguousarray(events[name])) for name in COLUMNS], names=list(COLUMNS))


def from_arrow(batch: pa.RecordBatch, into: np.ndarray | None = None) -> np.ndarray:
    """Return Arrow columns without empty cells as rows: new ones, or those that are to be filled."""
    events = np.empty(batch.num_rows, EVENT) if into is None else into
    if batch.num_rows:
        for name in COLUMNS:
            # Arrow's own way to NumPy imports pandas first, wherever that is installed: half a second.
            column, kind = batch.column(name), EVENT[name]
            events[name] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    return events


class LogWriter:
    """Writes a log to Parquet chunk by chunk; the file appears under its name only when it is complete.

    Where it cannot be written, that is an InputError, and nothing is left behind.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        schema = pa.schema([(name, pa.from_numpy_dtype(EVENT[name])) for name in COLUMNS])
        self._schema = schema.with_metadata({b"slipstream": json.dumps(about, sort_keys=True).encode()})
        self._file: AtomicFile | None = None
        self._writer: Any = None
        with self._whole_or_not():
            self._file = AtomicFile(path)
            self._writer = pq.ParquetWriter(self._file.partial, self._schema, compression="zstd")

    def write(self, events: np.ndarray) -> None:
        """Append rows."""
        with self._whole_or_not():
            self._writer.write_batch(to_arrow(events).replace_schema_metadata(self._schema.metadata))

    def close(self) -> None:
        """Finish the file and put it in its place."""
        with self._whole_or_not():
            assert self._file is not None
            self._writer.close()
            self._file.commit()

    def abandon(self) -> None:
        """Give up: leave nothing behind."""
        with suppress(OSError):  # what is not written any more needs no end
            if self._writer is not None:
                self._writer.close()
        if self._file is not None:
            self._file.discard()

    @contextmanager
    def _whole_or_not(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abandon()
            raise cannot_write(self.path, error) from None
        except BaseException:
            self.abandon()
            raise


def read(path: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the rows of a recorded log and what it says about itself."""
    about = read_about(path)
    events = np.empty(_open(path).metadata.num_rows, EVENT)
    place = 0
    for piece in _pieces(path):
        from_arrow(piece, events[place : place + piece.num_rows])
        place += piece.num_rows
    return events[:place], about


def read_about(path: Path) -> dict[str, Any]:
    """Return what a recorded log says about itself, without reading its rows."""
    about = (_open(path).schema_arrow.metadata or {}).get(b"slipstream", b"{}")
    try:
        found: dict[str, Any] = json.loads(about)
    except ValueError as error:
        raise TraceError(f"{path}: its description is not JSON: expected an event log written by slipstream") from error
    return found


def read_chunks(path: Path) -> Iterator[np.ndarray]:
    """Yield the rows of a recorded log in pieces of bounded size."""
    yield from map(from_arrow, _pieces(path))


def _pieces(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield a log as columns, some groups of rows at a time: each column of those is unpacked by another thread."""
    try:
        file = _open(path)
        group, groups = 0, file.metadata.num_row_groups
        while group < groups:
            rows, first = 0, group
            while group < groups and (rows == 0 or rows + file.metadata.row_group(group).num_rows <= PIECE_ROWS):
                rows += file.metadata.row_group(group).num_rows
                group += 1
            piece = file.read_row_groups(range(first, group), columns=list(COLUMNS), use_threads=True)
            empty = [name for name in COLUMNS if piece.column(name).null_count]
            if empty:
                raise TraceError(f"{path}: column '{empty[0]}' has empty cells: expected a number in each")
            yield from piece.to_batches()
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"{path}: damaged: expected an event log written by slipstream") from error


def _open(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else "not a Parquet file"
        raise TraceError(f"{path}: {reason}: expected an event log written by slipstream") from error
    missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if missing:
        raise TraceError(f"{path}: column '{missing[0]}' is missing: expected an event log with {', '.join(COLUMNS)}")
    for name in COLUMNS:
        found, expected = file.schema_arrow.field(name).type, pa.from_numpy_dtype(EVENT[name])
        if found != expected:
            raise TraceError(f"{path}: column '{name}' holds {found}: expected {expected}")
    return file
