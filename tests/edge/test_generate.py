"""Generated scenarios are what was asked for, the same for the same seed, and run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from slipstream.errors import InputError
from slipstream.families.edge.scenario import Bursty, Periodic, Poisson
from slipstream.families.edge.workload.generator import Settings, generate, traced, uunifast_discard
from slipstream.families.edge.workload.profiles import PROFILES
from slipstream.families.shared.generator import options
from slipstream.policies import find
from slipstream.scenario import digest, dump, load
from slipstream.sim.eventlog import ARRIVAL, END
from slipstream.sim.simulator import Simulator

SEEDS = range(200)


def mean_gap(task):
    arrival = task.arrival
    if isinstance(arrival, Periodic):
        return arrival.period_ms
    if isinstance(arrival, Poisson):
        return arrival.mean_gap_ms
    jobs = arrival.calm_ms / arrival.calm_gap_ms + arrival.burst_ms / arrival.burst_gap_ms
    return (arrival.calm_ms + arrival.burst_ms) / jobs


def share(task, which):
    latencies = [variant.latency_ms for variant in task.ladder]
    chosen = {"fastest": latencies[0], "mean": sum(latencies) / len(latencies), "slowest": latencies[-1]}[which]
    return chosen / mean_gap(task)


@st.composite
def wishes(draw):
    """Draw settings over everything that can be set."""
    counts = draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).filter(any))
    low, high = sorted(draw(st.tuples(st.floats(1, 50), st.floats(1, 50))))
    tight, loose = sorted(draw(st.tuples(st.floats(0.1, 3), st.floats(0.1, 3))))
    return Settings(
        periodic_tasks=counts[0],
        poisson_tasks=counts[1],
        bursty_tasks=counts[2],
        utilisation=draw(st.floats(0.01, 1.0)) * sum(counts),
        utilisation_of=draw(st.sampled_from(["fastest", "mean", "slowest"])),
        period_low_ms=low,
        period_high_ms=high,
        rate_hz=draw(st.none() | st.floats(10, 500)),
        phases=draw(st.sampled_from(["zero", "random"])),
        jitter=draw(st.floats(0, 1)),
        burst_ratio=draw(st.floats(1, 50)),
        burst_share=draw(st.floats(0.01, 0.99)),
        burst_ms=draw(st.floats(1, 1000)),
        deadline_low=tight,
        deadline_high=loose,
        ladder=draw(st.sampled_from(["profiles", "geometric", *PROFILES])),
        variants=draw(st.integers(1, 8)),
        slowdown=draw(st.floats(1, 20)),
        criticalities=draw(st.integers(1, 11)),
        horizon_ms=draw(st.floats(1, 300)),
        streams=draw(st.integers(1, 4)),
        interference=draw(st.sampled_from(["share", "none"])),
        latency_cv=draw(st.sampled_from([0.0, 0.05])),
        late=draw(st.sampled_from(["drop", "run"])),
        queue_limit=draw(st.integers(1, 16)),
    )


@given(wishes(), st.integers(0, 2**62 - 1))
def test_the_scenario_is_what_was_asked_for(wish, seed):
    scenario = generate(wish, seed)
    kinds = [type(task.arrival) for task in scenario.tasks]
    assert kinds == [Periodic] * wish.periodic_tasks + [Poisson] * wish.poisson_tasks + [Bursty] * wish.bursty_tasks
    gaps = [mean_gap(task) for task in scenario.tasks]
    # Durations are rounded to a nanosecond, which is 1e-6 ms, and no latency is below one.
    slack = sum(2e-6 / gap for gap in gaps)
    found = sum(share(task, wish.utilisation_of) for task in scenario.tasks)
    assert found == pytest.approx(wish.utilisation, rel=1e-5, abs=slack)
    assert all(share(task, wish.utilisation_of) <= 1.0 + 1e-5 for task in scenario.tasks)
    if wish.rate_hz is None:
        assert all(wish.period_low_ms - 1e-4 <= gap <= wish.period_high_ms + 1e-4 for gap in gaps)
    else:
        assert sum(1000.0 / gap for gap in gaps) == pytest.approx(wish.rate_hz, rel=1e-4)
    for task, gap in zip(scenario.tasks, gaps, strict=True):
        factor = task.deadline_ms / gap
        assert wish.deadline_low * (1 - 1e-4) <= factor <= wish.deadline_high * (1 + 1e-4)
        assert 0 <= task.criticality < wish.criticalities
        if isinstance(task.arrival, Periodic):
            assert task.arrival.phase_ms <= (gap if wish.phases == "random" else 0.0)
            assert task.arrival.jitter_ms == pytest.approx(wish.jitter * gap, abs=1e-6)
        if isinstance(task.arrival, Bursty):
            spells = task.arrival.burst_ms / (task.arrival.burst_ms + task.arrival.calm_ms)
            assert task.arrival.calm_gap_ms / task.arrival.burst_gap_ms == pytest.approx(wish.burst_ratio, rel=1e-3)
            assert spells == pytest.approx(wish.burst_share, rel=1e-3)
    assert scenario.device.streams == wish.streams
    assert scenario.device.interference.kind == wish.interference
    assert scenario.device.latency.kind == ("lognormal" if wish.latency_cv else "fixed")
    assert (scenario.device.late, scenario.device.queue_limit) == (wish.late, wish.queue_limit)
    assert scenario.horizon_ms == wish.horizon_ms


@given(wishes(), st.integers(0, 2**62 - 1))
@settings(max_examples=30)
def test_a_generated_scenario_round_trips_and_runs(wish, seed):
    scenario = generate(wish, seed)
    text = dump(scenario)
    again = load(json.loads(text))
    assert dump(again) == text
    assert digest(again) == digest(scenario)
    events = Simulator(again).play(find("edf", "edge"), seed)
    assert events["kind"][-1] == END


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    texts = [dump(generate(Settings(), seed)) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_scenarios_that_differ_in_one_setting_differ_in_that_property_alone():
    few, many = (generate(Settings(utilisation=u), 3) for u in (0.2, 2.0))
    assert [task.arrival for task in few.tasks] == [task.arrival for task in many.tasks]
    assert [task.model for task in few.tasks] == [task.model for task in many.tasks]
    tight = generate(Settings(utilisation=0.2, deadline_low=0.5, deadline_high=0.5), 3)
    assert [task.ladder for task in tight.tasks] == [task.ladder for task in few.tasks]
    assert [task.deadline_ms for task in tight.tasks] != [task.deadline_ms for task in few.tasks]


@pytest.mark.parametrize(("total", "below"), [(1.0, 0.75), (2.0, 0.25)])
def test_shares_are_uniform_among_the_vectors_with_their_sum(total, below):
    # Of three shares with sum 1, one is below x with probability 1 - (1 - x)**2; with sum 2 they are one minus such.
    draws = np.random.default_rng(0)
    shares = np.array([uunifast_discard(draws, 3, total) for _ in range(4000)])
    assert np.allclose(shares.sum(axis=1), total)
    assert shares.min() >= 0.0
    assert shares.max() <= 1.0
    assert np.allclose((shares < 0.5).mean(axis=0), below, atol=0.03)


def test_vectors_with_a_share_above_one_are_discarded():
    # Without discarding, 21% of these vectors would have a share above 1.
    draws = np.random.default_rng(0)
    shares = np.array([uunifast_discard(draws, 4, 1.6) for _ in range(4000)])
    assert 0.9 < shares.max() <= 1.0
    assert np.allclose(shares.mean(axis=0), 0.4, atol=0.02)


def test_shares_that_cannot_be_found_are_told(monkeypatch):
    monkeypatch.setattr("slipstream.families.edge.workload.generator.MOST_TRIES", 10)
    with pytest.raises(InputError, match=r"utilisation 60 of 100 tasks: found no shares up to one stream each in 10"):
        uunifast_discard(np.random.default_rng(0), 100, 60.0)


def test_periods_are_uniform_in_their_logarithm():
    wish = Settings(period_low_ms=1.0, period_high_ms=100.0)
    gaps = [mean_gap(task) for seed in SEEDS for task in generate(wish, seed).tasks]
    logs = np.log10(gaps)
    assert np.histogram(logs, bins=4, range=(0, 2))[0] / len(logs) == pytest.approx([0.25] * 4, abs=0.04)


def test_a_geometric_ladder_grows_by_one_ratio_and_a_profile_keeps_its_shape():
    wish = Settings(ladder="geometric", variants=4, slowdown=8.0, accuracy_low=0.5, accuracy_high=0.8)
    for task in generate(wish, 1).tasks:
        latencies = [variant.latency_ms for variant in task.ladder]
        steps = [after / before for before, after in itertools.pairwise(latencies)]
        assert steps == pytest.approx([2.0] * 3, rel=1e-3)
        assert [variant.accuracy for variant in task.ladder] == pytest.approx([0.5, 0.6, 0.7, 0.8])
    shape = PROFILES["vgg@xavier-trt"].variants
    for task in generate(Settings(ladder="vgg@xavier-trt"), 1).tasks:
        assert [(v.name, v.accuracy, v.demand) for v in task.ladder] == [(v.name, v.accuracy, v.demand) for v in shape]
        scale = task.ladder[0].latency_ms / shape[0].latency_ms
        assert [v.latency_ms for v in task.ladder] == pytest.approx([v.latency_ms * scale for v in shape], rel=1e-3)


def test_profiles_are_mixed():
    models = {task.model for seed in SEEDS for task in generate(Settings(), seed).tasks}
    assert models == {f"builtin:{name.partition('@')[0]}" for name in PROFILES}


def test_the_description_says_how_to_make_it_again():
    wish = Settings(utilisation=1.5, ladder="geometric")
    assert options(wish) == ["--utilisation", "1.5", "--ladder", "geometric"]
    command = "slipstream generate edge --seed 7 --utilisation 1.5 --ladder geometric"
    assert generate(wish, 7).description == f"Generated: {command}"


BAD = {
    "no tasks": ({"periodic_tasks": 0, "poisson_tasks": 0}, "0 tasks: expected 1 to 1000"),
    "too many": ({"periodic_tasks": 600, "poisson_tasks": 600}, "1200 tasks: expected 1 to 1000"),
    "too much": ({"utilisation": 9.0}, "utilisation 9.0 of 8 tasks: expected at most one stream for each task"),
    "periods": ({"period_low_ms": 200.0}, "period_low_ms is above period_high_ms: expected a range"),
    "deadlines": ({"deadline_low": 2.0}, "deadline_low is above deadline_high: expected a range"),
    "accuracies": ({"accuracy_low": 0.9}, "accuracy_low is above accuracy_high: expected a range"),
    "ladder": ({"ladder": "resnet"}, "unknown ladder 'resnet': expected one of profiles, geometric, resnet@xavier-trt"),
}


@pytest.mark.parametrize("case", BAD)
def test_wishes_that_cannot_be_met_are_told(case):
    values, words = BAD[case]
    with pytest.raises(ValidationError) as problem:
        Settings(**values)
    assert words in str(problem.value)


def test_a_rate_that_stretches_periods_too_far_is_told():
    with pytest.raises(InputError, match=r"rate_hz 1e\+08: stretches periods to .* expected them between 0\.01 and"):
        generate(Settings(rate_hz=1e8), 0)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_traces_hold_the_arrivals_of_the_seed(kind, tmp_path):
    drawn = generate(Settings(bursty_tasks=2, jitter=0.5, horizon_ms=500.0), 11)
    scenario, files = traced(drawn, 11, "arrivals", kind)
    assert sorted(files) == sorted(task.arrival.path for task in scenario.tasks)
    for path, content in files.items():
        (tmp_path / Path(path).parent).mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "s.json").write_text(dump(scenario))
    again = load(tmp_path / "s.json")
    assert dump(again) == dump(scenario)
    logs = [Simulator(one).play(find("edf", "edge"), 11) for one in (drawn, again)]
    arrivals = [log[log["kind"] == ARRIVAL] for log in logs]
    assert len(arrivals[0]) > 50
    assert arrivals[0].tolist() == arrivals[1].tolist()
