"""Parquet files, opened only if reading them cannot fill the memory.

A column of one value repeated takes a few bytes for a hundred million rows, and a compressed page can unpack to two
gigabytes. So before anything is unpacked, the rows and the sizes that the file declares are added up: those of its
footer, and those in front of its pages, which the reader of the pages goes by and which the footer may contradict.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.core.inputs import most_unpacked, open_regular
from slipstream.errors import InputError

HEADER_BYTES = 1 << 16
"""Most bytes of a page's header; statistics of long texts take about ten thousand."""
DEEPEST_STRUCT = 8
UNPACKED_SIZE, PACKED_SIZE = 2, 3
"""Numbers of the fields of a page's header."""

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
"""Types of Thrift's compact protocol."""


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


def check_unpacked(
    path: Path, file: pq.ParquetFile, columns: Sequence[str], row_bytes: int, expected: str, error: type[InputError]
) -> None:
    """Refuse a file whose `columns` would take too much memory; a row of them takes `row_bytes` once it is read.

    Raises:
        InputError: Of the type `error`, one line: the file, how much it declares, and what was `expected`.
    """
    with open_regular(path, expected, error) as raw:
        limit = most_unpacked(raw.seek(0, 2))
        metadata = file.metadata
        rows = metadata.num_rows
        if not 0 <= rows * row_bytes <= limit:
            raise error(f"{path}: declares {rows:,} rows, which would take over {limit >> 20} MB: expected {expected}")
        try:
            size = _unpacked_size(raw, metadata, set(columns))
        except (ValueError, LookupError, OSError, pa.ArrowException):
            raise error(f"{path}: damaged: expected {expected}") from None
        if size > limit:
            raise error(f"{path}: its pages unpack to over {limit >> 20} MB: expected {expected}")


def _unpacked_size(raw: BinaryIO, metadata: pq.FileMetaData, columns: set[str]) -> int:
    """Return the bytes of all pages of some flat columns; a file that contradicts itself is a ValueError."""
    size = rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows += group.num_rows
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema in columns:
                if column.num_values != group.num_rows:
                    raise ValueError("a cell for each row")
                size += _chunk_size(raw, column) if column.num_values else 0  # where none are, pages may be missing
    if rows != metadata.num_rows:
        raise ValueError("the rows of all groups")
    return size


def _chunk_size(raw: BinaryIO, column: pq.ColumnChunkMetaData) -> int:
    """Return the bytes that the pages of a column unpack to, as their headers say."""
    place, first = column.data_page_offset, column.dictionary_page_offset
    if first is not None and 0 < first < place:
        place = first
    end = place + column.total_compressed_size
    size = 0
    while place < end:
        raw.seek(place)
        header = _Header(raw.read(HEADER_BYTES))
        fields = header.struct(0)
        unpacked, packed = fields[UNPACKED_SIZE], fields[PACKED_SIZE]
        if unpacked < 0 or packed < 0:
            raise ValueError("sizes")
        size += unpacked
        place += header.place + packed
    return size


class _Header:
    """Reads the header of a page, which is a struct of Thrift's compact protocol: its whole numbers by field."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def number(self) -> int:
        """Return an unsigned number in groups of seven bits, the lowest first."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of over 64 bits")

    def struct(self, depth: int) -> dict[int, int]:
        if depth > DEEPEST_STRUCT:
            raise ValueError("structs inside each other")
        fields: dict[int, int] = {}
        field = 0
        while (head := self.byte()) != STOP:
            field = field + (head >> 4) if head >> 4 else _signed(self.number())
            fields[field] = self.value(head & 0x0F, depth)
        return fields

    def value(self, kind: int, depth: int) -> int:
        """Return a whole number; read past anything else."""
        if kind in (I16, I32, I64):
            return _signed(self.number())
        if kind in (BYTE, DOUBLE, BINARY):
            length = self.number() if kind == BINARY else 8 if kind == DOUBLE else 1
            self.place += length
        elif kind in (LIST, SET):
            head = self.byte()
            for _ in range(self.number() if head >> 4 == 15 else head >> 4):
                self.item(head & 0x0F, depth)
        elif kind == MAP:
            count = self.number()
            kinds = self.byte() if count else 0
            for _ in range(count):
                self.item(kinds >> 4, depth)
                self.item(kinds & 0x0F, depth)
        elif kind == STRUCT:
            self.struct(depth + 1)
        elif kind not in (TRUE, FALSE):
            raise ValueError("an unknown type")
        return 0

    def item(self, kind: int, depth: int) -> None:
        """Read past an item of a list or map, where truth values take a byte."""
        self.value(BYTE if kind in (TRUE, FALSE) else kind, depth + 1)


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
