"""Consoles that all commands print to: the terminal gets printable text only, whatever a name contains.

Names come from files, arguments and foreign runs. A control code in one could move the cursor or change what was
printed before; a mark of writing direction could reorder a line; square brackets would be markup.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from slipstream.errors import printable

PIPED_WIDTH = 200
"""Columns of output that is no terminal, unless the variable COLUMNS says otherwise: readers of files scroll."""


class PlainConsole(Console):
    """Console that prints strings literally, each on one line, with unprintable characters escaped.

    Markup is interpreted only with `markup=True`; the caller then escapes what it quotes.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = PIPED_WIDTH

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a string is one line."""
        super().print(*(printable(one) if isinstance(one, str) else one for one in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of `renderable`; except for the control codes of rich, all text is printable."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(lines, segment.style)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Return a status line that shows a string literally."""
        return super().status(line(status) if isinstance(status, str) else status, **options)


def line(text: str) -> Text:
    """Return `text` as one literal line, also where a string would be interpreted as markup."""
    return Text(printable(text))
