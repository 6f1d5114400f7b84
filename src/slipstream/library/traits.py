"""What a workload is like, in numbers that do not depend on its size.

Two workloads are alike for a policy when it sees alike rows in them. So a few choices of one episode are looked at,
under the family's default policy, and every observed column is summed up by its mean and its spread, both squeezed so
that ten times as much counts as one step more. That needs nothing from a family but its observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.core.family import family_of
from slipstream.core.features import FeatureTable
from slipstream.core.lanes import LOG_FULL
from slipstream.core.simulator import Simulator
from slipstream.policies.base import WholeEpisodes, find

SIGHTS = 96
"""Choices that are looked at."""
APART = 5
"""Choices from one of them to the next."""
PROBE_SEED = 0
SIZES = ("time", "remaining", "finished", "arrived_jobs", "visible", "hidden", "asked", "place", "job_rank", "stream")
"""Columns that say how far an episode is, or number things: they grow with the size, whatever the work is like."""


def traits_of(scenario: Any) -> dict[str, float]:
    """Return the traits of a scenario by name: the mean and the spread of every observed column."""
    family = family_of(scenario)
    rows, globals_seen, candidates = _look_around(scenario)
    found = {"candidates.mean": float(np.log(np.mean(candidates)))}
    for kind, table, seen in (
        ("row", family.candidate_features.observed, rows),
        ("global", family.global_features.observed, globals_seen),
    ):
        squeezed = np.sign(seen) * np.log1p(np.abs(seen))
        for name, mean, spread in zip(table.names, squeezed.mean(axis=0), squeezed.std(axis=0), strict=True):
            if name not in SIZES:
                found[f"{kind}.{name}.mean"] = float(mean)
                found[f"{kind}.{name}.spread"] = float(spread)
    return found


def _look_around(scenario: Any) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return legal rows and globals as an agent sees them, and how many rows each choice had."""
    family = family_of(scenario)
    policy = find(family.default_policy, family.name)
    assert isinstance(policy, WholeEpisodes)
    simulator = Simulator(scenario)
    simulator.reset(PROBE_SEED, "eval", lambda _: None)
    rows: list[np.ndarray] = []
    globals_seen: list[np.ndarray] = []
    candidates: list[int] = []
    while simulator.asking and len(rows) < SIGHTS:
        summary, sheet, mask = simulator.observe()
        legal = sheet[np.flatnonzero(mask)]
        rows.append(_shown(family.candidate_features.observed, legal))
        globals_seen.append(_shown(family.global_features.observed, summary[None, :]))
        candidates.append(len(legal))
        if policy.run(simulator, APART) == LOG_FULL:
            simulator.header["log_rows"] = 0
    if not rows:  # an episode without any choice
        widths = [len(table.observed) for table in (family.candidate_features, family.global_features)]
        return np.zeros((1, widths[0])), np.zeros((1, widths[1])), [1]
    return np.concatenate(rows), np.concatenate(globals_seen), candidates


def _shown(table: FeatureTable, raw: np.ndarray) -> np.ndarray:
    scale, low, high = table.image()
    shown: np.ndarray = np.clip(raw[:, : len(table)] * scale, low, high)
    return shown


def distances(target: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Return how far each of some workloads lies from another; 1 is as far as two of them lie apart on average.

    Every trait counts in units of its spread among all of them; those that none of them differ in do not count.
    """
    if not others:
        return np.zeros(0)
    names = sorted(target)
    table = np.array([[one.get(name, 0.0) for name in names] for one in (target, *others)])
    spread = table.std(axis=0)
    varied = spread > 1e-9
    if not varied.any():
        return np.zeros(len(others))
    scores = (table[:, varied] - table[:, varied].mean(axis=0)) / spread[varied]
    # The mean squared distance of two independent standardised numbers is 2.
    apart: np.ndarray = np.sqrt(((scores[1:] - scores[0]) ** 2).mean(axis=1) / 2.0)
    return apart
