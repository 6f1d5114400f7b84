"""The picture of a sweep: a small panel per knob, drawn by Pillow, which comes with the extra `render`."""

from __future__ import annotations

from math import ceil
from typing import Any

from PIL import Image

from slipstream.report.figures.canvas import FAINT, INK, LINE, Canvas, dashes, ticks
from slipstream.report.html.sweep import span

PANEL = (360, 250)
HEAD, PAD = 62, 16
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 30, 34
"""Room around the axes of a panel."""
SEED, MEAN, DEFAULT, HEURISTIC = "#a8afba", "#4c8dd6", "#b3460f", "#d64550"


def paint(result: dict[str, Any]) -> Image.Image:
    """Return the picture of a study."""
    knobs = result["knobs"]
    columns = min(3, len(knobs))
    size = (2 * PAD + max(2, columns) * PANEL[0], HEAD + ceil(len(knobs) / columns) * PANEL[1] + PAD)
    canvas = Canvas(size)
    title = f"{result['scenario']}: reward over one setting at a time, {result['steps']:,} steps per training"
    canvas.text((PAD, 12), title, INK, 16, "la")
    _key(canvas, result)
    for index, knob in enumerate(knobs):
        corner = (PAD + index % columns * PANEL[0], HEAD + index // columns * PANEL[1])
        _panel(canvas, corner, knob, result["heuristic"]["reward"], span(result))
    return canvas.finished()


def _key(canvas: Canvas, result: dict[str, Any]) -> None:
    x, y = float(PAD), 46.0
    means = "mean of the seeds, 95% interval" if len(result["seeds"]) > 1 else "reward of the seed"
    for sign, text in ((SEED, "one training"), (MEAN, means), (DEFAULT, "default")):
        draw = canvas.diamond if sign == DEFAULT else canvas.dot
        draw(x + 5, y, 5 if sign == DEFAULT else 4, sign)
        x += 16 + canvas.text((x + 14, y), text, FAINT, 12, "lm") + 18
    dashes(canvas, HEURISTIC, x, x + 24, y)
    canvas.text((x + 30, y), f"best heuristic ({result['heuristic']['policy']})", FAINT, 12, "lm")


def _panel(
    canvas: Canvas, corner: tuple[int, int], knob: dict[str, Any], heuristic: float, limits: tuple[float, float]
) -> None:
    left, right = corner[0] + LEFT, corner[0] + PANEL[0] - RIGHT
    top, bottom = corner[1] + TOP, corner[1] + PANEL[1] - BOTTOM
    rows = knob["values"]

    def across(index: int) -> float:
        return left + (right - left) * (index + 0.5) / len(rows)

    def up(reward: float) -> float:
        return bottom - (bottom - top) * (reward - limits[0]) / (limits[1] - limits[0])

    canvas.text((left, top - 8), knob["knob"], INK, 13, "ls")
    for tick in ticks(*limits):
        canvas.line([(left, up(tick)), (right, up(tick))], LINE, 0.7)
        canvas.text((left - 6, up(tick)), f"{tick:,g}", FAINT, 11, "rm")
    dashes(canvas, HEURISTIC, left, right, up(heuristic))
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
