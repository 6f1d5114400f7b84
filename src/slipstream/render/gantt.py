"""Gantt chart of resources, coloured by job or kernel, with completions; below it, the number of jobs over time.

One image of a graph scene for `render_mode="rgb_array"`.
"""

from __future__ import annotations

import math
from itertools import islice, pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from slipstream.families.shared.labels import RunLabels
from slipstream.files.wording import plural, with_article
from slipstream.render.picture import BACKGROUND, FOREGROUND, IDLE_LANE, LINE, MUTED, PAD, WIDTH
from slipstream.render.scene import GraphScene, Scene
from slipstream.render.style import MISSED, format_time, round_times, task_colour

LABEL, LABEL_HEIGHT = 96, 12
TOP = 64
CHART = 420
"""Total height of all lanes; each has at least two pixels."""
STRIP_GAP, STRIP = 44, 70
"""Gap between the chart and the strip of jobs in the system, and the height of the strip."""
MOVING = "#d7dbe3"
KEY_ENTRIES = 12


class GanttPainter:
    """Draws graph scenes of one run, all in the same size."""

    def __init__(self, labels: RunLabels) -> None:
        self.labels = labels
        self._large, self._normal, self._small = (ImageFont.load_default(size) for size in (18, 14, 11))
        self._lane = max(2, CHART // len(labels.resources))
        self._bottom = TOP + self._lane * len(labels.resources)
        height = self._bottom + STRIP_GAP + STRIP + 34
        self.size = (WIDTH, height + height % 2)  # video encoders want even numbers

    def paint(self, scene: Scene) -> np.ndarray:
        """Return the scene as (height, width, 3) uint8."""
        assert isinstance(scene, GraphScene)
        image = Image.new("RGB", self.size, BACKGROUND)
        draw = ImageDraw.Draw(image)
        self._head(draw, scene)
        self._time_axis(draw, scene)
        for resource in range(len(self.labels.resources)):
            self._resource(draw, scene, resource)
        for time, _ in scene.completions:
            x = self._column(scene, time)
            draw.line((x, TOP - 4, x, self._bottom), MISSED)
        self._strip(draw, scene)
        return np.asarray(image, np.uint8)

    def _column(self, scene: Scene, time: float) -> float:
        left, right = PAD + LABEL, WIDTH - PAD
        begin = max(0, scene.now - scene.window)
        return left + (right - left) * (time - begin) / scene.window

    def _head(self, draw: ImageDraw.ImageDraw, scene: GraphScene) -> None:
        labels = self.labels
        clock = f"{'ended at' if scene.over else 'now'} {format_time(labels, scene.now)} {labels.unit}"
        draw.text((PAD, 10), labels.scenario, FOREGROUND, self._large)
        draw.text((WIDTH - PAD, 10), clock, FOREGROUND, self._large, anchor="ra")
        first_link = len(scene.running) - labels.links
        busy = sum(one is not None for one in scene.running[:first_link])
        moving = sum(one is not None for one in scene.moving)
        jobs, resources = plural(labels.nouns.job), plural(labels.nouns.resource)
        in_motion = f"{moving} moving, " if moving else ""
        parts = [
            f"{jobs}: {sum(scene.released):,} arrived, {sum(scene.finished):,} done, "
            f"{len(scene.active):,} in the system",
            f"{resources}: {busy} busy, {in_motion}{first_link - busy - moving} idle",
        ]
        if labels.links:
            carrying = sum(one is not None for one in scene.running[first_link:])
            parts.append(f"links: {carrying} of {labels.links} in use")
        draw.text((PAD, 36), "     ".join(parts), FOREGROUND, self._normal)

    def _time_axis(self, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
        begin = max(0, scene.now - scene.window)
        step, times = round_times(begin, begin + scene.window, self.labels.nanoseconds_per_unit)
        for time in times:
            x = self._column(scene, time)
            draw.line((x, TOP, x, self._bottom + STRIP_GAP + STRIP), LINE)
            text = f"{format_time(self.labels, time, max(0, -math.floor(math.log10(step))))} {self.labels.unit}"
            half = draw.textlength(text, self._small) / 2
            middle = min(max(x, PAD + LABEL + half), WIDTH - PAD - half)
            draw.text((middle, self._bottom + 4), text, MUTED, self._small, anchor="ma")

    def _resource(self, draw: ImageDraw.ImageDraw, scene: GraphScene, resource: int) -> None:
        top = TOP + resource * self._lane
        bottom = top + self._lane - max(2 if self._lane > 4 else 1, self._lane // 6)
        left = self._column(scene, max(0, scene.now - scene.window))
        now = self._column(scene, scene.now)
        if resource % math.ceil(LABEL_HEIGHT / self._lane) == 0:
            name = self.labels.resources[resource]
            while name and draw.textlength(name, self._small) > LABEL - 8:
                name = name[:-1]
            draw.text((PAD, (top + bottom) / 2), name, MUTED, self._small, "lm")
        draw.rectangle((left, top, max(left, now), bottom), IDLE_LANE)
        for piece in scene.slices(resource):
            begin = max(self._column(scene, piece.start), left)
            end = self._column(scene, scene.now if piece.end is None else piece.end)
            if end >= begin:
                draw.rectangle((begin, top, end, bottom), task_colour(piece.colour))
        if scene.moving[resource] is not None:
            draw.rectangle((max(left, now - 3), top, now, bottom), MOVING)

    def _strip(self, draw: ImageDraw.ImageDraw, scene: GraphScene) -> None:
        """Draw the number of jobs in the system over time."""
        counts = [*scene.counts, (scene.now, len(scene.active))]
        top, bottom = self._bottom + STRIP_GAP, self._bottom + STRIP_GAP + STRIP
        most = max(1, *(count for _, count in counts))
        draw.text((PAD, top - 14), f"{plural(self.labels.nouns.job)} in the system (up to {most})", MUTED, self._small)
        points = [(self._column(scene, time), bottom - STRIP * count / most) for time, count in counts]
        for (x, y), (following, _) in pairwise(points):
            draw.rectangle((max(x, PAD + LABEL), y, max(following, PAD + LABEL), bottom), LINE)
        self._key(draw, scene, bottom + 14)

    def _key(self, draw: ImageDraw.ImageDraw, scene: GraphScene, y: float) -> None:
        x = float(PAD)
        draw.line((x + 3, y - 6, x + 3, y + 6), MISSED)
        x = self._explain(draw, x + 10, y, f"{with_article(self.labels.nouns.job)} is done")
        kernels = self.labels.kernels
        shown = enumerate(kernels) if kernels else ((job, self.labels.tasks[job]) for job in scene.active)
        for colour, name in islice(shown, KEY_ENTRIES):
            if x > WIDTH - PAD - 60:
                break
            draw.rectangle((x, y - 5, x + 10, y + 5), task_colour(colour))
            x = self._explain(draw, x + 14, y, name)

    def _explain(self, draw: ImageDraw.ImageDraw, x: float, y: float, text: str) -> float:
        draw.text((x, y), text, MUTED, self._small, "lm")
        return x + float(draw.textlength(text, self._small)) + 12
