"""Escaping of text for HTML pages."""

from __future__ import annotations

import html

from slipstream.errors import printable


def escape(text: str) -> str:
    """Return `text` for HTML: no markup, no controls, no marks of writing direction; line ends become spaces."""
    return html.escape(printable(text.replace("\n", " ")))
