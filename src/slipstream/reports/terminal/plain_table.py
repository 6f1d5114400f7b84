"""Tables for the terminal that show texts literally: names from files are neither markup nor control codes."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slipstream.errors import printable


class PlainTable(Table):
    """Table whose strings (title, headings, cells) are printed literally, each on one line."""

    def __init__(self, *headers: str, title: str | None = None, **options: Any) -> None:
        shown = None if title is None else Text(printable(title), style="table.title")
        super().__init__(title=shown, title_justify="left", **options)
        for header in headers:
            self.add_column(header)

    def add_column(self, header: RenderableType = "", *arguments: Any, **options: Any) -> None:
        """Add a column; a heading that is a string is shown literally."""
        super().add_column(_plain(header), *arguments, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; cells that are strings are shown literally."""
        super().add_row(*map(_plain, cells), **options)


def bold(text: str) -> Text:
    """Return a cell in bold type."""
    return Text(printable(text), style="bold")


def _plain(cell: Any) -> Any:
    return Text(printable(cell)) if isinstance(cell, str) else cell
