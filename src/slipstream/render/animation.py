"""A whole run as an animated GIF: a Gantt chart that fills with time, above the number of waiting jobs.

Drawn from the timeline, which is the same in every family.
"""

from __future__ import annotations

import io
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.timeline import Timeline
from slipstream.files.wording import plural
from slipstream.render.picture import BACKGROUND, FOREGROUND, IDLE_LANE, LINE, MUTED, PAD, WIDTH
from slipstream.render.style import MISSED, format_time, round_times, task_colour

LABEL, LABEL_HEIGHT = 96, 13
TOP = 66
CHART, TALLEST_LANE = 380, 40
"""Height of all lanes together, each at least two pixels, and of one lane at most."""
STRIP_GAP, STRIP = 44, 64
"""Gap between the chart and the strip of waiting jobs, and the height of the strip."""
KEY = 40
"""Height of the legend."""
BARS_IN_SIGHT = 120
"""Bars of the busiest resource in one frame; a run with more is shown through a window that moves."""
FRAMES_PER_SECOND = 12
MOST_FRAMES = 240
LAST_FRAME_MS = 3000


def animation(labels: RunLabels, line: Timeline, frames: int = 96) -> bytes:
    """Return the run of `line` as an animated GIF of `frames` frames; the last one stays for three seconds."""
    frames = max(2, min(frames, MOST_FRAMES))
    painter = _Painter(labels, line)
    moments = np.linspace(0, max(line.end, 1), frames + 1)[1:].astype(np.int64).tolist()
    pictures = [painter.paint(moment).quantize(64, dither=Image.Dither.NONE) for moment in moments]
    file = io.BytesIO()
    durations = [round(1000 / FRAMES_PER_SECOND)] * (len(pictures) - 1) + [LAST_FRAME_MS]
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0)
    return file.getvalue()


