"""Resampled futures: they tell nothing of the true one, and follow the scenario's laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.simulator import Simulator
from tests.resampling import (
    RULES,
    RUNNING,
    SCENARIOS,
    altered,
    decisions,
    event_time,
    family_of,
    same,
    serving_routes,
    serving_scenario,
    suite_data,
)

FAMILIES = sorted(SCENARIOS)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_resampled_state_depends_on_what_was_seen_alone(family: str, split: str) -> None:
    rng = np.random.default_rng(0)
    checked = 0
    for number, simulator in enumerate(decisions(family, 3, 9, split)):
        true, other = simulator.save(), altered(simulator, rng)
        assert not same(true, other)
        found = []
        for state in (true, other):
            simulator.restore(state)
            simulator.resample(number)
            found.append(simulator.save())
        assert same(*found)
        simulator.restore(true)
        simulator.resample(number + 1)
        assert not same(found[0], simulator.save())
        checked += 1
    assert checked > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resampled_state_shows_the_same_rows(family: str) -> None:
    for simulator in decisions(family, 4, 7):
        before = [part.copy() for part in simulator.observe()]
        simulator.resample(1)
        after = simulator.observe()
        coin = [simulator.family.global_features.index("coin")]
        before[0][coin] = after[0][coin] = 0.0
        assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resampled_episode_can_be_played_to_its_end(family: str) -> None:
    policy = find("random", family_of(family))
    for number, simulator in enumerate(decisions(family, 5, 20)):
        simulator.resample(number)
        while simulator.asking:
            simulator.step(policy.choose(*simulator.observe()))
        assert simulator.header["status"] in (1, 2)
        assert simulator.header["mistakes"] == 0


def trace_of(family: str, late: list[float]) -> tuple[dict[str, Any], float]:
    """Return a scenario whose arrivals after a time are `late`, and that time in ns."""
    if not family.startswith(("llm", "elastic")):
        data = suite_data(family_of(family), "small")
    if family == "cluster":
        jobs = [{"submit_s": 100.0 * n, "run_s": 90.0 + n, "requested_s": 150.0, "gpus": 1 + n % 3} for n in range(40)]
        data["jobs"] = {"kind": "list", "jobs": [*jobs, *({"submit_s": time, "run_s": time} for time in late)]}
        data["episode"] = {"jobs": 40 + len(late), "held_out": 0.0}
        return data, 3900e9
    if family == "dag":
        times = [20.0 * number for number in range(8)]
        data["arrivals"] = {"kind": "trace", "times_s": [*times, *late, 9000.0]}
        return data, 140e9
    if family == "edge":
        for key in ("periodic_tasks", "poisson_tasks"):
            data.pop(key)
        for task in data["tasks"]:
            task["arrival"] = {"kind": "trace", "times_ms": [*(40.0 * n for n in range(20)), *late, 1000.0]}
        return data, 765e6
    if family == "elastic":
        data = SCENARIOS[family]().model_dump(mode="json", exclude_unset=True)
        job = data["jobs"]["templates"][0]
        data["jobs"] = {
            "kind": "list",
            "jobs": [{**job, "arrival_s": time} for time in [*(30.0 * n for n in range(40)), *late]],
        }
        return data, 1200e9
    if family.startswith("llm"):
        data = SCENARIOS[family]().model_dump(mode="json", exclude_unset=True)
        times = [*(15.0 * number + 4.0 * (number % 4) for number in range(80)), *late]
        lengths = [{"prompt": 5 + 7 * number % 50, "output": 3 + 11 * number % 40} for number in range(len(times))]
        listed = [{"arrival_s": time / 1e3, **one} for time, one in zip(times, lengths, strict=True)]
        data["requests"] = {"kind": "list", "requests": listed, "hash_tokens": 4}
        return data, 1230e6
    if family.startswith("serving"):
        data = SCENARIOS[family]().model_dump(mode="json", exclude_unset=True)
        for model in data["models"]:
            times = [30.0 * number + 7.0 * (number % 4) for number in range(40)]
            model["arrivals"] = {"kind": "trace", "times_ms": [*times, *late]}
            model["expected_rate_hz"] = 30.0
        return data, 1230e6
    times = [20.0 * number for number in range(3)]
    data["arrivals"] = {"kind": "trace", "times_ms": [*times, *late, 9000.0]}
    return data, 40e6


@pytest.mark.parametrize("family", FAMILIES)
def test_arrivals_of_a_trace_after_now_do_not_matter(family: str) -> None:
    """Futures of two traces that are equal so far are played alike to their ends."""
    base = {"dag": 200.0, "edge": 790.0, "taskgraph": 70.0, "cluster": 4000.0}.get(family, 1240.0)
    policy = find(RULES[family] if family.startswith(("serving", "llm")) else "fifo", family_of(family))
    # A plan has few decisions.
    often = (1, 2, 3, 4) if family == "serving" else ()
    outcomes: list[list[float]] = []
    for late in ([base, base + 1.0], [base + 5.0, base + 100.0]):
        data, until = trace_of(family, late)
        simulator = Simulator(load(data), log_rows=0)
        simulator.reset(3)
        found: list[float] = []
        while simulator.asking and simulator.header["now"] < until:
            here = simulator.save()
            if simulator.header["choices"] % 5 in (0, *often):
                simulator.resample(7)
                while simulator.asking:
                    simulator.step(policy.choose(*simulator.observe()))
                    found.append(float(simulator.header["now"]))
                simulator.restore(here)
            simulator.step(policy.choose(*simulator.observe()))
        outcomes.append(found)
    assert len(outcomes[0]) > 20
    assert outcomes[0] == outcomes[1]


# Laws


def mean_is(values: list[float], expected: float) -> bool:
    """Return whether the mean of `values` is within four standard errors of `expected`."""
    found = np.array(values)
    return bool(abs(found.mean() - expected) <= 4.0 * found.std(ddof=1) / np.sqrt(len(found)))


def futures(simulator: Simulator, count: int) -> list[dict[str, np.ndarray]]:
    """Return `count` resampled states of the decision that is due."""
    true, found = simulator.save(), []
    for key in range(count):
        simulator.restore(true)
        simulator.resample(key)
        found.append(simulator.save())
    simulator.restore(true)
    return found


@pytest.mark.parametrize("family", ["dag", "taskgraph"])
def test_the_next_arrival_and_the_horizon_are_memoryless(family: str) -> None:
    simulator = decisions(family, 6, 8)[1]
    state = simulator.save()
    now = int(simulator.header["now"])
    gap = float(simulator.family.spec_arrays(simulator.scenario)["machine"]["mean_gap"][0])
    slot = len(state["executors"][0]) if family == "dag" else len(state["processors"][0]) + state["links"].shape[1]
    assert event_time(state, slot) < NEVER
    drawn = futures(simulator, 2000)
    assert mean_is([event_time(one, slot) - now for one in drawn], gap)
    assert min(event_time(one, slot) for one in drawn) > now
    if family == "dag":
        assert mean_is([event_time(one, slot + 1) - now for one in drawn], 5000e9)


def test_running_tasks_of_a_dag_end_as_their_samples_say() -> None:
    """The redrawn end of a task has the distribution of its samples above the time passed, stragglers included."""
    simulator = next(one for one in decisions("dag", 6, 5) if one.header["running"] >= 3)
    spec, state = simulator.family.spec_arrays(simulator.scenario), simulator.save()
    now, drawn = int(simulator.header["now"]), futures(simulator, 2000)
    checked = 0
    for executor, worker in enumerate(state["executors"][0]):
        between = spec["parallelism_of"][worker["local"]]
        if worker["activity"] != 1 or between["gap"] > 0.0:
            continue
        stage = state["jobs"][0, worker["job"]]["first_stage"] + worker["stage"]
        wave = spec["waves"][stage, 3 * between["low"] + worker["wave"]]
        plain = spec["samples"][wave["first_sample"] : wave["first_sample"] + wave["samples"]] + wave["delay"]
        speed = spec["executors"]["speed"][executor]
        lengths = np.ceil(np.concatenate([plain, 3.0 * plain]) / speed)
        weights = np.concatenate([np.full(len(plain), 0.8), np.full(len(plain), 0.2)])
        longer = lengths > now - worker["began"]
        expected = float(np.average(lengths[longer], weights=weights[longer]))
        ends = [event_time(one, executor) - int(worker["began"]) for one in drawn]
        assert min(ends) > now - worker["began"]
        assert mean_is(ends, expected)
        checked += 1
    assert checked > 0


def test_running_tasks_of_a_graph_end_as_their_noise_says() -> None:
    """The redrawn end of a task has the distribution of its noise above the time passed."""
    simulator = next(one for one in decisions("taskgraph", 6, 5) if one.header["running"] >= 2)
    spec, state = simulator.family.spec_arrays(simulator.scenario), simulator.save()
    now, drawn = int(simulator.header["now"]), futures(simulator, 2000)
    spread = float(spec["machine"]["spread"][0])
    noise = np.exp(spread * np.random.default_rng(0).standard_normal(400_000) - spread * spread / 2.0)
    for processor, worker in enumerate(state["processors"][0]):
        if worker["runs"]:
            task = state["tasks"][0, state["holds"][0, processor, 0]]
            length = int(spec["durations"][task["source"], spec["processors"]["kind"][processor]])
            began = int(worker["expected_end"]) - length
            lengths = length * noise
            expected = float(lengths[lengths > now - began].mean())
            assert mean_is([event_time(one, processor) - began for one in drawn], expected)


def test_run_times_of_a_cluster_follow_the_users_estimates() -> None:
    """Users ask for 1 to 2 times what they need: a job that waits needs half to all of it, one that runs, more."""
    simulator = next(
        one for one in decisions("cluster", 6, 5) if one.header["running"] >= 3 and one.header["waiting"] >= 2
    )
    now, drawn = int(simulator.header["now"]), futures(simulator, 500)
    true = simulator.save()["jobs"][0]
    workload = simulator.family.spec_arrays(simulator.scenario)["jobs"]
    ratios = workload["run"] / workload["requested"]
    for number in simulator.save()["queue"][0, : simulator.header["waiting"]]["job"]:
        own = [one["jobs"][0, number] for one in drawn]
        shares = [float(one["run"] / one["requested"]) for one in own]
        assert min(shares) >= 0.49
        assert max(shares) <= 1.0
        if true[number]["interrupted"] == 0:
            # Long requests come of long runs as often as of high estimates: the mean is near that of all jobs.
            assert abs(np.mean(shares) - ratios.mean()) < 0.06
    for number in simulator.save()["running"][0, : simulator.header["running"]]:
        own = [one["jobs"][0, number] for one in drawn]
        assert all(one["status"] == RUNNING and one["end"] >= now for one in own)
        assert len({int(one["end"]) for one in own}) > 10 or true[number]["requested"] < 60e9


def test_jobs_to_come_of_a_cluster_are_blocks_of_the_training_part() -> None:
    simulator = decisions("cluster", 6, 12)[1]
    spec = simulator.family.spec_arrays(simulator.scenario)
    workload, jobs = spec["jobs"], int(spec["machine"]["jobs"][0])
    cut = int(spec["splits"]["high"][0]) + jobs
    arrived, now = int(simulator.header["arrived"]), int(simulator.header["now"])
    firsts, gaps = [], []
    for one in futures(simulator, 400):
        header = one["lanes"][0]
        begin = int(header["first"]) + arrived
        assert 1 <= begin <= cut - (jobs - arrived)
        assert header["jobs"] == jobs
        comes = int(workload["submit"][begin] - header["time_zero"])
        assert comes > now
        firsts.append(begin)
        gaps.append(float(comes - now))
    assert len(set(firsts)) > 100
    mean = float(np.diff(workload["submit"][:cut]).mean())
    assert mean_is(gaps, mean)


def test_releases_and_runs_of_an_edge_device_follow_their_laws() -> None:
    """Releases are memoryless or within their jitter; runs are lognormal around the profile, above the work done."""
    simulator = next(one for one in decisions("edge", 6, 5) if one.header["busy"] >= 1 and one.header["now"] > 5e8)
    spec, state = simulator.family.spec_arrays(simulator.scenario), simulator.save()
    now, drawn, streams = int(simulator.header["now"]), futures(simulator, 2000), len(state["streams"][0])
    slot = streams + len(spec["tasks"])
    assert mean_is([event_time(one, slot + 1) - now for one in drawn], 15e6)
    nominal = int(spec["tasks"]["phase"][2] + state["tasks"][0, 2]["released"] * 12e6)
    first = max(now, nominal)
    assert mean_is([event_time(one, slot + 2) for one in drawn], (first + nominal + 8e6) / 2.0)
    sigma, half = float(spec["device"]["sigma"][0]), float(spec["device"]["half_variance"][0])
    noise = np.exp(sigma * np.random.default_rng(0).standard_normal(400_000) - half)
    for stream, running in enumerate(state["streams"][0]):
        if running["task"] >= 0:
            latency = int(spec["variants"]["latency"][running["task"], running["variant"]])
            passed = (now - int(running["updated"])) * float(running["rate"])
            done = latency - float(running["expected"])
            assert running["expected"] > 0.0
            totals = latency * noise
            left = totals[totals > done + passed] - done
            assert mean_is([float(one["streams"][0, stream]["work"]) for one in drawn], float(left.mean()))


def test_the_next_release_of_a_bursty_task_follows_from_the_time_since_its_last() -> None:
    """Simulated tasks that had no release for as long wait for the next one as long as resampled ones do."""
    known = (one for one in decisions("edge", 6, 5) if one.arrays["tasks"][0, 0]["released"] > 0)
    simulator = next(one for one in known if 2e6 < since_release(one) < 2e7)
    spec = simulator.family.spec_arrays(simulator.scenario)
    now, passed = int(simulator.header["now"]), since_release(simulator)
    slot = len(spec["streams"]) + len(spec["tasks"])
    waits = np.array([event_time(one, slot) - now for one in futures(simulator, 3000)])
    rng, burst, found = np.random.default_rng(0), 0, []
    gaps, spells = (40e6, 5e6), (200e6, 60e6)
    left = rng.exponential(spells[burst])
    for _ in range(60_000):
        gap, wait = 0.0, rng.exponential(gaps[burst])
        while wait >= left:
            gap += left
            burst = 1 - burst
            left, wait = rng.exponential(spells[burst]), rng.exponential(gaps[burst])
        left -= wait
        if gap + wait > passed:
            found.append(gap + wait - passed)
    expected = np.array(found)
    error = np.hypot(waits.std() / np.sqrt(len(waits)), expected.std() / np.sqrt(len(expected)))
    assert abs(waits.mean() - expected.mean()) < 4.0 * error
    # In the calm state alone, or in a burst alone, it would be another time.
    assert abs(expected.mean() - 40e6) > 4.0 * error
    assert abs(expected.mean() - 5e6) > 4.0 * error


def since_release(simulator: Simulator) -> int:
    """Return the time since the last release of the first task."""
    return int(simulator.header["now"] - simulator.save()["tasks"][0, 0]["last_release"])


# Serving


def serving_slots(simulator: Simulator, model: int) -> tuple[int, int]:
    """Return the event slots of the samples and of a model's next request."""
    accelerators = len(simulator.family.spec_arrays(simulator.scenario)["kinds"])
    return 2 * accelerators, 2 * accelerators + 2 + model


