"""Every example runs and prints what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"

PROMISES = {
    "gymnasium_loop.py": ["candidates (", "choices in 10000 ms", "on_time_accuracy"],
    "own_choice.py": ["edf-fit", "calm-or-busy", "effective accuracy 0."],
    "own_heuristic.py": ["edf ", "bargain earns +", "95% interval +"],
    "own_scenario.py": ["edf-fit", "miss rate 0.", "same work: True"],
    "preemption.py": ["alarms missed", "edf-fit ", "edf-preempt ", "0.1%"],
    "vector_env.py": ["random legal rows", "edf-degrade", "reward per choice +"],
}
LONGEST = 40


def test_every_example_is_listed():
    assert sorted(PROMISES) == sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", PROMISES)
def test_example_runs_and_prints_its_result(name, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    for promise in PROMISES[name]:
        assert promise in run.stdout


@pytest.mark.parametrize("name", PROMISES)
def test_example_is_short(name):
    assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) < LONGEST


def test_own_rule_takes_under_ten_lines():
    source = (FOLDER / "own_heuristic.py").read_text(encoding="utf-8")
    rule = source[source.index("@slipstream.rule") : source.index("\n\n\nif __name__")]
    assert len(rule.splitlines()) < 10
