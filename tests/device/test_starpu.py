"""Policies inside StarPU: decisions are those outside, results are right, and every fault is one line."""

from __future__ import annotations

import ctypes
import stat
from collections import Counter

import numpy as np
import pytest

from slipstream.device.lane import FIRST_TICK, DeviceLane
from slipstream.device.starpu import library
from slipstream.device.starpu.machine import StarpuMachine
from slipstream.device.starpu.runtime import SCHEDULERS, StarpuRuntime
from slipstream.device.starpu.seam import Seam
from slipstream.device.tasks.trial import run_task_trial
from slipstream.errors import DeviceError, InputError
from slipstream.families.contract import family_of
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.engine.tiles import KERNELS
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.jit.mode import PRIVATE
from slipstream.policies import find
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, READY, START, digest
from tests.device.test_tasks import tiled


def missing():
    """Return why the engine cannot be used here; empty if it can."""
    try:
        library.library()
    except DeviceError as error:
        return str(error)
    return ""


pytestmark = [pytest.mark.thorough, pytest.mark.skipif(bool(missing()), reason=missing() or "StarPU is there")]

POLICIES = ("fifo", "heft", "random", "learned-general", "learned-graph")


class Plain:
    """A policy of plain Python, which has no compiled code that C could call."""

    name = "plain"
    family = "taskgraph"

    def choose(self, global_row, rows, mask):
        return int(np.flatnonzero(mask)[0])


class Broken(Plain):
    def choose(self, global_row, rows, mask):
        raise ValueError("no idea")


def machines():
    """Return a scenario with a device that has a memory of its own, and jobs that arrive one after the other."""
    data = tiled("lu", jobs=3).model_dump(mode="json", exclude_unset=True)
    data["processors"] = [{"name": "cpu", "count": 1}, {"name": "gpu", "count": 1, "device": True, "memory_mb": 12.0}]
    data["links"] = {key: {"latency_us": 10.0, "bandwidth_mb_s": 6000.0} for key in ("to_device", "to_host")}
    data["pipeline"] = 2
    times = {"cpu": 1.0, "gpu": 0.5}
    data["durations"] = {"kind": "table", "kernels_ms": dict.fromkeys(KERNELS["lu"], times)}
    data["graphs"] = [{"kind": "lu", "n": 4, "tile_bytes": 1_000_000}]
    data["arrivals"] = {"kind": "poisson", "jobs": 3, "mean_gap_ms": 5.0}
    return TaskgraphScenario.model_validate(data)


def play(scenario, policy, seed=0, side=24):
    """Return the execution of a run inside StarPU, and what StarPU did."""
    with StarpuMachine(scenario, side) as machine:
        runtime = StarpuRuntime(scenario, machine)
        execution = runtime.play(find(policy, "taskgraph"), seed)
    family_of(scenario).check(scenario, execution.events)
    return execution, runtime.record


def replayed(scenario, events, policy, seed=0):
    """Return a lane outside of StarPU that is told the ends of `events` at their times, and asked each decision."""
    lane = DeviceLane(scenario)
    lane.begin(seed, "test")
    while lane.asking:
        lane.decide(policy)
    for event in events[np.isin(events["kind"], (ARRIVAL, READY, FINISH))]:
        if event["kind"] == FINISH:
            lane.end(int(event["resource"]), int(event["time"]))
        if not lane.over:
            lane.follow(max(FIRST_TICK, int(event["time"])))
        while lane.asking:
            lane.decide(policy)
    return lane


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_give_the_right_result_under_schedulers_and_policies(kind):
    scenario = tiled(kind, jobs=2)
    with StarpuMachine(scenario, 40) as machine:
        runtime = StarpuRuntime(scenario, machine)
        machine.tiles.fill()
        assert machine.tiles.residual([0, 1]) > 0.1
        for scheduler in SCHEDULERS:
            record = runtime.reference(scheduler)
            assert machine.tiles.residual([0, 1]) < 1e-12
            assert (record.ended > record.began).all()
        found = runtime.play(find("heft", "taskgraph"), 0)
        times = machine.kernel_times(1)
    assert found.residual < 1e-12
    assert set(times) == set(KERNELS[kind])
    assert all(0 < time < 1000 for time in times.values())


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("make", [lambda: tiled("cholesky", n=6), machines], ids=["cpus", "device"])
def test_decisions_inside_are_those_outside_for_the_same_ready_sets(name, make):
    scenario, policy = make(), find(name, "taskgraph")
    execution, _ = play(scenario, name, seed=3)
    outside = replayed(scenario, execution.events, policy, seed=3)
    assert outside.over
    assert digest(outside.events()) == digest(execution.events)


