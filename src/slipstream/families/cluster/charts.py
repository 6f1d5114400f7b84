"""Charts of one cluster episode: demand, allocation, power and its price, distributions, and shares of users."""

from __future__ import annotations

import numpy as np

from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.metrics import (
    Jobs,
    busy_gpus,
    end_of,
    finish_time_fairness,
    integral_at_hourly_rates,
    jain,
    jobs_of,
    pieces_of,
    power_w,
    step_function,
)
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.charts import Chart, Line, Picture, distribution
from slipstream.families.shared.runs import Spans, spans_of
from slipstream.files.wording import natural_key
from slipstream.sim.eventlog import ARRIVAL, PREEMPT, START

MOMENTS = 1500
"""Number of times at which the shares of users are sampled."""
POINTS = 200
"""Points of a cumulative line."""
QUANTILES = (0.5, 0.95, 0.99)
MOST_USERS = 24
"""Users in a chart: those with the most jobs."""


def charts(scenario: ClusterScenario, events: np.ndarray) -> list[Chart | Picture]:
    """Return the charts of an episode."""
    jobs, spans, end = jobs_of(scenario, events), spans_of(events), end_of(events)
    return [
        *_load(scenario, events, spans),
        *_power(scenario, events, spans, end),
        *_distributions(scenario, jobs),
        *_fairness(scenario, jobs, spans, end),
    ]


# Demand and allocation


def _load(scenario: ClusterScenario, events: np.ndarray, spans: Spans) -> list[Chart]:
    section = "Cluster load"
    times, wanted = _wanted(scenario, events)
    moments, busy = busy_gpus(spans)
    share = [Line("in use", moments, busy / scenario.gpus)]
    caption = "Share of the GPUs in use."
    if scenario.placement != "flat":
        share.append(Line("idle on partly used nodes", *_fragmented(scenario, events, spans)))
        caption = "Share of the GPUs in use, and of the idle ones on partly used nodes."
    return [
        Chart(
            section,
            "GPUs requested",
            "GPUs that waiting jobs request.",
            "time",
            "GPUs",
            (Line("", times, wanted),),
            True,
        ),
        Chart(section, "Allocation", caption, "time", "share of all", tuple(share), True, percent=True),
    ]


