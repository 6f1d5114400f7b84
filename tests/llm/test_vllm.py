"""vLLM under a policy does what the simulator does: recorded runs, and new ones where vLLM is installed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import vllm_engine as benchmark

from slipstream.engines.vllm import VERSION
from slipstream.engines.vllm.counters import Counters
from slipstream.engines.vllm.follower import Follower
from slipstream.engines.vllm.settings import Settings, read_settings
from slipstream.errors import InputError, PolicyError, ScenarioError
from slipstream.families.llm.invariants import check
from slipstream.families.llm.scenario import Engine
from slipstream.scenario import load
from slipstream.sim.eventlog import DONE, END, FINISH, PREEMPT, read

RECORDED = json.loads((benchmark.RECORDED).read_text())
RUNS = [(name, policy) for name in RECORDED["runs"] for policy in RECORDED["runs"][name]]
ENGINE = Engine(blocks=31, block_tokens=32, token_budget=256, seats=16, longest_tokens=512)


@pytest.mark.parametrize(("workload", "policy"), RUNS)
def test_the_simulator_does_what_a_recorded_vllm_did(workload: str, policy: str) -> None:
    scenario = benchmark.workloads()[workload]
    assert benchmark.digest_of(scenario) == RECORDED["scenarios"][workload]
    events = benchmark.simulated(scenario, benchmark.policy_of(policy))
    assert benchmark.recorded(events) == RECORDED["runs"][workload][policy]


def test_recordings_have_three_policies_and_pressure_on_memory() -> None:
    assert len(RECORDED["runs"]) >= 3
    for runs in RECORDED["runs"].values():
        assert {"fcfs", "shortest-prompt", "trained"} <= set(runs)
    assert sum(any(run["preempted"] for run in runs.values()) for runs in RECORDED["runs"].values()) >= 2
    orders = [json.dumps(run["first_tokens"]) for run in RECORDED["runs"]["short of blocks"].values()]
    assert len(set(orders)) == len(orders)
    assert RECORDED["vllm"].startswith(f"{VERSION}.")


@pytest.mark.slow
def test_a_real_vllm_does_what_the_simulator_does(tmp_path: Path) -> None:
    if not benchmark.PYTHON.exists():
        pytest.skip("vLLM's own virtual environment is absent: `make test-vllm` creates it")
    runs = [(name, benchmark.workloads()[name], benchmark.policy_of(policy)) for name, policy in RUNS]
    for (name, scenario, policy), settings in zip(runs, benchmark.drive(benchmark.PYTHON, tmp_path, runs), strict=True):
        found = benchmark.compare(name, policy, scenario, settings)
        assert found["equal_logs"], found
        assert found["failures"] == 0
        events, about = read(Path(settings["log"]))
        check(events, load(json.loads(about["scenario"])))  # type: ignore[arg-type]
        assert benchmark.recorded(events) == RECORDED["runs"][name][Path(policy).name]


@pytest.mark.slow
def test_vllm_goes_on_in_its_own_order_when_the_policy_fails(tmp_path: Path) -> None:
    if not benchmark.PYTHON.exists():
        pytest.skip("vLLM's own virtual environment is absent: `make test-vllm` creates it")
    scenario = benchmark.workloads()["short of blocks"]
    runs = [("short of blocks", scenario, "shortest-prompt"), ("short of blocks", scenario, "fcfs")]
    failing, usual = benchmark.drive(benchmark.PYTHON, tmp_path, runs, fail_after=[40, None])
    assert json.loads(Path(failing["statistics"]).read_text())["failures"] == 1
    assert json.loads(Path(failing["outputs"]).read_text()) == json.loads(Path(usual["outputs"]).read_text())


# What follows vLLM, without it


def follower(tmp_path: Path, **settings: Any) -> Follower:
    files = {"log": str(tmp_path / "log.parquet"), "statistics": str(tmp_path / "counters.json")}
    data = {"policy": "shortest-prompt", "scenario": "llm/tiny", "step_ms": 10.0} | files | settings
    return Follower(read_settings({"slipstream": data}), ENGINE)


def serve(one: Follower, prompts: list[int]) -> list[str]:
    """Serve requests of one token, one in a step, as vLLM would; return the order in which they start."""
    queue = [str(number) for number in range(len(prompts))]
    order = []
    for name, prompt in zip(queue, prompts, strict=True):
        one.arrive(name, prompt, 0.0, 0, None, [])
        one.enqueue(name, False)
    for _ in prompts:
        one.begin_schedule(30)
        place = one.choose_request(30, 0, (), 0)
        name = queue.pop(place)
        one.dequeue(place)
        one.schedule(name, prompts[int(name)], 0)
        one.begin_step(prompts[int(name)], 1, 1)
        one.end_step(prompts[int(name)])
        one.token(name, 1, prompts[int(name)] + 1, False)
        one.leave(name)
        one.end_tokens(prompts[int(name)])
        order.append(name)
    return order


def test_requests_start_in_the_order_of_the_policy_and_are_recorded(tmp_path: Path) -> None:
    one = follower(tmp_path)
    assert serve(one, [30, 10, 20]) == ["1", "2", "0"]
    one.write()
    events, about = read(tmp_path / "log.parquet")
    scenario = load(json.loads(about["scenario"]))
    check(events, scenario)  # type: ignore[arg-type]
    assert events["time"][events["kind"] == DONE].tolist() == [10_000_000, 20_000_000, 30_000_000]
    assert np.array_equal(events, benchmark.simulated(json.loads(about["scenario"]) | STEPS, "shortest-prompt"))
    counters = json.loads((tmp_path / "counters.json").read_text())
    assert (counters["steps"], counters["admissions"], counters["tokens"], counters["failures"]) == (3, 3, 60, 0)
    assert events["kind"][-1] == END


STEPS = {
    "step_time": {"kind": "closed", "dense": [{"at": 0, "us": 10000.0}]},
    "engine": ENGINE.model_dump() | {"steps_in_flight": 1, "seats": 1},
}


def test_an_error_is_logged_once_and_ends_the_policy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = follower(tmp_path)

    def fail() -> None:
        raise RuntimeError("broken")

    with caplog.at_level(logging.ERROR):
        assert one.guarded(fail) is None
        assert one.guarded(fail) is None
        assert one.guarded(lambda: 3) is None
    assert [record.message for record in caplog.records] == [
        "policy 'shortest-prompt' failed: first come, first served from now on"
    ]
    assert (one.failed, one.counters.failures) == (True, 1)


def test_requests_left_at_the_end_are_recorded_as_rejected_or_finished(tmp_path: Path) -> None:
    one = follower(tmp_path, policy="fcfs")
    for name in ("a", "b", "c"):
        one.arrive(name, 10, 0.0, 0, None, [])
        one.enqueue(name, False)
    one.begin_schedule(30)
    for name in ("a", "b"):
        one.choose_request(30, 0, (), 0)
        one.dequeue(0)
        one.schedule(name, 10, 0)
    one.begin_step(20, 2, 2)
    one.end_step(20)
    one.token("a", 1, 11, False)
    one.end_tokens(20)
    one.begin_schedule(28)
    one.preempt("b", 10)
    one.enqueue("b", True)
    one.write()
    events, about = read(tmp_path / "log.parquet")
    check(events, load(json.loads(about["scenario"])))  # type: ignore[arg-type]
    assert [events["kind"].tolist().count(kind) for kind in (PREEMPT, FINISH)] == [1, 1]


def test_classes_are_found_by_name_or_priority(tmp_path: Path) -> None:
    one = follower(tmp_path)
    assert [one.group_of("batch", 0), one.group_of(None, 1), one.group_of("unknown", 7)] == [1, 1, 0]


def test_counters_give_percentiles() -> None:
    counters = Counters()
    for time in range(1, 101):
        counters.admissions += 1
        counters.count(1000 * time)
    summary = counters.summary()
    assert (summary["decisions"], summary["decision_us_p50"], summary["decision_us_max"]) == (100, 50.5, 100.0)
    assert Counters().summary()["decision_us_p99"] == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([], "additional_config.slipstream: expected an object"),
        ({"polcy": "fcfs"}, "additional_config.slipstream: unknown key 'polcy'"),
        ({"step_ms": 0}, "additional_config.slipstream: step_ms: must be more than 0"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_settings({"slipstream": settings})
    assert read_settings({}) == Settings() == read_settings(None)


def test_a_scenario_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="family is 'edge': expected 'llm'"):
        follower(tmp_path, scenario="edge/heavy")
    with pytest.raises(PolicyError, match="expected a rule or a network"):
        follower(tmp_path, policy="auto")
    with pytest.raises(InputError, match=r"levels.token_budgets: 512: expected at most 256"):
        follower(tmp_path, scenario="llm/code")


def test_the_package_is_imported_without_vllm() -> None:
    code = "import sys, slipstream.engines.vllm as v; print(v.VERSION, 'vllm' in sys.modules); v.PolicyScheduler"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{VERSION} False"
    assert done.stderr.strip().endswith("No module named 'vllm'")
