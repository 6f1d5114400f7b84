"""Parquet files, opened only if reading them cannot fill the memory.

A column of one value repeated takes a few bytes for a hundred million rows, and a compressed page can unpack to two
gigabytes. So before anything is unpacked, the rows and the sizes that the file declares are added up: those of its
footer, and those in front of its pages, which the reader of the pages goes by and which the footer may contradict.
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
from slipstream.files.inputs import most_unpacked, open_regular
from slipstream.files.thrift import Compact

HEADER_BYTES = 1 << 16
"""Most bytes of a page's header; statistics of long texts take about ten thousand."""
FOOTER_BYTES = 1 << 26
MAGIC = b"PAR1"


def open_parquet(path: Path, expected: str, error: type[InputError]) -> pq.ParquetFile:
    """Open a regular file whose footer is that of Parquet.

    Raises:
        InputError: Of the type `error`, one line: the file, what is wrong, and what was `expected`.
    """
    with open_regular(path, expected, error):
        pass  # a pipe would never be opened
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException, ValueError, MemoryError):
        raise error(f"{path}: not a Parquet file: expected {expected}") from None


def check_unpacked(path: Path, columns: Sequence[str], row_bytes: int, expected: str, error: type[InputError]) -> None:
    """Refuse a file whose `columns` would take too much memory; a row of them takes `row_bytes` once it is read.

    The footer is read here too, by our own reader: Arrow's ends the process where some of it is damaged.

    Raises:
        InputError: Of the type `error`, one line: the file, how much it declares, and what was `expected`.
    """
    with open_regular(path, expected, error) as raw:
        limit = most_unpacked(raw.seek(0, 2))
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
    """A column of a group of rows: where its pages begin, and how many bytes they take."""

    place: int
    packed: int


@dataclass(frozen=True)
class _Footer:
    """The numbers of a footer, by the numbers of their fields."""

    fields: dict[int, Any]

    @property
    def rows(self) -> int:
        """All rows; those of the groups must add up to them."""
        rows = int(self.fields[FileField.ROWS])
        if sum(group[GroupField.ROWS] for group in self.fields[FileField.GROUPS]) != rows:
            raise ValueError("the rows of all groups")
        return rows

    def chunks(self, columns: set[str]) -> Iterator[_Chunk]:
        """Yield the chunks of some flat columns that have values; one with another number of values is a ValueError."""
        names = {name.encode() for name in columns}
        for group in self.fields[FileField.GROUPS]:
            for column in group[GroupField.COLUMNS]:
                about = column[ChunkField.ABOUT]
                if len(about[ColumnField.PATH]) != 1 or about[ColumnField.PATH][0] not in names:
                    continue
                if about[ColumnField.VALUES] != group[GroupField.ROWS]:
                    raise ValueError("a cell for each row")
                if not about[ColumnField.VALUES]:
                    continue  # where none are, pages may be missing
                place, first = about[ColumnField.DATA], about.get(ColumnField.DICTIONARY, 0)
                yield _Chunk(first if 0 < first < place else place, about[ColumnField.PACKED])


class FileField(IntEnum):
    """Numbers of fields of a footer, as Parquet's format gives them."""

    ROWS, GROUPS = 3, 4


class GroupField(IntEnum):
    """Those of a group of rows."""

    COLUMNS, ROWS = 1, 3


class ChunkField(IntEnum):
    """Those of a column of a group."""

    ABOUT = 3


class ColumnField(IntEnum):
    """Those of what is said about it."""

    PATH, VALUES, PACKED, DATA, DICTIONARY = 3, 5, 7, 9, 11


class PageField(IntEnum):
    """Those of a page."""

    UNPACKED, PACKED = 2, 3


def _footer(raw: BinaryIO) -> _Footer:
    """Return the footer of a file, which stands before its last eight bytes: its length, and Parquet's mark."""
    end = raw.seek(-8, 2)
    tail = raw.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or not 0 < length <= min(end, FOOTER_BYTES):
        raise ValueError("the end of the file")
    raw.seek(end - length)
    return _Footer(Compact(raw.read(length)).struct())


def _chunk_size(raw: BinaryIO, chunk: _Chunk) -> int:
    """Return the bytes that the pages of a column unpack to, as their headers say."""
    place, end = chunk.place, chunk.place + chunk.packed
    size = 0
    while place < end:
        raw.seek(place)
        header = Compact(raw.read(HEADER_BYTES))
        fields = header.struct()
        unpacked, packed = fields[PageField.UNPACKED], fields[PageField.PACKED]
        if unpacked < 0 or packed < 0:
            raise ValueError("sizes")
        size += unpacked
        place += header.place + packed
    return size