def gaps_of(simulator: Simulator, model: int, count: int) -> list[int]:
    """Return the times until a model's next request in `count` futures."""
    now, slot = int(simulator.header["now"]), serving_slots(simulator, model)[1]
    return [event_time(one, slot) - now for one in futures(simulator, count)]


def at_a_plan(time_s: float, **changes: Any) -> Simulator:
    """Return the first decision at or after a time of a scenario with one model and these arrivals."""
    data = serving_scenario().model_dump(mode="json", exclude_unset=True)
    data["models"] = [{**data["models"][0], "arrivals": changes}]
    policy, simulator = find("infaas", "serving"), Simulator(load(data), log_rows=0)
    simulator.reset(8)
    while simulator.header["now"] < time_s * 1e9:
        assert simulator.asking
        simulator.step(policy.choose(*simulator.observe()))
    return simulator


@pytest.mark.parametrize("shape", [0.3, 4.0])
def test_the_next_request_follows_from_the_time_since_the_last(shape: float) -> None:
    """Gamma gaps are redrawn given that they are longer than the time passed."""
    simulator = at_a_plan(1.0, kind="gamma", rate_hz=20.0, shape=shape)
    passed = float(simulator.header["now"] - simulator.arrays["models"][0, 0]["last"])
    assert passed > 1e6
    gaps = np.random.default_rng(0).gamma(shape, 50e6 / shape, 2_000_000)
    expected = float((gaps[gaps > passed] - passed).mean())
    assert abs(expected - 50e6) > 5e6
    assert mean_is(gaps_of(simulator, 0, 3000), expected)


