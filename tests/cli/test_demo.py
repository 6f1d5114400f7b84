"""`slipstream demo`: the tour, with all extras and without any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.policies import names

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
    for name in set(names("edge")) - {"edf-preempt"}:  # no scenario of the tour has preemption
        assert name in output
    assert "Left out: training needs torch: run `pip install 'slipstream[learn]'`" in output
    assert "Left out: device 'cpu' needs torch: run `pip install slipstream[device]`" in output
    assert output.count("$ slipstream ") == 6
    report = tmp_path / "slipstream-demo" / "report.html"
    assert output.strip().splitlines()[-1].endswith(str(report))
    assert "</html>" in report.read_text()
    written = sorted(path.name for path in report.parent.iterdir())
    assert written == ["edf-fit.parquet", "lookahead.parquet", "report.html"]


@pytest.mark.slow
def test_the_whole_tour_trains_and_runs_for_real_and_a_second_one_leaves_the_first_alone(tmp_path):
    (tmp_path / "slipstream-demo").mkdir()
    command = Path(sys.executable).with_name("slipstream")
    told = json.loads(tour(tmp_path, command, "demo", "--training-seconds", "5", "--json"))
    steps = [step["command"].split()[1] for step in told["steps"]]
    assert steps == ["run", "compare", "run", "train", "execute", "report"]
    assert [step["left_out"] for step in told["steps"]] == [None] * 6
    folder = tmp_path / "slipstream-demo-2"
    assert told["report"] == str(folder / "report.html")
    assert (folder / "trained" / "best" / "policy.json").is_file()
    assert (folder / "device.parquet").is_file()
    assert list((tmp_path / "slipstream-demo").iterdir()) == []
