"""The picture of a sweep: a small panel per knob, drawn by Pillow, which comes with the extra `render`."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from slipstream.report.sweep import span

FINER = 3
"""Everything is drawn so much larger and then shrunk, which smooths it."""
PANEL = (360, 250)
HEAD, PAD = 62, 16
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 30, 34
"""Room around the axes of a panel."""
PAPER, INK, FAINT, LINE = "#ffffff", "#1d2330", "#5a6475", "#d9dde4"
SEED, MEAN, DEFAULT, HEURISTIC = "#a8afba", "#4c8dd6", "#b3460f", "#d64550"


def paint(result: dict[str, Any]) -> Image.Image:
    """Return the picture of a study."""
    knobs = result["knobs"]
    columns = min(3, len(knobs))
    size = (2 * PAD + max(2, columns) * PANEL[0], HEAD + ceil(len(knobs) / columns) * PANEL[1] + PAD)
    canvas = _Canvas(size)
    title = f"{result['scenario']}: reward over one setting at a time, {result['steps']:,} steps per training"
    canvas.text((PAD, 12), title, INK, 16, "la")
    _key(canvas, result)
    for index, knob in enumerate(knobs):
        corner = (PAD + index % columns * PANEL[0], HEAD + index // columns * PANEL[1])
        _panel(canvas, corner, knob, result["heuristic"]["reward"], span(result))
    return canvas.image.resize(size, Image.Resampling.LANCZOS).quantize(128)


class _Canvas:
    """Draws in the coordinates of the finished picture."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.image = Image.new("RGB", (size[0] * FINER, size[1] * FINER), PAPER)
        self._draw = ImageDraw.Draw(self.image)

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


def _key(canvas: _Canvas, result: dict[str, Any]) -> None:
    x, y = float(PAD), 46.0
    means = "mean of the seeds, 95% interval" if len(result["seeds"]) > 1 else "reward of the seed"
    for sign, text in ((SEED, "one training"), (MEAN, means), (DEFAULT, "default")):
        draw = canvas.diamond if sign == DEFAULT else canvas.dot
        draw(x + 5, y, 5 if sign == DEFAULT else 4, sign)
        x += 16 + canvas.text((x + 14, y), text, FAINT, 12, "lm") + 18
    _dashes(canvas, x, x + 24, y)
    canvas.text((x + 30, y), f"best heuristic ({result['heuristic']['policy']})", FAINT, 12, "lm")


def _panel(
    canvas: _Canvas, corner: tuple[int, int], knob: dict[str, Any], heuristic: float, limits: tuple[float, float]
) -> None:
    left, right = corner[0] + LEFT, corner[0] + PANEL[0] - RIGHT
    top, bottom = corner[1] + TOP, corner[1] + PANEL[1] - BOTTOM
    rows = knob["values"]

    def across(index: int) -> float:
        return left + (right - left) * (index + 0.5) / len(rows)

    def up(reward: float) -> float:
        return bottom - (bottom - top) * (reward - limits[0]) / (limits[1] - limits[0])

    canvas.text((left, top - 8), knob["knob"], INK, 13, "ls")
    for tick in _ticks(*limits):
        canvas.line([(left, up(tick)), (right, up(tick))], LINE, 0.7)
        canvas.text((left - 6, up(tick)), f"{tick:,g}", FAINT, 11, "rm")
    _dashes(canvas, left, right, up(heuristic))
    canvas.line([(across(index), up(row["mean"])) for index, row in enumerate(rows)], MEAN, 2)
    for index, row in enumerate(rows):
        x = across(index)
        for reward in row["rewards"]:
            canvas.dot(x - 9, up(reward), 2.6, SEED)  # beside the interval, which would hide it
        if row["half_width"]:
            low, high = (up(row["mean"] + sign * row["half_width"]) for sign in (-1, 1))
            canvas.line([(x, low), (x, high)], MEAN, 1.2)
        mark = canvas.diamond if row["default"] else canvas.dot
        mark(x, up(row["mean"]), 6 if row["default"] else 4, DEFAULT if row["default"] else MEAN)
        canvas.text((x, bottom + 8), row["label"], DEFAULT if row["default"] else INK, 12, "ma")


def _dashes(canvas: _Canvas, left: float, right: float, y: float) -> None:
    x = left
    while x < right:
        canvas.line([(x, y), (min(x + 5, right), y)], HEURISTIC, 1.2)
        x += 8.5


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers in a range."""
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * index for index in range(ceil(low / step), floor(high / step) + 1)]