def test_rates_that_a_law_states_are_known_and_recorded_ones_are_not() -> None:
    """A burst to come shortens the next gap where the scenario states when bursts are; of a recording it is unknown."""
    burst = {"step_s": 1.0, "rates_hz": [1e-6, 1e-6, 1000.0]}
    recorded = at_a_plan(1.75, kind="rates", **burst)
    assert {min(gap, NEVER) for gap in gaps_of(recorded, 0, 20)} == {NEVER - int(recorded.header["now"])}
    stated = at_a_plan(1.75, kind="bursty", low_hz=1e-6, high_hz=1000.0, switch_s=2.0)
    assert mean_is(gaps_of(stated, 0, 500), 2e9 - float(stated.header["now"]) + 1e6)


def test_recorded_rates_go_on_as_blocks_of_those_that_have_ended() -> None:
    """The present step has the rate of the one before it; the next one has that of any step that has ended."""
    simulator = at_a_plan(2.5, kind="rates", step_s=1.0, rates_hz=[40.0, 10.0, 5000.0, 5000.0, 5000.0])
    until, ends = 3e9, []
    for one in futures(simulator, 400):
        own = one["models"][0, 0]
        assert (own["redrawn"], own["seen"]) == (1, 2)
        ends.append(int(own["block"]))
    assert set(ends) == {0, 1}
    gaps = np.array(gaps_of(simulator, 0, 2000), float)
    within = gaps < until - float(simulator.header["now"])
    # The first half second is at 10 Hz.
    assert abs(within.mean() - (1.0 - np.exp(-5.0))) < 0.02