def test_decisions_inside_are_those_of_the_rule_in_plain_python():
    class InPython(Plain):
        def choose(self, global_row, rows, mask):
            return find("fifo", "taskgraph").choose(global_row, rows, mask)

    scenario = tiled("qr", n=5)
    execution, _ = play(scenario, "fifo")
    assert digest(replayed(scenario, execution.events, InPython()).events()) == digest(execution.events)


@pytest.mark.skipif(not PRIVATE, reason="only Numba's insides give addresses of loops")
def test_rules_and_networks_are_called_without_python():
    lane = DeviceLane(tiled())
    for name in POLICIES:
        assert Seam(lane, find(name, "taskgraph")).is_compiled
    assert not Seam(lane, Plain()).is_compiled


def test_a_policy_of_plain_python_decides_too():
    scenario = tiled("gemm", n=3)
    execution, _ = play(scenario, Plain())
    assert digest(replayed(scenario, execution.events, Plain()).events()) == digest(execution.events)


def test_every_task_runs_once_where_and_when_the_log_says():
    scenario = machines()
    execution, record = play(scenario, "heft")
    events, tasks = execution.events, compiled_scenario(scenario).library.templates[0].task_count
    kinds = Counter(events["kind"].tolist())
    assert kinds[ARRIVAL] == 3
    assert kinds[END] == 1
    assert kinds[START] == kinds[FINISH] == 3 * tasks == len(execution.service_ns) == len(execution.dispatch_ns)
    for kind, times in ((START, record.began), (FINISH, record.ended)):
        for event in events[events["kind"] == kind]:
            task = event["job"] * tasks + event["task"]
            assert record.worker[task] == event["resource"]
            # The log has the time of the decision, and the end as it was reported or a little later.
            assert event["time"] <= times[task] if kind == START else event["time"] >= times[task]
    assert all(time >= 0 for time in execution.dispatch_ns)


def test_a_log_that_is_full_is_taken_over_amid_a_run(monkeypatch):
    scenario = tiled("cholesky", n=8)
    monkeypatch.setattr("slipstream.sim.simulator.LOG_ROWS", 64)
    execution, _ = play(scenario, "fifo")
    monkeypatch.undo()
    assert digest(replayed(scenario, execution.events, find("fifo", "taskgraph")).events()) == digest(execution.events)


def test_a_trial_sets_the_run_beside_its_simulation():
    scenario = tiled("cholesky", n=5)
    with StarpuMachine(scenario, 32) as machine:
        trial = run_task_trial(scenario, machine, find("heft", "taskgraph"), 0, 2, 1.0)
    assert len(trial.executions) == 2
    assert trial.result["device"].startswith("StarPU 1.3")
    assert trial.result["residual"] < 1e-12
    assert {cause["name"] for cause in trial.result["causes"]} >= {"tasks", "dispatch"}


def test_a_run_that_is_stopped_ends_its_log_and_leaves_StarPU_usable():  # noqa: N802
    scenario = tiled("lu", n=6)
    with StarpuMachine(scenario, 64) as machine:
        runtime = StarpuRuntime(scenario, machine)
        runtime.stop()
        stopped = runtime.play(find("fifo", "taskgraph"), 0)
        again = runtime.play(find("fifo", "taskgraph"), 0)
    assert stopped.interrupted
    assert not again.interrupted
    assert stopped.events["kind"][-1] == END
    assert (stopped.events["kind"] == FINISH).sum() < (again.events["kind"] == FINISH).sum()
    for run in (stopped, again):
        assert (run.events["kind"] == FINISH).sum() == len(run.service_ns) == len(run.dispatch_ns)


