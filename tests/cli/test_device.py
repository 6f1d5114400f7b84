"""The commands that run models for real: what they write, and how they refuse."""

from __future__ import annotations

import json
import re
from importlib.metadata import version

import numpy as np
import pytest

from slipstream.device.backends import cuda
from slipstream.device.measurement import selftest
from slipstream.families.shared import invariants
from slipstream.reports.runs import read_run
from slipstream.scenario import load
from slipstream.sim.eventlog import read
from tests.device.conftest import scenario_of, task
from tests.device.cuda_standin import gpu_or_standin
from tests.device.test_models import onnx_of_a_line

pytestmark = pytest.mark.thorough

QUICK = ("--runs", "3", "--pair-seconds", "0.02")


@pytest.fixture
def small(tmp_path):
    """Write a small scenario for a device."""
    tasks = [task(variants=2), task("text", "builtin:transformer", "text-128")]
    (tmp_path / "small.json").write_text(scenario_of(tasks, 300).model_dump_json(exclude_unset=True))
    return "small.json"


def test_execute_writes_a_log_and_a_report_that_other_commands_read(slipstream, small, tmp_path):
    options = ("--policy", "edf-fit", "--seed", "3", "--log", "run.parquet", "--out", "run.html", "--json")
    code, output, _ = slipstream("execute", small, *options)
    assert code == 0
    told = json.loads(output)
    assert told["metrics"]["released"] > 10
    assert told["accuracy_source"] == "profile"
    assert told["faults"] == {}
    assert told["dispatch_p50_us"] <= told["dispatch_p99_us"]
    events, about = read(tmp_path / "run.parquet")
    invariants.check(events, 2)
    assert "slipstream execute small.json --policy edf-fit --device cpu --seed 3" in about["command"]
    assert "</html>" in (tmp_path / "run.html").read_text()
    assert read_run(tmp_path / "run.parquet").digest == told["digest"]
    assert slipstream("import", "log", "run.parquet", "--out", "again.json")[0] == 0
    assert [t.arrival.kind for t in load(tmp_path / "again.json").tasks] == ["trace", "trace"]
    assert slipstream("run", "again.json", "--policy", "edf", "--json")[0] == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".html", ".json", ".json", ".parquet"]


def test_execute_lets_the_dashboard_watch(slipstream, small, tmp_path):
    code, output, _ = slipstream("execute", small, "--policy", "edf", "--live", "now.live.jsonl", "--json")
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "now.live.jsonl").read_text().splitlines()]
    assert 1 <= len(lines) <= 4  # 300 ms, a line every 250
    assert [task["name"] for task in lines[0]["tasks"]] == [task.name for task in load(tmp_path / small).tasks]
    for line in lines:
        assert line["released"] == sum(task["released"] for task in line["tasks"])
        assert line["waiting"] == sum(task["waiting"] for task in line["tasks"])
        assert line["streams"] == 2
    assert lines[-1]["released"] <= json.loads(output)["metrics"]["released"]


def test_execute_tells_what_happened(slipstream, small):
    code, output, _ = slipstream("execute", small, "--policy", "edf")
    assert code == 0
    assert "miss_rate" in output
    assert "energy_j" not in output, "main metrics only, and none of what the scenario does not model"
    assert re.search(r"\d+ more metrics with --all", output)
    every = slipstream("execute", small, "--policy", "edf", "--all", "--force")[1]
    assert "response_p50_ms" in every
    assert "more metrics" not in every
    assert "Accuracies are those of the profile" in output
    assert "Report: report.html" in output


def test_a_terminal_sees_a_table_of_the_tasks_while_it_runs(slipstream, small, monkeypatch):
    from rich.console import Console

    from slipstream.cli import device

    monkeypatch.setattr(device, "errors", Console(stderr=True, force_terminal=True))
    code, _, error = slipstream("execute", small)
    assert code == 0
    assert "released" in error
    assert "\x1b[2Ktext" in error


