"""Charts of elastic jobs alone: GPUs in use by kind, unfinished jobs, and distributions of times and ratios."""

from __future__ import annotations

import numpy as np

from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.metrics import Jobs, finish_time_ratios, jobs_of
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.charts import Chart, Line, Picture, distribution


def charts(scenario: ElasticScenario, events: np.ndarray) -> list[Chart | Picture]:
    """Return the charts of an episode."""
    jobs, done = jobs_of(events), jobs_of(events).finish >= 0
    kinds = tuple(_running_total(kind.name, *_use(scenario, jobs, index)) for index, kind in enumerate(scenario.kinds))
    ends = jobs.finish[done]
    present = _running_total(
        "",
        np.concatenate((jobs.arrival, ends)),
        np.concatenate((np.ones(len(jobs.arrival)), -np.ones(len(ends)))),
    )
    found: list[Chart | Picture] = [
        Chart("GPUs", "In use", "GPUs of each kind that jobs have.", "time", "GPUs", kinds, over_time=True),
        Chart(
            "Jobs", "Unfinished", "Jobs that have arrived and not ended.", "time", "jobs", (present,), over_time=True
        ),
    ]
    if done.any():
        times = distribution("", (ends - jobs.arrival[done]) / 1e9)
        ratios = distribution("", finish_time_ratios(scenario, jobs)[done])
        caption = "Share of the jobs that took at most as long from arrival to end."
        found.append(Chart("Jobs", "JCT", caption, "JCT (s)", "jobs", (times,), log_x=True, percent=True))
        caption = (
            "Share of the jobs whose time is at most as great a multiple of that on their own part of the cluster."
        )
        found.append(Chart("Jobs", "Finish-time ratio", caption, "ratio", "jobs", (ratios,), percent=True))
    return found


def _use(scenario: ElasticScenario, jobs: Jobs, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the times at which the number of GPUs of a kind that are in use changes, and by how many."""
    spec, spans = compiled_scenario(scenario).spec, jobs.spans
    first = spec["templates"]["first"][jobs.template[spans.job]]
    own = spec["configurations"]["kind"][first + spans.variant] == kind
    return np.concatenate((spans.start[own], spans.end[own])), np.concatenate((spans.gpus[own], -spans.gpus[own]))


def _running_total(name: str, times: np.ndarray, changes: np.ndarray) -> Line:
    """Return the sum of the changes up to each time as a line that begins at 0."""
    moments, place = np.unique(np.concatenate(([0], times)), return_inverse=True)
    totals = np.bincount(place, weights=np.concatenate(([0.0], changes)), minlength=len(moments))
    return Line(name, moments.astype(np.float64), np.cumsum(totals))
