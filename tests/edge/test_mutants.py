"""The comparison with the reference is worth what it catches: every mutant of the kernel is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slipstream
from tests.edge.mutants import MUTANTS, Mutant

PACKAGE = Path(slipstream.__file__).parent
REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 900
"""The kernel as it is takes some two minutes, more on a busy machine; a mutant that hangs is dead."""
EXAMPLES, FEW_EXAMPLES = 150, 30


def run_killer(folder: Path, mutant: Mutant | None, examples: int) -> subprocess.CompletedProcess[str] | None:
    """Run the comparison in plain Python on a copy of the package; None if it does not come to an end."""
    copy = folder / "slipstream"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = copy / mutant.file
        path.write_text(path.read_text().replace(mutant.old, mutant.new))
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SLIPSTREAM_CACHE_DIR": str(folder / "cache"),
    }
    killer = REPOSITORY / "tests" / "edge" / "kill.py"
    try:
        return subprocess.run(
            [sys.executable, str(killer), str(examples)],
            env=environment,
            cwd=folder,
            timeout=TIMEOUT_S,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return None


def test_every_mutant_changes_one_place() -> None:
    texts = {file: (PACKAGE / file).read_text() for file in {mutant.file for mutant in MUTANTS}}
    rotten = [mutant.why for mutant in MUTANTS if texts[mutant.file].count(mutant.old) != 1]
    assert rotten == []
    assert all(mutant.old != mutant.new for mutant in MUTANTS)
    assert len({mutant.why for mutant in MUTANTS}) == len(MUTANTS)


def check_survival(folder: Path, examples: int) -> None:
    outcome = run_killer(folder, None, examples)
    assert outcome is not None
    assert outcome.returncode == 0, outcome.stderr


def check_death(folder: Path, mutant: Mutant, examples: int) -> None:
    outcome = run_killer(folder, mutant, examples)
    assert outcome is None or outcome.returncode == 1, outcome.stderr or "no difference was found"
    # A mutant that cannot even be loaded shows nothing about the comparison.
    unloadable = ("SyntaxError", "IndentationError", "ImportError", "NameError")
    assert outcome is None or not any(kind in outcome.stderr for kind in unloadable)


def test_the_kernel_as_it_is_survives_a_few_examples(tmp_path: Path) -> None:
    check_survival(tmp_path, FEW_EXAMPLES)


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.quick], ids=lambda mutant: mutant.why)
def test_mutant_is_killed_by_a_few_examples(mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, mutant, FEW_EXAMPLES)


@pytest.mark.slow
def test_the_kernel_as_it_is_survives(tmp_path: Path) -> None:
    check_survival(tmp_path, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.why)
def test_mutant_is_killed(mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, mutant, EXAMPLES)
