"""The picture of a policy on the benchmark suite, drawn by Pillow, which comes with the extra `render`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from slipstream.report.figures.canvas import FAINT, INK, LINE, Canvas, ticks

WIDTH, ROW = 860, 64
LEFT, RIGHT, HEAD, FOOT = 110, 30, 76, 52
OWN, RULE, OTHER, BOUND = "#4c8dd6", "#e2843b", "#b7bec9", "#d64550"


def paint_suite(found: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> Image.Image:
    """Return a picture with a line per family: the policy with its interval, beside those of the package."""
    families = list(found["families"])
    canvas = Canvas((WIDTH, HEAD + ROW * len(families) + FOOT))
    top, bottom = HEAD, HEAD + ROW * len(families)
    low, high = _span(found, baselines)

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(value, low), high) - low) / (high - low)

    title = f"{found['title']} on Slipstream-Bench {found['suite']['version']}"
    canvas.text((18, 12), title, INK, 16, "la")
    _key(canvas, found["title"])
    for tick in ticks(low, high):
        x = across(tick)
        canvas.line([(x, top), (x, bottom)], INK if tick in (0, 100) else LINE, 1.0 if tick in (0, 100) else 0.7)
        canvas.text((x, bottom + 8), f"{tick:g}", FAINT, 11, "ma")
    canvas.text(((LEFT + WIDTH - RIGHT) / 2, bottom + 26), "score: 0 random, 100 best known", FAINT, 12, "ma")
    for index, family in enumerate(families):
        _row(canvas, top + ROW * (index + 0.5), across, family, found["families"][family], baselines[family])
    return canvas.finished()


def _span(found: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> tuple[float, float]:
    """Return the scores between which all is drawn: what is far below random stands at the edge."""
    shown = [one[key] for family in found["families"].values() for one in [family["score"]] for key in ("low", "high")]
    shown += [family["ceiling"] for family in found["families"].values()]
    shown += [one["mean"] for family in found["families"] for one in baselines[family].values()]
    return max(-60.0, min(0.0, *shown) - 4.0), min(180.0, max(100.0, *shown) + 4.0)


def _key(canvas: Canvas, title: str) -> None:
    x, y = 18.0, 48.0
    canvas.line([(x, y), (x + 18, y)], OWN, 2)
    canvas.dot(x + 9, y, 4.5, OWN)
    x += 24 + canvas.text((x + 24, y), title, FAINT, 12, "lm") + 18
    for colour, text in ((RULE, "best rule"), (OTHER, "other policies of the package")):
        canvas.dot(x + 5, y, 4, colour)
        x += 14 + canvas.text((x + 14, y), text, FAINT, 12, "lm") + 18
    canvas.line([(x, y - 7), (x, y + 7)], BOUND, 2)
    canvas.text((x + 8, y), "nobody can exceed", FAINT, 12, "lm")


def _row(
    canvas: Canvas,
    y: float,
    across: Any,
    family: str,
    own: Mapping[str, Any],
    others: Mapping[str, Mapping[str, float]],
) -> None:
    canvas.text((LEFT - 12, y), family, INK, 14, "rm")
    for name, one in others.items():
        if name != own["best_rule"]:
            canvas.dot(across(one["mean"]), y, 3.5, OTHER)
    best = across(others[own["best_rule"]]["mean"])
    canvas.dot(best, y, 4.5, RULE)
    canvas.text((best, y + 11), own["best_rule"], FAINT, 11, "ma")
    x = across(own["ceiling"])
    canvas.line([(x, y - 14), (x, y + 14)], BOUND, 2)
    score = own["score"]
    canvas.line([(across(score["low"]), y), (across(score["high"]), y)], OWN, 3)
    canvas.dot(across(score["mean"]), y, 5, OWN)
    canvas.text((across(score["mean"]), y - 11), f"{score['mean']:.1f}", INK, 12, "ms")
