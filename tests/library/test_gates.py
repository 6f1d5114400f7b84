"""What decides whether a version is used: small laws, without any simulation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from slipstream.library.judging import Shift, shares_lost
from slipstream.library.merging import judge_merge, share_a_parent
from slipstream.library.storage.records import Version
from slipstream.library.tradeoff import best_subsets
from slipstream.library.traits import distances
from slipstream.library.updating import ACCEPTED, REJECTED, SPLIT, judge_update


def shift(mean, half, role="anchor"):
    return Shift("edge/x", role, 0.1, 0.1 + mean, mean - half, mean + half, "best of 3 policies")


@pytest.mark.parametrize(
    ("target", "anchors", "verdict"),
    [
        ((-0.05, 0.01), [], ACCEPTED),
        ((-0.05, 0.06), [], REJECTED),  # the interval reaches 0
        ((0.0, 0.0), [], REJECTED),
        ((-0.05, 0.01), [(0.01, 0.005)], ACCEPTED),
        ((-0.05, 0.01), [(0.01, 0.02)], SPLIT),  # it may lose more than the tolerance
        ((-0.05, 0.01), [(-0.2, 0.01), (0.2, 0.01)], SPLIT),
        ((0.05, 0.01), [(0.2, 0.01)], REJECTED),
    ],
)
def test_an_update_gains_for_sure_and_loses_nowhere(target, anchors, verdict):
    shifts = [shift(*target, role="target"), *(shift(*one) for one in anchors)]
    found, reason = judge_update(shifts, 0.02)
    assert found == verdict
    assert "edge/x" in reason


def test_a_merge_stays_near_every_specialist_held_out_workloads_included():
    near = [shift(0.01, 0.005, "owned"), shift(-0.1, 0.0, "owned")]
    assert judge_merge(near, 0.05)[0] == ACCEPTED
    verdict, reason = judge_merge([*near, shift(0.31, 0.01, "held-out")], 0.05)
    assert verdict == REJECTED
    assert "+31.00%" in reason
    assert "held-out" in reason


def version(model, number, operation, *parents):
    return Version(number, model, number, "0" * 64, operation, "now", parents)


def test_only_updates_of_one_version_share_a_parent():
    first = version("a", 1, "add")
    left, right = version("a", 2, "update", "a@v1"), version("a", 3, "update", "a@v1")
    assert share_a_parent([left, right])
    assert share_a_parent([first, left, right])
    assert not share_a_parent([first, version("b", 1, "add")])
    assert not share_a_parent([left, version("a", 4, "update", "a@v2")])
    assert not share_a_parent([version("b", 1, "add"), left, right])
    assert not share_a_parent([version("c", 1, "merge", "a@v1"), version("c", 2, "merge", "a@v1")])


def test_regret_of_a_cost_is_the_ratio_to_the_best_less_one():
    assert shares_lost(np.array([-100.0]), np.array([-125.0])) == pytest.approx([0.25])
    assert shares_lost(np.array([200.0, 0.0]), np.array([150.0, -10.0])) == pytest.approx([0.5, 0.1])
    assert shares_lost(np.array([0.0]), np.array([-3.0])) == pytest.approx([3.0])


def test_the_best_subset_of_every_size_is_found():
    # Model 2 is the best alone; 0 and 1 are specialists, and together better than 2 with either.
    regrets = np.array([[0.0, 0.5, 0.2], [0.5, 0.0, 0.2]])
    assert best_subsets(regrets) == [(2,), (0, 1), (0, 1, 2)]


def test_many_models_join_one_at_a_time(monkeypatch):
    monkeypatch.setattr("slipstream.library.tradeoff.MOST_SUBSETS", 3)
    subsets = best_subsets(1.0 - np.eye(5))
    assert [len(one) for one in subsets] == [1, 2, 3, 4, 5]
    assert all(set(small) < set(large) for small, large in pairwise(subsets))


def test_distance_counts_every_trait_in_units_of_its_spread():
    target = {"a": 0.0, "b": 5.0, "same": 1.0}
    near, far = {"a": 0.1, "b": 5.0, "same": 1.0}, {"a": 1.0, "b": 500.0, "same": 1.0}
    apart = distances(target, [near, far, target])
    assert apart[2] == 0.0
    assert 0.0 < apart[0] < apart[1]
    assert distances(target, []).size == 0
    assert distances(target, [target]) == pytest.approx([0.0])


def test_the_unit_of_distance_is_that_of_two_workloads_drawn_at_random():
    draws = np.random.default_rng(0).normal(size=(300, 20))
    several = [{str(column): value for column, value in enumerate(row)} for row in draws.tolist()]
    assert distances(several[0], several[1:]).mean() == pytest.approx(1.0, abs=0.15)