def test_a_kernel_that_fails_is_one_line_and_leaves_a_log(monkeypatch):
    scenario = tiled("cholesky")
    with StarpuMachine(scenario, 16) as machine:
        runtime, fill = StarpuRuntime(scenario, machine), machine.tiles.fill

        def spoil():
            fill()
            machine.tiles.numbers[0, 0] = -np.eye(16)

        monkeypatch.setattr(machine.tiles, "fill", spoil)
        with pytest.raises(DeviceError, match=r"part 0 of job 0: POTRF failed on processor .: expected a kernel that"):
            runtime.play(find("heft", "taskgraph"), 0)
        assert np.concatenate(runtime.pieces())["kind"][-1] == END
        monkeypatch.undo()
        assert runtime.play(find("heft", "taskgraph"), 0).residual < 1e-12


def test_a_wrong_result_is_one_line(monkeypatch):
    scenario = tiled("gemm", n=2)
    with StarpuMachine(scenario, 8) as machine:
        fill = machine.tiles.fill
        runtime = StarpuRuntime(scenario, machine)

        def spoil():
            fill()
            machine.tiles.numbers[0, 0] *= 2.0

        monkeypatch.setattr(machine.tiles, "fill", spoil)
        for run in (lambda: runtime.reference("eager"), lambda: runtime.play(find("fifo", "taskgraph"), 0)):
            with pytest.raises(DeviceError, match=r"the result is off by .*: expected at most 1e-09"):
                run()


def test_a_policy_that_raises_ends_the_run_with_its_exception():
    with pytest.raises(ValueError, match="no idea"):
        play(tiled(), Broken())
    assert play(tiled(), "fifo")[0].residual < 1e-12


def test_what_StarPU_cannot_run_is_refused():  # noqa: N802
    with pytest.raises(DeviceError, match=r"200 processors on .*: expected no more"):
        StarpuMachine(tiled(count=200), 8)
    with pytest.raises(DeviceError, match=r"expected one graph of the kinds .* for --engine starpu"):
        StarpuMachine(load("taskgraph/tiny"), 8)
    with pytest.raises(DeviceError, match="--engine starpu: a scenario of the family 'dag': expected one of"):
        StarpuMachine(load("dag/tiny"), 8)
    with StarpuMachine(tiled(), 8) as machine:
        runtime = StarpuRuntime(tiled(), machine)
        with pytest.raises(InputError, match="simulates ahead: expected a rule or a network"):
            runtime.play(find("rollout", "taskgraph"), 0)
        with pytest.raises(DeviceError, match="scheduler 'best': expected one of eager, dmda, lws"):
            runtime.reference("best")


@pytest.fixture
def afresh():
    """Forget the loaded engine, before and after."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()


class Other:
    """Another version of StarPU."""

    def __init__(self, name):
        self.name = name

    def starpu_get_version(self, major, minor, release):
        ctypes.cast(major, ctypes.POINTER(ctypes.c_int))[0] = 1
        minor._obj[1] = 4
        release._obj[2] = 7


def refuse(name):
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.usefixtures("afresh")
def test_absent_and_other_libraries_and_compilers_are_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(library.ctypes, "CDLL", refuse)
    with pytest.raises(DeviceError, match=r"StarPU is not installed: expected version 1\.3 \(Debian: libstarpu-dev\)"):
        library.library()
    monkeypatch.setattr(library.ctypes, "CDLL", Other)
    with pytest.raises(DeviceError, match=r"StarPU 1\.4\.7 is installed: expected 1\.3 \(Debian: libstarpu-dev\)"):
        library.library()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="no C compiler is installed: expected one of cc, gcc, clang"):
        library.library()


@pytest.mark.usefixtures("afresh")
def test_a_compiler_that_fails_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "starpu_folder", lambda: tmp_path)
    monkeypatch.setattr(library, "LIBRARIES", ("-lno_such_library",))
    with pytest.raises(DeviceError, match=r"the policy cannot be compiled: .*no_such_library") as said:
        library.library()
    assert "\n" not in str(said.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("afresh")
def test_code_that_others_can_write_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "starpu_folder", lambda: tmp_path)
    library.library()
    (code,) = tmp_path.glob("engine-*.so")
    kept = code.stat().st_ino
    library.library.cache_clear()
    library.library()
    assert code.stat().st_ino == kept
    code.chmod(0o777)
    library.library.cache_clear()
    library.library()
    assert code.stat().st_ino != kept
    assert not code.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