def _wanted(scenario: ClusterScenario, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the GPUs that waiting jobs want, as a step function: times and values."""
    submits, starts, stops = (events[events["kind"] == kind] for kind in (ARRIVAL, START, PREEMPT))
    gpus = compiled_scenario(scenario).workload.gpus[submits["task"]]
    times = np.concatenate(([0], submits["time"], starts["time"], stops["time"])).astype(np.int64)
    return step_function(times, np.concatenate(([0], gpus, -starts["task"], stops["task"])))


def _fragmented(scenario: ClusterScenario, events: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of GPUs that idle on partly used nodes, as a step function: times and values."""
    sizes = compiled_scenario(scenario).spec["nodes"]["gpus"].astype(np.int64)
    pieces, begin, stop = pieces_of(events, spans)
    times, changes = [np.zeros(1, np.int64)], [np.zeros(1)]
    for node in np.unique(pieces["resource"]).tolist():
        here = pieces["resource"] == node
        taken = pieces["task"][here]
        moments, busy = step_function(np.concatenate((begin[here], stop[here])), np.concatenate((taken, -taken)))
        idle = np.where(busy > 0, sizes[node] - busy, 0)
        times.append(moments)
        changes.append(np.diff(idle, prepend=0))
    moments, fragmented = step_function(np.concatenate(times), np.concatenate(changes))
    return moments, fragmented / scenario.gpus


# Power


def _power(scenario: ClusterScenario, events: np.ndarray, spans: Spans, end: int) -> list[Chart]:
    section = "Power, energy and cost"
    times, watts = power_w(scenario, events, spans)
    budget = scenario.power.budget_w
    grid = np.linspace(0, max(end, 1), POINTS).astype(np.int64)
    limit = None if budget is None else ("budget", budget)
    price, carbon = scenario.power.price_per_kwh, scenario.power.co2_g_per_kwh
    rest = (("Energy", "kWh", [1.0], 1e3), ("Cost", "cost", price, 1e3), ("CO₂", "kg", carbon, 1e6))
    found = [
        Chart(
            section,
            "Power",
            "Power draw of the whole cluster.",
            "time",
            "W",
            (Line("", times, watts),),
            True,
            limit=limit,
        )
    ]
    for title, unit, rates, per in rest:
        cumulative = np.array([_integral_until(times, watts, int(moment), rates) for moment in grid]) / per
        found.append(Chart(section, title, "Cumulative.", "time", unit, (Line("", grid, cumulative),), True))
    return found


def _integral_until(times: np.ndarray, watts: np.ndarray, moment: int, rates: list[float]) -> float:
    known = max(1, int(np.searchsorted(times, moment, side="right")))
    return integral_at_hourly_rates(times[:known], watts[:known], moment, rates)


# Distributions


def _distributions(scenario: ClusterScenario, jobs: Jobs) -> list[Chart]:
    section = "Slowdown and waiting times"
    waits = (jobs.finish - jobs.submit - jobs.served) / 1e9
    caption = "Cumulative share of the jobs; dots mark the median, 95% and 99%."
    figures = (
        ("Bounded slowdown", "bounded slowdown", jobs.slowdown),
        ("Time in the system", "time from submission to the end (s)", np.maximum(jobs.completion_s, 1.0)),
        ("Wait", "time waited (s), at least 1", np.maximum(waits, 1.0)),
    )
    found = [_curve(section, title, caption, x, (distribution("", one),), QUANTILES) for title, x, one in figures]
    classes = [line for line in (_of_size(scenario, jobs, low, high) for low, high in _sizes(jobs)) if len(line.x)]
    text = "The same, by the number of GPUs that a job requests."
    found.append(_curve(section, "Bounded slowdown by size", text, "bounded slowdown", tuple(classes)))
    return found


def _curve(
    section: str, title: str, caption: str, x: str, lines: tuple[Line, ...], marks: tuple[float, ...] = ()
) -> Chart:
    """Return a chart of cumulative distributions."""
    return Chart(section, title, caption, x, "share of the jobs", lines, log_x=True, percent=True, marks=marks)


def _sizes(jobs: Jobs) -> list[tuple[int, int]]:
    """Return classes of job sizes, from and to: the smallest size, and two classes that share the rest."""
    least, most = int(jobs.gpus.min()), int(jobs.gpus.max())
    larger = jobs.gpus[jobs.gpus > least]
    if not len(larger):
        return [(least, most)]
    middle = int(np.median(larger))
    return [(least, least), (least + 1, middle), (middle + 1, most)]


def _of_size(scenario: ClusterScenario, jobs: Jobs, low: int, high: int) -> Line:
    chosen = (jobs.gpus >= low) & (jobs.gpus <= high)
    unit = "GPU" if scenario.slices == 1 else "slice"
    name = f"{low} {unit}{'' if low == 1 else 's'}" if low == high else f"{low} to {high} {unit}s"
    return distribution(name, jobs.slowdown[chosen])


# Fairness


def _fairness(scenario: ClusterScenario, jobs: Jobs, spans: Spans, end: int) -> list[Chart]:
    section = "Fairness"
    grid = np.linspace(0, max(end, 1), MOMENTS, endpoint=False).astype(np.int64)
    users = np.unique(jobs.user)
    held = np.array([_at(grid, spans.start, spans.end, spans.gpus, jobs.user[spans.job] == user) for user in users])
    wanted = np.array([_at(grid, jobs.submit, jobs.finish, jobs.gpus, jobs.user == user) for user in users])
    pairs = zip(held.T, wanted.T > 0, strict=True)
    index = np.array([jain(column[here]) if here.any() else 1.0 for column, here in pairs])
    rho = np.maximum(finish_time_fairness(scenario, jobs), 1e-3)
    equal = "Of the GPUs held by users with jobs in the system: 1 if all hold equally many."
    unfair = "Time in the system relative to that with an equal share for each user: above 1 is worse."
    return [
        _shares(scenario, section, jobs, users, held, wanted),
        Chart(section, "Jain's index", equal, "time", "index", (Line("", grid, index),), True),
        _curve(section, "Finish-time fairness", unfair, "rho", (distribution("", rho),)),
    ]


def _shares(
    scenario: ClusterScenario, section: str, jobs: Jobs, users: np.ndarray, held: np.ndarray, wanted: np.ndarray
) -> Chart:
    """Return a chart of the GPUs that each user held and deserved on average while it had jobs in the system."""
    deserved = np.array([max_min(column, scenario.gpus) for column in wanted.T]).T
    there = np.maximum((wanted > 0).sum(axis=1), 1)
    names = compiled_scenario(scenario).workload.users
    most = np.argsort(-np.bincount(jobs.user)[users], kind="stable")[:MOST_USERS].tolist()
    most.sort(key=lambda one: natural_key(names[users[one]]))
    positions = np.arange(len(most))
    bars = (
        Line("held", positions, held.sum(axis=1)[most] / there[most]),
        Line("deserved", positions, deserved.sum(axis=1)[most] / there[most]),
    )
    caption = (
        "GPUs that users with most jobs held on average while they had jobs in the system, and what max-min fair "
        "shares of the cluster would have been."
    )
    return Chart(section, "Shares of users", caption, "GPUs", "", bars, names=tuple(names[users[one]] for one in most))


def _at(grid: np.ndarray, begin: np.ndarray, end: np.ndarray, gpus: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the GPUs of the spans selected by `own` at each time of `grid`."""
    times = np.concatenate(([0], begin[own], end[own]))
    moments, total = step_function(times, np.concatenate(([0], gpus[own], -gpus[own])))
    return np.asarray(total[np.searchsorted(moments, grid, side="right") - 1])


def max_min(demands: np.ndarray, capacity: float) -> np.ndarray:
    """Return the max-min fair shares of `capacity`: at most the demand, and equal where that is not met."""
    shares = np.zeros(len(demands))
    left, open_ = float(capacity), demands > 0
    while open_.any():
        equal = left / open_.sum()
        small = open_ & (demands <= equal)
        if not small.any():
            shares[open_] = equal
            break
        shares[small] = demands[small]
        left -= float(demands[small].sum())
        open_ &= ~small
    return shares
