"""Templates and arrivals of a scenario, from wherever its jobs come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from slipstream.errors import TraceError
from slipstream.families.elastic.scenario import (
    MOST_JOBS,
    DrawnJobs,
    ElasticScenario,
    GavelTrace,
    Job,
    ListedJobs,
)
from slipstream.families.shared.schema import LONGEST_S, nanoseconds_of
from slipstream.files.inputs import read_json, read_text, reading_key, show

FIELDS = 10
"""Fields of a line of a trace of Gavel."""


@dataclass(frozen=True)
class Place:
    """GPUs on which a template runs."""

    kind: int
    gpus: int
    per_s: float


@dataclass(frozen=True)
class Template:
    """A job, or what jobs are drawn from."""

    model: int
    work: float
    weight: float
    places: tuple[Place, ...]
    start: int = 0
    """Time before the first run, in ns."""
    restart: int = 0


@dataclass(frozen=True)
class Workload:
    """Templates and, unless jobs are drawn, the arrival in ns of one job of each template."""

    models: tuple[str, ...]
    templates: tuple[Template, ...]
    arrivals: tuple[int, ...]


def read_workload(scenario: ElasticScenario) -> Workload:
    """Return what the jobs of a scenario are."""
    if isinstance(scenario.jobs, GavelTrace):
        return _gavel_workload(scenario, scenario.jobs)
    jobs = scenario.jobs.templates if isinstance(scenario.jobs, DrawnJobs) else scenario.jobs.jobs
    arrivals: tuple[int, ...] = ()
    if isinstance(scenario.jobs, ListedJobs):
        arrivals = tuple(nanoseconds_of(job.arrival_s) for job in scenario.jobs.jobs)
    templates = tuple(_template(scenario, job) for job in jobs)
    return Workload(tuple(one.name for one in scenario.models), templates, arrivals)


def _template(scenario: ElasticScenario, job: Job) -> Template:
    kinds = [one.name for one in scenario.kinds]
    index = [one.name for one in scenario.models].index(job.model)
    model = scenario.models[index]
    places = tuple(
        Place(kinds.index(one.kind), one.gpus, one.per_s)
        for one in model.configurations
        if job.gpus is None or one.gpus in job.gpus
    )
    times = nanoseconds_of(model.start_s), nanoseconds_of(model.restart_s)
    return Template(index, job.work, job.weight, places, *times)


# Traces of Gavel


def _gavel_workload(scenario: ElasticScenario, source: GavelTrace) -> Workload:
    """Return the jobs of a trace of Gavel, each with the kinds on which the table has a throughput for its number."""
    with reading_key("jobs.throughputs.path"):
        path = scenario._folder / source.throughputs.path
        table = read_json(path, "a table of throughputs", TraceError)
        rates = [_rates_of_kind(path, table, kind.name) for kind in scenario.kinds]
    with reading_key("jobs.path"):
        path = scenario._folder / source.path
        lines = read_text(path, "a trace", TraceError).splitlines()
        if not 1 <= len(lines) <= MOST_JOBS:
            raise TraceError(f"{path}: {len(lines)} lines: expected 1 to {MOST_JOBS}")
        return _jobs_of_lines(scenario, path, lines, rates)


def _rates_of_kind(path: Path, table: object, kind: str) -> dict[str, object]:
    found = table.get(kind) if isinstance(table, dict) else None
    if not isinstance(found, dict):
        raise TraceError(f"{path}: expected an object with the throughputs of '{kind}', got {show(found)}")
    return found


def _jobs_of_lines(scenario: ElasticScenario, path: Path, lines: list[str], rates: list[dict[str, object]]) -> Workload:
    models: dict[str, int] = {}
    templates, arrivals = [], []
    for row, line in enumerate(lines, 1):
        where = f"{path}: line {row}"
        fields = line.split("\t")
        if len(fields) != FIELDS:
            raise TraceError(f"{where}: {len(fields)} fields: expected {FIELDS}, separated by tabs")
        name, gpus = fields[0], int(_number(where, "GPUs", fields[6], 1.0, 4096.0))
        places = []
        for kind, (one, known) in enumerate(zip(scenario.kinds, rates, strict=True)):
            rate = _rate(where, known.get(f"('{name}', {gpus})"))
            if rate > 0.0 and gpus <= one.gpus:
                places.append(Place(kind, gpus, rate))
        if not places:
            raise TraceError(f"{where}: no kind of GPU has a throughput of '{name}' on {gpus}")
        if scenario.round_s is not None and any(place.per_s * scenario.round_s < 1.0 for place in places):
            raise TraceError(f"{where}: '{name}' does not do one step in a round: expected a longer round_s")
        work, weight = _number(where, "steps", fields[5], 1.0, 1e15), _number(where, "weight", fields[7], 1e-3, 1e3)
        templates.append(Template(models.setdefault(name, len(models)), float(int(work)), weight, tuple(places)))
        arrivals.append(nanoseconds_of(_number(where, "arrival", fields[9], 0.0, LONGEST_S)))
        if len(arrivals) > 1 and arrivals[-1] < arrivals[-2]:
            raise TraceError(f"{where}: arrives before the job above it: expected ascending times")
    return Workload(tuple(models), tuple(templates), tuple(arrivals))


def _rate(where: str, found: object) -> float:
    """Return the steps per second of a job alone, 0 where the table has none."""
    if found is None:
        return 0.0
    rate = found.get("null") if isinstance(found, dict) else None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= 1e9:
        raise TraceError(f"{where}: throughput {show(rate)}: expected a number of steps per second from 0")
    return float(rate)


def _number(where: str, what: str, text: str, low: float, high: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        raise TraceError(f"{where}: {what}: expected a number from {low:g} to {high:g}, got {show(text)}")
    return found
