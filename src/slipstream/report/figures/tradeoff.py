"""The picture of how many models a library needs, drawn by Pillow, which comes with the extra `render`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image

from slipstream.report.figures.canvas import FAINT, INK, LINE, Canvas, dashes, ticks

PANEL = (460, 300)
NARROWEST = 640
"""Room for the title."""
HEAD, PAD = 64, 18
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 46
"""Room around the axes of a panel."""
MEAN, WORST, UNSEEN, RULE = "#4c8dd6", "#e2843b", "#3fa878", "#d64550"


def paint_tradeoff(curves: Sequence[dict[str, Any]]) -> Image.Image:
    """Return a picture with a panel per family: mean and worst regret over the number of models."""
    columns = min(2, len(curves))
    rows = -(-len(curves) // columns)
    canvas = Canvas((2 * PAD + max(NARROWEST, columns * PANEL[0]), HEAD + rows * PANEL[1] + PAD))
    canvas.text((PAD, 12), "Regret over the number of models, each workload by the best of them", INK, 16, "la")
    x, y = float(PAD), 48.0
    for colour, text in ((MEAN, "mean"), (WORST, "worst"), (UNSEEN, "mean, held-out workloads")):
        canvas.line([(x, y), (x + 18, y)], colour, 2)
        canvas.dot(x + 9, y, 3.5, colour)
        x += 24 + canvas.text((x + 24, y), text, FAINT, 12, "lm") + 18
    dashes(canvas, RULE, x, x + 24, y)
    canvas.text((x + 30, y), "mean, best single rule", FAINT, 12, "lm")
    for index, curve in enumerate(curves):
        _panel(canvas, (PAD + index % columns * PANEL[0], HEAD + index // columns * PANEL[1]), curve)
    return canvas.finished()


def _panel(canvas: Canvas, corner: tuple[int, int], curve: dict[str, Any]) -> None:
    left, right = corner[0] + LEFT, corner[0] + PANEL[0] - RIGHT
    top, bottom = corner[1] + TOP, corner[1] + PANEL[1] - BOTTOM
    points = curve["points"]
    lines = [(WORST, "worst"), (UNSEEN, "held_out_mean"), (MEAN, "mean")]
    shown = [point[name] for point in points for _, name in lines if point[name] is not None]
    limit: float = 1.08 * max(*shown, curve["heuristic_mean"], 1e-3)

    def across(count: int) -> float:
        return left + (right - left) * (count - 0.5) / len(points)

    def up(regret: float) -> float:
        return bottom - (bottom - top) * regret / limit

    title = f"{curve['family']}: {len(points)} models; {curve['enough']} are enough"
    canvas.text((left, top - 10), title, INK, 13, "ls")
    for tick in ticks(0.0, limit):
        canvas.line([(left, up(tick)), (right, up(tick))], LINE, 0.7)
        canvas.text((left - 6, up(tick)), f"{tick:.3g}" if limit < 0.05 else f"{tick:.0%}", FAINT, 11, "rm")
    dashes(canvas, RULE, left, right, up(curve["heuristic_mean"]))
    for colour, name in lines:
        places = [(across(p["count"]), up(p[name])) for p in points if p[name] is not None]
        if places:
            canvas.line(places, colour, 2)
            for place in places:
                canvas.dot(*place, 3.5, colour)
    enough = across(curve["enough"])
    canvas.line([(enough, top), (enough, bottom)], FAINT, 0.8)
    for point in points:
        canvas.text((across(point["count"]), bottom + 8), str(point["count"]), INK, 12, "ma")
    canvas.text(((left + right) / 2, bottom + 26), "number of models", FAINT, 12, "ma")
