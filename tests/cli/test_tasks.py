"""The commands that run tasks on worker processes: what they write, and how they refuse."""

from __future__ import annotations

import json

import pytest

from slipstream.families.contract import family_of
from slipstream.reports.runs import read_run
from slipstream.scenario import load
from slipstream.sim.eventlog import FAIL, read
from tests.device.test_tasks import python, staged, tiled

pytestmark = pytest.mark.thorough


def write(path, scenario):
    path.write_text(scenario.model_dump_json(exclude_unset=True))


def test_execute_writes_a_log_and_a_report_that_other_commands_read(slipstream, tmp_path):
    options = ("--policy", "fair", "--time-scale", "0.02", "--log", "run.parquet", "--out", "run.html", "--json")
    code, output, _ = slipstream("execute", "dag/tiny", *options)
    assert code == 0
    said = json.loads(output)
    assert said["metrics"]["jobs_done"] == 2.0
    assert (said["faults"], said["time_scale"], said["residual"]) == ({}, 0.02, None)
    assert said["dispatch_p50_us"] <= said["dispatch_p99_us"]
    events, about = read(tmp_path / "run.parquet")
    family_of(load("dag/tiny")).check(load("dag/tiny"), events)
    assert "slipstream execute dag/tiny --policy fair --seed 0 --time-scale 0.02" in about["command"]
    assert about["device"] == "2 worker processes, stand-ins"
    assert "</html>" in (tmp_path / "run.html").read_text()
    assert read_run(tmp_path / "run.parquet").digest == said["digest"]
    assert slipstream("report", "run.parquet", "--out", "again.html")[0] == 0


def test_execute_prints_the_metrics_and_runs_kernels(slipstream, tmp_path):
    write(tmp_path / "tiles.json", tiled())
    code, output, _ = slipstream("execute", "tiles.json", "--policy", "heft", "--tile-side", "32")
    assert code == 0
    assert "makespan_ms" in output
    assert "The result is off by" in output
    assert "Decision and dispatch" in output
    assert "Report: report.html" in output


@pytest.mark.parametrize("family", ["dag", "taskgraph"])
def test_validate_writes_a_page_with_both_sides(slipstream, tmp_path, family):
    write(tmp_path / "tiles.json", tiled())
    if family == "dag":
        words = ("dag/tiny", "--policy", "fair", "--time-scale", "0.02")
    else:
        words = ("tiles.json", "--policy", "heft", "--tile-side", "32")
    code, output, _ = slipstream("validate", *words, "--runs", "2", "--fit", "fitted.json", "--json")
    assert code == 0
    said = json.loads(output)
    assert said["written"] == ["validation.html", "fitted.json"]
    assert slipstream("run", "fitted.json", "--policy", words[2], "--json")[0] == 0
    row = said["metrics"][said["headline"]]
    assert row["measured"] > 0
    assert row["simulated"] > 0
    page = (tmp_path / "validation.html").read_text()
    assert "Why they differ" in page
    assert "Mean of 2 real runs" in page
    assert slipstream("validate", *words, "--force")[0] == 0


def test_a_task_that_never_succeeds_ends_with_one_line_and_a_log(slipstream, tmp_path):
    write(tmp_path / "bad.json", staged({"name": "bad", "program": python("fail_always")}))
    options = ("--policy", "fair", "--allow-code", "--log", "run.parquet", "--json")
    code, output, errors = slipstream("execute", "bad.json", *options)
    assert (code, output) == (2, "")
    assert "failed 4 times on executor" in errors
    assert "ValueError: never" in errors
    assert "Traceback" not in errors
    events, _ = read(tmp_path / "run.parquet")
    assert (events["kind"] == FAIL).sum() == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("execute dag/tiny --profile x.json", "--profile: is for models on a device"),
        ("execute dag/tiny --device cuda", "--device: is for models on a device"),
        ("execute dag/tiny --listen 127.0.0.1:0", "--listen: is for models on a device"),
        ("validate dag/tiny --profile x.json", "--profile: is for models on a device"),
        ("execute edge/tiny --spin", "--spin: is for tasks on worker processes"),
        ("validate edge/tiny --tile-side 8", "--tile-side: is for tasks on worker processes"),
        ("execute dag/tiny --policy fair --tile-side 8", "--tile-side: a scenario of the family 'dag'"),
        ("execute tiles.json --policy heft --tile-side 8 --spin", "--spin: are for stand-ins"),
        ("execute cluster/light", "expected one of 'edge', 'dag', 'taskgraph', 'serving', which run for real"),
        ("execute programs.json --policy fair", "can do anything: expected --allow-code with it"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(slipstream, tmp_path, words, expected):
    write(tmp_path / "tiles.json", tiled())
    write(tmp_path / "programs.json", staged({"name": "stage", "program": "command:ls"}))
    code, output, errors = slipstream(*words.split())
    assert (code, output) == (2, "")
    assert expected in errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["programs.json", "tiles.json"]
