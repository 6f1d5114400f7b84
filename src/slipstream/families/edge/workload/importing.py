"""Importers of the edge family, one function per format: each returns a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from slipstream.errors import InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.arrivals import COLUMN
from slipstream.families.edge.workload.importers.ladder import read_ladder, with_ladder
from slipstream.families.edge.workload.importers.log import releases_of_log
from slipstream.families.edge.workload.importers.tasklist import Gaps, TaskList, scenario_of
from slipstream.families.edge.workload.importers.trace import read_releases, task_index
from slipstream.families.edge.workload.replay import replay
from slipstream.families.shared.importing import NANOSECONDS_PER, TraceColumns, TraceImporter, names_per_file
from slipstream.files.validation import read_model

COLUMNS = TraceColumns(time=COLUMN, unit="ms", name="task")


def read_trace(
    scenario: EdgeScenario, files: Sequence[Path], names: Sequence[str] | None, columns: TraceColumns
) -> dict[int, np.ndarray]:
    """Return the release times of the files in ns, by index of their task; `names` has the task of each file."""
    releases: dict[int, np.ndarray] = {}
    unit_ms = NANOSECONDS_PER[columns.unit] / 1e6
    for path, name in zip(files, names_per_file(files, names), strict=True):
        found = read_releases(path, scenario, name, columns.name, columns.time, unit_ms)
        for index in found.keys() & releases.keys():
            task = scenario.tasks[index].name
            raise InputError(f"{path}: task '{task}' has releases in another file: expected one file")
        releases |= found
    return releases


def import_trace(
    scenario: EdgeScenario, files: Sequence[Path], names: Sequence[str] | None = None, columns: TraceColumns = COLUMNS
) -> EdgeScenario:
    """Return `scenario` with tasks that are released at the times of the files; other tasks stay as they are.

    The column of names, or `names` with one per file, says which task is released.
    """
    return replay(scenario, read_trace(scenario, files, names, columns))


def import_tasklist(
    path: Path,
    gaps: Gaps = "exponential",
    seed: int = 0,
    horizon_ms: float | None = None,
    profiles: Mapping[str, str] | None = None,
) -> EdgeScenario:
    """Return the scenario of a JSON task list: models, periods or Poisson means, deadlines.

    Latencies come from built-in ladders; `profiles` adds to or replaces those of models. See
    `importers.tasklist.scenario_of` for `gaps` and `seed`.
    """
    tasks = read_model(path, TaskList)
    if horizon_ms is not None:
        tasks = tasks.model_copy(update={"total_time_ms": horizon_ms})
    try:
        return scenario_of(tasks, path.stem, gaps, seed, profiles)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def import_profile(
    scenario: EdgeScenario,
    task: str,
    path: Path,
    where: Mapping[str, str] | None = None,
    name_column: str = "model",
    latency_column: str = "latency_ms",
    accuracy_column: str = "accuracy",
    pareto: bool = False,
) -> EdgeScenario:
    """Return `scenario` with the ladder of `task` replaced by the measured variants of a table; see `read_ladder`."""
    ladder = read_ladder(path, where or {}, name_column, latency_column, accuracy_column, pareto)
    return with_ladder(scenario, task_index(scenario, task), ladder)


def import_log(path: Path, scenario: EdgeScenario, events: np.ndarray) -> EdgeScenario:
    """Return `scenario` with the arrivals of its recorded run `events` replayed; errors name `path`, its file."""
    return replay(scenario, releases_of_log(path, scenario, events))


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_ms, and task", import_trace)
