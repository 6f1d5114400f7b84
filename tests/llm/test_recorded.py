"""Recorded runs of vLLM are reproduced from kernel tables, with nothing fitted to the run that is judged."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "llm"
if not DATA.is_dir():
    DATA = ROOT.parents[1] / "shared" / "data" / "llm"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded runs are not here: ../shared/data/llm")


@pytest.fixture(scope="module")
def recorded() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("llm_recorded", ROOT / "benchmarks" / "llm_recorded.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["llm_recorded"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["llm_recorded"]


@pytest.mark.parametrize("name", ["RTX 4090, Llama 3.1 8B", "RTX PRO 6000, Llama 3.1 8B"])
def test_a_recorded_dense_run_is_reproduced(recorded: Any, name: str) -> None:
    figures = recorded.compared(recorded.RUNS[name], DATA)
    for metric in ("TTFT", "TPOT", "E2E"):
        assert abs(figures[f"{metric} mean"]) < 3.0
    assert figures["E2E per request, median"] <= 2.5
    if "PRO" in name:
        assert figures["unqueued requests"] > 100
        assert abs(figures["TTFT of unqueued requests"]) < 10.0


def test_a_run_with_one_step_in_flight_is_not_what_was_recorded(recorded: Any) -> None:
    """Without the second step in flight, first tokens of requests that do not queue come far too early."""
    one = recorded.RUNS["RTX PRO 6000, Llama 3.1 8B"]
    synchronous = recorded.Recorded(
        one.run, one.tables, one.workload, {**one.engine, "steps_in_flight": 1}, one.step_time
    )
    assert recorded.compared(synchronous, DATA)["TTFT of unqueued requests"] < -20.0


def test_the_run_with_short_memory_preempts_as_often_as_recorded_runs_do(recorded: Any) -> None:
    from slipstream.policies.base import find
    from slipstream.sim.eventlog import PREEMPT
    from slipstream.sim.simulator import Simulator

    scenario = recorded.scenario_of(recorded.RUNS["RTX 4090, Llama 3.1 8B"], DATA)
    events = Simulator(scenario).play(find("fcfs", "llm"), 0)
    assert 190 <= (events["kind"] == PREEMPT).sum() <= 200
