"""The importers of `slipstream import` as functions: files of other tools and recorded runs become scenarios.

    scenario = slipstream.importers.trace("camera.csv", "edge/light", "task1")
    slipstream.compare(scenario, "edf,edf-fit")

Each returns a scenario object, which `slipstream.dump` turns into JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from slipstream.errors import InputError
from slipstream.families.contract import Scenario, ScenarioLike, family_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload import importing as edge
from slipstream.families.edge.workload.importers.tasklist import Gaps
from slipstream.families.edge.workload.replay import with_horizon
from slipstream.families.shared.importing import TraceColumns
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
    return edge.import_tasklist(Path(path), gaps, seed, profiles=profiles)


def trace(
    paths: str | Path | Sequence[str | Path],
    scenario: ScenarioLike,
    names: str | Sequence[str] | None = None,
    name_column: str | None = None,
    column: str | None = None,
    unit: str | None = None,
    horizon_ms: float | None = None,
) -> Scenario:
    """Return a scenario of any family whose work arrives as CSV, Parquet or JSON files say.

    Args:
        paths: A file, or several, with an arrival in each row.
        scenario: The scenario to change; tasks and models without rows keep their arrivals.
        names: Task, model, job, graph or user of all rows of a file, one for each file; without it each row has one.
        name_column: The column of these names; default: that of the family.
        column: The column of times; default: that of the family, such as arrival_ms in edge and submit_s in cluster.
        unit: The unit of that column: s, ms, us or ns; default: that of the family.
        horizon_ms: Length of an episode, if another one is wanted (edge only).
    """
    base = load(scenario)
    importer = family_of(base).trace_importer
    if importer is None:
        raise InputError(f"the family '{base.family}' has no import of traces: expected another family")
    known = importer.columns
    columns = TraceColumns(column or known.time, unit or known.unit, name_column or known.name)
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    listed = [names] if isinstance(names, str) else None if names is None else list(names)
    if horizon_ms is not None:
        base = with_horizon(_edge(base), horizon_ms)
    found: Scenario = importer.import_trace(base, files, listed, columns)
    return found


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
    columns = (name_column, latency_column, accuracy_column)
    return edge.import_profile(_edge(scenario), task, Path(path), where, *columns, pareto)


def log(path: str | Path) -> Scenario:
    """Return the edge scenario of a recorded run, with the arrivals of every task replaced by those recorded."""
    file = Path(path)
    events, _, scenario = read_recording(file)
    return edge.import_log(file, _edge(scenario), events)


def _edge(source: ScenarioLike) -> EdgeScenario:
    scenario = load(source)
    if not isinstance(scenario, EdgeScenario):
        raise InputError(f"{scenario.family}/{scenario.name}: expected a scenario of the family 'edge'")
    return scenario
