"""Live view of a run: draws frames at a steady rate from the rows of its event log."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live

from slipstream.families.shared.labels import RunLabels
from slipstream.render.scene import scene_of
from slipstream.render.terminal import frame

FRAMES_PER_SECOND = 15
SHORTEST_SECONDS = 20
"""Duration of a short episode on the screen at the default speed."""
JOBS_PER_SECOND = 20
"""Most jobs of mean length per second at the default speed."""


def default_speed(labels: RunLabels) -> float:
    """Return the default speed in simulated ns per second."""
    lengths = [length for ladder in labels.expected for length in ladder]
    return min(labels.end / SHORTEST_SECONDS, JOBS_PER_SECOND * sum(lengths) / len(lengths))


class LiveView:
    """Draws a run on a console; a context manager that takes every piece of the log by `show`.

    A terminal shows the run at `speed` simulated ns per second; Ctrl-C ends the drawing, not the run. Any other output
    gets one plain frame per window of time, without delay.
    """

    def __init__(
        self,
        labels: RunLabels,
        title: str,
        console: Console,
        speed: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.scene = scene_of(labels)
        self.stopped = False
        self._title = title
        self._console = console
        self._moving = console.is_terminal and not console.is_dumb_terminal
        self._speed = speed or default_speed(labels)
        self._step = self._speed / FRAMES_PER_SECOND if self._moving else self.scene.window
        self._frames = 0
        self._clock, self._sleep = clock, sleep
        self._began = 0.0
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop") if self._moving else None
        self._old_handler: Any = None

    def __enter__(self) -> LiveView:
        self._began = self._clock()
        if self._live is not None:
            self._old_handler = signal.signal(signal.SIGINT, self._interrupted)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.stopped:
            self._draw()
        self._close()

    def show(self, events: np.ndarray) -> None:
        """Draw the run up to the last row of `events`, the next piece of its log."""
        times = events["time"]
        begin = 0
        while not self.stopped and len(times) and (self._frames + 1) * self._step < times[-1]:
            self._frames += 1
            moment = int(self._frames * self._step)
            end = int(np.searchsorted(times, moment, side="right"))
            self.scene.update(events[begin:end])
            self.scene.advance_to(moment)
            begin = end
            self._wait_and_draw(moment)
        self.scene.update(events[begin:])

    def _wait_and_draw(self, moment: int) -> None:
        """Draw the frame of `moment` on time; a late frame, on a slow terminal, is skipped."""
        if self._live is None:
            self._draw()
            return
        early = self._began + moment / self._speed - self._clock()
        if early > 0:
            self._sleep(early)
        if early > -1 / FRAMES_PER_SECOND and not self.stopped:
            self._draw()

    def _draw(self) -> None:
        width, height = self._console.size
        ascii_only = self._console.options.ascii_only
        if self._live is not None:
            self._live.update(frame(self.scene, self._title, width, height - 1, ascii_only), refresh=True)
        else:
            self._console.print(frame(self.scene, self._title, width, None, ascii_only), highlight=False)
            self._console.print()

    def _interrupted(self, number: int, where: FrameType | None) -> None:
        """Stop drawing; a second Ctrl-C reaches the previous handler and ends the command."""
        self.stopped = True
        self._close()

    def _close(self) -> None:
        if self._live is not None and self._old_handler is not None:
            self._live.stop()
            signal.signal(signal.SIGINT, self._old_handler)
            self._old_handler = None
