"""Columns of CSV and Parquet files with their row numbers, so that errors can name the row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import TraceError, one_line
from slipstream.files.inputs import LONGEST_LINE, read_bytes


@dataclass(frozen=True)
class Table:
    """Columns of a file."""

    path: Path
    rows: np.ndarray
    """Row numbers: lines of a CSV file, whose line 1 is the header; counted from 1 in Parquet."""
    columns: dict[str, Any]
    """Cells by column: text from CSV; numbers or text, by the column type, from Parquet."""

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, keep: np.ndarray) -> Table:
        """Return the rows where the boolean array `keep` is true."""
        columns = {name: np.asarray(cells, object)[keep].tolist() for name, cells in self.columns.items()}
        return Table(self.path, self.rows[keep], columns)

    def error(self, index: int, text: str) -> TraceError:
        """Return an error about the row at `index`."""
        return table_error(self.path, f"row {self.rows[index]}: {text}")

    def numbers(self, column: str) -> np.ndarray:
        """Return `column` as float64."""
        cells = self.columns[column]
        try:
            return np.asarray([float(cell) for cell in cells] if isinstance(cells, list) else cells, np.float64)
        except (TypeError, ValueError):
            index = next(index for index, cell in enumerate(cells) if not _is_number(cell))
            shown = f"'{str(cells[index])[:40]}'" if cells[index] not in ("", None) else "nothing"
            raise self.error(index, f"{column}: expected a number, got {shown}") from None

    def texts(self, column: str) -> list[str]:
        """Return `column` as strings; raise an error if a cell is empty."""
        cells = ["" if cell is None else str(cell) for cell in self.columns[column]]
        if "" in cells:
            raise self.error(cells.index(""), f"{column}: expected text, got nothing")
        return cells


def table_error(path: Path, text: str) -> TraceError:
    """Return an error about the file `path`."""
    return TraceError(f"{path}: {one_line(text, LONGEST_LINE)}")


def read_table(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Return the named columns of a .csv or .parquet file, and those of `optional` that it has.

    Raises:
        TraceError: One line: the file, the row where there is one, what is wrong and what was expected.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, columns, optional)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, columns, optional)
    raise table_error(path, "unknown kind of file: expected a .csv or .parquet file")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def table_bytes(columns: dict[str, list[Any]], kind: str) -> bytes:
    """Return `columns` as the content of a file; `kind` is 'csv' or 'parquet'."""
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


def _read_csv(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Table:
    reader = csv.reader(io.StringIO(_text(path), newline=""))
    lines: list[int] = []
    kept: list[list[str]] = []
    try:
        header = next(reader, [])
        columns = [*columns, *(column for column in optional if column in header)]
        indices = [_column_index(path, header, column) for column in columns]
        width = len(header)
        for row in reader:
            if len(row) == width:
                kept.append(row)
            elif len(row) > width:
                raise table_error(path, f"row {reader.line_num}: expected {width} cells as in row 1, got {len(row)}")
            elif row:  # missing cells of a short row are empty
                kept.append(row + [""] * (width - len(row)))
            else:
                continue
            lines.append(reader.line_num)
    except csv.Error as error:
        raise table_error(path, f"row {reader.line_num}: not CSV: {error}") from error
    cells = {column: [row[index] for row in kept] for column, index in zip(columns, indices, strict=True)}
    return Table(path, np.array(lines, np.int64), cells)


def _text(path: Path) -> str:
    raw = read_bytes(path, "a text file", TraceError)
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise table_error(path, f"row {row}: not UTF-8 at byte {error.start}: expected a text file") from error


def _column_index(path: Path, header: list[str], column: str) -> int:
    if column not in header:
        raise table_error(path, f"row 1: column '{column}' is missing (found {', '.join(header) or 'none'})")
    if header.count(column) > 1:
        raise table_error(path, f"row 1: column '{column}' appears {header.count(column)} times: expected it once")
    return header.index(column)


# Parquet


EXPECTED = "a whole Parquet file"
CELL_BYTES = 32
"""Greatest memory of a cell as a Python number; equal strings are stored once."""


def _read_parquet(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Table:
    import pyarrow as pa

    from slipstream.files.parquet import check_unpacked, open_parquet

    file = open_parquet(path, EXPECTED, TraceError)
    try:
        schema = file.schema_arrow
        columns = [*columns, *(column for column in optional if column in schema.names)]
        for column in columns:
            if schema.names.count(column) != 1:
                raise _absent(path, schema.names, column)
            if not _is_numeric(schema.field(column).type) and not _is_text(schema.field(column).type):
                raise table_error(path, f"{column}: expected numbers or text, got {schema.field(column).type}")
        check_unpacked(path, columns, CELL_BYTES * len(columns), EXPECTED, TraceError)
        cells = {column: _cells(path, column, file) for column in columns}
    except (OSError, pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise table_error(path, f"damaged: expected {EXPECTED}") from error
    lengths = {len(one) for one in cells.values()}
    if lengths - {file.metadata.num_rows}:
        raise table_error(path, f"damaged: expected {EXPECTED}")
    return Table(path, np.arange(1, file.metadata.num_rows + 1), cells)


def _absent(path: Path, names: Sequence[str], column: str) -> TraceError:
    if column not in names:
        return table_error(path, f"column '{column}' is missing (found {', '.join(names)})")
    return table_error(path, f"column '{column}' appears {list(names).count(column)} times: expected it once")


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cells(path: Path, column: str, file: Any) -> Any:
    """Return `column` as numbers or as a list of strings; equal strings are decoded once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numeric = _is_numeric(file.schema_arrow.field(column).type)
    values = (file if numeric else pq.ParquetFile(path, read_dictionary=[column])).read([column]).column(column)
    if values.null_count:
        row = int(values.is_null().to_numpy().argmax()) + 1
        expected = "a number" if numeric else "text"
        count = f"{values.null_count} rows are empty"
        raise table_error(path, f"row {row}: {column}: expected {expected} in each row, got nothing ({count})")
    if numeric:
        return values.to_numpy().astype(np.float64)
    found: list[str] = []
    for chunk in values.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        found += [texts[index] for index in coded.indices.to_pylist()]
    return found
