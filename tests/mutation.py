"""Mutants of kernels: small mistakes that could have been made, each tried on a copy of the package in plain Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import slipstream

PACKAGE = Path(slipstream.__file__).parent
REPOSITORY = Path(__file__).parents[1]
KILLER = Path(__file__).with_name("kill.py")
TIMEOUT_S = 900
"""A kernel as it is takes some two minutes, more on a busy machine; a mutant that hangs is dead."""
LONGEST_S = 20
"""A comparison takes a few seconds at most; one that does not come to an end has found a difference."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: in `file` the text `old` (which occurs once) becomes `new`."""

    why: str
    file: str
    old: str
    new: str
    quick: bool = False
    """Whether it is also tried in the fast suite."""


# For tests


def run_killer(
    folder: Path, family: str, mutant: Mutant | None, examples: int
) -> subprocess.CompletedProcess[str] | None:
    """Run a family's comparison in plain Python on a copy of the package; None if it does not come to an end."""
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
    try:
        return subprocess.run(
            [sys.executable, str(KILLER), family, str(examples)],
            env=environment,
            cwd=folder,
            timeout=TIMEOUT_S,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return None


def check_places(mutants: list[Mutant]) -> None:
    """Assert that every mutant still changes one place, and no two are the same."""
    texts = {file: (PACKAGE / file).read_text() for file in {mutant.file for mutant in mutants}}
    rotten = [mutant.why for mutant in mutants if texts[mutant.file].count(mutant.old) != 1]
    assert rotten == []
    assert all(mutant.old != mutant.new for mutant in mutants)
    assert len({mutant.why for mutant in mutants}) == len(mutants)


def check_survival(folder: Path, family: str, examples: int) -> None:
    """Assert that the kernel as it is survives."""
    outcome = run_killer(folder, family, None, examples)
    assert outcome is not None
    assert outcome.returncode == 0, outcome.stderr


def check_death(folder: Path, family: str, mutant: Mutant, examples: int) -> None:
    """Assert that a mutant is noticed."""
    outcome = run_killer(folder, family, mutant, examples)
    assert outcome is None or outcome.returncode == 1, outcome.stderr or "no difference was found"
    # A mutant that cannot even be loaded shows nothing about the comparison.
    unloadable = ("SyntaxError", "IndentationError", "ImportError", "NameError")
    assert outcome is None or not any(kind in outcome.stderr for kind in unloadable)


# For the killer


def limit_time() -> None:
    """Give the next comparison its time: that of this process, so that a busy machine kills no mutant."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)


def with_limits(compare: Callable[[], None]) -> None:
    """Run a comparison in which a kernel that hangs counts as a difference."""
    signal.signal(signal.SIGVTALRM, _give_up)
    compare()


def _give_up(*_: object) -> None:
    raise TimeoutError(f"no end within {LONGEST_S} s")
