"""`slipstream demo`: the tour, with all extras and without any."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.cli.demo import _verdict
from slipstream.cli.demo_scenario import CAMERA_MODEL, PERIOD, demo_scenario, longest_latency_ms
from slipstream.cli.demo_schedule import schedules, stretch_with_misses
from slipstream.evaluation import evaluate
from slipstream.policies import names
from slipstream.scenario import load

WITHOUT_EXTRAS = """
import sys
for name in ("torch", "torch_geometric", "onnxruntime", "fastapi", "uvicorn", "PIL", "matplotlib"):
    sys.modules[name] = None
from slipstream.cli.main import main
sys.argv = ["slipstream", "demo", *sys.argv[1:]]
main()
"""


def tour(folder, *command):
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ, COLUMNS="200")
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_extras_the_tour_says_what_is_missing_and_goes_on(tmp_path):
    output = tour(tmp_path, sys.executable, "-c", WITHOUT_EXTRAS)
    # One needs a device that can interrupt, the others tasks with batches.
    for name in set(names("edge")) - {"edf-preempt", "clipper", "deeprt", "edgeserving"}:
        assert name in output
    assert "Left out: device 'cpu' needs torch: run `pip install 'slipstream[device]'`" in output
    assert "Left out: training needs torch: run `pip install 'slipstream[learn]'`" in output
    commands = re.findall(r"^\$ slipstream (\w+)", output, re.MULTILINE)
    assert commands == ["profile", "compare", "train", "run", "run", "report"]
    report = tmp_path / "slipstream-demo" / "report.html"
    assert output.strip().splitlines()[-1].endswith(str(report))
    assert "</html>" in report.read_text()
    written = sorted(path.name for path in report.parent.iterdir())
    assert len(written) == 4
    assert {"lookahead.parquet", "report.html", "scenario.json"} < set(written)
    assert output.count("  missed ") == 2  # a schedule of each run


def test_the_scenario_fits_the_machine_it_was_measured_on():
    profile = {"variants": [{"model": CAMERA_MODEL, "p50_ms": 7.0}, {"model": CAMERA_MODEL, "p50_ms": 30.0}]}
    longest = longest_latency_ms({"variants": [*profile["variants"], {"model": "builtin:mobilenet", "p50_ms": 99.0}]})
    assert longest == 30.0
    scenario = demo_scenario(longest)
    assert scenario["tasks"][0]["arrival"]["period_ms"] == PERIOD * 30.0
    assert "profile" not in scenario
    assert demo_scenario(longest, "profile.json")["profile"] == "profile.json"


def test_large_variants_miss_the_radar_and_small_ones_are_inaccurate():
    scenario = load(demo_scenario())
    greedy, careful = evaluate(scenario, "edf-fit", episodes=3), evaluate(scenario, "edf", episodes=3)
    assert greedy.mean("miss_rate/radar") > 0.2
    assert careful.mean("miss_rate/radar") < 0.02
    assert greedy.mean("executed_accuracy") > careful.mean("executed_accuracy") + 0.15


def test_a_schedule_shows_runs_and_misses_at_their_times(tmp_path):
    scenario, log = tmp_path / "scenario.json", tmp_path / "edf-fit.parquet"
    scenario.write_text(json.dumps(demo_scenario()))
    command = [Path(sys.executable).with_name("slipstream"), "run", scenario, "--policy", "edf-fit", "--log", log]
    subprocess.run(command, check=True, capture_output=True)
    lines = [re.sub(r"\[[^\]]*\]", "", line) for line in schedules([("edf-fit", log)], 0.0, 1320.0)]
    assert lines[0] == "edf-fit"
    assert [line[:12].strip() for line in lines[1:4]] == ["stream 0", "stream 1", "missed"]
    assert {len(line) for line in lines[1:4]} == {78}
    assert set("".join(line[12:] for line in lines[1:3])) <= set("FfSsRr.")
    assert "F" in "".join(line[12:] for line in lines[1:3])
    assert set(lines[3][12:]) == {" ", "x"}
    begin = stretch_with_misses(log, 132.0)
    missed = [sum("x" in line for line in schedules([("edf-fit", log)], at, at + 132.0)[3:4]) for at in (begin, 0.0)]
    assert missed == [1, 0]


@pytest.mark.parametrize(("low", "expected"), [(1.0, "is ahead of every heuristic"), (-1.0, "is not ahead of edf")])
def test_the_verdict_follows_the_interval(low, expected):
    assert expected in _verdict("edf", {"mean": 2.0, "low": low, "high": 3.0})


@pytest.mark.slow
def test_the_whole_tour_trains_and_runs_for_real_and_a_second_one_leaves_the_first_alone(tmp_path):
    (tmp_path / "slipstream-demo").mkdir()
    command = Path(sys.executable).with_name("slipstream")
    done = json.loads(tour(tmp_path, command, "demo", "--training-seconds", "15", "--json"))
    steps = [step["command"].split()[1] for step in done["steps"]]
    assert steps == ["profile", "compare", "train", "compare", "execute", "execute", "execute", "report"]
    assert [step["left_out"] for step in done["steps"]] == [None] * 8
    folder = tmp_path / "slipstream-demo-2"
    assert done["report"] == str(folder / "report.html")
    assert (folder / "trained" / "best" / "policy.json").is_file()
    assert [row["policy"] for row in done["results"]][2:] == ["trained"]
    assert {row["recorded"] for row in done["results"]} == {"device"}
    assert done["ahead"]["low"] > 0.0  # in simulation; what the real run earns depends on what else the machine does
    assert list((tmp_path / "slipstream-demo").iterdir()) == []
