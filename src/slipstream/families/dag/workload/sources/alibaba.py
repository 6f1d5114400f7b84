"""Production jobs of Alibaba from one .npz file: graphs whose stages have instances and one duration."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.errors import TraceError
from slipstream.families.dag.scenario import Alibaba
from slipstream.families.dag.workload.sources.inline import ANY_PARALLELISM
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves
from slipstream.families.shared.schema import LONGEST_S, NANOSECONDS_PER_S
from slipstream.files.arrays import read_arrays
from slipstream.files.tables import table_error

COLUMNS = ("stage_ptr", "edge_ptr", "edges", "num_tasks", "duration")


def library(source: Alibaba, folder: Path) -> Library:
    """Return the jobs of a file within the size limits of `source`."""
    path = folder / source.path
    data = _read(path)
    templates: list[JobTemplate] = []
    for number in range(len(data["stage_ptr"]) - 1):
        if source.first_jobs is not None and len(templates) == source.first_jobs:
            break
        begin, end = data["stage_ptr"][number : number + 2]
        tasks = data["num_tasks"][begin:end]
        if end - begin > source.most_stages or tasks.max(initial=0) > source.most_tasks or end == begin:
            continue
        templates.append(_job(path, source, data, number))
    if not templates:
        raise table_error(path, "no job is small enough: expected larger most_stages and most_tasks")
    return Library(tuple(templates), (ANY_PARALLELISM,))


def _read(path: Path) -> dict[str, np.ndarray]:
    data = read_arrays(path, COLUMNS, "an .npz file of packed jobs, numbers only", TraceError)
    _check(path, data)
    return data


def _check(path: Path, data: dict[str, np.ndarray]) -> None:
    """Raise a TraceError if types, lengths or pointers of the arrays are invalid."""
    for column in COLUMNS:
        array, measured = data[column], column in ("num_tasks", "duration")
        listed = array.ndim == 1 or column == "edges"
        if array.dtype.kind not in ("iuf" if measured else "iu") or not listed:
            raise table_error(path, f"{column}: expected a list of {'numbers' if measured else 'whole numbers'}")
    if not np.isfinite(data["num_tasks"]).all():
        raise table_error(path, "num_tasks: expected finite numbers")
    stages = len(data["num_tasks"])
    edges = data["edges"]
    if len(data["duration"]) != stages or edges.ndim != 2 or edges.shape[1] != 2:
        raise table_error(path, "num_tasks, duration and edges do not fit: expected a number per stage, pairs of edges")
    for column, length in (("stage_ptr", stages), ("edge_ptr", len(edges))):
        pointer = data[column]
        ends = len(pointer) > 1 and pointer[0] == 0 and pointer[-1] == length
        if not ends or (np.diff(pointer) < 0).any() or len(pointer) != len(data["stage_ptr"]):
            raise table_error(path, f"{column}: expected numbers that ascend from 0 to {length}, one more than jobs")


def _job(path: Path, source: Alibaba, data: dict[str, np.ndarray], number: int) -> JobTemplate:
    begin, end = data["stage_ptr"][number : number + 2]
    stages = []
    for index, offset in enumerate(range(begin, end)):
        tasks, seconds = int(data["num_tasks"][offset]), float(data["duration"][offset]) * source.unit_s
        if tasks < 1 or not 0.0 <= seconds <= LONGEST_S:
            text = f"job {number}, stage {index}: {tasks} tasks of {seconds:g} s: expected at least one, of a time"
            raise table_error(path, text)
        # Recorded in whole units, many durations are 0.
        time = np.array([max(1, round(seconds * NANOSECONDS_PER_S))], np.int64)
        empty = np.zeros(0, np.int64)
        stages.append(StageTemplate(f"stage-{index}", tasks, {ANY_PARALLELISM: Waves(empty, time, empty)}))
    first, last = data["edge_ptr"][number : number + 2]
    edges = {(int(parent), int(child)) for parent, child in data["edges"][first:last]}
    if any(not 0 <= stage < end - begin for edge in edges for stage in edge):
        raise table_error(path, f"job {number}: an edge leads out of it: expected stages from 0 to {end - begin - 1}")
    template = JobTemplate(f"alibaba-{number}", tuple(stages), tuple(sorted(edges)))
    if len(template.order()) < len(stages):
        raise table_error(path, f"job {number}: its stages wait for each other: expected a graph without cycles")
    return template
