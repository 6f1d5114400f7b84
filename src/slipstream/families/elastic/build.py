"""Compile a scenario of elastic jobs into the arrays of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.elastic.kernel import state as k
from slipstream.families.elastic.scenario import DrawnJobs, ElasticScenario
from slipstream.families.elastic.workload.sources import Workload, read_workload
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.sim.compiled_scenario import cached_per_scenario
from slipstream.sim.kernel.job_stream import ARRIVAL_ROW, POISSON, TRACE
from slipstream.sim.kernel.lanes import LOG_MARGIN, lane_arrays


@dataclass(frozen=True)
class CompiledScenario:
    """A scenario as arrays, with its sizes."""

    spec: dict[str, np.ndarray]
    workload: Workload
    jobs: int
    """Jobs of an episode."""
    widest: int
    """Most configurations of a job."""
    rows: int
    """Candidate rows of an observation, wait included."""
    all_rows: int
    """Candidate rows that heuristics see, wait included."""


def candidate_rows(scenario: ElasticScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return compiled_scenario(scenario).rows


def all_rows(scenario: ElasticScenario) -> int:
    """Return the number of rows that heuristics see, wait included."""
    return compiled_scenario(scenario).all_rows


def log_margin(scenario: ElasticScenario) -> int:
    """Return the most rows of the log that a round may write at its beginning, with an event after it."""
    return LOG_MARGIN + 3 * sum(kind.gpus for kind in scenario.kinds)


def timescale(scenario: ElasticScenario) -> int:
    """Return the mean time that a job takes alone where it is fastest."""
    templates = compiled_scenario(scenario).spec["templates"]
    return max(1, round(float((templates["work"] / templates["best"]).mean() * 1e9)))


def spec_arrays(scenario: ElasticScenario) -> dict[str, np.ndarray]:
    """Return the constants of an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: ElasticScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for `lanes` lanes, each keeping up to `log_rows` rows of its event log."""
    parts = compiled_scenario(scenario)
    return {
        **lane_arrays(lanes, log_rows, k.LANE, slots=parts.jobs + 2, terms=2),
        "jobs": np.zeros((lanes, parts.jobs), k.JOB),
        "active": np.zeros((lanes, parts.jobs), np.int32),
        "free": np.zeros((lanes, len(scenario.kinds)), np.int64),
        "candidates": np.zeros((lanes, parts.jobs * parts.widest), np.int32),
    }


@cached_per_scenario
def compiled_scenario(scenario: ElasticScenario) -> CompiledScenario:
    """Return the scenario as arrays."""
    workload = read_workload(scenario)
    drawn = scenario.jobs if isinstance(scenario.jobs, DrawnJobs) else None
    jobs = len(workload.arrivals) if drawn is None else drawn.jobs
    widest = max(len(one.places) for one in workload.templates)
    most = jobs * widest
    rows = scenario.rows
    every = rows + 1 if most <= rows else most + 2
    machine = np.zeros(1, k.MACHINE)
    row: Any = machine[0]
    row["rows"], row["all_rows"], row["jobs"], row["widest"] = rows, every, jobs, widest
    row["kinds"], row["gpus"] = len(scenario.kinds), sum(kind.gpus for kind in scenario.kinds)
    row["round_length"] = 0 if scenario.round_s is None else nanoseconds_of(scenario.round_s)
    row["at_events"], row["compat"] = scenario.at_events or scenario.round_s is None, scenario.compat is not None
    row["time_weight"], row["restart_weight"] = scenario.reward.time, scenario.reward.restarts
    row["log_margin"] = log_margin(scenario)
    if drawn is not None:
        row["arrival"], row["initial_jobs"] = POISSON, drawn.initial_jobs
        row["mean_gap"] = nanoseconds_of(drawn.mean_gap_s)
    else:
        row["arrival"] = TRACE
        row["mean_gap"] = max(1.0, (workload.arrivals[-1] - workload.arrivals[0]) / max(1, jobs - 1))
    arrivals = np.array([(time, index) for index, time in enumerate(workload.arrivals)], ARRIVAL_ROW)
    kinds = np.array([(kind.gpus,) for kind in scenario.kinds], k.KIND)
    spec = {"machine": machine, "kinds": kinds, **_templates(workload), "arrivals": arrivals}
    return CompiledScenario(spec, workload, jobs, widest, rows + 1, every)


def _templates(workload: Workload) -> dict[str, np.ndarray]:
    """Return the templates, and the configurations of all of them one after another."""
    places = [(one.kind, one.gpus, one.per_s) for template in workload.templates for one in template.places]
    templates = np.zeros(len(workload.templates), k.TEMPLATE)
    first = 0
    for row, one in zip(templates, workload.templates, strict=True):
        row["work"], row["weight"], row["model"] = one.work, one.weight, one.model
        row["start"], row["restart"] = one.start, one.restart
        row["best"] = max(place.per_s for place in one.places)
        row["first"], row["configurations"] = first, len(one.places)
        first += len(one.places)
    return {"templates": templates, "configurations": np.array(places, k.CONFIGURATION)}
