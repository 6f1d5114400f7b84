"""Tables for the terminal that show texts literally and never cut a figure or break a word.

Names from files are neither markup nor control codes. Where a table does not fit into the terminal, whole columns are
hidden, the least important first, and a line below says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from slipstream.errors import printable


@dataclass(frozen=True)
class Column:
    """Heading and layout of a column."""

    heading: Text
    justify: Literal["left", "right"]
    no_wrap: bool
    rank: int
    """0: never hidden; of the others, that with the highest rank is hidden first."""


class PlainTable:
    """Table whose strings (title, headings, cells) are printed literally."""

    def __init__(self, *headers: str, title: str | None = None, hint: str = "use --json", **options: Any) -> None:
        """Create a table with the columns `headers`.

        Args:
            headers: Headings of columns of texts, which are never hidden; `add_column` adds others.
            title: Line above the table.
            hint: What else a reader can do, besides widening the terminal, to see columns that are hidden.
            options: Box, padding and edges, as of `rich.table.Table`.
        """
        self.title = title
        self._hint = hint
        self._options = options
        self._columns: list[Column] = []
        self._rows: list[tuple[list[Text], bool]] = []
        for header in headers:
            self.add_column(header)

    def add_column(
        self, heading: str, justify: Literal["left", "right"] = "left", no_wrap: bool = False, rank: int = 0
    ) -> None:
        """Add a column; those on the right hold figures, which stay on one line, as do all cells with `no_wrap`.

        Columns with a `rank` above 0 are hidden in a narrow terminal, the highest rank first.
        """
        self._columns.append(Column(_plain(heading), justify, no_wrap or justify == "right", rank))

    def add_row(self, *cells: str | Text, end_section: bool = False) -> None:
        """Add a row with a cell for each column; a line follows with `end_section`."""
        assert len(cells) == len(self._columns)
        self._rows.append(([_plain(cell) for cell in cells], end_section))

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._fitting(console, options)
        if self.title is not None:
            yield Text(printable(self.title), style="table.title", overflow="fold")
        yield self._table(shown, self._widths(console, options, shown))
        hidden = [column.heading.plain for index, column in enumerate(self._columns) if index not in shown]
        if hidden:
            count = "1 column" if len(hidden) == 1 else f"{len(hidden)} columns"
            text = f"{count} hidden ({', '.join(hidden)}): widen the terminal or {self._hint}"
            yield Text(text, style="table.caption", overflow="fold")

    def _fitting(self, console: Console, options: ConsoleOptions) -> list[int]:
        """Return the columns to show: those of highest rank are left out until the rest fits."""
        shown = list(range(len(self._columns)))
        while sum(self._least(console, options, shown)) > self._available(console, options, shown):
            candidates = [index for index in shown if self._columns[index].rank > 0]
            if not candidates:
                break
            shown.remove(max(candidates, key=lambda index: (self._columns[index].rank, index)))
        return shown

    def _available(self, console: Console, options: ConsoleOptions, shown: Sequence[int]) -> int:
        """Return the width that is left for the content of the columns `shown`, besides lines and padding."""
        endless = options.update(width=1_000_000)
        empty = self._table(shown, [1] * len(shown), rows=False)
        return options.max_width - (Measurement.get(console, endless, empty).maximum - len(shown))

    def _least(self, console: Console, options: ConsoleOptions, shown: Sequence[int]) -> list[int]:
        """Return the least width of each column: its longest word, or its longest cell if that is not wrapped.

        A word that would take more than half the terminal, such as a path, may be broken in a column of texts.
        """
        found = []
        for index in shown:
            column, cells = self._columns[index], self._measured(console, options, index)
            heading = Measurement.get(console, options, column.heading).minimum
            if column.no_wrap:
                least = max(heading, *(cell.maximum for cell in cells))
            else:
                least = max(heading, *(cell.minimum for cell in cells))
            if column.justify == "left":
                least = min(least, max(heading, options.max_width // 2))
            found.append(least)
        return found

    def _widths(self, console: Console, options: ConsoleOptions, shown: Sequence[int]) -> list[int]:
        """Return the width of each column: the least, and a share of the rest of the terminal as far as it needs it."""
        least = self._least(console, options, shown)
        wanted = []
        for index, narrow in zip(shown, least, strict=True):
            heading = Measurement.get(console, options, self._columns[index].heading).maximum
            cells = (cell.maximum for cell in self._measured(console, options, index))
            wanted.append(max(heading, narrow, *cells) - narrow)
        spare = max(0, self._available(console, options, shown) - sum(least))
        if sum(wanted) <= spare:
            return [narrow + more for narrow, more in zip(least, wanted, strict=True)]
        given = [spare * more // sum(wanted) for more in wanted]
        return [narrow + more for narrow, more in zip(least, given, strict=True)]

    def _measured(self, console: Console, options: ConsoleOptions, index: int) -> list[Measurement]:
        endless = options.update(width=1_000_000)
        cells = [Measurement.get(console, endless, cells[index]) for cells, _ in self._rows]
        return [*cells, Measurement(1, 1)]  # one more, so that there is a maximum in an empty table

    def _table(self, shown: Sequence[int], widths: Sequence[int], rows: bool = True) -> Table:
        table = Table(**self._options)
        for index, width in zip(shown, widths, strict=True):
            column = self._columns[index]
            # A heading may be wrapped also where the cells below it are not.
            table.add_column(column.heading, justify=column.justify, width=width, overflow="fold")
        for cells, end_section in self._rows if rows else ():
            table.add_row(*(cells[index] for index in shown), end_section=end_section)
        return table


def bold(text: str) -> Text:
    """Return a cell in bold type."""
    return Text(printable(text), style="bold")


def _plain(cell: str | Text) -> Text:
    return Text(printable(cell)) if isinstance(cell, str) else cell
