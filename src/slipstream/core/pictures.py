"""A picture of an episode that only one family has: plain data, which the report draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Picture:
    """A figure as plotly.js reads it; colours are left to the page, a trace says in `meta` which one is its own."""

    name: str
    """Short, for the page's use."""
    title: str
    caption: str
    figure: dict[str, Any]