def test_the_rest_of_a_trace_is_a_block_that_lasts_as_long_as_what_was_seen() -> None:
    times = [0.0, 100.0, 400.0, 450.0, 900.0, 950.0, 1040.0, 1050.0, 8000.0]
    simulator = at_a_plan(1.25, kind="trace", times_ms=times)
    now = int(simulator.header["now"])
    assert int(simulator.arrays["models"][0, 0]["arrived"]) == 8
    seen = np.array(times[:8])
    # Gaps that are longer than the time since the last request.
    comes = {1050 + gap for gap in (300, 450)}
    slot = serving_slots(simulator, 0)[1]
    for one in futures(simulator, 50):
        own = one["models"][0, 0]
        assert event_time(one, slot) / 1e6 in comes
        assert own["end"] == 2 * now
    policy, true = find("infaas", "serving"), simulator.save()
    for key in range(20):
        simulator.restore(true)
        simulator.resample(key)
        gap = int(simulator.arrays["models"][0, 0]["block"])
        arrivals = 1050.0 + np.cumsum([np.diff(seen)[(gap - 1 + number) % 7] for number in range(20)])
        while simulator.asking:
            simulator.step(policy.choose(*simulator.observe()))
        assert simulator.arrays["models"][0, 0]["arrived"] - 8 == (arrivals <= 2.0 * now / 1e6).sum()


