"""The examples for experiment trackers log what a training reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.thorough


def run(name, folder):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=folder, env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wandb_example_writes_a_run_without_a_connection(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'slipstream[tracking]'")
    assert "reward 4." in run("log_to_wandb.py", tmp_path)
    (log,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    content = log.read_bytes()
    for name in (b"heuristic_reward", b"best_reward", b"entropy", b"candidates"):
        assert name in content


def test_the_mlflow_example_writes_a_run_into_a_folder(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'slipstream[tracking]'")
    assert "reward 4." in run("log_to_mlflow.py", tmp_path)
    (rewards,) = tmp_path.glob("mlruns/*/*/metrics/reward")
    steps = [int(line.split()[2]) for line in rewards.read_text().splitlines()]
    assert len(steps) >= 2
    assert steps == sorted(set(steps))
    assert list(tmp_path.glob("mlruns/*/*/metrics/entropy"))
