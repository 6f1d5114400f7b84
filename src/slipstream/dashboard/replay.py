"""Time windows of a recorded run, downsampled so that a run of a million events zooms smoothly.

A window with few jobs holds each of them, as columns for the report's charts. A window with many holds the share of
time that each resource spent on jobs of each kind, in columns of a few pixels; cumulative sums over the slices make
that as quick for the whole run as for a second of it.
"""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import InvariantError, TraceError, printable
from slipstream.families.contract import Family, family_of
from slipstream.families.shared.timeline import ON_TIME, OPEN, Timeline
from slipstream.files.inputs import unreadable
from slipstream.reports.figures.page_figures import (
    FIRST_SLICES,
    idle_columns,
    never_ran,
    slice_columns,
    when_left,
    words_of,
)
from slipstream.reports.runs import LATEST_NS, episode_of, read_recording

KINDS = 3
"""Missed, on time, still open: stacked in this order by the charts, from the bottom."""
MOST_SLICES = 12_000
"""Maximum number of slices in a window; more are drawn as shares of time."""
MOST_COLUMNS = 4096
KEPT = 3
"""Recordings kept in memory: about 150 bytes an event each."""


class Lane:
    """Consecutive slices of one resource, with the cumulative time spent on each kind."""

    def __init__(self, index: np.ndarray, start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> None:
        self.index, self.start, self.end, self.kind = index, start, end, kind
        spent = np.zeros((KINDS, len(index) + 1))
        for number in range(KINDS):
            np.cumsum(np.where(kind == number, end - start, 0), out=spent[number, 1:])
        self._spent = spent

    def spent(self, times: np.ndarray) -> np.ndarray:
        """Return the time spent on each kind before each of `times`: an array (kinds, times)."""
        place = np.searchsorted(self.start, times, side="right")
        if not len(self.index):
            return np.zeros((KINDS, len(times)))
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(self.end[last] - times, 0), 0)
        found = self._spent[:, place].copy()
        found[self.kind[last], np.arange(len(times))] -= beyond
        return found

    def in_sight(self, begin: float, end: float) -> np.ndarray:
        """Return the indices of the slices that overlap the time from `begin` to `end`."""
        first = np.searchsorted(self.end, begin, side="right")
        return self.index[first : np.searchsorted(self.start, end, side="left")]


