"""Scene as an array of pixels, for `render_mode="rgb_array"` and video wrappers.

Drawn by Pillow, which the extra `render` installs; it is imported with the first image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from slipstream.families.shared.labels import RunLabels
from slipstream.files.wording import counted, plural, with_article
from slipstream.render.scene import Scene, Slice
from slipstream.render.style import MISSED, format_time, task_colour, text_on

if TYPE_CHECKING:
    from slipstream.render.gantt import GanttPainter

WIDTH = 960
PAD, LABEL = 16, 104
LANE, LANE_GAP = 38, 22
"""Height of a resource's lane, and of the gap above it for deadline marks."""
LANES_TOP = 66
ROW = 24
MOST_TASKS = 14
"""Most tasks in the table; beyond that, those with the longest queues."""
FUTURE_SHARE = 0.25
"""Visible time after now, for future deadlines, as a share of the window."""
BACKGROUND, FOREGROUND, MUTED, LINE, IDLE_LANE = "#ffffff", "#1d2330", "#5a6475", "#c9ced8", "#eef0f4"


def column(scene: Scene, time: float) -> float:
    """Return the x coordinate of `time`."""
    left, right = PAD + LABEL, WIDTH - PAD
    return left + (right - left) * (time - scene.now + scene.window) / (scene.window * (1 + FUTURE_SHARE))


def lane_top(resource: int) -> int:
    """Return the y coordinate of the upper edge of a resource's lane."""
    return LANES_TOP + LANE_GAP + resource * (LANE + LANE_GAP)


def painter_of(labels: RunLabels) -> Painter | GanttPainter:
    """Return the painter for a run with `labels`."""
    from slipstream.render.gantt import GanttPainter

    return GanttPainter(labels) if labels.graphs else Painter(labels)


