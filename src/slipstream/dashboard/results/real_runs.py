"""Runs on real hardware beside their simulation: the same scenario, seed and policy, figure by figure."""

from __future__ import annotations

import threading
from collections import OrderedDict
from time import monotonic
from typing import Any

import numpy as np

from slipstream.dashboard.comparison import responses
from slipstream.dashboard.replay import Recording
from slipstream.dashboard.results.metrics import finite
from slipstream.errors import InputError, SlipstreamError
from slipstream.families.shared.timeline import Timeline
from slipstream.files.wording import plural
from slipstream.policies.base import find
from slipstream.reports.runs import episode_of, played_policy
from slipstream.reports.terminal.tables import lower_is_better
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.simulator import Simulator

MOST_SECONDS = 30.0
"""Wall-clock limit of one simulation."""
MOST_EVENTS = 4_000_000
COLUMNS = 150
"""Intervals over which queue lengths are averaged."""
KEPT = 50
SAME_END = 0.02
"""Relative difference of the ends of two runs below which they count as equally long."""


class RealRuns:
    """Comparisons of real runs with their simulation; the last ones are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, float], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def beside_simulation(self, recording: Recording, version: tuple[str, float]) -> dict[str, Any]:
        """Return the figures of a real run and of its simulation; `version` is its name and time of change.

        Raises:
            InputError: The run was simulated itself.
        """
        if "device" not in recording.about:
            raise InputError("this run was simulated: expected a run on real hardware")
        with self._lock:  # one simulation at a time
            if version not in self._kept:
                self._kept[version] = _compared(recording)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return self._kept[version]


def _compared(recording: Recording) -> dict[str, Any]:
    measured = finite(recording.metrics)
    events, notes = _simulated(recording)
    simulated: dict[str, float | None] = {}
    other = None
    if events is not None:
        family, scenario = recording.family, recording.scenario
        simulated = finite(family.metrics(scenario, events, *episode_of(recording.about)))
        other = family.timeline(scenario, events)
        notes += _differences(recording, events, other)
    names = [name for name in measured if events is None or name in simulated]
    headline = [name for name in recording.family.headline if name in names]
    ordered = [*headline, *(name for name in names if name not in headline)]
    return {
        "unit": recording.family.time_unit,
        "jobs": plural(recording.timeline.nouns.job),
        "headline": headline,
        "metrics": [
            {
                "name": name,
                "lower": lower_is_better(name),
                "measured": measured[name],
                "simulated": simulated.get(name),
            }
            for name in ordered
        ],
        "measured": _curves(recording.timeline, recording.unit),
        "simulated": None if other is None else _curves(other, recording.unit),
        "notes": notes,
    }


def _simulated(recording: Recording) -> tuple[np.ndarray | None, list[str]]:
    """Return the events of the simulation; None and the reason if it cannot be simulated within the limits."""
    pieces: list[np.ndarray] = []
    end, count = 0.0, 0

    def keep(events: np.ndarray) -> None:
        nonlocal end, count
        end = end or monotonic() + MOST_SECONDS  # from the first events on: before them, kernels may be compiled
        count += len(events)
        if count > MOST_EVENTS or monotonic() > end:
            raise InputError("the simulation takes too long")
        pieces.append(events.copy())

    try:
        policy = find(played_policy(recording.about), recording.family.name)
        Simulator(recording.scenario).play(policy, *episode_of(recording.about), sink=keep)
    except SlipstreamError as error:
        return None, [f"Not simulated: {error}."]
    return np.concatenate(pieces), []


def _differences(recording: Recording, events: np.ndarray, other: Timeline) -> list[str]:
    """Return sentences on what makes the two sides hard to compare."""
    notes = []
    own = int((recording.events["kind"] == ARRIVAL).sum())
    drawn = int((events["kind"] == ARRIVAL).sum())
    unit, scale = recording.family.time_unit, recording.unit
    if abs(recording.timeline.end - other.end) > SAME_END * max(other.end, 1):
        notes.append(
            f"The run ended at {recording.timeline.end / scale:,.6g} {unit}, its simulation at "
            f"{other.end / scale:,.6g} {unit}: totals differ for that reason alone."
        )
    if own != drawn:
        notes.append(
            f"The run had {own:,} arrivals, its simulation {drawn:,}: requests from outside, and those after the end "
            "of the run, cannot be simulated."
        )
    return notes


def _curves(line: Timeline, unit: int) -> dict[str, Any]:
    return {"responses": responses(line, unit), "waiting": _mean_waiting(line, unit), "end": line.end / unit}


def _mean_waiting(line: Timeline, unit: int) -> dict[str, list[float]]:
    """Return the mean number of waiting jobs in `COLUMNS` intervals of the run, at their middles."""
    times, counts = line.waiting()
    edges = np.linspace(0, max(line.end, 1), COLUMNS + 1)
    spent = np.concatenate(([0.0], np.cumsum(counts[:-1] * np.diff(times))))
    last = np.searchsorted(times, edges, side="right") - 1
    means = np.diff(spent[last] + counts[last] * (edges - times[last])) / np.diff(edges)
    return {"x": ((edges[:-1] + edges[1:]) / 2 / unit).tolist(), "y": means.round(6).tolist()}