@pytest.mark.parametrize("kind", ["exponential", "lognormal"])
def test_running_batches_end_as_their_law_says(kind: str) -> None:
    """The redrawn end of a batch has the distribution of service times above the time passed."""
    data = serving_routes().model_dump(mode="json", exclude_unset=True)
    data["service"] = {"kind": kind, **({"cv": 0.5} if kind == "lognormal" else {})}
    policy, simulator = find("eft", "serving"), Simulator(load(data), log_rows=0)
    simulator.reset(8)
    while (running_on(simulator)["busy"] * (simulator.header["now"] - running_on(simulator)["began"]) > 4e6).sum() < 2:
        assert simulator.asking
        simulator.step(policy.choose(*simulator.observe()))
    now, drawn, checked = int(simulator.header["now"]), futures(simulator, 2000), 0
    sigma = np.sqrt(np.log(1.25))
    rng = np.random.default_rng(0)
    noise = rng.exponential(size=400_000)
    if kind == "lognormal":
        noise = np.exp(sigma * rng.standard_normal(400_000) - sigma * sigma / 2.0)
    for accelerator, own in enumerate(running_on(simulator)):
        if own["busy"]:
            lengths = own["expected"] * noise
            passed = now - int(own["began"])
            left = [event_time(one, accelerator) - now for one in drawn]
            assert min(left) > 0
            assert mean_is(left, float(lengths[lengths > passed].mean()) - passed)
            checked += 1
    assert checked >= 2


def running_on(simulator: Simulator) -> np.ndarray:
    """Return the accelerators of the simulator's lane."""
    return np.asarray(simulator.save()["accelerators"][0])
