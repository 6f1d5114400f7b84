"""A run as Chrome trace-event JSON, which https://ui.perfetto.dev and chrome://tracing open.

The format is described in "Trace Event Format" (Google, 2016). Every run is a process, every resource a thread;
a slice of a job is a complete event ("X") and the number of waiting jobs of a task a counter ("C"). Times
are microseconds, in ascending order. Numbers of threads start at 1, because viewers keep 0 for themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.families.shared.timeline import FATES, ON_TIME
from slipstream.reports.runs import Run, labels_of

NANOSECONDS_PER_US = 1000


def trace(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the runs as JSON-ready data."""
    names: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for process, (run, label) in enumerate(zip(runs, labels_of(runs), strict=True), start=1):
        names += _names(run, label, process)
        events += _slices(run, process) + _counters(run, process)
    events.sort(key=lambda event: float(event["ts"]))
    about = [{"digest": run.digest, **run.about} for run in runs]
    return {"traceEvents": names + events, "displayTimeUnit": "ms", "otherData": {"runs": about}}


def _names(run: Run, label: str, process: int) -> list[dict[str, Any]]:
    names = [{"name": "process_name", "ph": "M", "pid": process, "args": {"name": f"{run.title}: {label}"}}]
    for thread, resource in enumerate(run.timeline.resources, start=1):
        place = {"ph": "M", "pid": process, "tid": thread}
        names.append({"name": "thread_name", **place, "args": {"name": resource}})
        names.append({"name": "thread_sort_index", **place, "args": {"sort_index": thread}})
    return names


def _slices(run: Run, process: int) -> list[dict[str, Any]]:
    line = run.timeline
    parts = np.bincount(line.slice_job, minlength=len(line.task))
    begun: Counter[int] = Counter()
    slices = []
    for index, job in enumerate(line.slice_job.tolist()):
        task, start, end = int(line.task[job]), int(line.slice_start[index]), int(line.slice_end[index])
        variant = line.variants[task][int(line.slice_variant[index])]
        about = {
            "job": int(line.number[job]),
            "release_us": int(line.release[job]) / NANOSECONDS_PER_US,
            "deadline_us": int(line.deadline[job]) / NANOSECONDS_PER_US,
            "on_time": bool(line.fate[job] == ON_TIME),
            "fate": FATES[int(line.fate[job])],
        }
        if parts[job] > 1:
            begun[job] += 1
            about["part"] = f"{begun[job]} of {parts[job]}"
        slices.append(
            {
                "name": f"{line.tasks[task]} · {variant}",
                "cat": line.tasks[task],
                "ph": "X",
                "pid": process,
                "tid": int(line.slice_resource[index]) + 1,
                "ts": start / NANOSECONDS_PER_US,
                "dur": (end - start) / NANOSECONDS_PER_US,
                "args": about,
            }
        )
    return slices


def _counters(run: Run, process: int) -> list[dict[str, Any]]:
    counters = []
    for task, name in enumerate(run.timeline.tasks):
        times, counts = run.timeline.waiting(np.flatnonzero(run.timeline.task == task))
        for time, count in zip(times.tolist(), counts.tolist(), strict=True):
            place = {"ph": "C", "pid": process, "ts": time / NANOSECONDS_PER_US}
            counters.append({"name": f"waiting: {name}", **place, "args": {"jobs": count}})
    return counters
