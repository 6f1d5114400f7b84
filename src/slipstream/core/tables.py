"""Columns of CSV and Parquet files, read with the number of every row, so that an error can name it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import TraceError

LONGEST_LINE = 600
"""Characters of an error; what exceeds it is cut, so that a hostile file cannot fill a screen."""


@dataclass(frozen=True)
class Table:
    """Some columns of a file."""

    path: Path
    rows: np.ndarray
    """The number of each row: the line of a CSV file, whose line 1 is the header; counted from 1 in Parquet."""
    columns: dict[str, Any]
    """Cells by column: text from CSV; numbers or text, as the file has them, from Parquet."""

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, keep: np.ndarray) -> Table:
        """Return the rows that a boolean array chooses."""
        columns = {name: np.asarray(cells, object)[keep].tolist() for name, cells in self.columns.items()}
        return Table(self.path, self.rows[keep], columns)

    def error(self, index: int, text: str) -> TraceError:
        """Return an error that names the row with this index."""
        return table_error(self.path, f"row {self.rows[index]}: {text}")

    def numbers(self, column: str) -> np.ndarray:
        """Return a column of numbers."""
        cells = self.columns[column]
        try:
            return np.asarray([float(cell) for cell in cells] if isinstance(cells, list) else cells, np.float64)
        except (TypeError, ValueError):
            index = next(index for index, cell in enumerate(cells) if not _is_number(cell))
            shown = f"'{str(cells[index])[:40]}'" if cells[index] not in ("", None) else "nothing"
            raise self.error(index, f"{column}: expected a number, got {shown}") from None

    def texts(self, column: str) -> list[str]:
        """Return a column of text; no cell may be empty."""
        cells = ["" if cell is None else str(cell) for cell in self.columns[column]]
        if "" in cells:
            raise self.error(cells.index(""), f"{column}: expected text, got nothing")
        return cells


def table_error(path: Path, text: str) -> TraceError:
    """Return an error about a file, in one line whatever its cells hold."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return TraceError(f"{path}: {line[:LONGEST_LINE]}")


def read_content(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        TraceError: One line: the file and why it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise table_error(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:  # a null character in the path
        raise table_error(path, f"cannot be read: {error}") from error


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises:
        TraceError: One line: the file, and why it cannot be read or which row is not UTF-8.
    """
    raw = read_content(path)
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise table_error(path, f"row {row}: not UTF-8 at byte {error.start}: expected a text file") from error


def read_table(path: Path, columns: Sequence[str]) -> Table:
    """Return the named columns of a .csv or .parquet file.

    Raises:
        TraceError: One line: the file, the row where there is one, what is wrong and what was expected.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, columns)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, columns)
    raise table_error(path, "unknown kind of file: expected a .csv or .parquet file")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def table_bytes(columns: dict[str, list[Any]], kind: str) -> bytes:
    """Return columns as the content of a file of kind 'csv' or 'parquet'."""
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(cell if isinstance(cell, str) else repr(cell) for cell in row) for row in rows]
        return "\n".join([",".join(columns), *lines, ""]).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


# CSV


def _read_csv(path: Path, columns: Sequence[str]) -> Table:
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    lines: list[int] = []
    kept: list[list[str]] = []
    try:
        header = next(reader, [])
        places = [_place(path, header, column) for column in columns]
        width = len(header)
        for row in reader:
            if len(row) == width:
                kept.append(row)
            elif len(row) > width:
                raise table_error(path, f"row {reader.line_num}: expected {width} cells as in row 1, got {len(row)}")
            elif row:  # the cells that a short row leaves out are empty
                kept.append(row + [""] * (width - len(row)))
            else:
                continue
            lines.append(reader.line_num)
    except csv.Error as error:
        raise table_error(path, f"row {reader.line_num}: not CSV: {error}") from error
    cells = {column: [row[place] for row in kept] for column, place in zip(columns, places, strict=True)}
    return Table(path, np.array(lines, np.int64), cells)


def _place(path: Path, header: list[str], column: str) -> int:
    if column not in header:
        raise table_error(path, f"row 1: column '{column}' is missing (found {', '.join(header) or 'none'})")
    if header.count(column) > 1:
        raise table_error(path, f"row 1: column '{column}' appears {header.count(column)} times: expected it once")
    return header.index(column)


# Parquet


def _read_parquet(path: Path, columns: Sequence[str]) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else "not a Parquet file"
        raise table_error(path, reason) from error
    names = file.schema_arrow.names
    for column in columns:
        if column not in names:
            raise table_error(path, f"column '{column}' is missing (found {', '.join(names)})")
    try:
        table = file.read(list(columns))
        cells = {column: _cells(path, column, table.column(column)) for column in columns}
    except (OSError, pa.ArrowException) as error:
        raise table_error(path, "damaged: expected a whole Parquet file") from error
    return Table(path, np.arange(1, table.num_rows + 1), cells)


def _cells(path: Path, column: str, values: Any) -> Any:
    import pyarrow as pa

    numeric = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    if values.null_count:
        row = int(values.is_null().to_numpy().argmax()) + 1
        expected = "a number" if numeric else "text"
        count = f"{values.null_count} rows are empty"
        raise table_error(path, f"row {row}: {column}: expected {expected} in each row, got nothing ({count})")
    if numeric:
        return values.to_numpy().astype(np.float64)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.to_pylist()
    raise table_error(path, f"{column}: expected numbers or text, got {values.type}")
