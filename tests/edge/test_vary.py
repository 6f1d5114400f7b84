"""Varied scenarios: valid, of the same shape, within their bounds, and the same for the same seed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.errors import InputError
from slipstream.families.contract import family_of
from slipstream.families.edge.build import spec_arrays
from slipstream.families.edge.scenario import (
    Bursty,
    Closed,
    EdgeScenario,
    Matrix,
    Periodic,
    Poisson,
    Roofline,
    Share,
    Trace,
)
from slipstream.families.edge.workload.randomisation import vary
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.shared.variation import Variation
from slipstream.policies.base import find
from slipstream.scenario import builtin_names, digest, dump, load
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, share, task, trace
from tests.strategies import edge_scenarios, episode_seeds

LAW = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
WIDTHS = st.one_of(st.sampled_from([0.0, 0.0, 0.2, 0.5]), st.floats(0.0, 0.99))
LOADS = st.one_of(st.sampled_from([1.0, 1.0, 0.5, 2.0]), st.floats(0.1, 10.0))
VARIATIONS = st.builds(Variation, WIDTHS, WIDTHS, WIDTHS, WIDTHS, LOADS)
GAPS = ("period_ms", "mean_gap_ms", "calm_gap_ms", "burst_gap_ms", "think_ms")
GRID_MS = 0.51e-6
"""A time may be off by half a nanosecond, as it is put on the grid."""


def within(value: float, base: float, low: float, high: float, off: float = 1e-9) -> bool:
    """Return whether a value is a base times a factor between low and high, but for rounding."""
    return base * low * (1 - 1e-12) - off <= value <= base * high * (1 + 1e-12) + off


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_a_varied_scenario_is_valid_and_has_the_same_shape(
    device: EdgeScenario, variation: Variation, seed: int
) -> None:
    varied = vary(device, variation, seed)
    assert EdgeScenario.model_validate(varied.model_dump(mode="json")) == varied
    before, after = spec_arrays(device), spec_arrays(varied)
    assert {name: array.shape for name, array in after.items()} == {name: array.shape for name, array in before.items()}
    for old, new in zip(device.tasks, varied.tasks, strict=True):
        assert (new.name, new.num_variants, new.weight) == (old.name, old.num_variants, old.weight)
        assert type(new.arrival) is type(old.arrival)
        assert new.relative_deadline_ms == old.relative_deadline_ms
        assert all(fast.latency_ms <= slow.latency_ms for fast, slow in pairwise(new.ladder))
    Simulator(varied).play(find("edf-fit", "edge"), 0)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_a_varied_scenario_is_read_back_as_it_was_written(
    device: EdgeScenario, variation: Variation, seed: int
) -> None:
    varied = vary(device, variation, seed)
    again = load(json.loads(dump(varied)))
    assert dump(again) == dump(varied)
    assert digest(again) == digest(varied)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_latencies_move_by_one_factor_for_each_task(device: EdgeScenario, variation: Variation, seed: int) -> None:
    for old, new in zip(device.tasks, vary(device, variation, seed).tasks, strict=True):
        low, high = 1.0 - variation.latency, 1.0 + variation.latency
        before = [variant.latency_ms for variant in old.ladder]
        after = [variant.latency_ms for variant in new.ladder]
        assert all(within(*pair, low, high, GRID_MS) for pair in zip(after, before, strict=True))
        if variation.latency == 0.0:
            assert after == before
        # What the slowest says of the factor holds for the others.
        factor = after[-1] / before[-1]
        assert np.allclose(after, np.array(before) * factor, rtol=0.0, atol=2 * GRID_MS)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_errors_of_the_profile_are_within_their_bounds(device: EdgeScenario, variation: Variation, seed: int) -> None:
    low, high = 1.0 - variation.profile_error, 1.0 + variation.profile_error
    for old, new in zip(device.tasks, vary(device, variation, seed).tasks, strict=True):
        for was, now in zip(old.ladder, new.ladder, strict=True):
            factor = now.latency_ms / was.latency_ms
            off = GRID_MS * (1.0 + 2.0 * was.solo_ms / was.latency_ms)
            assert within(now.solo_ms, was.solo_ms * factor, low, high, off)
            assert (now.actual_ms is None) == (was.actual_ms is None and variation.profile_error == 0.0)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_gaps_are_divided_by_load_and_a_factor_within_bounds(
    device: EdgeScenario, variation: Variation, seed: int
) -> None:
    low, high = variation.load * (1.0 - variation.rate), variation.load * (1.0 + variation.rate)
    for old, new in zip(device.tasks, vary(device, variation, seed).tasks, strict=True):
        if isinstance(old.arrival, Trace):
            assert new.arrival == old.arrival
        stretched = [key for key in GAPS if hasattr(old.arrival, key)]
        pairs = [(getattr(new.arrival, key), getattr(old.arrival, key)) for key in stretched]
        assert all(within(after, before, 1.0 / high, 1.0 / low, 2 * GRID_MS) for after, before in pairs)
        if isinstance(old.arrival, Bursty) and isinstance(new.arrival, Bursty):
            assert (new.arrival.calm_ms, new.arrival.burst_ms) == (old.arrival.calm_ms, old.arrival.burst_ms)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_interference_is_within_bounds(device: EdgeScenario, variation: Variation, seed: int) -> None:
    low, high = 1.0 - variation.interference, 1.0 + variation.interference
    varied = vary(device, variation, seed)
    before, after = device.device.interference, varied.device.interference
    if isinstance(before, Share) and isinstance(after, Share):
        assert within(after.total_throughput, before.total_throughput, low, high)
    elif isinstance(before, Matrix) and isinstance(after, Matrix):
        old, new = np.array(before.slowdowns), np.array(after.slowdowns)
        excess, varied_excess = np.abs(old - 1.0), np.abs(new - 1.0)
        assert ((new == 0.01) | (varied_excess >= excess * low - 1e-9)).all()
        assert (varied_excess <= excess * high + 1e-9).all()
        assert (np.sign(new - 1.0) * np.sign(old - 1.0) >= 0.0).all()
    elif isinstance(before, Roofline):
        for old_task, new_task in zip(device.tasks, varied.tasks, strict=True):
            for was, now in zip(old_task.ladder, new_task.ladder, strict=True):
                assert within(now.compute_share, was.compute_share, min(low, 1.0), high)
                assert within(now.bandwidth_share, was.bandwidth_share, min(low, 1.0), high)
    else:
        assert after == before


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_a_seed_gives_the_same_scenario_every_time(device: EdgeScenario, variation: Variation, seed: int) -> None:
    assert vary(device, variation, seed) == vary(device, variation, seed)


@LAW
@given(edge_scenarios(), st.sampled_from(["latency", "profile_error"]), episode_seeds())
def test_seeds_give_different_scenarios(device: EdgeScenario, name: str, seed: int) -> None:
    variation = Variation(**{name: 0.5})
    assert len({digest(vary(device, variation, (seed + more) % 2**62)) for more in range(4)}) > 1


@LAW
@given(edge_scenarios(), episode_seeds())
def test_without_a_variation_a_scenario_is_itself(device: EdgeScenario, seed: int) -> None:
    assert vary(device, Variation(), seed) is device


@LAW
@given(edge_scenarios(), episode_seeds())
def test_a_load_of_two_doubles_mean_rates(device: EdgeScenario, seed: int) -> None:
    doubled = vary(device, Variation(load=2.0), seed)
    before, after = spec_arrays(device)["tasks"]["period"], spec_arrays(doubled)["tasks"]["period"]
    for index, arrival in enumerate(one.arrival for one in device.tasks):
        if isinstance(arrival, Periodic | Poisson | Bursty):
            assert after[index] == pytest.approx(before[index] / 2, abs=2)
        elif isinstance(arrival, Closed):
            # The other part of a closed loop is the run itself.
            think = nanoseconds(arrival.think_ms)
            assert after[index] == pytest.approx(before[index] - think / 2, abs=2)
        else:
            assert after[index] == before[index]


@LAW
@given(edge_scenarios(), st.floats(0.1, 0.99), episode_seeds(), episode_seeds())
def test_a_policy_does_not_see_an_error_of_the_profile(
    device: EdgeScenario, width: float, seed: int, episode: int
) -> None:
    plain, varied = Simulator(device), Simulator(vary(device, Variation(profile_error=width), seed))
    plain.reset(episode)
    varied.reset(episode)
    if plain.asking:
        for before, after in zip(plain.observe(), varied.observe(), strict=True):
            np.testing.assert_array_equal(after, before)


@LAW
@given(edge_scenarios(), VARIATIONS, episode_seeds())
def test_properties_are_drawn_apart(device: EdgeScenario, variation: Variation, seed: int) -> None:
    alone = vary(device, Variation(latency=0.3), seed)
    together = vary(device, replace(variation, latency=0.3), seed)
    for one, other in zip(alone.tasks, together.tasks, strict=True):
        assert [v.latency_ms for v in one.ladder] == [v.latency_ms for v in other.ladder]


@LAW
@given(edge_scenarios(), st.floats(0.01, 0.49), episode_seeds())
def test_a_wider_variation_of_the_same_seed_goes_farther_the_same_way(
    device: EdgeScenario, width: float, seed: int
) -> None:
    near, far = (vary(device, Variation(latency=half), seed) for half in (width, 2.0 * width))
    for source, one, other in zip(device.tasks, near.tasks, far.tasks, strict=True):
        for was, step, leap in zip(source.ladder, one.ladder, other.ladder, strict=True):
            twice = was.latency_ms + 2.0 * (step.latency_ms - was.latency_ms)
            assert leap.latency_ms == pytest.approx(twice, abs=3 * GRID_MS)


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("edge/")])
def test_built_ins_can_be_varied_by_their_family(name: str) -> None:
    source = load(name)
    varied = family_of(source).vary(source, Variation(0.2, 0.2, 0.2, 0.2, 1.5), 7)
    assert digest(varied) != digest(source)
    assert all(task.profile is None for task in varied.tasks)
    assert varied.description.endswith(
        "Varied: latency 0.2, profile_error 0.2, interference 0.2, rate 0.2, load 1.5, seed 7."
    )


def test_extreme_loads_keep_times_in_range() -> None:
    shortest = EdgeScenario.model_validate(
        scenario(1, [task({"kind": "periodic", "period_ms": 1e-6, "jitter_ms": 1e-6}, [1e-6]), task(trace(0), [1e-6])])
    )
    longest = EdgeScenario.model_validate(scenario(1, [task({"kind": "poisson", "mean_gap_ms": 8e9}, [8e9])]))
    for seed in range(5):
        vary(shortest, Variation(0.9, 0.9, 0.9, 0.9, 1000.0), seed)
        vary(longest, Variation(0.9, 0.9, 0.9, 0.9, 0.001), seed)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed -1"):
        vary(load("edge/tiny"), Variation(rate=0.1), -1)


def test_a_choice_lasts_as_long_as_the_mean_deadline_of_jobs() -> None:
    # Three jobs of 10 ms for every job of 50 ms.
    tasks = [task({"kind": "periodic", "period_ms": 4}, [1], 10), task({"kind": "poisson", "mean_gap_ms": 12}, [1], 50)]
    device = EdgeScenario.model_validate(scenario(100, tasks, interference=share(1.0)))
    assert family_of(device).timescale(device) == 20_000_000


@LAW
@given(edge_scenarios())
def test_a_choice_lasts_no_longer_than_the_longest_deadline(device: EdgeScenario) -> None:
    deadlines = [nanoseconds(task.relative_deadline_ms) for task in device.tasks]
    assert min(deadlines) <= family_of(device).timescale(device) <= max(deadlines)
