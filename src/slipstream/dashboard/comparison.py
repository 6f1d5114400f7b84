"""Comparison of chosen runs: means with intervals, paired differences, response times, distance to the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.dashboard.replay import Recording, Recordings
from slipstream.dashboard.runs import Entry, RunsFolder, read_comparison
from slipstream.errors import InputError
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import FAMILIES
from slipstream.families.shared.timeline import Timeline
from slipstream.files.wording import plural
from slipstream.reports.figures.page_figures import CURVE_POINTS
from slipstream.reports.terminal.tables import direction_of

MOST_CHOSEN = 64

Values = dict[str, dict[int, float]]
"""Value of each metric in each episode, by metric and seed."""


def compare_runs(folder: RunsFolder, recordings: Recordings, names: Sequence[str], baseline: str) -> dict[str, Any]:
    """Return the comparison of recorded runs and of saved comparisons, which must be of one scenario."""
    if not 1 <= len(names) <= MOST_CHOSEN:
        raise InputError(f"{len(names)} runs chosen: expected 1 to {MOST_CHOSEN}")
    policies: dict[str, Values] = {}
    curves, scenarios, digests = [], {}, set()
    oracle: dict[str, Any] | None = None
    job = "job"
    for name in dict.fromkeys(names):
        entry = folder.entry(name)
        scenarios[_scenario(entry)] = name
        if entry.kind == "comparison":
            data = read_comparison(folder.path(name))
            digests.add(str(data["scenario_digest"]))
            oracle = oracle or data.get("oracle")
            _add_comparison(policies, data)
        else:
            recording = recordings.open(folder.path(name))
            digests.add(str(recording.about.get("scenario_digest")))
            _add_run(policies, recording)
            job = recording.timeline.nouns.job
            curve = responses(recording.timeline, recording.unit)
            if len(curve["x"]) > 1:  # one job alone has no distribution
                curves.append({"label": f"{entry.about['policy']}, seed {entry.about['seed']}", **curve})
    if len(scenarios) > 1 or len(digests) > 1:
        raise InputError("the runs are of different scenarios: expected runs of one, whose figures can be compared")
    scenario = next(iter(scenarios))
    family = FAMILIES[scenario.partition("/")[0]]
    shared = [metric for metric in next(iter(policies.values())) if all(metric in own for own in policies.values())]
    metrics = [*(m for m in family.headline if m in shared), *(m for m in shared if m not in family.headline)]
    base = baseline if baseline in policies else next(iter(policies))
    return {
        "scenario": scenario,
        "unit": family.time_unit,
        "baseline": base,
        "headline": [metric for metric in family.headline if metric in shared],
        "metrics": [direction_of(metric) for metric in metrics],
        "policies": [_row(name, own, policies[base], metrics) for name, own in policies.items()],
        "curves": curves,
        "jobs": plural(job),
        "oracle": oracle,
    }


def _scenario(entry: Entry) -> str:
    if entry.kind not in ("run", "comparison"):
        raise InputError(f"{entry.name}: is a {entry.kind}: expected recorded runs and saved comparisons")
    scenario = str(entry.about["scenario"])
    if scenario.partition("/")[0] not in FAMILIES:
        raise InputError(f"{entry.name}: scenario '{scenario}': expected the name of a family before the first slash")
    return scenario


def _add_comparison(policies: dict[str, Values], data: dict[str, Any]) -> None:
    for one in data["policies"]:
        own = policies.setdefault(str(one["policy"]), {})
        for metric, figures in one["metrics"].items():
            values = {int(data["seed"]) + episode: float(value) for episode, value in enumerate(figures["values"])}
            own.setdefault(metric, {}).update(values)


def _add_run(policies: dict[str, Values], recording: Recording) -> None:
    own = policies.setdefault(str(recording.about["policy"]), {})
    for metric, value in recording.metrics.items():
        own.setdefault(metric, {})[int(recording.about["seed"])] = value


def _row(policy: str, own: Values, base: Values, metrics: Sequence[str]) -> dict[str, Any]:
    figures, differences = {}, {}
    for metric in metrics:
        figures[metric] = _estimate(list(own[metric].values()))
        pairs = sorted(own[metric].keys() & base[metric].keys())
        if own is not base and pairs:
            differences[metric] = _estimate([own[metric][seed] - base[metric][seed] for seed in pairs])
    return {"policy": policy, "metrics": figures, "differences": differences}


def _estimate(values: list[float]) -> dict[str, Any]:
    array = np.array(values)
    low, high = bootstrap_interval(array)
    return {"mean": float(array.mean()), "low": low, "high": high, "episodes": len(values)}


def responses(line: Timeline, unit: int) -> dict[str, list[float]]:
    """Return the distribution of response times: the share of released jobs finished within each time."""
    done = line.finish >= 0
    times = np.sort(line.finish[done] - line.release[done])
    if not len(times):
        return {"x": [], "y": []}
    picks = np.unique(np.linspace(0, len(times) - 1, min(len(times), CURVE_POINTS)).round().astype(np.int64))
    return {"x": (times[picks] / unit).tolist(), "y": ((picks + 1) / len(line.task)).round(5).tolist()}
