"""Scenarios drawn from around one."""

from __future__ import annotations

import pytest

from slipstream.errors import InputError
from slipstream.evaluation import evaluate
from slipstream.families.contract import family_of
from slipstream.families.dag.scenario import DagScenario, MemorylessHorizon, PoissonStream
from slipstream.families.shared.variation import Variation
from slipstream.scenario import load


def varied(name: str, seed: int = 1, **widths: float) -> DagScenario:
    scenario = load(name)
    found = family_of(scenario).vary(scenario, Variation(**widths), seed)
    assert isinstance(found, DagScenario)
    return found


def gap(scenario: DagScenario) -> float:
    assert isinstance(scenario.arrivals, PoissonStream)
    return scenario.arrivals.mean_gap_s


def test_nothing_varies_where_nothing_is_asked_for() -> None:
    scenario = load("dag/small")
    assert family_of(scenario).vary(scenario, Variation(), 3) is scenario


def test_load_and_rate_change_the_gaps() -> None:
    usual = gap(varied("dag/stream-10x50", load=1.0, rate=0.0, length=1.0))
    assert gap(varied("dag/stream-10x50", load=2.0)) == usual / 2
    drawn = {gap(varied("dag/stream-10x50", seed, rate=0.2)) for seed in range(20)}
    assert len(drawn) == 20
    assert usual / 1.2 <= min(drawn) < usual < max(drawn) <= usual / 0.8


def test_a_length_cuts_episodes_off_at_random() -> None:
    short = varied("dag/stream-10x50", length=2.0)
    assert isinstance(short.horizon, MemorylessHorizon)
    ends = evaluate(short, "fair", 30, 0).of("makespan_s")
    assert len(set(ends)) == 30
    assert abs(ends.mean() - short.horizon.mean_s) < 3 * short.horizon.mean_s / 30**0.5
    whole = evaluate(load("dag/stream-10x50"), "fair", 3, 0).of("makespan_s")
    assert ends.max() < whole.min()


def test_jobs_that_come_at_once_have_no_rate() -> None:
    assert varied("dag/batch-50x20", load=2.0).arrivals == load("dag/batch-50x20").arrivals


def test_what_does_not_vary_is_refused() -> None:
    with pytest.raises(InputError, match=r"variation: latency: scenarios of 'dag' .* expected rate, load, length"):
        varied("dag/small", latency=0.1)
    with pytest.raises(InputError, match="variation: length: scenarios of 'edge'"):
        varied("edge/heavy", length=1.0)
    with pytest.raises(InputError, match=r"variation: length is -1\.0: expected at least 0"):
        Variation(length=-1.0)
