"""Metrics of one episode of elastic jobs, computed from its event log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.runs import Spans, spans_of
from slipstream.sim.eventlog import ARRIVAL, FINISH, READY


@dataclass(frozen=True)
class Jobs:
    """All jobs of an episode, by number; times in ns, -1 where the event never happened."""

    template: np.ndarray
    arrival: np.ndarray
    start: np.ndarray
    """First start."""
    finish: np.ndarray
    starts: np.ndarray
    """How often it started."""
    spans: Spans
    end: int
    """Time at which the episode ended."""


def jobs_of(events: np.ndarray) -> Jobs:
    """Return the jobs of an episode."""
    arrivals = events[events["kind"] == ARRIVAL]
    count, spans = len(arrivals), spans_of(events)
    start, finish = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    start[spans.job[::-1]] = spans.start[::-1]
    ends = events[events["kind"] == FINISH]
    finish[ends["job"]] = ends["time"]
    return Jobs(
        template=arrivals["task"].astype(np.int64),
        arrival=arrivals["time"].astype(np.int64),
        start=start,
        finish=finish,
        starts=np.bincount(spans.job, minlength=count),
        spans=spans,
        end=int(events["time"][-1]) if len(events) else 0,
    )


def metrics(scenario: ElasticScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    jobs = jobs_of(events)
    done = jobs.finish >= 0
    stay = (np.where(done, jobs.finish, jobs.end) - jobs.arrival) / 1e9
    jct, wait = stay[done], ((jobs.start - jobs.arrival) / 1e9)[jobs.start >= 0]
    restarts = float(np.maximum(0, jobs.starts - 1).sum())
    fair = finish_time_ratios(scenario, jobs)[done]
    capacity = sum(kind.gpus for kind in scenario.kinds) * max(1, jobs.end)
    held = float(((jobs.spans.end - jobs.spans.start) * jobs.spans.gpus).sum())
    return {
        "reward": -(scenario.reward.time * float(stay.sum()) + scenario.reward.restarts * restarts),
        "jct_mean_s": _mean(jct),
        **{f"jct_p{percent}_s": _percentile(jct, percent) for percent in (50, 95, 99)},
        "makespan_s": jobs.end / 1e9,
        "wait_mean_s": _mean(wait),
        "rho_mean": _mean(fair),
        "rho_max": float(fair.max(initial=0.0)),
        "unfair_share": _mean((fair > 1.0).astype(float)),
        "restarts": restarts,
        "busy_share": held / capacity,
        "setup_share": _setup_time(events, jobs.spans) / max(1.0, held),
        "jobs": float(len(jobs.arrival)),
    }


def unmodelled(scenario: ElasticScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    spec = compiled_scenario(scenario).spec["templates"]
    return set() if bool((spec["start"] + spec["restart"]).any()) else {"setup_share"}


def finish_time_ratios(scenario: ElasticScenario, jobs: Jobs) -> np.ndarray:
    """Return the finish-time ratio of each job: time from arrival to end, to that on its own part of the cluster.

    Its part are the GPUs of every kind divided by the mean number of unfinished jobs while it was there. It uses the
    configuration of each kind that is fastest with so few GPUs, at most all of the time.
    """
    spec = compiled_scenario(scenario).spec
    stay = np.maximum(1, np.where(jobs.finish >= 0, jobs.finish, jobs.end) - jobs.arrival)
    crowd = np.maximum(1.0, _job_time(jobs) / stay)
    gpus = spec["kinds"]["gpus"].astype(float)
    found = np.zeros(len(stay))
    for number, template in enumerate(spec["templates"][jobs.template]):
        own = spec["configurations"][template["first"] : template["first"] + template["configurations"]]
        share = np.minimum(1.0, gpus[own["kind"]] / crowd[number] / own["gpus"])
        speed, part = np.zeros(len(gpus)), np.zeros(len(gpus))
        for kind in range(len(gpus)):
            on = np.flatnonzero(own["kind"] == kind)
            if len(on):
                best = on[np.argmax(own["rate"][on] * share[on])]
                speed[kind], part[kind] = own["rate"][best], share[best]
        rate = float((speed * part).sum()) / max(1.0, float(part.sum()))
        found[number] = stay[number] / 1e9 / (float(template["work"]) / rate)
    return found


def _job_time(jobs: Jobs) -> np.ndarray:
    """Return the integral of the number of unfinished jobs over the stay of each job."""
    ends = np.where(jobs.finish >= 0, jobs.finish, jobs.end)
    times = np.unique(np.concatenate((jobs.arrival, ends, [0])))
    present = np.searchsorted(np.sort(jobs.arrival), times, "right") - np.searchsorted(np.sort(ends), times, "right")
    total = np.concatenate(([0.0], np.cumsum(np.diff(times) * present[:-1])))
    return np.asarray(total[np.searchsorted(times, ends)] - total[np.searchsorted(times, jobs.arrival)])


def _setup_time(events: np.ndarray, spans: Spans) -> float:
    """Return the GPU time from starts to the rows that end their set-ups; interrupted set-ups have none."""
    ready = events[events["kind"] == READY]
    order = np.lexsort((spans.start, spans.job))
    job, start = spans.job[order], spans.start[order]
    total = 0.0
    for one, time, gpus in zip(ready["job"].tolist(), ready["time"].tolist(), ready["task"].tolist(), strict=True):
        low, high = np.searchsorted(job, (one, one + 1))
        last = low + np.searchsorted(start[low:high], time, "right") - 1
        total += float(time - start[last]) * gpus
    return total


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: np.ndarray, percent: int) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
