"""Tasks on worker processes: a lane that is told what the simulator does writes its log; no fault loses a task."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import Counter
from contextlib import suppress

import numpy as np
import psutil
import pytest

from slipstream.device.lane import DeviceLane
from slipstream.device.tasks.measuring import measured, measured_kernels
from slipstream.device.tasks.processes import MOST_PROCESSES, TaskProcesses, TaskRequest
from slipstream.device.tasks.programs import parse_programs
from slipstream.device.tasks.runtime import TaskRuntime, open_processes, processes_of
from slipstream.device.tasks.tiles import TileSpace
from slipstream.device.tasks.trial import run_task_trial, usual_scale
from slipstream.errors import DeviceError, InputError, ModelError
from slipstream.families.contract import family_of
from slipstream.families.dag.scenario import DagScenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.taskgraph.engine.tiles import KERNELS
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies import find
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, DROP, END, FAIL, FINISH, MOVE, REJECT, START
from slipstream.sim.simulator import Simulator
from tests.device.following import follow

pytestmark = pytest.mark.usefixtures("nothing_left")

KINDS = {"dag": DagScenario, "taskgraph": TaskgraphScenario, "serving": ServingScenario}


def changed(name, **keys):
    """Return a built-in scenario with other values of some keys."""
    data = load(name).model_dump(mode="json", exclude_unset=True) | keys
    return KINDS[name.partition("/")[0]].model_validate(data)


STREAM = {"kind": "poisson", "jobs": 6, "mean_gap_s": 20.0, "initial_jobs": 2}
SCENARIOS = {
    "tiny": lambda: load("dag/tiny"),
    "stream": lambda: changed("dag/stream-10x50", arrivals=STREAM, executors=7),
    "unlike": lambda: changed(
        "dag/stream-10x50",
        arrivals=STREAM,
        executors=5,
        classes=[{"name": "fast", "count": 2, "speed": 2.0}, {"name": "slow", "count": 3, "speed": 0.5}],
        stragglers={"probability": 0.2, "factor": 3.0},
        failures={"probability": 0.3},
    ),
    "cut": lambda: changed("dag/stream-10x50", arrivals=STREAM, executors=4, horizon={"kind": "fixed", "time_s": 60.0}),
    "cholesky": lambda: load("taskgraph/cholesky-4-2g2c"),
    "noisy": lambda: load("taskgraph/noisy"),
    "tight": lambda: load("taskgraph/tight-memory"),
    "plans": lambda: changed("serving/tiny", duration_s=3.0, planning={"interval_s": 0.4, "moves": 4}),
    "routes": lambda: changed("serving/route", duration_s=2.0),
    "batches": lambda: changed(
        "serving/tiny", duration_s=3.0, batching="aimd", drop="expired", service={"kind": "lognormal", "cv": 0.3}
    ),
    "push": lambda: changed("taskgraph/push-8-2g2c", graphs=[{"kind": "cholesky", "n": 5}]),
}
RULES = {"dag": ("fair", "fifo", "random"), "taskgraph": ("heft", "dmda", "random"), "serving": ("random", "infaas")}


def rules_of(family):
    from slipstream.policies import names

    known = names(family)
    return [name for name in RULES[family] if name in known] + [known[0]]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lane_that_is_told_what_the_simulator_does_writes_the_same_log(name):
    scenario = SCENARIOS[name]()
    for rule in rules_of(scenario.family):
        policy = find(rule, scenario.family)
        if family_of(scenario).policy_refusal(scenario, rule):
            continue
        for seed in range(2):
            expected = Simulator(scenario).play(policy, seed)
            assert np.array_equal(follow(scenario, policy, seed).events(), expected), (rule, seed)


@pytest.mark.parametrize("name", ["stream", "unlike", "cholesky", "push"])
def test_tasks_that_fail_are_repeated_and_none_is_lost_or_doubled(name):
    scenario = SCENARIOS[name]()
    policy = find(rules_of(scenario.family)[0], scenario.family)
    coin = np.random.default_rng(5)
    lane = follow(scenario, policy, 1, lambda work: coin.random() < 0.3)
    events = lane.events()
    family_of(scenario).check(scenario, events)
    repeated = events[(events["kind"] == FAIL) & (events["resource"] >= 0)]
    kinds = Counter(events["kind"].tolist())
    assert len(repeated) > 5
    assert kinds[START] == kinds[FINISH] + len(repeated)
    jobs = family_of(scenario).metrics(scenario, events)
    assert jobs["jobs_done"] == family_of(scenario).metrics(scenario, Simulator(scenario).play(policy, 1))["jobs_done"]
    assert jobs["tasks"] == kinds[START]


def test_ends_that_are_heard_late_do_not_turn_the_clock_back():
    scenario = load("dag/tiny")
    lane = DeviceLane(scenario)
    lane.begin(0, "test")
    while lane.asking:
        lane.decide(find("fair", "dag"))
    lane.follow(5_000_000_000)
    assert lane.running(0) is not None
    lane.end(0, 1_000_000_000)
    lane.end(1, 6_000_000_000)
    lane.follow(7_000_000_000)
    assert (np.diff(lane.events()["time"]) >= 0).all()


def play(scenario, policy="fair", scale=0.01, allow_code=True, **options):
    with open_processes(scenario, allow_code) as processes:
        found = TaskRuntime(scenario, processes, scale, **options).play(find(policy, scenario.family), 0)
    family_of(scenario).check(scenario, found.events)
    return found


@pytest.mark.parametrize("name", ["dag/tiny", "taskgraph/tiny"])
def test_stand_ins_play_an_episode_like_the_simulator(name):
    scenario = load(name)
    rule = rules_of(scenario.family)[0]
    found = play(scenario, rule, 0.02 if scenario.family == "dag" else 10.0)
    expected = Simulator(scenario).play(find(rule, scenario.family), 0)
    kinds = Counter(found.events["kind"].tolist())
    assert [kinds[kind] for kind in (START, FINISH, END)] == [
        (expected["kind"] == k).sum() for k in (START, FINISH, END)
    ]
    assert len(found.service_ns) == len(found.planned_ns) == kinds[FINISH]
    assert all(worked >= planned for (_, _, worked), planned in zip(found.service_ns, found.planned_ns, strict=True))
    assert not found.faults
    assert not found.interrupted


def staged(*stages, executors=3, jobs=1, **keys):
    """Return a scenario of jobs whose stages run programs."""
    rows = [{"tasks": 1, "duration_s": 0.001, **stage} for stage in stages]
    return DagScenario.model_validate(
        {
            "family": "dag",
            "name": "programs",
            "executors": executors,
            "moving_delay_s": 0.0,
            "warmup_delay_s": 0.0,
            "arrivals": {"kind": "batch", "jobs": jobs},
            "jobs": {"kind": "inline", "jobs": [{"name": "job", "stages": rows}]},
            **keys,
        }
    )


def python(name):
    return f"python:tests.device.programs:{name}"


@pytest.fixture
def notes(tmp_path, monkeypatch):
    path = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(path))
    return path


def test_stages_exchange_data_in_the_folder_of_their_job(notes):
    scenario = staged(
        {"name": "map", "tasks": 4, "program": python("produce")},
        {"name": "reduce", "program": python("consume"), "parents": ["map"]},
        jobs=2,
    )
    found = play(scenario, scale=1.0)
    assert notes.read_text().split() == ["10", "10"]
    assert not found.faults


def test_commands_get_their_task_from_the_environment_and_fail_with_their_last_words(notes):
    words = (
        'sh -c \'test "$SLIPSTREAM_ATTEMPT" != 0 || { echo "oh no" >&2; exit 4; }; echo "$SLIPSTREAM_NUMBER" >> out\''
    )
    gather = f"sh -c 'sort out >> {notes}'"
    scenario = staged(
        {"name": "each", "tasks": 3, "program": f"command:{words}"},
        {"name": "all", "program": f"command:{gather}", "parents": ["each"]},
    )
    found = play(scenario, scale=1.0)
    assert notes.read_text().split() == ["0", "1", "2"]
    assert Counter(text for *_, text in found.faults) == {"RuntimeError: exit status 4: oh no": 3}


def check_faults(scenario, found, notes, tasks, faults):
    """Check that every task was done exactly once, and that as many attempts failed as had to."""
    done = [tuple(map(int, line.split())) for line in notes.read_text().splitlines()]
    jobs = scenario.arrivals.jobs
    assert sorted(row[:3] for row in done) == [(job, 0, number) for job in range(jobs) for number in range(tasks)]
    assert all(attempt == 1 for *_, attempt in done)
    assert len(found.faults) == faults == ((found.events["kind"] == FAIL) & (found.events["resource"] >= 0)).sum()


def faltering(tasks, jobs=1, executors=3):
    return staged({"name": "falter", "tasks": tasks, "program": python("falter")}, executors=executors, jobs=jobs)


def test_every_kind_of_fault_is_met_and_its_task_done_once(notes):
    scenario = faltering(10)
    found = play(scenario, scale=1.0, watchdog_ms=1000)
    check_faults(scenario, found, notes, 10, 10)
    told = Counter(text for *_, text in found.faults)
    assert told == {
        "ValueError: not today": 2,
        "SystemExit: 3": 2,
        "the worker died": 4,
        "gave no answer within 1000 ms": 2,
    }
    assert found.restarts == 6


@pytest.mark.slow
def test_a_thousand_faults_lose_and_double_no_task(notes):
    scenario = faltering(50, jobs=20, executors=8)
    found = play(scenario, scale=1.0, watchdog_ms=300)
    check_faults(scenario, found, notes, 50, 1000)


@pytest.mark.thorough
def test_moves_and_stand_ins_survive_workers_that_are_killed():
    scenario = changed("dag/stream-10x50", arrivals={"kind": "batch", "jobs": 3}, executors=4)
    policy = find("fair", "dag")
    with open_processes(scenario) as processes:
        stop = threading.Event()

        def strike_often():
            turns = np.random.default_rng(1)
            while not stop.wait(0.05):
                strike(processes, int(turns.integers(1000)))

        thread = threading.Thread(target=strike_often)
        runtime = TaskRuntime(scenario, processes, usual_scale(scenario, policy, 0) / 3)
        runtime._most_attempts = 1000
        thread.start()
        try:
            found = runtime.play(policy, 0)
        finally:
            stop.set()
            thread.join()
    family_of(scenario).check(scenario, found.events)
    assert {text for *_, text in found.faults} == {"the worker died"}
    assert len(found.faults) > 10
    assert family_of(scenario).metrics(scenario, found.events)["jobs_done"] == 3
    assert (found.events["kind"] == MOVE).sum() > 0


def test_a_task_that_never_succeeds_ends_the_run_in_one_line():
    scenario = staged({"name": "bad", "program": python("fail_always")}, failures={"probability": 0.0, "most": 2})
    with open_processes(scenario, True) as processes:
        runtime = TaskRuntime(scenario, processes)
        with pytest.raises(
            DeviceError, match=r"part 0 of job 0 failed 3 times on executor \d: ValueError: never: expect"
        ):
            runtime.play(find("fair", "dag"), 0)
        events = np.concatenate(runtime.pieces())
    family_of(scenario).check(scenario, events)
    assert (events["kind"] == FAIL).sum() == 2


def test_ctrl_c_ends_the_log_and_waits_for_what_runs():
    scenario = changed("dag/stream-10x50", arrivals={"kind": "batch", "jobs": 4}, executors=3)
    before = signal.getsignal(signal.SIGINT)
    struck = []

    def strike_once(time, _lane):
        if not struck and time > 20_000_000_000:
            struck.append(time)
            os.kill(os.getpid(), signal.SIGINT)

    found = play(scenario, scale=0.001, watcher=strike_once)
    assert found.interrupted
    kinds = Counter(found.events["kind"].tolist())
    assert kinds[START] > kinds[FINISH]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("stopped", ["dag/tiny", "taskgraph/tiny"])
def test_a_run_that_is_stopped_before_it_begins_has_a_whole_log(stopped):
    scenario = load(stopped)
    with open_processes(scenario) as processes:
        runtime = TaskRuntime(scenario, processes)
        runtime.stop()
        found = runtime.play(find(rules_of(scenario.family)[0], scenario.family), 0)
    family_of(scenario).check(scenario, found.events)
    assert found.events[-1]["kind"] == END
    assert (found.events["kind"] == START).sum() == 0


def test_a_trial_compares_both_sides_and_names_causes():
    scenario = load("dag/tiny")
    policy = find("fair", "dag")
    with open_processes(scenario) as processes:
        trial = run_task_trial(scenario, processes, policy, 0, 2, 0.02)
    table = trial.result["metrics"]
    assert table["jobs_done"] == {"measured": 2.0, "deviation": 0.0, "simulated": 2.0}
    assert trial.result["headline"] == "avg_jct_s"
    assert table["avg_jct_s"]["measured"] >= table["avg_jct_s"]["simulated"]
    assert {cause["name"] for cause in trial.result["causes"]} == {
        "tasks",
        "dispatch",
        "other choices",
        "failed tasks",
        "other programs",
    }
    assert usual_scale(scenario, policy, 0) == pytest.approx(10 / 12, rel=0.2)


@pytest.mark.parametrize("name", ["dag/tiny", "taskgraph/cholesky-4-2g2c"])
def test_a_scenario_that_is_fitted_to_its_own_log_stays_what_it_was(name):
    scenario = load(name)
    rule = rules_of(scenario.family)[0]
    events = Simulator(scenario).play(find(rule, scenario.family), 0)
    fitted = processes_of(scenario).fitted(scenario, events)
    assert np.array_equal(Simulator(fitted).play(find(rule, scenario.family), 0), events)
    slower = events.copy()
    slower["time"] *= 2
    fitted = processes_of(scenario).fitted(scenario, slower)
    end = Simulator(fitted).play(find(rule, scenario.family), 0)["time"][-1]
    assert 1.8 * events["time"][-1] < end <= 2 * events["time"][-1]


def test_only_jobs_that_are_written_out_can_be_fitted():
    scenario = SCENARIOS["stream"]()
    with pytest.raises(InputError, match=r"jobs.kind is 'synthetic': expected 'inline' for measured durations"):
        processes_of(scenario).fitted(scenario, np.empty(0))


def test_stand_ins_can_keep_their_core_busy():
    with TaskProcesses(1, spins=True) as processes:
        processes.submit(0, TaskRequest(-1, 0, 0, 0, 1, 0, 30_000_000))
        ended = processes.wait(10.0)
        assert [(one.error, one.device_ns >= 30_000_000) for one in ended] == [("", True)]


def tiled(kind="cholesky", count=2, jobs=1, n=4):
    """Return a scenario of jobs that factorise or multiply a matrix of tiles on some CPUs."""
    kernels = sorted(KERNELS[kind])
    return TaskgraphScenario.model_validate(
        {
            "family": "taskgraph",
            "name": "tiles",
            "processors": [{"name": "cpu", "count": count}],
            "durations": {"kind": "table", "kernels_ms": {kernel: {"cpu": 1.0} for kernel in kernels}},
            "graphs": [{"kind": kind, "n": n}],
            "arrivals": {"kind": "batch", "jobs": jobs},
        }
    )


def served(address="builtin:mobilenet", **keys):
    """Return a scenario of two variants of a network on two accelerators."""
    variants = [
        {
            "name": f"v{rank}",
            "accuracy": 80.0 + rank,
            "latency_ms": {"cpu": [5.0, 9.0]},
            "load_s": 0.1,
            "model": address,
        }
        for rank in range(2)
    ]
    arrivals = {"kind": "poisson", "rate_hz": 60.0}
    model = {"name": "m", "slo_ms": 500.0, "dataset": "synthetic:3x16x16", "variants": variants, "arrivals": arrivals}
    return ServingScenario.model_validate(
        {
            "family": "serving",
            "name": "served",
            "accelerators": [{"name": "cpu", "count": 2}],
            "batch_sizes": [1, 2],
            "models": [model],
            "duration_s": 1.5,
            "planning": {"interval_s": 0.5},
            **keys,
        }
    )


@pytest.mark.thorough
def test_networks_are_loaded_timed_and_run_in_batches():
    scenario = served()
    with open_processes(scenario) as processes:
        timed = measured(scenario, processes)
        assert all(times != [5.0, 9.0] for v in timed.models[0].variants for times in v.latency_ms.values())
        assert all(0 < variant.load_s < 10 for variant in timed.models[0].variants)
        found = TaskRuntime(timed, processes).play(find("random", "serving"), 0)
    family_of(timed).check(timed, found.events)
    kinds = Counter(found.events["kind"].tolist())
    assert kinds[FINISH] > 40
    assert not found.faults
    fitted = processes_of(timed).fitted(timed, found.events)
    assert all(v.latency_ms["cpu"] == sorted(v.latency_ms["cpu"]) for v in fitted.models[0].variants)


@pytest.mark.parametrize("name", ["plans", "routes"])
def test_batches_that_were_killed_are_repeated_and_every_request_is_accounted_for(name):
    scenario = SCENARIOS[name]()
    count = processes_of(scenario).count(scenario)
    with StrikingProcesses(count) as processes:
        runtime = TaskRuntime(scenario, processes)
        runtime._most_attempts = 1000
        found = runtime.play(find("random" if name == "plans" else "eft", "serving"), 0)
    family_of(scenario).check(scenario, found.events)
    kinds = Counter(found.events["kind"].tolist())
    assert len(found.faults) > 5
    assert kinds[START] == kinds[FINISH] > 20
    assert kinds[ARRIVAL] >= kinds[FINISH] + kinds[DROP] + kinds[REJECT]


@pytest.mark.slow
def test_a_thousand_faults_of_networks_lose_and_double_no_request():
    scenario = served("python:tests.device.faulty:stumble", duration_s=10.0)
    told: Counter[str] = Counter()
    for seed in itertools.count():
        # New ones each time: the first call in a process, the load before the clock starts, does not go wrong.
        with open_processes(scenario, True) as processes:
            runtime = TaskRuntime(scenario, processes, watchdog_ms=100)
            runtime._most_attempts = 1000
            found = runtime.play(find("random", "serving"), seed)
        family_of(scenario).check(scenario, found.events)
        kinds = Counter(found.events["kind"].tolist())
        assert kinds[START] == kinds[FINISH] > 20
        ended = found.events["job"][np.isin(found.events["kind"], (FINISH, DROP, REJECT))]
        assert len(set(ended.tolist())) == len(ended) <= kinds[ARRIVAL]
        told.update(text for *_, text in found.faults)
        if told.total() >= 1000:
            break
    assert set(told) == {
        "ValueError: this input is too much",
        "ArithmeticError: the output is not finite",
        "the worker died",
        "gave no answer within 100 ms",
    }


def test_a_network_that_is_none_is_told_in_one_line():
    with pytest.raises(ModelError, match="model 'nothing': expected an address that begins with builtin:"):
        open_processes(served("nothing"))
    with pytest.raises(ModelError, match="is a program that can do anything: expected --allow-code with it"):
        open_processes(served("python:a:b"))
    with pytest.raises(InputError, match="compat is 'proteus': expected 'strict' to execute"):
        DeviceLane(served(compat="proteus", batching="aimd", drop="twice-deadline"))


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_on_tiles_give_the_right_result(kind):
    scenario = tiled(kind, jobs=2)
    with open_processes(scenario, tile_side=24) as processes:
        processes.tiles.fill()
        assert processes.tiles.residual([0, 1]) > 0.1
        found = TaskRuntime(scenario, processes).play(find("heft", "taskgraph"), 0)
        measured = measured_kernels(scenario, processes)
    family_of(scenario).check(scenario, found.events)
    assert found.residual < 1e-12
    assert set(measured.durations.kernels_ms) == set(KERNELS[kind])
    assert all(0 < times["cpu"] < 1000 for times in measured.durations.kernels_ms.values())


def strike(processes, turn):
    """Kill one of the workers, unless one is not ready yet: a run gives up where none ever is."""
    workers = psutil.Process(processes._process.pid).children() if all(processes._ready) else []
    if workers:
        with suppress(ProcessLookupError):
            os.kill(workers[turn % len(workers)].pid, signal.SIGKILL)


class StrikingProcesses(TaskProcesses):
    """Worker processes of which one is killed at every third wait."""

    waits = 0

    def wait(self, seconds):
        self.waits += 1
        # Workers that die before they are ready are a fault of another kind, at which a run ends.
        if all(self._ready) and self.waits % 3 == 0:
            strike(self, self.waits)
        return super().wait(seconds)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_kernel_that_was_killed_amid_its_tiles_is_repeated_from_their_old_values(kind):
    scenario = tiled(kind, jobs=2)
    tiles = TileSpace(scenario, 2, 96)
    with StrikingProcesses(2, tiles=tiles) as processes:
        runtime = TaskRuntime(scenario, processes)
        runtime._most_attempts = 1000
        found = runtime.play(find("random", "taskgraph"), 0)
    family_of(scenario).check(scenario, found.events)
    assert len(found.faults) > 3
    assert found.residual < 1e-12


@pytest.mark.slow
def test_a_thousand_killed_kernels_leave_every_result_right():
    scenario = tiled("lu", jobs=4, n=6)
    faults = 0
    while faults < 1000:
        with StrikingProcesses(2, tiles=TileSpace(scenario, 2, 48)) as processes:
            runtime = TaskRuntime(scenario, processes)
            runtime._most_attempts = 1000
            found = runtime.play(find("random", "taskgraph"), faults)
        family_of(scenario).check(scenario, found.events)
        assert found.residual < 1e-12
        faults += len(found.faults)


def test_a_wrong_result_is_told_in_one_line(monkeypatch):
    scenario = tiled("gemm", n=2)
    with open_processes(scenario, tile_side=8) as processes:
        tiles = processes.tiles
        fill = tiles.fill

        def spoil():
            fill()
            tiles._tiles[0, 0] *= 2.0

        monkeypatch.setattr(tiles, "fill", spoil)
        with pytest.raises(DeviceError, match=r"the result is off by .*: expected at most 1e-09"):
            TaskRuntime(scenario, processes).play(find("fifo", "taskgraph"), 0)


def test_kernels_need_one_tiled_graph():
    with pytest.raises(DeviceError, match="expected one graph of the kinds cholesky, lu, qr, gemm"):
        open_processes(load("taskgraph/tiny"), tile_side=8)
    with pytest.raises(DeviceError, match="a scenario of the family 'dag': expected one of 'taskgraph'"):
        open_processes(load("dag/tiny"), tile_side=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls", "expected an address that begins with python: or command:"),
        ("python:os", "expected python:MODULE:CALLABLE"),
        ("command:", "expected the words of a command"),
        ("command:echo 'a", "no closing quotation: expected the words of a command"),
        (python("nothing_here"), "cannot be loaded: AttributeError"),
        ("python:no_such_module:f", "cannot be loaded: ModuleNotFoundError"),
        (python("not_callable"), "is a int: expected a function of a task"),
    ],
)
def test_a_program_that_is_none_is_told_in_one_line(text, expected):
    with pytest.raises(ModelError, match=expected) as told:
        open_processes(staged({"name": "stage", "program": text}), True)
    assert "\n" not in str(told.value)


def test_programs_need_leave(tmp_path):
    with pytest.raises(ModelError, match="can do anything: expected --allow-code with it"):
        parse_programs(("command:ls",), tmp_path, allow_code=False)


def test_what_cannot_be_executed_is_refused():
    with pytest.raises(DeviceError, match="expected one of 'dag', 'taskgraph', 'serving', whose tasks run on worker"):
        open_processes(load("edge/tiny"))
    with pytest.raises(DeviceError, match=f"expected at most {MOST_PROCESSES} worker processes"):
        open_processes(changed("dag/tiny", executors=MOST_PROCESSES + 1))
    with pytest.raises(DeviceError, match="a scenario of the family 'cluster': expected one that engines run"):
        DeviceLane(load("cluster/light"))
    with open_processes(load("dag/tiny")) as processes:
        with pytest.raises(DeviceError, match="2 worker processes: expected 3 of them"):
            TaskRuntime(changed("dag/tiny", executors=3), processes)
        with pytest.raises(InputError, match="simulates ahead: expected a rule or a network"):
            TaskRuntime(load("dag/tiny"), processes).play(find("rollout", "dag"), 0)
