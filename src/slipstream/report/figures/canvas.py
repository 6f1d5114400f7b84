"""Small pictures drawn by Pillow, which comes with the extra `render`: what the pictures of reports share."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from PIL import Image, ImageDraw, ImageFont

FINER = 3
"""Everything is drawn so much larger and then shrunk, which smooths it."""
PAPER, INK, FAINT, LINE = "#ffffff", "#1d2330", "#5a6475", "#d9dde4"


class Canvas:
    """Draws in the coordinates of the finished picture."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._image = Image.new("RGB", (size[0] * FINER, size[1] * FINER), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def finished(self) -> Image.Image:
        """Return the picture."""
        return self._image.resize(self._size, Image.Resampling.LANCZOS).quantize(128)

    def text(self, place: tuple[float, float], text: str, colour: str, size: int, anchor: str) -> float:
        """Write a text; return its width."""
        font = ImageFont.load_default(size * FINER)
        self._draw.text((place[0] * FINER, place[1] * FINER), text, colour, font, anchor=anchor)
        return float(font.getlength(text)) / FINER

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        """Draw a line through points."""
        scaled = [(x * FINER, y * FINER) for x, y in points]
        self._draw.line(scaled, colour, round(width * FINER), joint="curve")

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        """Draw a filled circle."""
        self._draw.ellipse([(v + d) * FINER for d in (-radius, radius) for v in (x, y)], colour)

    def diamond(self, x: float, y: float, radius: float, colour: str) -> None:
        """Draw a filled square that stands on a corner."""
        corners = ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y))
        self._draw.polygon([(a * FINER, b * FINER) for a, b in corners], colour)


def dashes(canvas: Canvas, colour: str, left: float, right: float, y: float) -> None:
    """Draw a dashed line from left to right."""
    x = left
    while x < right:
        canvas.line([(x, y), (min(x + 5, right), y)], colour, 1.2)
        x += 8.5


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers in a range."""
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * index for index in range(ceil(low / step), floor(high / step) + 1)]
