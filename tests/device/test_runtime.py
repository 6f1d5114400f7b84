"""A scenario on real streams: the log of a run obeys the laws, says what was computed, and survives every fault."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.backends.registry import open_streams
from slipstream.device.runtime import Runtime, watchdog_ms
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.workload.replay import recorded_releases
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.policies.learned import shipped
from slipstream.sim.eventlog import ARRIVAL, END, EXPIRE, FAIL, FINISH, START
from slipstream.sim.simulator import Simulator
from tests.device import faulty
from tests.device.conftest import faulty_task, scenario_of, task

pytestmark = pytest.mark.usefixtures("nothing_left")


def play(scenario, policy="edf", seed=0, data=None, streams=None, device="cpu", **options):
    workload = workload_of(scenario, data, allow_code=True)
    with streams or open_streams(device, workload, scenario.device.streams) as opened:
        return Runtime(scenario, workload, opened, **options).play(find(policy, "edge"), seed)


@pytest.fixture(params=["cpu", "cuda"])
def play_on(request):
    """Return `play` on worker processes, and on a GPU or the stand-in for one."""
    if request.param == "cuda":
        request.getfixturevalue("gpu")
    return partial(play, device=request.param)


def check(scenario, events):
    invariants.check(events, scenario.device.streams, scenario.device.queue_limit)


def two_tasks(**device):
    poisson = {"kind": "poisson", "mean_gap_ms": 9}
    text = task("text", "builtin:transformer", "text-128", 3, arrival=poisson)
    return scenario_of([task(variants=2), text], 600, **device)


@pytest.mark.parametrize("policy", ["edf", "edf-fit", "lookahead", "random"])
def test_a_run_obeys_the_laws_and_has_the_arrivals_of_the_simulation(policy, play_on):
    scenario = two_tasks()
    found = play_on(scenario, policy, seed=3)
    check(scenario, found.events)
    simulated = recorded_releases(Simulator(scenario).play(find(policy, "edge"), 3), 2)
    measured = recorded_releases(found.events, 2)
    for number in range(2):
        assert measured[number].tolist() == simulated[number].tolist()
    assert found.faults == []
    assert not found.interrupted
    assert found.events["time"][-1] == 600_000_000
    assert len(found.dispatch_ns) == (found.events["kind"] == START).sum()
    assert (found.events["kind"] == FINISH).sum() > 0


def test_a_policy_in_plain_python_runs_too(play_on):
    class First:
        name = "first"

        def choose(self, global_row, rows, mask):
            return int(np.flatnonzero(mask)[0])

    scenario = two_tasks()
    found = play_on(scenario, First(), 1)
    check(scenario, found.events)
    assert (found.events["kind"] == FINISH).sum() > 0


def test_a_trained_policy_chooses_in_compiled_code_and_makes_no_mistake(play_on):
    scenario = two_tasks()
    found = play_on(scenario, next(iter(shipped("edge"))), 1)
    check(scenario, found.events)
    assert (found.events["kind"] == FINISH).sum() > 0
    assert found.mistakes == 0


def test_measured_service_is_what_the_workers_say(play_on):
    scenario = scenario_of([task(model="builtin:resnet", dataset="synthetic:3x64x64")], 500, streams=1)
    found = play_on(scenario)
    starts = found.events[found.events["kind"] == START]["time"]
    finishes = found.events[found.events["kind"] == FINISH]["time"]
    held = (finishes - starts[: len(finishes)]).astype(float)
    worked = np.array([service for _, _, service in found.service_ns])
    assert (held >= worked).all()
    assert (worked > 0).all()


def test_jobs_that_wait_past_their_deadline_expire_as_in_a_simulation(play_on):
    slow = task(model="builtin:resnet", dataset="synthetic:3x64x64", variants=5, deadline_ms=4)
    slow["arrival"] = {"kind": "periodic", "period_ms": 1}
    scenario = scenario_of([slow], 200, streams=1)
    found = play_on(scenario, "accuracy-first")
    check(scenario, found.events)
    assert (found.events["kind"] == EXPIRE).sum() > 0


class LateStreams(CpuStreams):
    """Streams that are heard long after the end of a short episode."""

    def wait(self, seconds):
        time.sleep(0.3)
        return super().wait(0.0)


def test_a_run_that_ends_after_the_episode_is_not_begun_again():
    scenario = scenario_of([task(model="builtin:resnet", dataset="synthetic:3x64x64", variants=5)], 2, streams=1)
    found = play(scenario, "accuracy-first", streams=LateStreams(workload_of(scenario), 1))
    check(scenario, found.events)
    kinds = Counter(found.events["kind"].tolist())
    assert (kinds[START], kinds[FINISH], len(found.dispatch_ns)) == (1, 0, 1)


def test_a_finite_trace_ends_with_its_last_job(play_on):
    traced = task(arrival={"kind": "trace", "times_ms": [0, 0, 5]})
    found = play_on(scenario_of([traced], 10_000))
    kinds = Counter(found.events["kind"].tolist())
    assert (kinds[ARRIVAL], kinds[FINISH], kinds[END]) == (3, 3, 1)
    assert found.events["time"][-1] < 5_000_000_000


def test_a_closed_loop_goes_on_after_finishes_and_after_faults(play_on, faulty_data):
    loop = faulty_task("make_arithmetic", arrival={"kind": "closed"})
    scenario = scenario_of([loop], 300)
    found = play_on(scenario, data=faulty_data([faulty.FINE, faulty.NOT_A_NUMBER]))
    check(scenario, found.events)
    kinds = Counter(found.events["kind"].tolist())
    assert kinds[FINISH] > 1
    assert kinds[FAIL] == len(found.faults) > 1
    assert kinds[FINISH] == len(found.service_ns)


def test_accuracy_is_measured_where_labels_are_known(play_on, faulty_data, tmp_path):
    data = faulty_data([faulty.FINE] * 4)
    np.save(tmp_path / "labels.npy", np.array([9, 9, 9, 0]))  # the model always says 9
    traced = faulty_task("make_arithmetic", arrival={"kind": "trace", "times_ms": [1, 2, 3, 4]})
    found = play_on(scenario_of([traced]), data=data)
    assert found.accuracy[0, 0].judged == 4
    assert found.accuracy[0, 0].right == 3


def check_faults(scenario, found, faults):
    """Check that exactly the jobs failed that had to, each once, and that the log accounts for every job."""
    check(scenario, found.events)
    finished = found.events[np.isin(found.events["kind"], (FINISH, FAIL))]
    for row in finished:
        fault = faults[int(row["job"]) % len(faults)]
        assert (row["kind"] == FAIL) == (fault != faulty.FINE)
    failed = finished[finished["kind"] == FAIL]
    assert sorted(job for _, job, _ in found.faults) == sorted(failed["job"].tolist())
    figures = FAMILIES["edge"].metrics(scenario, found.events)
    assert figures["fail_rate"] > 0
    return Counter(faults[int(job) % len(faults)] for job in failed["job"])


def test_every_kind_of_fault_fails_its_own_job_and_no_other(faulty_data):
    faults = [faulty.FINE, *faulty.FAULTS]
    times = {"kind": "trace", "times_ms": [*range(36)]}
    scenario = scenario_of([faulty_task(arrival=times, deadline_ms=60_000)], 60_000, queue_limit=64)
    found = play(scenario, data=faulty_data(faults), watchdog=1000)
    counts = check_faults(scenario, found, faults)
    assert counts == dict.fromkeys(faulty.FAULTS, 6)
    assert found.restarts >= 18
    told = Counter(error.split(":")[0] for _, _, error in found.faults)
    assert told["gave no answer within 1000 ms"] == 6
    assert told["the worker died"] == 12


def thousand(faulty_data):
    """Return a scenario with 1,000 faults of all kinds among 1,200 jobs, and its inputs."""
    faults = [faulty.FINE, *faulty.FAULTS]
    times = {"kind": "trace", "times_ms": [0.5 * job for job in range(1200)]}
    scenario = scenario_of([faulty_task(arrival=times, deadline_ms=600_000)], 600_000, queue_limit=2000)
    return scenario, faults, faulty_data(faults)


@pytest.mark.thorough
def test_a_thousand_faults_in_one_run_lose_and_double_no_job(faulty_data):
    scenario, faults, data = thousand(faulty_data)
    found = play(scenario, data=data, watchdog=250)
    counts = check_faults(scenario, found, faults)
    assert counts == dict.fromkeys(faulty.FAULTS, 200)
    assert len(found.faults) == 1000
    arrived = (found.events["kind"] == ARRIVAL).sum()
    assert arrived == 1200 == np.isin(found.events["kind"], (FINISH, FAIL)).sum()


def test_ctrl_c_lets_runs_end_and_closes_the_log(play_on):
    scenario = scenario_of([task(model="builtin:resnet", variants=5)], 60_000)
    struck, before = [], signal.getsignal(signal.SIGINT)

    def strike_once(time, _lane):
        if time > 300_000_000 and not struck:
            struck.append(time)
            os.kill(os.getpid(), signal.SIGINT)

    found = play_on(scenario, "accuracy-first", watcher=strike_once)
    check(scenario, found.events)
    assert found.interrupted
    assert found.events["time"][-1] < 20_000_000_000
    kinds = Counter(found.events["kind"].tolist())
    assert kinds[START] == kinds[FINISH] > 0
    assert signal.getsignal(signal.SIGINT) is before


class FailingStreams(CpuStreams):
    """Streams whose wait fails after a while."""

    error: BaseException

    def wait(self, seconds):
        if self.restarts > 0:
            raise self.error
        return super().wait(seconds)


class FailingPolicy:
    """A policy that takes what is first, up to its fifth choice."""

    name = "failing"

    def __init__(self, error):
        self._error, self._choices = error, 0

    def choose(self, global_row, rows, mask):
        self._choices += 1
        if self._choices > 5:
            raise self._error
        return int(np.flatnonzero(mask)[0])


ERRORS = [MemoryError(), OSError(24, "too many open files"), DeviceError("gone"), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.thorough
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["policy", "watcher", "streams"])
def test_whatever_ends_a_run_its_log_is_whole_up_to_there(faulty_data, place, error):
    scenario = scenario_of([faulty_task(arrival={"kind": "periodic", "period_ms": 10})], 60_000)
    workload = workload_of(scenario, faulty_data([faulty.FINE] * 8 + [faulty.DIES]), allow_code=True)
    policy = FailingPolicy(error) if place == "policy" else find("edf", "edge")
    streams_type = CpuStreams
    if place == "streams":
        streams_type = type("Failing", (FailingStreams,), {"error": error})
    counts = {}

    def watch(_time, lane):
        counts.update({name: int(lane.header[name]) for name in ("released", "finished")})
        if place == "watcher" and counts["finished"] >= 5:
            raise error

    with streams_type(workload, 2) as streams:
        runtime = Runtime(scenario, workload, streams, watcher=watch)
        with pytest.raises(type(error)):
            runtime.play(policy, 0)
        events = np.concatenate(runtime.pieces())
    check(scenario, events)
    kinds = Counter(events["kind"].tolist())
    assert kinds[END] == 1
    assert kinds[FINISH] >= counts["finished"] > 2
    assert kinds[ARRIVAL] >= counts["released"] > 2
    FAMILIES["edge"].metrics(scenario, events)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_that_end_a_program_end_a_run_in_order_too(number, play_on):
    scenario = scenario_of([task(model="builtin:resnet", variants=5)], 60_000)
    struck, before = [], signal.getsignal(number)

    def strike_once(time, _lane):
        if time > 100_000_000 and not struck:
            struck.append(time)
            os.kill(os.getpid(), number)

    found = play_on(scenario, "accuracy-first", watcher=strike_once)
    check(scenario, found.events)
    assert found.interrupted
    assert signal.getsignal(number) is before


def test_the_watchdog_follows_the_longest_latency():
    assert watchdog_ms(scenario_of([task()])) == 1000
    assert watchdog_ms(scenario_of([task(latency_ms=100)])) == 2000


def test_streams_and_scenario_must_agree():
    scenario = scenario_of([task()], streams=3)
    workload = workload_of(scenario)
    with CpuStreams(workload, 2) as streams, pytest.raises(DeviceError, match="has 2 streams: expected 3"):
        Runtime(scenario, workload, streams)