def test_profile_then_validate_and_fit(slipstream, small, tmp_path):
    code, output, _ = slipstream("profile", small, "--out", "device.json", *QUICK)
    assert code == 0
    assert "The machine was" in output
    assert "builtin:transformer" in output
    assert not (tmp_path / "device.json.cells").exists()
    options = ("--profile", "device.json", "--fit", "fitted.json", "--json", "--runs", "2")
    code, output, _ = slipstream("validate", small, *options)
    assert code == 0
    told = json.loads(output)
    assert set(told["metrics"]) >= {"miss_rate", "response_p50_ms", "utilisation", "miss_rate/text"}
    assert told["runs"] == 2
    assert {cause["name"] for cause in told["causes"]} >= {"runs alone", "runs side by side", "dispatch"}
    page = (tmp_path / "validation.html").read_text()
    for text in ("Measured and simulated", "Why they differ", 'id="gantt-0"', 'id="gantt-1"', "other programs"):
        assert text in page
    assert json.loads((tmp_path / "fitted.json").read_text())["fitted_from"].startswith("slipstream validate small")
    code, output, _ = slipstream("execute", small, "--profile", "fitted.json", "--json")
    assert code == 0


def test_validate_measures_first_where_no_profile_is_given(slipstream, tmp_path):
    (tmp_path / "one.json").write_text(scenario_of([task()], 100).model_dump_json(exclude_unset=True))
    code, output, _ = slipstream("validate", "one.json", "--policy", "edf")
    assert code == 0
    assert "measured" in output
    assert "- dispatch:" in output
    assert "Page: validation.html" in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("execute", "edge/drone"), "task 'front_camera': unknown dataset 'coco'"),
        (("execute", "small.json", "--policy", "none"), "unknown policy 'none'"),
        (("execute", "small.json", "--profile", "none.json"), "none.json: no such file"),
        (("execute", "small.json", "--data", "text"), "--data: 'text': expected two words with = between them"),
        (("execute", "small.json", "--data", "other=."), "data of task 'other': no such task"),
        (("execute", "small.json", "--log", "small.json/run.parquet"), "not a directory"),
        (("profile", "small.json", "--out", "small.json/p.json"), "not a directory"),
        (("profile", "edge/drone"), "unknown dataset"),
        (("validate", "small.json", "--profile", "small.json"), "small.json: "),
        (("validate", "small.json", "--device", "tpu"), "tpu"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(slipstream, small, tmp_path, arguments, told):
    code, output, error = slipstream(*arguments)
    assert code == 2
    assert told in error
    assert output == ""
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"]


def test_code_is_run_only_with_leave(slipstream, tmp_path):
    (tmp_path / "mine.py").write_text("def make(kind, variant):\n    return lambda batch: batch.flatten(1)\n")
    data = scenario_of([task("mine", "python:mine:make", "synthetic:1x2x2")], 100)
    (tmp_path / "code.json").write_text(data.model_dump_json(exclude_unset=True))
    code, _, error = slipstream("execute", "code.json")
    assert (code, "expected --allow-code" in error) == (2, True)
    assert slipstream("execute", "code.json", "--allow-code", "--json")[0] == 0


@pytest.fixture
def short_selftest(monkeypatch):
    """Shorten the self-test of devices."""
    monkeypatch.setattr(selftest, "RUN_MS", 400.0)
    monkeypatch.setattr(selftest, "LOOPS", 10)


CHECKS = ["results", "times", "no run is lost", "not finite", "a run of a scenario", "opened again"]


@pytest.mark.parametrize(("device", "hardware"), [("cuda", "2 CUDA streams"), ("cpu", "2 streams of")])
def test_the_self_test_of_a_device_prints_one_page(slipstream, short_selftest, device, hardware):
    with gpu_or_standin():
        code, output, _ = slipstream("doctor", "--device", device, "--json")
        found = json.loads(output)
        assert [check["name"] for check in found["checks"]] == CHECKS
        assert (code, [check["found"] for check in found["checks"] if not check["passed"]]) == (0, [])
        assert found["passed"]
        assert found["figures"]["dispatch p99 us"] > 0
        assert hardware in found["hardware"]
        code, output, _ = slipstream("doctor", "--device", device)
    lines = output.splitlines()
    assert (code, len(lines) < 60, max(map(len, lines)) < 200) == (0, True, True)
    assert [line.split(":")[0] for line in lines if line.startswith("passed")] == [f"passed  {c}" for c in CHECKS]
    assert lines[-1] == "all 6 checks passed: please send this page to the project"


def test_a_self_test_that_fails_says_where_and_ends_with_1(slipstream, short_selftest, monkeypatch):
    monkeypatch.setattr(cuda, "OUTPUT_NUMBERS", 5)
    with gpu_or_standin():
        code, output, _ = slipstream("doctor", "--device", "cuda")
    assert code == 1
    (failed,) = [line for line in output.splitlines() if line.startswith("FAILED")]
    assert failed.startswith("FAILED  results: DeviceError: model 'builtin:mobilenet?variant=0': 5 numbers of 10")
    assert output.splitlines()[-1].startswith("1 of 6 checks failed")


def test_a_gpu_that_is_not_here_is_told(slipstream, small):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    code, _, error = slipstream("execute", small, "--device", "cuda")
    assert code == 2
    told = "error: device 'cuda': no CUDA device is here: expected one, and a build of torch that knows it"
    assert error.strip() == told
    code, output, error = slipstream("doctor", "--device", "cuda")
    assert (code, output, error.strip()) == (2, "", told)


def test_labelled_inputs_put_the_measured_accuracy_beside_that_of_the_profile(slipstream, tmp_path):
    (tmp_path / "one.json").write_text(scenario_of([task()], 100).model_dump_json(exclude_unset=True))
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data" / "inputs.npy", rng.standard_normal((4, 3, 16, 16), np.float32))
    np.save(tmp_path / "data" / "labels.npy", np.arange(4))
    code, output, _ = slipstream("execute", "one.json", "--data", "task=data", "--json", "--log", "run.parquet")
    assert code == 0
    told = json.loads(output)
    assert told["metrics"]["executed_accuracy"] == pytest.approx(0.5)
    measured = told["measured_accuracy"]["task/0"]["accuracy"]
    assert told["measured_metrics"]["executed_accuracy"] == pytest.approx(measured)
    assert read(tmp_path / "run.parquet")[1]["hardware"] == told["hardware"]
    assert f"torch {version('torch')}" in told["hardware"]
    assert "2 streams of " in told["hardware"]
    code, output, _ = slipstream("execute", "one.json", "--data", "task=data", "--all")
    assert code == 0
    assert "executed_accuracy (profile)" in output
    assert "executed_accuracy (measured)" in output
    assert "Measured accuracy of task/0 in" in output


def test_an_onnx_run_names_the_engine_that_ran(slipstream, tmp_path):
    onnx_of_a_line(tmp_path / "m0.onnx", 10)
    tasks = [task("line", "onnx:m{variant}.onnx", "synthetic:3x2x2")]
    (tmp_path / "onnx.json").write_text(scenario_of(tasks, 60).model_dump_json(exclude_unset=True))
    code, output, _ = slipstream("execute", "onnx.json", "--json")
    assert code == 0
    told = json.loads(output)
    assert told["device"].endswith(", onnxruntime")
    assert f"onnxruntime {version('onnxruntime')}" in told["hardware"]
    assert "torch" not in told["hardware"]


def test_listening_turns_tasks_into_external_ones_where_none_is(slipstream, tmp_path):
    tasks = [task(), task("second", arrival={"kind": "poisson", "rate_hz": 50.0})]
    (tmp_path / "mine.json").write_text(scenario_of(tasks, 100).model_dump_json(exclude_unset=True))
    options = ("--listen", "127.0.0.1:0", "--seconds", "0.2", "--log", "run.parquet", "--json")
    code, output, error = slipstream("execute", "mine.json", *options)
    assert code == 0
    assert "all tasks take requests" in error
    assert '"tasks": [\n    "task",\n    "second"\n  ]' in output
    recorded = json.loads(read(tmp_path / "run.parquet")[1]["scenario"])
    assert [one["arrival"] for one in recorded["tasks"]] == [{"kind": "external", "mean_gap_ms": 20.0}] * 2
