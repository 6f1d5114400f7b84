"""The event log of a lane: the only input of metrics, pictures and invariant checks."""

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

from slipstream.errors import TraceError
from slipstream.files.atomic import AtomicFile, cannot_write
from slipstream.files.inputs import json_object
from slipstream.files.parquet import check_unpacked, open_parquet

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
CHUNK_ROWS = 1 << 16
"""Rows of a recorded log that are read at a time, unless one row group has more."""


def digest(events: np.ndarray) -> str:
    """Return the SHA-256 of `events`, column by column in little-endian order: equal on all machines."""
    content = hashlib.sha256()
    for name in COLUMNS:
        content.update(np.ascontiguousarray(events[name]).astype(EVENT[name].newbyteorder("<")).tobytes())
    return content.hexdigest()


def to_arrow(events: np.ndarray) -> pa.RecordBatch:
    """Return `events` as Arrow columns."""
    return pa.record_batch([pa.array(np.ascontiguousarray(events[name])) for name in COLUMNS], names=list(COLUMNS))


def from_arrow(batch: pa.RecordBatch, into: np.ndarray | None = None) -> np.ndarray:
    """Return the Arrow columns of `batch`, which have no nulls, as rows: a new array, or `into` filled."""
    events = np.empty(batch.num_rows, EVENT) if into is None else into
    if batch.num_rows:
        for name in COLUMNS:
            # Arrow's own conversion imports pandas wherever that is installed, which takes half a second.
            column, kind = batch.column(name), EVENT[name]
            events[name] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    return events


class LogWriter:
    """Writes a log to Parquet in chunks; the file appears under its name only when it is complete.

    A file that cannot be written is an InputError and leaves no partial file.
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
        """Append `events`."""
        with self._whole_or_not():
            self._writer.write_batch(to_arrow(events).replace_schema_metadata(self._schema.metadata))

    def close(self) -> None:
        """Complete the file and move it to its name."""
        with self._whole_or_not():
            assert self._file is not None
            self._writer.close()
            self._file.commit()

    def abandon(self) -> None:
        """Discard what was written."""
        with suppress(OSError):  # the footer of a discarded file may fail to be written
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


EXPECTED = "an event log written by slipstream"
OLD_SPLIT_KEY = "namespace"
"""Name of the metadata key `split` in logs of earlier versions."""


class OtherTableError(TraceError):
    """A Parquet file has not the columns of an event log."""


def read(path: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the rows of the recorded log at `path` and its metadata."""
    file = _open(path)
    about = _about(path, file)
    events = np.empty(file.metadata.num_rows, EVENT)
    row = 0
    for batch in _batches(path, file):
        from_arrow(batch, events[row : row + batch.num_rows])
        row += batch.num_rows
    return events[:row], about


def read_about(path: Path) -> dict[str, Any]:
    """Return the metadata of the recorded log at `path` without reading its rows."""
    return _about(path, _open_footer(path))


def _about(path: Path, file: pq.ParquetFile) -> dict[str, Any]:
    text = (file.schema_arrow.metadata or {}).get(b"slipstream", b"{}")
    about = json_object(text, f"{path}: its description", TraceError)
    if OLD_SPLIT_KEY in about:
        about.setdefault("split", about.pop(OLD_SPLIT_KEY))
    return about


def read_chunks(path: Path) -> Iterator[np.ndarray]:
    """Yield the rows of the recorded log at `path` in chunks of bounded size."""
    yield from map(from_arrow, _batches(path, _open(path)))


def _batches(path: Path, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yield a log as Arrow batches of a few row groups each; their columns are decompressed in parallel."""
    try:
        group, groups = 0, file.metadata.num_row_groups
        while group < groups:
            rows, first = 0, group
            while group < groups and (rows == 0 or rows + file.metadata.row_group(group).num_rows <= CHUNK_ROWS):
                rows += file.metadata.row_group(group).num_rows
                group += 1
            batch = file.read_row_groups(range(first, group), columns=list(COLUMNS), use_threads=True)
            if batch.num_rows != rows:
                raise TraceError(f"{path}: damaged: expected {EXPECTED}")
            empty = [name for name in COLUMNS if batch.column(name).null_count]
            if empty:
                raise TraceError(f"{path}: column '{empty[0]}' has empty cells: expected a number in each")
            yield from batch.to_batches()
    except (OSError, pa.ArrowException, MemoryError) as error:
        raise TraceError(f"{path}: damaged: expected {EXPECTED}") from error


def _open_footer(path: Path) -> pq.ParquetFile:
    """Open the Parquet file at `path` and check that it has the columns of a log."""
    file = open_parquet(path, EXPECTED, TraceError)
    try:
        schema = file.schema_arrow
    except (OSError, pa.ArrowException, ValueError, KeyError):
        raise TraceError(f"{path}: damaged: expected {EXPECTED}") from None
    for name in COLUMNS:
        if schema.names.count(name) != 1:
            what = "is missing" if name not in schema.names else f"appears {schema.names.count(name)} times"
            raise OtherTableError(f"{path}: column '{name}' {what}: expected an event log with {', '.join(COLUMNS)}")
        found, expected = schema.field(name).type, pa.from_numpy_dtype(EVENT[name])
        if found != expected:
            raise TraceError(f"{path}: column '{name}' holds {found}: expected {expected}")
    return file


def _open(path: Path) -> pq.ParquetFile:
    """Open the log at `path` and check that its rows fit into memory."""
    file = _open_footer(path)
    check_unpacked(path, COLUMNS, EVENT.itemsize, EXPECTED, TraceError)
    return file
