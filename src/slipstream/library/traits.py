"""Traits of a workload: dimensionless features that do not depend on its size.

Two workloads are similar for a policy if their observations are. So decisions of one episode are sampled under the
family's default policy, and every observed column is summarised by three dimensionless numbers: its share of all
columns in the same unit (as transfers among durations), its spread among the candidates of a decision, and how often it
is not 0. This needs only the family's observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slipstream.families.contract import Scenario, family_of
from slipstream.families.shared.features import FeatureTable
from slipstream.policies.base import Policy, WholeEpisodes, find
from slipstream.sim.kernel.lanes import LOG_FULL
from slipstream.sim.simulator import Simulator

PROBED_DECISIONS = 96
"""Number of sampled decisions."""
PROBE_STRIDE = 5
"""Decisions between two samples."""
PROBE_SEED = 0
LEAST_SPREAD = 0.05
"""Traits lie between 0 and 1; smaller differences are mostly noise."""
POSITION_COLUMNS = ("time", "remaining", "finished", "arrived_jobs", "asked", "place", "job_rank", "stream")
"""Columns that give the progress of an episode or an index: they do not describe the workload."""


def traits_of(scenario: Scenario) -> dict[str, float]:
    """Return the traits of a scenario by name, such as 'row.transfer.share'."""
    family = family_of(scenario)
    choices, summaries = _probe(scenario)
    rows = _traits("row", family.candidate_features.observed, choices)
    return {**rows, **_traits("global", family.global_features.observed, [summaries])}


def _traits(kind: str, table: FeatureTable, groups: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the traits of the columns of `table`; the spread is taken within each of `groups` of rows."""
    seen = np.abs(np.concatenate(groups))
    size, present = seen.mean(axis=0), (seen > 0.0).mean(axis=0)
    means = np.array([np.abs(group).mean(axis=0) for group in groups])
    spreads = np.array([group.std(axis=0) for group in groups])
    # Between 0, all equal, and 1.
    spread = (spreads / np.maximum(spreads + means, 1e-12)).mean(axis=0)
    units = [feature.unit for feature in table.features]
    found: dict[str, float] = {}
    for column, feature in enumerate(table.features):
        if feature.name in POSITION_COLUMNS:
            continue
        alike = sum(
            size[other]
            for other, one in enumerate(table.features)
            if units[other] == feature.unit and one.name not in POSITION_COLUMNS
        )
        name = f"{kind}.{feature.name}"
        found[f"{name}.share"] = float(size[column] / alike) if alike > 0.0 else 0.0
        found[f"{name}.spread"] = float(spread[column])
        found[f"{name}.present"] = float(present[column])
    return found


def _probe(scenario: Scenario) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the observed legal rows of the sampled decisions, and their globals."""
    family = family_of(scenario)
    policy = find(family.default_policy, family.name)
    simulator = Simulator(scenario)
    simulator.reset(PROBE_SEED, "eval", lambda _: None)
    rows: list[np.ndarray] = []
    summaries: list[np.ndarray] = []
    while simulator.asking and len(rows) < PROBED_DECISIONS:
        summary, buffer, mask = simulator.observe()
        rows.append(_observed(family.candidate_features.observed, buffer[np.flatnonzero(mask)]))
        summaries.append(_observed(family.global_features.observed, summary[None, :]))
        _advance(simulator, policy)
    if not rows:  # an episode without decisions
        widths = [len(table.observed) for table in (family.candidate_features, family.global_features)]
        return [np.zeros((1, widths[0]))], np.zeros((1, widths[1]))
    return rows, np.concatenate(summaries)


def _advance(simulator: Simulator, policy: Policy) -> None:
    """Run to the next sampled decision."""
    if isinstance(policy, WholeEpisodes):
        if policy.run(simulator, PROBE_STRIDE) == LOG_FULL:
            simulator.header["log_rows"] = 0
        return
    for _ in range(PROBE_STRIDE):
        if simulator.asking:
            simulator.step(policy.choose(*simulator.observe()), lambda _: None)


def _observed(table: FeatureTable, raw: np.ndarray) -> np.ndarray:
    scale, low, high = table.image()
    observed: np.ndarray = np.clip(raw[:, : len(table)] * scale, low, high)
    return observed


def distances(target: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Return the distance of `target` from each of `others`; 1 is the average distance of two workloads.

    Every trait is divided by its standard deviation, or by `LEAST_SPREAD` if that is more, so that noise between
    episodes is not amplified. Constant traits are left out.
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
