"""The consoles that all commands print to: whatever a name holds, the terminal gets printable text only.

Names come from files, arguments and runs of others. A control code in one could move the cursor or change what was
printed before; a mark of writing direction could reorder a line; square brackets would be markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from slipstream.errors import printable


class PlainConsole(Console):
    """A console that shows strings as they are, each as one line, with all that is not printable escaped.

    Markup is read only where a call asks for it (`markup=True`); what it quotes is then to be escaped.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a string is one line."""
        super().print(*(printable(one) if isinstance(one, str) else one for one in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object; those that are no codes of our own hold printable text and line ends."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(lines, segment.style)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Return a status line that shows a string as it is."""
        return super().status(line(status) if isinstance(status, str) else status, **options)


def line(text: str) -> Text:
    """Return a text as one line that is shown as it is, also where a string would be read as markup."""
    return Text(printable(text))