class Painter:
    """Draws scenes of one run, all in the same size."""

    def __init__(self, labels: RunLabels) -> None:
        self.labels = labels
        self._large, self._normal, self._small = (ImageFont.load_default(size) for size in (18, 14, 12))
        self._dropped = lane_top(len(labels.resources))
        self._axis = self._dropped + 14
        self._table = self._axis + 62
        rows = min(len(labels.tasks), MOST_TASKS) + (len(labels.tasks) > MOST_TASKS)
        height = self._table + (rows + 1) * ROW + PAD
        self.size = (WIDTH, height + height % 2)  # video encoders want even numbers

    def paint(self, scene: Scene) -> np.ndarray:
        """Return the scene as (height, width, 3) uint8."""
        image = Image.new("RGB", self.size, BACKGROUND)
        draw = ImageDraw.Draw(image)
        self._head(draw, scene)
        self._time_axis(draw, scene)
        for resource in range(len(self.labels.resources)):
            self._lane(draw, scene, resource)
        self._draw_dropped(draw, scene)
        now = column(scene, scene.now)
        draw.line((now, LANES_TOP, now, self._axis), FOREGROUND, 2)
        self._tasks(draw, scene)
        return np.asarray(image, np.uint8)

    def _head(self, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
        labels = self.labels
        end = "ended at" if scene.over else "now"
        clock = f"{end} {format_time(labels, scene.now)} of {format_time(labels, labels.end, 0)} {labels.unit}"
        draw.text((PAD, 12), labels.scenario, FOREGROUND, self._large)
        draw.text((WIDTH - PAD, 12), clock, FOREGROUND, self._large, anchor="ra")
        jobs = plural(labels.nouns.job)
        parts = [f"finished {sum(scene.finished):,} of {sum(scene.released):,} {jobs}"]
        if scene.judged:
            missed = sum(scene.missed)
            parts.append(f"missed {missed:,} ({missed / scene.judged:.1%})")
        if scene.judged and scene.accuracy is not None:
            parts.append(f"effective accuracy {scene.accuracy:.3f}")
        draw.text((PAD, 40), "     ".join(parts), FOREGROUND, self._normal)

    def _time_axis(self, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
        unit = self.labels.nanoseconds_per_unit
        for share in (-1.0, -0.75, -0.5, -0.25, 0.0, FUTURE_SHARE):
            x = column(scene, scene.now + share * scene.window)
            draw.line((x, LANES_TOP + LANE_GAP - 12, x, self._axis), LINE)
            text = f"{share * scene.window / unit:+g} {self.labels.unit}" if share else "now"
            anchor = "ra" if share == FUTURE_SHARE else "ma"
            draw.text((x, self._axis + 4), text, FOREGROUND if not share else MUTED, self._small, anchor=anchor)

    def _lane(self, draw: ImageDraw.ImageDraw, scene: Scene, resource: int) -> None:
        top = lane_top(resource)
        left, now = column(scene, scene.now - scene.window), column(scene, scene.now)
        draw.text(
            (PAD, top + LANE / 2), self._fit(self.labels.resources[resource], LABEL - 8), FOREGROUND, self._normal, "lm"
        )
        draw.rectangle((left, top, now, top + LANE - 1), IDLE_LANE)
        for piece in scene.slices(resource):
            self._slice(draw, scene, piece, top)
        for piece in scene.slices(resource):
            due = piece.job.deadline
            if due is not None and left <= column(scene, due) <= WIDTH - PAD:
                _triangle(draw, column(scene, due), top - 2, MISSED if piece.job.missed(scene.now) else MUTED)

    def _slice(self, draw: ImageDraw.ImageDraw, scene: Scene, piece: Slice, top: int) -> None:
        begin = max(column(scene, piece.start), column(scene, scene.now - scene.window))
        end = column(scene, scene.now if piece.end is None else piece.end)
        if end - begin < 1:
            return
        bottom = top + LANE - 1
        draw.rectangle((begin, top, end, bottom), task_colour(piece.job.task))
        draw.line((begin, top, begin, bottom), BACKGROUND)  # separates adjacent jobs of one task
        if piece.job.missed(scene.now):
            draw.rectangle((begin, bottom - 7, end, bottom), MISSED)
        name = self.labels.tasks[piece.job.task]
        for text in (f"{name} {piece.job.number}", name):
            if draw.textlength(text, self._small) + 6 <= end - begin:
                colour = text_on(task_colour(piece.job.task))
                draw.text(((begin + end) / 2, top + LANE / 2 - 3), text, colour, self._small, anchor="mm")
                break

    def _draw_dropped(self, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
        y = self._dropped
        draw.text((PAD, y), "dropped", FOREGROUND, self._normal, "lm")
        for time, _ in scene.dropped():
            _cross(draw, column(scene, time), y)

    def _tasks(self, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
        """Draw the table of tasks, also the legend of the colours."""
        labels, y = self.labels, self._table
        self._key(draw)
        name_x, queue_x, missed_x = PAD + 22, PAD + LABEL + 90, WIDTH - PAD - 160
        heads = (labels.nouns.task, f"{plural(labels.nouns.job)} waiting", "missed")
        for x, text in zip((name_x, queue_x, missed_x), heads, strict=True):
            draw.text((x, y), text, MUTED, self._small, "lm")
        tasks = list(range(len(labels.tasks)))
        if len(tasks) > MOST_TASKS:
            busiest = sorted(tasks, key=lambda task: (-scene.waiting[task], -scene.missed[task], task))
            tasks = sorted(busiest[:MOST_TASKS])
            text = f"and {counted(len(labels.tasks) - MOST_TASKS, f'more {labels.nouns.task}')} with shorter queues"
            draw.text((name_x, y + (MOST_TASKS + 1) * ROW), text, MUTED, self._small, "lm")
        for task in tasks:
            y += ROW
            draw.rectangle((PAD, y - 7, PAD + 14, y + 7), task_colour(task))
            draw.text((name_x, y), self._fit(labels.tasks[task], queue_x - name_x - 8), FOREGROUND, self._normal, "lm")
            most = (missed_x - queue_x - 50) // 14
            for square in range(min(scene.waiting[task], most)):
                x = queue_x + 30 + 14 * square
                draw.rectangle((x, y - 6, x + 11, y + 6), task_colour(task))
            draw.text((queue_x, y), f"{scene.waiting[task]}", FOREGROUND, self._normal, "lm")
            judged = scene.on_time[task] + scene.missed[task]
            colour = MISSED if scene.missed[task] else MUTED
            draw.text((missed_x, y), f"{scene.missed[task]:,} of {judged:,}", colour, self._normal, "lm")

    def _key(self, draw: ImageDraw.ImageDraw) -> None:
        """Draw the legend; the font lacks these symbols, so they are drawn."""
        y, x = self._axis + 34, float(PAD)
        _triangle(draw, x + 5, y + 5, MUTED)
        bar = with_article(self.labels.nouns.bar)
        x = self._explain(draw, x + 16, y, f"deadline of {bar} that runs or ran here; red: missed")
        draw.rectangle((x, y - 7, x + 20, y + 7), task_colour(0))
        draw.rectangle((x, y + 3, x + 20, y + 7), MISSED)
        x = self._explain(draw, x + 26, y, f"{bar} that missed its deadline")
        _cross(draw, x + 5, y)
        self._explain(draw, x + 16, y, "left the queue without running to its end")

    def _explain(self, draw: ImageDraw.ImageDraw, x: float, y: float, text: str) -> float:
        draw.text((x, y), text, MUTED, self._small, "lm")
        return x + float(draw.textlength(text, self._small)) + 24

    def _fit(self, text: str, width: float) -> str:
        while len(text) > 1 and self._normal.getlength(text) > width:
            text = text[:-2] + "…"
        return text


def _triangle(draw: ImageDraw.ImageDraw, x: float, tip: float, colour: str) -> None:
    draw.polygon([(x - 5, tip - 9), (x + 5, tip - 9), (x, tip)], colour)


def _cross(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    draw.line((x - 4, y - 4, x + 4, y + 4), MISSED, 2)
    draw.line((x - 4, y + 4, x + 4, y - 4), MISSED, 2)