class _Painter:
    """Draws a timeline up to a moment, all images in the same size."""

    def __init__(self, labels: RunLabels, line: Timeline) -> None:
        self._labels, self._line = labels, line
        self._large, self._normal, self._small = (ImageFont.load_default(size) for size in (18, 14, 11))
        self._lane = max(2, min(TALLEST_LANE, CHART // max(1, len(line.resources))))
        self._bottom = TOP + self._lane * len(line.resources)
        height = self._bottom + STRIP_GAP + STRIP + KEY
        self._size = (WIDTH, height + height % 2)  # video encoders want even numbers
        most = np.bincount(line.slice_resource, minlength=1).max(initial=1)
        self._window = max(1, math.ceil(line.end * min(1.0, BARS_IN_SIGHT / max(1, int(most)))))
        self._finish = np.sort(line.finish[line.finish >= 0])
        # A job is known to have missed when it ends late, leaves the queue, or its deadline passes.
        known = np.where(line.finish >= 0, line.finish, np.minimum(line.deadline, line.end))
        self._misses = np.sort(known[line.missed])
        self._release = np.sort(line.release)
        self._times, self._waiting = line.waiting()
        self._most = max(1, int(self._waiting.max(initial=0)))

    def paint(self, now: int) -> Image.Image:
        """Return the image of the run at `now`."""
        image = Image.new("RGB", self._size, BACKGROUND)
        draw = ImageDraw.Draw(image)
        begin = max(0, now - self._window)
        self._head(draw, now)
        self._axis(draw, begin)
        self._lanes(draw, begin, now)
        self._strip(draw, begin, now)
        self._key(draw)
        return image

    def _column(self, begin: int, time: float) -> float:
        left, right = PAD + LABEL, WIDTH - PAD
        return float(left + (right - left) * min(max((time - begin) / self._window, 0.0), 1.0))

    def _head(self, draw: ImageDraw.ImageDraw, now: int) -> None:
        labels, nouns = self._labels, self._line.nouns
        clock = f"{format_time(labels, now)} of {format_time(labels, self._line.end)} {labels.unit}"
        draw.text((PAD, 10), labels.scenario, FOREGROUND, self._large)
        draw.text((WIDTH - PAD, 10), clock, FOREGROUND, self._large, anchor="ra")
        arrived, finished = (int(np.searchsorted(times, now, side="right")) for times in (self._release, self._finish))
        parts = [f"{plural(nouns.job)}: {arrived:,} arrived, {finished:,} finished"]
        if self._line.has_deadlines:
            parts.append(f"{int(np.searchsorted(self._misses, now, side='right')):,} missed their deadline")
        draw.text((PAD, 36), ", ".join(parts), FOREGROUND, self._normal)

    def _axis(self, draw: ImageDraw.ImageDraw, begin: int) -> None:
        step, times = round_times(begin, begin + self._window, self._labels.nanoseconds_per_unit)
        decimals = max(0, -math.floor(math.log10(step)))
        for time in times:
            x = self._column(begin, time)
            draw.line((x, TOP, x, self._bottom + STRIP_GAP + STRIP), LINE)
            text = f"{format_time(self._labels, time, decimals)} {self._labels.unit}"
            half = draw.textlength(text, self._small) / 2
            middle = min(max(x, PAD + LABEL + half), WIDTH - PAD - half)
            draw.text((middle, self._bottom + 4), text, MUTED, self._small, anchor="ma")

    def _lanes(self, draw: ImageDraw.ImageDraw, begin: int, now: int) -> None:
        line = self._line
        every = math.ceil(LABEL_HEIGHT / self._lane)
        left, right = self._column(begin, begin), self._column(begin, now)
        for resource, name in enumerate(line.resources):
            top, bottom = self._edges(resource)
            if resource % every == 0:
                draw.text((PAD, (top + bottom) / 2), self._fit(name, LABEL - 8), MUTED, self._small, "lm")
            draw.rectangle((left, top, max(left, right), bottom), IDLE_LANE)
        seen = np.flatnonzero((line.slice_start <= now) & (line.slice_end >= begin))
        missed = line.missed[line.slice_job]
        columns = (line.slice_resource, line.slice_start, line.slice_end, line.slice_group, missed)
        for resource, start, end, group, late in zip(*(column[seen].tolist() for column in columns), strict=True):
            top, bottom = self._edges(resource)
            box = (self._column(begin, start), top, self._column(begin, min(end, now)), bottom)
            draw.rectangle(box, task_colour(group))
            if late and end <= now:
                draw.rectangle((box[0], bottom - max(1, self._lane // 6), box[2], bottom), MISSED)
            if box[2] - box[0] > 4:
                draw.line((box[0], top, box[0], bottom), BACKGROUND)  # separates adjacent bars of one colour

    def _edges(self, resource: int) -> tuple[int, int]:
        top = TOP + resource * self._lane
        return top, top + self._lane - max(2 if self._lane > 4 else 1, self._lane // 6)

    def _strip(self, draw: ImageDraw.ImageDraw, begin: int, now: int) -> None:
        """Draw the number of waiting jobs over time."""
        top, bottom = self._bottom + STRIP_GAP, self._bottom + STRIP_GAP + STRIP
        text = f"{plural(self._line.nouns.job)} waiting (at most {self._most:,})"
        draw.text((PAD, top - 15), text, MUTED, self._small)
        first = max(int(np.searchsorted(self._times, begin, side="right")) - 1, 0)
        last = int(np.searchsorted(self._times, now, side="right"))
        times = [*self._times[first:last].tolist(), now]
        for place, count in enumerate(self._waiting[first:last].tolist()):
            if count:
                edges = self._column(begin, times[place]), self._column(begin, times[place + 1])
                draw.rectangle((edges[0], bottom - STRIP * count / self._most, edges[1], bottom), MUTED)
        draw.line((PAD + LABEL, bottom, WIDTH - PAD, bottom), LINE)

    def _key(self, draw: ImageDraw.ImageDraw) -> None:
        x, y = float(PAD), self._bottom + STRIP_GAP + STRIP + 18
        if self._line.has_deadlines:
            draw.rectangle((x, y + 2, x + 12, y + 5), MISSED)
            x = self._explain(draw, x + 16, y, "missed its deadline")
        for place, name in enumerate(self._line.groups):
            left = len(self._line.groups) - place
            more = f"and {left:,} more"
            if x + 20 + draw.textlength(name, self._small) > WIDTH - PAD - (90 if left > 1 else 0):
                self._explain(draw, x, y, more)
                break
            draw.rectangle((x, y - 5, x + 10, y + 5), task_colour(place))
            x = self._explain(draw, x + 14, y, name)

    def _explain(self, draw: ImageDraw.ImageDraw, x: float, y: float, text: str) -> float:
        draw.text((x, y), text, MUTED, self._small, "lm")
        return x + float(draw.textlength(text, self._small)) + 12

    def _fit(self, text: str, width: float) -> str:
        while len(text) > 1 and self._small.getlength(text) > width:
            text = text[:-2] + "…"
        return text
