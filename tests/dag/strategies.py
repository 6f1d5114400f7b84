"""Hypothesis strategies for dag scenarios: small, and more often than not on a coarse grid, so that events coincide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from slipstream.families.dag.scenario import DagScenario

Json = dict[str, Any]
Duration = Callable[[int, int], float]
"""Draws a duration in seconds between two whole numbers of the scenario's unit."""


@st.composite
def dag_scenarios(draw: st.DrawFn) -> DagScenario:
    """Draw a small valid scenario of the whole machine."""
    duration = _duration(draw)
    race = draw(st.booleans())
    executors = draw(st.integers(3 if race else 1, 6))
    if race:
        jobs = [_race(draw, duration, index) for index in range(2)]
    else:
        jobs = [_job(draw, duration, index) for index in range(draw(st.integers(1, 3)))]
    scenario: Json = {
        "family": "dag",
        "name": "random",
        "executors": executors,
        "moving_delay_s": draw(st.sampled_from([2.0, 3.0] if race else [0.0, 1.0, 1.0, 2.0])) * duration(1, 2),
        "warmup_delay_s": draw(st.sampled_from([0.0, 1.0])) * duration(1, 2),
        "arrivals": _arrivals(draw, duration, [job["name"] for job in jobs], 3 if race else 6),
        "jobs": {"kind": "inline", "jobs": jobs},
        "compat": draw(st.sampled_from([None, "decima"])),
        "reward": {
            "job_seconds": draw(st.sampled_from([1.0, 0.0, 0.3])),
            "makespan": draw(st.sampled_from([0.0, 1.0, 0.7])),
            "discount_per_s": draw(st.sampled_from([0.0, 0.0, 0.05])),
        },
        "window": {
            "candidates": draw(st.sampled_from([8, 8, 100])),
            "nodes": draw(st.sampled_from([8, 12, 100])),
            "edges": draw(st.sampled_from([8, 10, 100])),
        },
    }
    _add_options(draw, duration, scenario, executors)
    return DagScenario.model_validate(scenario)


def _add_options(draw: st.DrawFn, duration: Duration, scenario: Json, executors: int) -> None:
    """Add classes, stragglers, failures and a horizon, each now and then."""
    if executors > 1 and draw(st.integers(0, 3)) == 0:
        first = draw(st.integers(1, executors - 1))
        speeds = [draw(st.sampled_from([0.5, 1.0, 2.0, 1.7])) for _ in range(2)]
        scenario["classes"] = [
            {"name": "a", "count": first, "speed": speeds[0]},
            {"name": "b", "count": executors - first, "speed": speeds[1]},
        ]
    if draw(st.integers(0, 3)) == 0:
        scenario["stragglers"] = {"probability": draw(st.sampled_from([0.0, 0.2, 1.0])), "factor": 2.5}
    if draw(st.integers(0, 2)) == 0:
        chance = draw(st.sampled_from([0.0, 0.3, 1.0]))
        scenario["failures"] = {"probability": chance, "most": draw(st.integers(1, 2))}
    horizon = draw(st.sampled_from(["none", "none", "none", "fixed", "memoryless"]))
    key = {"none": {}, "fixed": {"time_s": duration(5, 40)}, "memoryless": {"mean_s": duration(5, 40)}}[horizon]
    scenario["horizon"] = {"kind": horizon, **key}


def _duration(draw: st.DrawFn) -> Duration:
    """Return how this scenario draws its durations: on a grid, or any."""
    unit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 1e-6, None]))
    if unit is None:
        return lambda least, most: draw(st.floats(max(least, 1e-6), most))
    return lambda least, most: unit * draw(st.integers(least, most))


def _job(draw: st.DrawFn, duration: Duration, index: int) -> Json:
    count = draw(st.integers(1, 5))
    levels = draw(st.sampled_from([None, None, [1], [1, 3], [2, 5], [1, 2, 4]]))
    stages = []
    for number in range(count):
        parents = [f"s{other}" for other in range(number) if draw(st.integers(0, 2)) == 0]
        stage: Json = {"name": f"s{number}", "tasks": draw(st.sampled_from([1, 1, 2, 3, 5])), "parents": parents}
        if levels is None:
            stage["duration_s"] = duration(1, 6)
        else:
            stage["waves"] = [_waves(draw, duration, level) for level in levels]
        stages.append(stage)
    # The order of the file need not be that of the graph.
    if draw(st.booleans()):
        stages.reverse()
    return {"name": f"job-{index}", "stages": stages}


def _race(draw: st.DrawFn, duration: Duration, index: int) -> Json:
    """Return a job of few stages with few tasks or, every second one, many: who goes from one to the other is late."""
    stages: list[Json] = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        tasks = draw(st.integers(5, 8) if index % 2 else st.integers(1, 3))
        parents = [stage["name"] for stage in stages]
        stages.append({"name": f"s{number}", "tasks": tasks, "parents": parents, "duration_s": duration(1, 1)})
    return {"name": f"job-{index}", "stages": stages}


def _waves(draw: st.DrawFn, duration: Duration, executors: int) -> Json:
    def some(least: int) -> list[float]:
        return [duration(1, 6) for _ in range(draw(st.integers(least, 2)))]

    fresh = some(0)
    return {"executors": executors, "fresh_s": fresh, "first_s": some(0 if fresh else 1), "rest_s": some(0)}


def _arrivals(draw: st.DrawFn, duration: Duration, names: list[str], most: int) -> Json:
    kind = draw(st.sampled_from(["batch", "poisson", "trace"]))
    jobs = draw(st.integers(1, most))
    if kind == "batch":
        return {"kind": kind, "jobs": jobs}
    if kind == "poisson":
        return {"kind": kind, "jobs": jobs, "mean_gap_s": duration(1, 8), "initial_jobs": draw(st.integers(0, jobs))}
    times = sorted(duration(0, 20) for _ in range(jobs))
    trace: Json = {"kind": kind, "times_s": times}
    if draw(st.booleans()):
        trace["names"] = [draw(st.sampled_from(names)) for _ in times]
    return trace
