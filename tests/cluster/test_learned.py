"""The trained policies that come with the cluster family."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.core.family import FAMILIES
from slipstream.policies.learned import load_policy, shipped

OF_WINDOWS = ("time", "to_come", "allocation")
"""Columns that tell where in a window it is."""


@pytest.mark.parametrize("name", shipped("cluster"))
def test_it_is_small_and_says_where_it_comes_from(name: str) -> None:
    folder = shipped("cluster")[name]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40_000
    card = load_policy(folder).card
    assert card["command"].startswith("python benchmarks/cluster_policies.py --train")
    assert card["algorithm"] == "evolution"


@pytest.mark.parametrize("name", shipped("cluster"))
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
