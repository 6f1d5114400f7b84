"""What a workload is like, in numbers that do not depend on its size.

Two workloads are alike for a policy when it sees alike rows in them. So a few choices of one episode are looked at,
under the family's default policy, and every observed column is summed up by three numbers without a unit: its share of
all columns in the same unit (as transfers beside durations), how much it differs among the candidates of a choice, and
how often it is not 0. That needs nothing from a family but its observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.families.contract import family_of
from slipstream.families.shared.features import FeatureTable
from slipstream.policies.base import Policy, WholeEpisodes, find
from slipstream.sim.kernel.lanes import LOG_FULL
from slipstream.sim.simulator import Simulator

SIGHTS = 96
"""Choices that are looked at."""
APART = 5
"""Choices from one of them to the next."""
PROBE_SEED = 0
LEAST_SPREAD = 0.05
"""Traits lie between 0 and 1; differences much smaller than this are chance."""
PLACES = ("time", "remaining", "finished", "arrived_jobs", "asked", "place", "job_rank", "stream")
"""Columns that say how far an episode is, or number things: they tell nothing about the work."""


def traits_of(scenario: Any) -> dict[str, float]:
    """Return the traits of a scenario by name, such as 'row.transfer.share'."""
    family = family_of(scenario)
    choices, summaries = _look_around(scenario)
    rows = _traits("row", family.candidate_features.observed, choices)
    return {**rows, **_traits("global", family.global_features.observed, [summaries])}


def _traits(kind: str, table: FeatureTable, groups: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the traits of a table's columns; rows of one group are compared with each other."""
    seen = np.abs(np.concatenate(groups))
    size, present = seen.mean(axis=0), (seen > 0.0).mean(axis=0)
    means = np.array([np.abs(group).mean(axis=0) for group in groups])
    spreads = np.array([group.std(axis=0) for group in groups])
    # From 0, all the same, towards 1, as different as can be.
    spread = (spreads / np.maximum(spreads + means, 1e-12)).mean(axis=0)
    units = [feature.unit for feature in table.features]
    found: dict[str, float] = {}
    for column, feature in enumerate(table.features):
        if feature.name in PLACES:
            continue
        alike = sum(
            size[other]
            for other, one in enumerate(table.features)
            if units[other] == feature.unit and one.name not in PLACES
        )
        name = f"{kind}.{feature.name}"
        found[f"{name}.share"] = float(size[column] / alike) if alike > 0.0 else 0.0
        found[f"{name}.spread"] = float(spread[column])
        found[f"{name}.present"] = float(present[column])
    return found


def _look_around(scenario: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the legal rows of some choices, and the globals of all of them, as an agent sees them."""
    family = family_of(scenario)
    policy = find(family.default_policy, family.name)
    simulator = Simulator(scenario)
    simulator.reset(PROBE_SEED, "eval", lambda _: None)
    rows: list[np.ndarray] = []
    summaries: list[np.ndarray] = []
    while simulator.asking and len(rows) < SIGHTS:
        summary, buffer, mask = simulator.observe()
        rows.append(_shown(family.candidate_features.observed, buffer[np.flatnonzero(mask)]))
        summaries.append(_shown(family.global_features.observed, summary[None, :]))
        _go_on(simulator, policy)
    if not rows:  # an episode without any choice
        widths = [len(table.observed) for table in (family.candidate_features, family.global_features)]
        return [np.zeros((1, widths[0]))], np.zeros((1, widths[1]))
    return rows, np.concatenate(summaries)


def _go_on(simulator: Simulator, policy: Policy) -> None:
    """Play to the next choice that is looked at."""
    if isinstance(policy, WholeEpisodes):
        if policy.run(simulator, APART) == LOG_FULL:
            simulator.header["log_rows"] = 0
        return
    for _ in range(APART):
        if simulator.asking:
            simulator.step(policy.choose(*simulator.observe()), lambda _: None)


def _shown(table: FeatureTable, raw: np.ndarray) -> np.ndarray:
    scale, low, high = table.image()
    shown: np.ndarray = np.clip(raw[:, : len(table)] * scale, low, high)
    return shown


def distances(target: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Return how far each of some workloads lies from another; 1 is as far as two of them lie apart on average.

    Every trait counts in units of its spread among all of them, or of `LEAST_SPREAD` where that is more: what differs
    by chance from episode to episode is not blown up. Traits that none of them differ in do not count.
    """
    if not others:
        return np.zeros(0)
    names = sorted(target)
    table = np.array([[one.get(name, 0.0) for name in names] for one in (target, *others)])
    spread = table.std(axis=0)
    varied = spread > 1e-9
    if not varied.any():
        return np.zeros(len(others))
    scores = table[:, varied] / np.maximum(spread[varied], LEAST_SPREAD)
    # The mean squared distance of two independent standardised numbers is 2.
    apart: np.ndarray = np.sqrt(((scores[1:] - scores[0]) ** 2).mean(axis=1) / 2.0)
    return apart
