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

from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME
from slipstream.files.wording import plural
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
    names = [
        {"name": "process_name", "ph": "M", "pid": process, "args": {"name": f"{run.title}: {label} ({run.source})"}}
    ]
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
        about: dict[str, Any] = {
            line.nouns.job: task if line.per_job else int(line.number[job]),
            "release_us": int(line.release[job]) / NANOSECONDS_PER_US,
            "outcome": line.fates[int(line.fate[job])],
        }
        if line.deadline[job] < NO_DEADLINE:
            about["deadline_us"] = int(line.deadline[job]) / NANOSECONDS_PER_US
            about["on_time"] = bool(line.fate[job] == ON_TIME)
        if line.parts:
            about["part"] = line.parts[int(line.slice_part[index])]
        elif parts[job] > 1:
            begun[job] += 1
            about["part"] = f"{begun[job]} of {parts[job]}"
        what = about.get("part", line.tasks[task]) if line.per_job else line.tasks[task]
        slices.append(
            {
                "name": f"{what} · {variant}" if variant else what,
                "cat": line.groups[int(line.slice_group[index])],
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
    """Return the number of waiting jobs over time: by task, or of all where every job stands for itself."""
    line, jobs = run.timeline, plural(run.timeline.nouns.job)
    if line.per_job:
        queues = {f"{jobs} waiting": np.arange(len(line.task))}
    else:
        queues = {f"{jobs} waiting: {name}": np.flatnonzero(line.task == task) for task, name in enumerate(line.tasks)}
    counters = []
    for name, own in queues.items():
        times, counts = line.waiting(own)
        for time, count in zip(times.tolist(), counts.tolist(), strict=True):
            place = {"ph": "C", "pid": process, "ts": time / NANOSECONDS_PER_US}
            counters.append({"name": name, **place, "args": {jobs: count}})
    return counters
