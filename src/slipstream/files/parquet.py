"""Parquet files, opened only if reading them cannot exhaust the memory.

A constant column takes a few bytes for a hundred million rows, and a compressed page can decompress to two gigabytes.
So before anything is decompressed, the declared rows and sizes are added up: those of the footer, and those of the page
headers, which the reader of the pages uses and which the footer may contradict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.errors import InputError
from slipstream.files.inputs import open_regular, unpacked_limit
from slipstream.files.thrift import Compact

HEADER_BYTES = 1 << 16
"""Greatest size of a page header; statistics of long strings take about ten thousand bytes."""
FOOTER_BYTES = 1 << 26
MAGIC = b"PAR1"


def open_parquet(path: Path, expected: str, error: type[InputError]) -> pq.ParquetFile:
    """Open the regular file `path` as Parquet.

    Raises:
        InputError: Of the type `error`, one line: the file, what is wrong, and what was `expected`.
    """
    with open_regular(path, expected, error):
        pass  # opening a pipe would block
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException, ValueError, MemoryError):
        raise error(f"{path}: not a Parquet file: expected {expected}") from None


def check_unpacked(path: Path, columns: Sequence[str], row_bytes: int, expected: str, error: type[InputError]) -> None:
    """Raise an error if `columns` would take too much memory, with `row_bytes` per row in memory.

    The footer is parsed by our own reader first, because Arrow's can crash the process on a damaged one.

    Raises:
        InputError: Of the type `error`, one line: the file, how much it declares, and what was `expected`.
    """
    with open_regular(path, expected, error) as raw:
        limit = unpacked_limit(raw.seek(0, 2))
        try:
            footer = _footer(raw)
            rows = footer.rows
            if not 0 <= rows * row_bytes <= limit:
                too_many = f"declares {rows:,} rows, which would take over {limit >> 20} MB"
                raise error(f"{path}: {too_many}: expected {expected}")
            size = sum(_chunk_size(raw, chunk) for chunk in footer.chunks(set(columns)))
        except (ValueError, LookupError, TypeError, AttributeError, OSError):
            raise error(f"{path}: damaged: expected {expected}") from None
    if size > limit:
        raise error(f"{path}: its pages unpack to over {limit >> 20} MB: expected {expected}")


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group: file offset and compressed size of its pages."""

    offset: int
    packed: int


@dataclass(frozen=True)
class _Footer:
    """The fields of a footer by their Thrift ids."""

    fields: dict[int, Any]

    @property
    def rows(self) -> int:
        """Number of rows; a ValueError if those of the row groups do not add up to it."""
        rows = int(self.fields[FileField.ROWS])
        if sum(group[GroupField.ROWS] for group in self.fields[FileField.GROUPS]) != rows:
            raise ValueError("the rows of all groups")
        return rows

    def chunks(self, columns: set[str]) -> Iterator[_Chunk]:
        """Yield the non-empty chunks of the flat `columns`; a chunk without one value per row is a ValueError."""
        names = {name.encode() for name in columns}
        for group in self.fields[FileField.GROUPS]:
            for column in group[GroupField.COLUMNS]:
                about = column[ChunkField.ABOUT]
                if len(about[ColumnField.PATH]) != 1 or about[ColumnField.PATH][0] not in names:
                    continue
                if about[ColumnField.VALUES] != group[GroupField.ROWS]:
                    raise ValueError("a cell for each row")
                if not about[ColumnField.VALUES]:
                    continue  # an empty chunk may have no pages
                data, dictionary = about[ColumnField.DATA], about.get(ColumnField.DICTIONARY, 0)
                yield _Chunk(dictionary if 0 < dictionary < data else data, about[ColumnField.PACKED])


class FileField(IntEnum):
    """Thrift field ids of a footer in the Parquet format."""

    ROWS, GROUPS = 3, 4


class GroupField(IntEnum):
    """Field ids of a row group."""

    COLUMNS, ROWS = 1, 3


class ChunkField(IntEnum):
    """Field ids of a column chunk."""

    ABOUT = 3


class ColumnField(IntEnum):
    """Field ids of the metadata of a column chunk."""

    PATH, VALUES, PACKED, DATA, DICTIONARY = 3, 5, 7, 9, 11


class PageField(IntEnum):
    """Field ids of a page header."""

    UNPACKED, PACKED = 2, 3


def _footer(raw: BinaryIO) -> _Footer:
    """Return the footer of a file; its last eight bytes are the footer's length and Parquet's magic number."""
    end = raw.seek(-8, 2)
    tail = raw.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or not 0 < length <= min(end, FOOTER_BYTES):
        raise ValueError("the end of the file")
    raw.seek(end - length)
    return _Footer(Compact(raw.read(length)).struct())


def _chunk_size(raw: BinaryIO, chunk: _Chunk) -> int:
    """Return the decompressed size of the pages of a column chunk, as declared by their headers."""
    offset, end = chunk.offset, chunk.offset + chunk.packed
    size = 0
    while offset < end:
        raw.seek(offset)
        header = Compact(raw.read(HEADER_BYTES))
        fields = header.struct()
        unpacked, packed = fields[PageField.UNPACKED], fields[PageField.PACKED]
        if unpacked < 0 or packed < 0:
            raise ValueError("sizes")
        size += unpacked
        offset += header.offset + packed
    return size
