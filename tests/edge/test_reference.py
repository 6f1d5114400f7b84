"""The reference simulator is right where it can be worked out by hand, and keeps its books everywhere else."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings

from slipstream.edge.scenario import EdgeScenario
from tests.edge.cases import CASES, Case, check, scenario, task, trace
from tests.reference.edge import (
    Log,
    LogRow,
    ReferenceEdge,
    bits,
    episode_key,
    exponential,
    next_seed,
    normal,
    run,
    stream_key,
    uniform,
)
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, scripted_action

MOST_CHOICES = 20_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    check(case, lambda scenario: ReferenceEdge(scenario, seed=7))


def test_bits_are_splitmix64() -> None:
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [bits(0, counter) for counter in range(3)] == expected


def test_keys_follow_from_the_same_sequence() -> None:
    # With zeros throughout, each is SplitMix64's first number for seed 0, or the mix of something known.
    assert episode_key(0, 0) == bits(0, 0)
    assert episode_key(2, 5) == bits(22, 0)
    assert stream_key(0, 0) == bits(bits(0xD1B54A32D192ED03 - 0x9E3779B97F4A7C15, 0) - 0x9E3779B97F4A7C15, 0)
    assert next_seed(0) == bits(0, 0) >> 2


def test_uniform_is_the_middle_of_its_cell() -> None:
    assert uniform(0, 0) == (0xE220A8397B1DC + 0.5) / 2**52


def test_exponential_and_normal_have_their_moments() -> None:
    n = 20_000
    key = stream_key(episode_key(1, 3), 4)
    gaps = [exponential(key, counter, 2.0) for counter in range(n)]
    # Standard errors: 2 / sqrt(n) = 0.014 for the gap, 1 / sqrt(n) = 0.007 and sqrt(2 / n) = 0.01 for the normal.
    assert math.fsum(gaps) / n == pytest.approx(2.0, abs=0.06)
    values = [normal(key, counter) for counter in range(n)]
    assert math.fsum(values) / n == pytest.approx(0.0, abs=0.03)
    assert math.fsum(value * value for value in values) / n == pytest.approx(1.0, abs=0.04)


def _releases(arrival: dict[str, object], horizon_ms: float, seed: int = 1) -> list[int]:
    """Return the release times of one task whose jobs are left to expire."""
    edge = EdgeScenario.model_validate(scenario(horizon_ms, [task(arrival, [1.0], 1.0)]))
    played = run(edge, seed, lambda n, mask, rows, whole: len(mask) - 1)
    return [row[0] for row in played.log if row[1] == Log.ARRIVAL]


def test_poisson_releases_at_its_rate() -> None:
    # 10 s at one per 5 ms: 2000 on average, with a standard deviation of 45.
    assert len(_releases({"kind": "poisson", "mean_gap_ms": 5.0}, 10_000)) == pytest.approx(2000, abs=180)


def test_bursty_releases_at_its_mean_rate() -> None:
    # Mean gap (30 + 10) / (30 / 15 + 10 / 5) = 10 ms: 2000 in 20 s, a little more scattered than a Poisson process.
    arrival = {"kind": "bursty", "calm_gap_ms": 15.0, "burst_gap_ms": 5.0, "calm_ms": 30.0, "burst_ms": 10.0}
    assert len(_releases(arrival, 20_000)) == pytest.approx(2000, abs=250)


def test_periodic_jitter_stays_within_its_bound() -> None:
    times = _releases({"kind": "periodic", "period_ms": 10.0, "phase_ms": 2.0, "jitter_ms": 4.0}, 1_000)
    delays = [time - (2 + 10 * k) * 1_000_000 for k, time in enumerate(times)]
    key = stream_key(episode_key(2, 1), 1)
    assert delays == [int(4_000_000 * uniform(key, k)) for k in range(100)]


def test_lognormal_and_exponential_latency_depend_on_task_and_job_only() -> None:
    key = stream_key(episode_key(2, 1), 2)
    s2 = math.log(1.25)
    factors = {
        "lognormal": [math.exp(math.sqrt(s2) * normal(key, k) - s2 / 2) for k in range(2)],
        "exponential": [exponential(key, k, 1.0) for k in range(2)],
    }
    for latency in ({"kind": "lognormal", "cv": 0.5}, {"kind": "exponential"}):
        device = EdgeScenario.model_validate(scenario(1_000, [task(trace(0, 500), [2.0, 8.0])], latency=latency))
        played = run(device, 1, lambda n, mask, rows, whole: n)
        finishes = [row[0] for row in played.log if row[1] == Log.FINISH]
        first, second = factors[str(latency["kind"])]
        assert finishes == [math.ceil(2e6 * first), 500_000_000 + math.ceil(8e6 * second)]


def test_the_coin_is_the_first_stream_of_the_episode() -> None:
    coins: list[float] = []

    def drop_always(n: int, mask: list[int], rows: list[dict[str, float]], whole: dict[str, float]) -> int:
        coins.append(whole["coin"])
        return 1

    device = EdgeScenario.model_validate(scenario(100, [task(trace(0, 0, 9), [4])]))
    run(device, 11, drop_always, namespace=1)
    key = stream_key(episode_key(1, 11), 0)
    assert coins == [uniform(key, n) for n in range(3)]


def test_rows_out_of_range_count_as_wait() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task(trace(0, 5), [4])]))
    for action in (-1, 3, 10**6):
        edge = ReferenceEdge(device, seed=0)
        edge.step(action)
        assert (edge.illegal, edge.now, edge.asked) == (True, 5_000_000, 0)


def test_trace_times_replace_a_file() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task({"kind": "trace", "path": "some.csv"}, [4])]))
    with pytest.raises(ValueError, match="trace_times"):
        ReferenceEdge(device, seed=0)
    edge = ReferenceEdge(device, seed=0, trace_times={0: [3_000_000]})
    assert (edge.now, edge.asked, edge.choices) == (3_000_000, 0, 1)


def test_no_step_after_the_end() -> None:
    edge = ReferenceEdge(EdgeScenario.model_validate(scenario(100, [task(trace(), [4])])), seed=0)
    with pytest.raises(RuntimeError, match="ended"):
        edge.step(0)


@settings(max_examples=100, deadline=None)
@given(edge_scenarios(), episode_seeds(), action_scripts())
def test_books_are_kept(device: EdgeScenario, seed: int, script: int) -> None:
    edge = ReferenceEdge(device, seed)
    while not edge.over:
        assert edge.choices <= MOST_CHOICES
        _check_observation(edge)
        edge.step(scripted_action(script, edge.choices - 1, edge.mask()))
    counts = Counter(row[1] for row in edge.log)
    ended = counts[Log.FINISH] + counts[Log.EXPIRE] + counts[Log.REJECT] + counts[Log.DROP]
    assert counts[Log.ARRIVAL] == ended + edge.waiting_jobs + len(edge.running)
    assert counts[Log.END] == 1
    assert edge.log[-1][:2] == (edge.now, Log.END)
    assert edge.now == edge.horizon if edge.truncated else edge.now <= edge.horizon
    assert [row[0] for row in edge.log] == sorted(row[0] for row in edge.log)
    _check_streams(edge)
    _check_jobs(edge)


def _check_observation(edge: ReferenceEdge) -> None:
    """Assert what holds at every choice: the stream asked can be used, and nothing in the rows is impossible."""
    mask, rows, whole = edge.mask(), edge.rows(), edge.globals()
    assert edge.runs[edge.asked] is None
    assert any(mask[:-1])
    assert len(mask) == len(rows) == len(edge.tasks) * (edge.width + 1) + 1
    for legal, row in zip(mask, rows, strict=True):
        assert not legal or row["corun_latency"] >= row["latency"]
        assert not legal or row["queue_length"] > 0 or row["wait"] == 1.0
        assert 0.0 <= row["next_arrival"] <= whole["remaining"]
    assert 0.0 <= whole["corun_first"] <= whole["corun_last"]
    assert all(0.0 <= whole[share] <= 1.0 for share in ("finished", "missed", "utilisation", "coin"))


def _check_streams(edge: ReferenceEdge) -> None:
    """Assert that no stream runs two jobs at once and each run ends as it started."""
    running: dict[int, tuple[int, int, int]] = {}
    for _, kind, number, k, variant, stream in edge.log:
        if kind == Log.START:
            assert stream not in running
            running[stream] = (number, k, variant)
        elif kind == Log.FINISH:
            assert running.pop(stream) == (number, k, variant)


def _check_jobs(edge: ReferenceEdge) -> None:
    """Assert that each job is released once, in order, ends at most once, and waits no longer than it may."""
    by_job: dict[tuple[int, int], list[LogRow]] = {}
    for row in edge.log[:-1]:
        by_job.setdefault((row[2], row[3]), []).append(row)
    courses = {
        (Log.ARRIVAL,),
        (Log.ARRIVAL, Log.START),
        (Log.ARRIVAL, Log.START, Log.FINISH),
        (Log.ARRIVAL, Log.EXPIRE),
        (Log.ARRIVAL, Log.REJECT),
        (Log.ARRIVAL, Log.DROP),
    }
    for (number, _), rows in by_job.items():
        assert tuple(row[1] for row in rows) in courses
        assert rows[0][0] < edge.horizon
        for time, kind, *_ in rows[1:]:
            waited, allowed = time - rows[0][0], edge.tasks[number].deadline
            if edge.scenario.device.late == "drop" and kind != Log.FINISH:
                assert waited == allowed if kind == Log.EXPIRE else waited < allowed
            else:
                assert kind != Log.EXPIRE
    for number, task_state in enumerate(edge.tasks):
        released = [row[3] for row in edge.log if row[1] == Log.ARRIVAL and row[2] == number]
        assert released == list(range(task_state.released))
