"""Draw recorded runs of `slipstream demo` as an animated GIF, one above the other.

    slipstream demo
    python docs/animation.py slipstream-demo/{lookahead,trained}.parquet --out docs/images/demo.gif

A run scrolls from right to left. Bars are jobs on the two streams; a red cross is a job that was not finished on time.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from slipstream.families.shared.timeline import ON_TIME, OPEN
from slipstream.reports.runs import Run, read_run

WIDTH, PANEL, HEAD, LEFT, RIGHT = 760, 150, 34, 78, 744
BACKGROUND, TEXT, MUTED, GRID, RED = "#ffffff", "#1b2433", "#5b6678", "#e6eaf0", "#d1453b"
COLOURS = ("#3b76d6", "#8559c9", "#2f9e6b")
"""Of the tasks, in the order of the scenario."""
TITLES = {"lookahead": "lookahead, a heuristic", "trained": "policy trained for half a minute"}
FRAMES, FRAME_MS = 72, 90
WINDOW_PERIODS, SHOWN_PERIODS = 5.0, 9.0
"""Length of the visible window, and of the stretch that scrolls through it."""


@dataclass(frozen=True)
class Panel:
    """A run and the stretch of it that is shown, in ns."""

    name: str
    run: Run
    begin: float
    window: float

    def column(self, time: float, now: float) -> float:
        """Return the horizontal position of `time` when `now` is at the right end."""
        return RIGHT - (now - time) / self.window * (RIGHT - LEFT)


def main() -> None:
    """Write the animation."""
    parser = argparse.ArgumentParser(description="Draw recorded runs of `slipstream demo` as an animated GIF.")
    parser.add_argument("logs", nargs="+", type=Path, help="event logs of runs of one scenario")
    parser.add_argument("--out", type=Path, default=Path("demo.gif"))
    parser.add_argument("--begin-ms", type=float, default=800.0, help="time in the run at which the animation begins")
    arguments = parser.parse_args()
    panels = []
    for log in arguments.logs:
        run = read_run(log)
        period = json.loads(run.scenario.model_dump_json())["tasks"][0]["arrival"]["period_ms"] * 1e6
        panels.append(Panel(log.stem, run, arguments.begin_ms * 1e6, WINDOW_PERIODS * period))
    first = panels[0].begin + panels[0].window
    last = first + SHOWN_PERIODS / WINDOW_PERIODS * panels[0].window
    frames = [_frame(panels, now) for now in np.linspace(first, last, FRAMES)]
    palette = frames[-1].quantize(48)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (FRAMES - 1) + [2500]
    images[0].save(arguments.out, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1000:.0f} kB")


def _frame(panels: list[Panel], now: float) -> Image.Image:
    image = Image.new("RGB", (WIDTH, HEAD + PANEL * len(panels)), BACKGROUND)
    draw = ImageDraw.Draw(image)
    x = float(LEFT)
    for task, colour in zip(panels[0].run.timeline.tasks, COLOURS, strict=True):
        draw.rounded_rectangle((x, 12, x + 14, 24), 3, fill=colour)
        draw.text((x + 20, 18), task, TEXT, _font(13), anchor="lm")
        x += 34 + draw.textlength(task, _font(13))
    _cross(draw, x + 6, 18)
    draw.text((x + 18, 18), "not finished on time", TEXT, _font(13), anchor="lm")
    for index, panel in enumerate(panels):
        _draw_panel(draw, panel, HEAD + PANEL * index, now)
    return image


def _draw_panel(draw: ImageDraw.ImageDraw, panel: Panel, top: int, now: float) -> None:
    line = panel.run.timeline
    draw.text((LEFT, top + 12), TITLES.get(panel.name, f"{panel.name} policy"), TEXT, _font(14, True), anchor="lm")
    done = (line.release >= panel.begin) & (line.deadline <= now)
    radar = done & (line.task == len(line.tasks) - 1)
    missed = int((radar & (line.fate != ON_TIME)).sum())
    counted = f"{line.tasks[-1]} missed: {missed} of {int(radar.sum())}"
    draw.text((RIGHT, top + 12), counted, RED if missed else MUTED, _font(14, True), anchor="rm")
    for stream, resource in enumerate(line.resources):
        y = top + 26 + 40 * stream
        draw.rounded_rectangle((LEFT, y, RIGHT, y + 32), 4, fill="#f3f5f9")
        draw.text((12, y + 16), resource, MUTED, _font(12), anchor="lm")
        for piece in np.flatnonzero(line.slice_resource == stream):
            begin, end = line.slice_start[piece], min(line.slice_end[piece], now)
            if begin < now and end > now - panel.window:
                left = max(panel.column(begin, now), LEFT)
                right = max(panel.column(end, now) - 1, left + 2)
                task = int(line.task[line.slice_job[piece]])
                draw.rounded_rectangle((left, y + 3, right, y + 29), 3, fill=COLOURS[task])
    y = top + 118
    draw.text((12, y), "missed", MUTED, _font(12), anchor="lm")
    draw.line((LEFT, y, RIGHT, y), fill=GRID)
    for job in np.flatnonzero((line.fate != ON_TIME) & (line.fate != OPEN) & (line.deadline <= now)):
        if line.deadline[job] > now - panel.window:
            _cross(draw, panel.column(line.deadline[job], now), y)


def _cross(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    for sign in (-1, 1):
        draw.line((x - 5, y - 5 * sign, x + 5, y + 5 * sign), fill=RED, width=3)


def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return ImageFont.load_default(size)


if __name__ == "__main__":
    main()
