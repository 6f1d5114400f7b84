"""RLlib learns on the masked environment, in the virtual environment that its pinned Gymnasium needs."""

import os
import subprocess
from pathlib import Path

import pytest

from slipstream.jit.cache_folder import cache_folder
from tests.test_examples import FOLDER, rewards_in

PYTHON = Path(__file__).resolve().parents[2] / ".venv-rllib" / "bin" / "python"


@pytest.mark.slow
def test_rllib_improves_over_its_start(tmp_path):
    if not PYTHON.exists():
        pytest.skip("RLlib's own virtual environment is absent: `make test-rllib` creates it")
    places = {"HOME": str(tmp_path), "SLIPSTREAM_CACHE_DIR": str(cache_folder().parents[1])}  # Ray writes to the home
    run = subprocess.run(
        [PYTHON, FOLDER / "train_rllib.py"],
        cwd=tmp_path,
        env={**os.environ, **places, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    before, after = rewards_in(run.stdout)[:2]
    assert after > before + 20.0
