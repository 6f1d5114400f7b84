"""Replay of known release times: recorded, imported or drawn beforehand."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import TraceError
from slipstream.families.edge.build import spec_arrays
from slipstream.families.edge.scenario import EdgeScenario, Periodic, Poisson, Trace
from slipstream.families.edge.workload.arrivals import TraceKind, task_trace_times, trace_bytes
from slipstream.families.shared.schema import NANOSECONDS_PER_MS
from slipstream.sim.eventlog import ARRIVAL

MOST_INLINE = 1_000_000
"""Most releases of all tasks inside a scenario file; more need trace files."""

Releases = Mapping[int, np.ndarray]
"""Release times in ns, by the index of their task."""


def recorded_releases(events: np.ndarray, tasks: int) -> dict[int, np.ndarray]:
    """Return the release times of each task from the event log of an episode."""
    arrivals = events[events["kind"] == ARRIVAL]
    arrivals = arrivals[np.argsort(arrivals["task"], kind="stable")]
    bounds = np.searchsorted(arrivals["task"], np.arange(tasks + 1))
    return {task: arrivals["time"][bounds[task] : bounds[task + 1]] for task in range(tasks)}


def replay(scenario: EdgeScenario, releases: Releases) -> EdgeScenario:
    """Return the scenario with `releases` as inline traces; other tasks are unchanged."""
    count = sum(map(len, releases.values()))
    if count > MOST_INLINE:
        raise TraceError(
            f"{count:,} releases: expected at most {MOST_INLINE:,} in a scenario file; --trace puts them beside it"
        )
    arrivals = {
        task: {"kind": "trace", "times_ms": (times / NANOSECONDS_PER_MS).tolist()} for task, times in releases.items()
    }
    return _with_arrivals(scenario, arrivals)


def replay_from_files(
    scenario: EdgeScenario, releases: Releases, folder: str, kind: TraceKind
) -> tuple[EdgeScenario, dict[str, bytes]]:
    """Return the scenario with `releases` as trace files, and the content of these files by relative path."""
    arrivals, files = {}, {}
    for task, times in releases.items():
        path = f"{folder}/{task + 1}-{_file_name(scenario.tasks[task].name)}.{kind}"
        arrivals[task] = {"kind": "trace", "path": path}
        files[path] = trace_bytes(times, kind)
    return _with_arrivals(scenario, arrivals), files


def moved(scenario: EdgeScenario, folder: Path, besides: Container[str] = ()) -> EdgeScenario:
    """Return the scenario with the paths of its traces relative to `folder`.

    Traces that will be written beside the new file are listed in `besides`; each of the others must be readable, or it
    is a TraceError.
    """
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for index, (row, task) in enumerate(zip(data["tasks"], scenario.tasks, strict=True)):
        if not isinstance(task.arrival, Trace) or task.arrival.path is None or task.arrival.path in besides:
            continue
        task_trace_times(scenario, index)
        if not Path(task.arrival.path).is_absolute():
            row["arrival"]["path"] = os.path.relpath(scenario._folder / task.arrival.path, folder)
    return _checked(data, folder)


def with_external_arrivals(scenario: EdgeScenario) -> EdgeScenario:
    """Return the scenario with all tasks released on request, at the mean rates that they had."""
    periods = spec_arrays(scenario)["tasks"]["period"].tolist()
    gaps = [max(period, 1) / NANOSECONDS_PER_MS for period in periods]
    return _with_arrivals(scenario, {task: {"kind": "external", "mean_gap_ms": gap} for task, gap in enumerate(gaps)})


def with_horizon(scenario: EdgeScenario, horizon_ms: float) -> EdgeScenario:
    """Return the scenario with the horizon `horizon_ms`."""
    data = scenario.model_dump(mode="json", exclude_unset=True)
    return _checked({**data, "horizon_ms": horizon_ms}, scenario._folder)


def _with_arrivals(scenario: EdgeScenario, arrivals: Mapping[int, dict[str, Any]]) -> EdgeScenario:
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for index, arrival in arrivals.items():
        # The default deadline of a periodic task is its period, which a trace does not have.
        data["tasks"][index] |= {"arrival": arrival, "deadline_ms": scenario.tasks[index].relative_deadline_ms}
    for key, kind in (("periodic_tasks", Periodic), ("poisson_tasks", Poisson)):
        if data.get(key) is not None:
            stay = [task for index, task in enumerate(scenario.tasks) if index not in arrivals]
            data[key] = sum(isinstance(task.arrival, kind) for task in stay)
    return _checked(data, scenario._folder)


def _checked(data: dict[str, Any], folder: Path) -> EdgeScenario:
    scenario = EdgeScenario.model_validate(data)
    scenario._folder = folder
    return scenario


def _file_name(name: str) -> str:
    """Return the task's name reduced to characters that are valid in file names on any system."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name)[:40]
