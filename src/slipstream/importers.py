"""The importers of `slipstream import` as functions: files of other tools and recorded runs become scenarios.

    scenario = slipstream.importers.trace("camera.csv", "edge/light", "task1")
    slipstream.compare(scenario, "edf,edf-fit")

Each returns a scenario object, which `slipstream.dump` turns into JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from slipstream.errors import InputError
from slipstream.families.contract import Scenario, ScenarioLike
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.importers.ladder import read_ladder, with_ladder
from slipstream.families.edge.workload.importers.log import releases_of_log
from slipstream.families.edge.workload.importers.tasklist import Gaps, TaskList, scenario_of
from slipstream.families.edge.workload.importers.trace import UNITS_MS, read_releases, task_index
from slipstream.families.edge.workload.replay import replay, with_horizon
from slipstream.files.validation import read_model
from slipstream.reports.runs import read_recording
from slipstream.scenario import load

__all__ = ["log", "profile", "tasklist", "trace"]


def tasklist(
    path: str | Path, gaps: Gaps = "exponential", seed: int = 0, profiles: Mapping[str, str] | None = None
) -> Scenario:
    """Return the edge scenario of a task list: models, periods or Poisson means, deadlines.

    Latencies come from built-in ladders; `profiles` maps names of models to further ones. `seed` is that of
    'integer-poisson' gaps.
    """
    file = Path(path)
    try:
        return scenario_of(read_model(file, TaskList), file.stem, gaps, seed, profiles)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(file)) else f"{file}: {message}") from None


def trace(
    paths: str | Path | Sequence[str | Path],
    scenario: ScenarioLike,
    names: str | Sequence[str] | None = None,
    name_column: str = "task",
    column: str = "arrival_ms",
    unit: str = "ms",
    horizon_ms: float | None = None,
) -> Scenario:
    """Return an edge scenario whose tasks are released as CSV or Parquet files say; the other tasks stay as they are.

    Args:
        paths: A file, or several, with a release in each row.
        scenario: The scenario to change.
        names: Task whose releases a file holds, one for each file; without it each row names its task.
        name_column: The column that names the task.
        column: The column of release times.
        unit: The unit of that column: s, ms, us or ns.
        horizon_ms: Length of an episode, if another one is wanted.
    """
    base = _edge(scenario)
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    tasks: list[str | None] = [names] if isinstance(names, str) else [*names] if names else [None] * len(files)
    if len(tasks) != len(files):
        raise InputError(f"{len(tasks)} of {len(files)} files have a name: expected one for each file, or none")
    if unit not in UNITS_MS:
        raise InputError(f"unit '{unit}': expected one of {', '.join(UNITS_MS)}")
    releases: dict[int, np.ndarray] = {}
    for file, name in zip(files, tasks, strict=True):
        found = read_releases(file, base, name, name_column, column, UNITS_MS[unit])
        for index in found.keys() & releases.keys():
            raise InputError(f"{file}: task '{base.tasks[index].name}' has releases in another file: expected one file")
        releases |= found
    return replay(base if horizon_ms is None else with_horizon(base, horizon_ms), releases)


def profile(
    path: str | Path,
    scenario: ScenarioLike,
    task: str,
    where: Mapping[str, str] | None = None,
    name_column: str = "model",
    latency_column: str = "latency_ms",
    accuracy_column: str = "accuracy",
    pareto: bool = False,
) -> Scenario:
    """Return an edge scenario whose `task` has the measured variants of a CSV or Parquet file.

    Rows are those whose cells match `where`; with `pareto`, what is not more accurate than every faster row is left
    out.
    """
    base = _edge(scenario)
    index = task_index(base, task)
    ladder = read_ladder(Path(path), where or {}, name_column, latency_column, accuracy_column, pareto)
    return with_ladder(base, index, ladder)


def log(path: str | Path) -> Scenario:
    """Return the edge scenario of a recorded run, with the arrivals of every task replaced by those recorded."""
    file = Path(path)
    events, _, scenario = read_recording(file)
    base = _edge(scenario)
    return replay(base, releases_of_log(file, base, events))


def _edge(source: ScenarioLike) -> EdgeScenario:
    scenario = load(source)
    if not isinstance(scenario, EdgeScenario):
        raise InputError(f"{scenario.family}/{scenario.name}: expected a scenario of the family 'edge'")
    return scenario
