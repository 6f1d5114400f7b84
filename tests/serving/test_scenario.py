"""Bad serving scenarios and files are refused in one line that names the place and what was expected."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from slipstream.errors import ScenarioError, TraceError
from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.serving.workload.arrivals import arrival_process
from slipstream.scenario import dump, load

GOOD: dict[str, Any] = {
    "family": "serving",
    "accelerators": [{"name": "gpu", "count": 2}],
    "batch_sizes": [1, 2],
    "models": [
        {
            "name": "a",
            "slo_ms": 100.0,
            "variants": [{"name": "A", "accuracy": 90.0, "latency_ms": {"gpu": [10.0, 15.0]}}],
            "arrivals": {"kind": "poisson", "rate_hz": 5.0},
        }
    ],
    "duration_s": 1.0,
}


def changed(path: str, value: Any) -> dict[str, Any]:
    data: Any = copy.deepcopy(GOOD)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = data
    for step in steps:
        place = place[step]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("batch_sizes", [2, 4], "batch_sizes: expected ascending sizes, the first of them 1"),
        ("models.0.variants.0.latency_ms", {"gpu": [10.0, 9.0]}, "latency_ms.gpu[1] is 9.0"),
        ("models.0.variants.0.latency_ms", {"gpu": [1.0, 2.0, 3.0]}, "3 latencies on 'gpu': expected at most 2"),
        ("models.0.variants.0.latency_ms", {"tpu": [1.0]}, "unknown accelerator 'tpu': expected one of gpu"),
        ("duration_s", None, "model 'a' has arrivals at a rate: expected 'duration_s'"),
        ("initial", [{"variant": "B", "accelerator": "gpu"}], "initial[0].variant: unknown variant 'B'"),
        ("initial", [{"variant": "A", "accelerator": "gpu", "count": 3}], "initial hosts 3 variants on 'gpu'"),
        ("compat", "proteus", "compat 'proteus': expected batching 'accscale', 'aimd' or 'nexus'"),
        ("mode", "route", "mode 'route': expected 'initial' to host something"),
        ("queue", 1, "queue is 1 but batches have up to 2 requests"),
        ("accelerators", [{"name": "gpu", "count": 1}] * 2, "two accelerators are called 'gpu'"),
        ("models.0.arrivals", {"kind": "rates"}, "expected either 'rates_hz' or 'path'"),
        ("models.0.arrivals", {"kind": "trace", "times_ms": [2.0, 1.0]}, "times_ms[1] is 1.0, earlier"),
        ("models.0.arrivals", {"kind": "burst"}, "unknown kind 'burst': did you mean 'bursty'?"),
        ("rooting", "eft", "unknown key 'rooting': did you mean 'routing'?"),
    ],
)
def test_a_bad_scenario_is_refused_in_one_line(path: str, value: Any, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(changed(path, value))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("models.0.slo_ms", 20.0, "no variant can run on any accelerator"),
        ("models.0.arrivals", None, "none has arrivals or is hosted"),
    ],
)
def test_what_cannot_be_served_is_refused_when_it_is_built(path: str, value: Any, text: str) -> None:
    scenario: Any = load(changed(path, value))
    with pytest.raises(ScenarioError, match=text):
        compiled_scenario(scenario)


def with_trace(folder: Path, text: str, **more: Any) -> ServingScenario:
    (folder / "trace.txt").write_text(text)
    (folder / "s.json").write_text(
        dump(load(changed("models.0.arrivals", {"kind": "trace", "path": "trace.txt", **more})))
    )
    scenario: Any = load(folder / "s.json")
    return scenario


def test_a_trace_says_when_by_when_and_how_accurate(tmp_path: Path) -> None:
    listed = compiled_scenario(with_trace(tmp_path, "# arrivals\n4,74.97,5000\n6.5\n7,80\n")).spec["requests"]
    assert listed["time"].tolist() == [4_000_000, 6_500_000, 7_000_000]
    assert (listed["deadline"] - listed["time"]).tolist() == [5_000_000_000, 100_000_000, 100_000_000]
    assert listed["floor"].tolist() == [74.97, 0.0, 80.0]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("4,1,300\nx,1,300\n", "row 2: arrival_ms: expected a number from 0 to 8.64e+09, got 'x'"),
        ("4,1,300\n3,1,300\n", "row 2: 3 is earlier than the row before it"),
        ("4,101,300\n", "row 1: accuracy_floor: expected a number from 0 to 100, got '101'"),
        ("4,1,nan\n", "row 1: deadline_ms: expected a number"),
    ],
)
def test_a_bad_row_of_a_trace_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(TraceError) as caught:
        compiled_scenario(with_trace(tmp_path, text))
    assert wrong in str(caught.value)
    assert "trace.txt" in str(caught.value)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    scenario = with_trace(tmp_path, "1\n")
    (tmp_path / "trace.txt").unlink()
    with pytest.raises(TraceError, match=r"trace\.txt: no such file"):
        compiled_scenario(scenario)


def test_azure_traces_and_rates_are_read(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,1,1\n2023-11-16 18:17:04.2299600,2,2\n"
    (tmp_path / "trace.csv").write_text(text)
    data = changed("models.0.arrivals", {"kind": "trace", "path": "trace.csv", "format": "azure-llm", "stretch": 2.0})
    (tmp_path / "s.json").write_text(dump(load(data)))
    scenario: Any = load(tmp_path / "s.json")
    assert compiled_scenario(scenario).spec["requests"]["time"].tolist() == [0, 500_000_000]
    (tmp_path / "rates.txt").write_text("10\n30\n")
    data = changed("models.0.arrivals", {"kind": "rates", "path": "rates.txt", "step_s": 0.5})
    (tmp_path / "s.json").write_text(dump(load(data)))
    scenario = load(tmp_path / "s.json")
    assert compiled_scenario(scenario).processes[0].mean_hz == 20.0


def test_only_active_models_take_part() -> None:
    data = copy.deepcopy(GOOD)
    idle = {"name": "b", "slo_ms": 50.0, "variants": [{"name": "B", "accuracy": 1.0, "latency_ms": {"gpu": [1.0]}}]}
    data["models"] = [idle, *data["models"]]
    scenario: Any = load(data)
    assert [model.name for model in compiled_scenario(scenario).models] == ["a"]
    hosted: Any = load({**data, "initial": [{"variant": "B", "accelerator": "gpu"}]})
    assert [model.name for model in compiled_scenario(hosted).models] == ["b", "a"]


def test_requests_that_arrive_later_than_times_can_be_are_refused(tmp_path: Path) -> None:
    azure = "TIMESTAMP,ContextTokens\n0001-01-01 00:00:00.0,1\n9999-01-01 00:00:00.0,1\n"
    (tmp_path / "azure.csv").write_text(azure)
    data = json.loads(dump(load("serving/tiny")))
    late = {"kind": "trace", "path": str(tmp_path / "azure.csv"), "format": "azure-llm"}
    for arrivals in (late, {"kind": "trace", "times_ms": [8.64e9], "stretch": 1e6}):
        data["models"][0]["arrivals"] = arrivals
        scenario: Any = load(data)
        with pytest.raises(TraceError, match="a request arrives after"):
            arrival_process(scenario, scenario.models[0])
