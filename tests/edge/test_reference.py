"""The reference simulator is right where it can be worked out by hand, and keeps its books everywhere else."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from slipstream.families.edge.scenario import EdgeScenario
from tests.edge.cases import scenario, task, trace
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
    run(device, 11, drop_always, split=1)
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


# Drawing a scenario takes a few milliseconds, which is no mistake of ours.
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edge_scenarios(), episode_seeds(), action_scripts())
def test_books_are_kept(device: EdgeScenario, seed: int, script: int) -> None:
    edge = ReferenceEdge(device, seed)
    while not edge.over:
        assert edge.choices <= MOST_CHOICES
        _check_observation(edge)
        edge.step(scripted_action(script, edge.choices - 1, edge.mask()))
    counts = Counter(row[1] for row in edge.log)
    ended = counts[Log.FINISH] + counts[Log.EXPIRE] + counts[Log.REJECT] + counts[Log.DROP]
    assert counts[Log.ARRIVAL] == ended + edge.waiting_jobs + sum(len(run.jobs) for run in edge.running)
    assert counts[Log.END] == 1
    assert edge.log[-1][:2] == (edge.now, Log.END)
    assert edge.now == edge.horizon if edge.truncated else edge.now <= edge.horizon
    assert [row[0] for row in edge.log] == sorted(row[0] for row in edge.log)
    _check_streams(edge)
    _check_jobs(edge)
    _check_order_of_release(edge)


def _check_observation(edge: ReferenceEdge) -> None:
    """Assert what holds at every choice: who is asked can do something, and nothing in the rows is impossible."""
    mask, rows, whole = edge.mask(), edge.rows(), edge.globals()
    if edge.asked < edge.streams:
        assert edge.runs[edge.asked] is None
    else:
        assert all(edge.runs)
        assert any(edge.can_be_interrupted(stream) for stream in range(edge.streams))
    assert any(mask[:-1])
    starts_per_variant = 1 if edge.preemption == "none" else 1 + edge.streams
    assert len(mask) == len(rows) == len(edge.tasks) * (edge.width * starts_per_variant + 1) + 1
    for legal, row in zip(mask, rows, strict=True):
        assert not legal or row["queue_length"] > 0 or row["wait"] == 1.0
        assert not legal or row["corun_latency"] >= row["setup"]
        # A co-runner may help, but only under a matrix.
        if legal and row["progress"] == 0.0 and edge.scenario.device.interference.kind != "matrix":
            assert row["corun_latency"] >= row["setup"] + row["latency"]
        assert 0.0 <= row["next_arrival"] <= whole["remaining"]
    assert 0.0 <= whole["corun_first"] <= whole["corun_last"]
    shares = ("finished", "missed", "utilisation", "free_memory", "coin")
    assert all(0.0 <= whole[share] <= 1.0 for share in shares)
    assert all(0.0 <= row[share] <= 1.0 for row in rows for share in ("progress", "resident"))


def _check_streams(edge: ReferenceEdge) -> None:
    """Assert that no stream holds jobs of two runs, each leaves as it started, and no weights go that are in use."""
    held: dict[int, list[tuple[int, int, int]]] = {}
    began: dict[int, int] = {}
    there: set[tuple[int, int]] = set()
    for time, kind, number, k, variant, stream in edge.log:
        if kind == Log.START:
            assert not held.get(stream) or (began[stream], held[stream][0][::2]) == (time, (number, variant))
            held.setdefault(stream, []).append((number, k, variant))
            began[stream] = time
            there.add((number, variant))
        elif kind == Log.READY:
            assert (number, k, variant) in held[stream]
        elif kind in (Log.FINISH, Log.PREEMPT):
            held[stream].remove((number, k, variant))
        elif kind == Log.EVICT:
            assert all((number, variant) != (job[0], job[2]) for jobs in held.values() for job in jobs)
            there.remove((number, variant))
        if edge.memory.limit_kb is not None:
            assert edge.memory.taken_kb(there) <= edge.memory.limit_kb
    assert there == set(edge.memory.there)


LETTERS = {
    Log.ARRIVAL: "a",
    Log.START: "s",
    Log.READY: "r",
    Log.PREEMPT: "p",
    Log.FINISH: "f",
    Log.EXPIRE: "e",
    Log.REJECT: "x",
    Log.DROP: "d",
}
COURSES = re.compile("ax|a(sr?p)*(sr?f?|e|d)?")
"""What may become of a job: rejected, or interrupted any number of times before its end, which may be still to come."""


def _check_jobs(edge: ReferenceEdge) -> None:
    """Assert that each job is released once, in order, ends at most once, and waits no longer than it may."""
    by_job: dict[tuple[int, int], list[LogRow]] = {}
    for row in edge.log[:-1]:
        if row[1] != Log.EVICT:
            by_job.setdefault((row[2], row[3]), []).append(row)
    for (number, _), rows in by_job.items():
        assert COURSES.fullmatch("".join(LETTERS[Log(row[1])] for row in rows))
        released, deadline = rows[0][0], rows[0][0] + edge.tasks[number].deadline
        assert released < edge.horizon
        for before, (time, kind, *_) in pairwise(rows):
            if edge.scenario.device.late == "run":
                assert kind != Log.EXPIRE
            elif kind == Log.EXPIRE:
                assert time == max(deadline, before[0])
            elif kind in (Log.START, Log.DROP):
                assert time < deadline
    for number, task_state in enumerate(edge.tasks):
        jobs = [row[3] for row in edge.log if row[1] == Log.ARRIVAL and row[2] == number]
        assert jobs == list(range(task_state.released))


def _check_order_of_release(edge: ReferenceEdge) -> None:
    """Assert that what starts, expires or is dropped is always the oldest waiting job of its task."""
    waiting: dict[int, set[int]] = {number: set() for number in range(len(edge.tasks))}
    interrupted: list[tuple[int, int]] = []
    taken, started = (-1, -1), False
    for time, kind, number, k, _, stream in edge.log:
        # Jobs that take a stream, at once and together, left their queue before the interrupted ones came back.
        if kind != Log.EVICT:
            takes = (time, stream) == taken and (kind == Log.START or (kind == Log.PREEMPT and not started))
            if not takes:
                for task, job in interrupted:
                    waiting[task].add(job)
                interrupted.clear()
                taken, started = ((time, stream) if kind == Log.PREEMPT else (-1, -1)), False
            started = started or kind == Log.START
        if kind == Log.ARRIVAL:
            waiting[number].add(k)
        elif kind == Log.REJECT:
            waiting[number].remove(k)
        elif kind == Log.PREEMPT:
            interrupted.append((number, k))
        elif kind in (Log.START, Log.EXPIRE, Log.DROP):
            assert k == min(waiting[number])
            waiting[number].remove(k)