class Recording:
    """Recorded run prepared for windows at any zoom; times in ns inside, in the family's unit outside."""

    def __init__(self, path: Path) -> None:
        self.events, self.about, self.scenario = read_recording(path)
        self._name, self._lock = path.name, threading.Lock()
        self._broken: str | None = None
        """Invariant that the log violates, empty if none; None before the check."""
        self.family: Family = family_of(self.scenario)
        self.unit = self.family.nanoseconds_per_unit
        with self._damage_as_trace_error():
            self._prepare()

    def _prepare(self) -> None:
        """Compute the timeline, the lanes and the queue lengths that windows are cut from."""
        self.timeline: Timeline = self.family.timeline(self.scenario, self.events)
        line = self.timeline
        fate = line.fate[line.slice_job]
        kind = np.where(fate == ON_TIME, 1, np.where(fate == OPEN, 2, 0))
        self.lanes = []
        for resource in range(len(line.resources)):
            own = np.flatnonzero(line.slice_resource == resource)
            self.lanes.append(Lane(own, line.slice_start[own], line.slice_end[own], kind[own]))
        idle = never_ran(line)
        left = when_left(line, idle)
        order = np.argsort(left, kind="stable")
        self._idle, self._left = idle[order], left[order]
        self._waiting = line.waiting()

    def vouch(self) -> None:
        """Check the invariants of the log, once; the first window of a long run is shown without it.

        Raises:
            TraceError: The log violates an invariant.
        """
        with self._lock:
            if self._broken is None:
                try:
                    self.family.check(self.scenario, self.events)
                    self._broken = ""
                except InvariantError as error:
                    self._broken = str(error)
        if self._broken:
            message = f"{self._name}: damaged ({self._broken}): expected an event log written by slipstream"
            raise TraceError(message)

    @contextmanager
    def _damage_as_trace_error(self) -> Iterator[None]:
        """Turn any exception into a TraceError if the log violates an invariant, on which all computations rely."""
        try:
            yield
        except Exception:
            self.vouch()
            raise

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics of the run by name."""
        self.vouch()
        return self.family.metrics(self.scenario, self.events, *episode_of(self.about))

    def about_page(self) -> dict[str, Any]:
        """Return names, units and sizes, which the page needs before the first window."""
        line = self.timeline
        first = np.sort(line.slice_end[:FIRST_SLICES])
        return {
            "unit": self.family.time_unit,
            "end": line.end / self.unit,
            "first": (float(first[-1]) if len(first) else float(line.end)) / self.unit,
            **words_of(line),
            "never": len(self._idle) > 0,
            "most": int(self._waiting[1].max()),
            "events": len(self.events),
            "jobs": len(line.task),
            "policy": printable(str(self.about["policy"])),
            "seed": int(self.about["seed"]),
            "scenario": printable(f"{self.scenario.family}/{self.scenario.name}"),
            "command": printable(str(self.about.get("command", ""))),
            "device": printable(str(self.about["device"])) if "device" in self.about else None,
        }

    def nanoseconds(self, time: float) -> int:
        """Return `time`, in the family's unit, as ns, clipped to the range of times in a log."""
        return round(min(max(time * self.unit, -LATEST_NS), LATEST_NS))

    def window(self, begin: float, end: float, columns: int, detail: int) -> dict[str, Any]:
        """Return the content of the window from `begin` to `end`, in the family's unit.

        `detail` is the maximum number of slices of one resource that are sent individually.
        """
        first = self.nanoseconds(begin)
        span = (first, max(self.nanoseconds(end), first + 1))
        with self._damage_as_trace_error():
            return self._cut(*span, min(max(columns, 1), MOST_COLUMNS), detail)

    def _cut(self, begin: int, end: int, columns: int, detail: int) -> dict[str, Any]:
        sights = [lane.in_sight(begin, end) for lane in self.lanes]
        piece: dict[str, Any] = {"from": begin / self.unit, "to": end / self.unit}
        if all(len(sight) <= detail for sight in sights) and sum(map(len, sights)) <= MOST_SLICES:
            piece |= self._jobs_in(np.sort(np.concatenate([*sights, np.empty(0, np.int64)])), begin, end)
        else:
            piece |= self._shares_in(begin, end, columns)
        piece["waiting"] = self._waiting_in(begin, end, columns)
        return piece

    def _jobs_in(self, slices: np.ndarray, begin: int, end: int) -> dict[str, Any]:
        here = slice(np.searchsorted(self._left, begin), np.searchsorted(self._left, end, side="right"))
        return {
            "ran": slice_columns(self.timeline, self.unit, slices),
            "idle": idle_columns(self.timeline, self.unit, self._idle[here]),
        }

    def _shares_in(self, begin: int, end: int, columns: int) -> dict[str, Any]:
        """Return shares of time in 1/255, by resource, column and kind."""
        edges = np.linspace(begin, end, columns + 1)
        width = (end - begin) / columns
        shares = np.stack([np.diff(lane.spent(edges)).T / width for lane in self.lanes])
        whole = np.clip(np.rint(shares * 255), 0, 255).astype(np.uint8)
        lost = np.diff(np.searchsorted(self._left, edges)).tolist()
        return {"shares": base64.b64encode(whole.tobytes()).decode(), "columns": columns, "lost": lost}

    def _waiting_in(self, begin: int, end: int, columns: int) -> dict[str, list[Any]]:
        """Return the queue length over time; of many changes in a column the first, the extremes and the last."""
        times, counts = self._waiting
        first = max(int(np.searchsorted(times, begin, side="right")) - 1, 0)
        chosen = np.arange(first, max(int(np.searchsorted(times, end, side="right")), first + 1))
        if len(chosen) > 8 * columns:
            column = np.clip(((times[chosen] - begin) * columns) // max(end - begin, 1), 0, columns - 1)
            by_count = np.lexsort((counts[chosen], column))
            starts = np.flatnonzero(np.diff(column, prepend=-1))
            ends = np.append(starts[1:], len(column)) - 1
            chosen = chosen[np.unique(np.concatenate((starts, ends, by_count[starts], by_count[ends])))]
        return {"times": (times[chosen] / self.unit).tolist(), "counts": counts[chosen].tolist()}

    def moment(self, time: float) -> dict[str, Any]:
        """Return the job on every resource at `time`, and the number of waiting jobs of each task."""
        self.vouch()
        now, line = self.nanoseconds(time), self.timeline
        resources = []
        for name, lane in zip(line.resources, self.lanes, strict=True):
            place = int(np.searchsorted(lane.start, now, side="right")) - 1
            busy = place >= 0 and lane.end[place] > now
            resources.append({"name": name, "job": self._slice(int(lane.index[place])) if busy else None})
        waits = line.wait_job[(line.wait_start <= now) & (line.wait_end > now)]
        counts = np.bincount(line.task[waits], minlength=len(line.tasks))
        queues = [{"task": line.tasks[task], "waiting": int(counts[task])} for task in np.flatnonzero(counts)]
        return {"time": now / self.unit, "resources": resources, "queues": queues, "waiting": len(waits)}

    def _slice(self, piece: int) -> dict[str, Any]:
        line = self.timeline
        job = int(line.slice_job[piece])
        task = int(line.task[job])
        return {
            "task": line.tasks[task],
            "part": line.parts[int(line.slice_part[piece])] if line.parts else "",
            "variant": line.variants[task][int(line.slice_variant[piece])],
            "number": int(line.number[job]),
            "start": int(line.slice_start[piece]) / self.unit,
            "end": int(line.slice_end[piece]) / self.unit,
            "fate": line.fates[int(line.fate[job])],
        }


class Recordings:
    """Cache of the most recently used recordings, shared by all requests."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, int], Recording] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path) -> Recording:
        """Return the recording at `path`; a file that changed is read again."""
        try:
            key = (path, path.stat().st_mtime_ns)
        except OSError as error:
            raise TraceError(f"{path.name}: {unreadable(error)}: expected an event log") from None
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Recording(path)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]
