"""The trained policies that come with the cluster family."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.families.contract import FAMILIES
from slipstream.policies.learned import load_policy, shipped

pytestmark = pytest.mark.thorough

OF_WINDOWS = ("time", "to_come", "allocation")
"""Columns that tell where in a window it is."""
MIXTURES = ("learned-mix-all", "learned-mix-energy", "learned-mix-slowdown")
EVOLVED = ("learned-philly", *MIXTURES)
SEED = 10_000


def test_those_that_held_up_are_there() -> None:
    assert set(shipped("cluster")) == {"learned-general", *EVOLVED}


@pytest.mark.parametrize("name", EVOLVED)
def test_it_is_small_and_says_where_it_comes_from(name: str) -> None:
    folder = shipped("cluster")[name]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40_000
    card = load_policy(folder).card
    assert card["command"].startswith("python benchmarks/cluster_policies.py --train")
    assert card["algorithm"] == "evolution"


@pytest.mark.parametrize("name", EVOLVED)
def test_it_cannot_tell_when_a_window_ends(name: str) -> None:
    names = FAMILIES["cluster"].global_features.observed.names
    blind = [names.index(column) for column in OF_WINDOWS]
    tensors = load_policy(shipped("cluster")[name]).tensors
    for weight in ("reserved", "value.weight"):
        assert not np.any(tensors[weight][..., blind])


@pytest.mark.parametrize("name", shipped("cluster"))
def test_it_plays_scenarios_that_it_was_not_trained_on(name: str) -> None:
    found = slipstream.evaluate("cluster/tiny", name, 2, 20_000)
    assert found.mean("slowdown_mean") >= 1.0


def test_it_halves_slowdowns_on_philly(shared_data: Path) -> None:
    jobs = {"kind": "philly", "path": str(shared_data / "cluster/philly/philly.csv"), "skip_jobs": 49_000}
    scenario = {
        "family": "cluster",
        "name": "philly",
        "nodes": [{"name": "node", "count": 8, "gpus": 8}],
        "placement": "flat",
        "backfill": "easy",
        "hold": False,
        "jobs": jobs,
        "episode": {"jobs": 256, "held_out": 0.0},
        "window": {"jobs": 256},
    }
    ours, theirs = (slipstream.evaluate(scenario, policy, 100, SEED) for policy in ("learned-philly", "f4"))
    assert ours.mean("slowdown_mean") < 0.6 * theirs.mean("slowdown_mean")
    assert ours.mean("wait_p99_s") < 1.03 * theirs.mean("wait_p99_s")
    assert ours.mean("wait_max_s") < 1.03 * theirs.mean("wait_max_s")
