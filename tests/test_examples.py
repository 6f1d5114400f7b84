"""Every example runs and prints what it promises."""

import ast
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from tests.notebook import NOTEBOOK, execute

pytestmark = pytest.mark.thorough

FOLDER = Path(__file__).resolve().parents[1] / "examples"

PROMISES = {
    "gymnasium_loop.py": ["candidates (", "choices in 10000 ms", "on_time_accuracy"],
    "own_choice.py": ["edf-fit", "calm-or-busy", "effective accuracy 0."],
    "own_heuristic.py": ["edf ", "bargain earns +", "95% interval +"],
    "own_network.py": ["18,754 parameters, played by torch", "learned: reward ", "edf: reward 4.2", "random: reward "],
    "own_scenario.py": ["edf-fit", "miss rate 0.", "same work: True"],
    "ppo_single_file.py": ["reward -", " before", " after 16 updates", "random -", "edf "],
    "preemption.py": ["alarms missed", "edf-fit ", "edf-preempt ", "0.1%"],
    "train_sb3.py": ["PPO: reward -", "DQN: reward -", " before, ", " after"],
    "train_sb3_maskable.py": ["MaskablePPO: reward -", " before, ", "random: reward -", "edf: reward "],
    "train_torchrl.py": ["PPO: reward -", " after 0 updates", " after 12 updates"],
    "vector_env.py": ["random legal rows", "edf-degrade", "reward per choice +"],
}
ELSEWHERE = ["log_to_mlflow.py", "log_to_wandb.py", "train_rllib.py"]
"""Run by tests/interop/test_tracking.py and test_rllib.py, which are skipped without the packages they need."""
LONGEST = 40
LONGEST_NETWORK = 60
LONGEST_TRAINING = 30
"""Lines of code of a training run with another library."""


@functools.cache
def output_of(name):
    """Return what an example prints; those that train are run once, and looked at by several tests."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-W", "error", FOLDER / name],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert run.returncode == 0, run.stderr
    return run.stdout


def rewards_in(output):
    """Return the rewards that a training example prints, in order: before, after, and those it compares with."""
    return [float(number) for number in re.findall(r"-?\d+\.\d", output)]


def lines_of_code(source):
    """Return the lines that are not empty, comments or docstrings."""
    lines = [line for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Module | ast.FunctionDef)]
    docstrings = [node.body[0] for node in nodes if ast.get_docstring(node)]
    return len(lines) - sum(text.end_lineno - text.lineno + 1 for text in docstrings)


def test_every_example_is_listed():
    assert sorted([*PROMISES, *ELSEWHERE]) == sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", PROMISES)
def test_example_runs_and_prints_its_result(name):
    for promise in PROMISES[name]:
        assert promise in output_of(name)


@pytest.mark.parametrize("name", sorted({*PROMISES, *ELSEWHERE} - {"ppo_single_file.py"}))
def test_example_is_short(name):
    source = (FOLDER / name).read_text(encoding="utf-8")
    assert len(source.splitlines()) < (LONGEST_NETWORK if name == "own_network.py" else LONGEST)
    assert not name.startswith("train_") or lines_of_code(source) <= LONGEST_TRAINING


def test_own_rule_takes_under_ten_lines():
    source = (FOLDER / "own_heuristic.py").read_text(encoding="utf-8")
    rule = source[source.index("@slipstream.rule") : source.index("\n\n\nif __name__")]
    assert len(rule.splitlines()) < 10


# The notebook

VARIES = "varies"
"""Tag of a cell whose output depends on the speed of the machine."""


def shown_by(cell):
    """Return what the outputs of a cell show."""
    return [
        {key: output[key] for key in ("output_type", "name", "text", "data") if key in output}
        for output in cell.outputs
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that start the kernel
def test_the_notebook_shows_what_it_shows_when_it_is_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOTLY_RENDERER", "")  # set by `execute`, restored afterwards
    stored, executed = nbformat.read(NOTEBOOK, as_version=4), execute(tmp_path)
    code = [(old, new) for old, new in zip(stored.cells, executed.cells, strict=True) if old.cell_type == "code"]
    assert len(code) > 8
    for old, new in code:
        if VARIES in old.metadata.get("tags", []):
            assert [sorted(one.get("data", {})) for one in old.outputs] == [
                sorted(o.get("data", {})) for o in new.outputs
            ]
        else:
            assert shown_by(old) == shown_by(new), f"`make notebook` executes it again; stored: {old.source}"
    assert {path.name for path in tmp_path.iterdir()} == {"run.parquet", "comparison.json", "quickstart.html"}


def test_the_stored_notebook_is_small_and_shows_tables_and_figures():
    assert NOTEBOOK.stat().st_size < 200_000
    stored = nbformat.read(NOTEBOOK, as_version=4)
    kinds = {
        kind
        for cell in stored.cells
        if cell.cell_type == "code"
        for one in cell.outputs
        for kind in one.get("data", {})
    }
    assert {"text/html", "application/vnd.plotly.v1+json"} <= kinds
