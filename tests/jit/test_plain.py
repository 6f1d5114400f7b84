"""Documented means of compilation give the same results as private ones, with any version of Numba."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.jit import mode
from slipstream.jit.decorators import entry
from slipstream.jit.funcptr import call_choice, choice_address
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator
from tests.jit.test_decorators import python
from tests.subjects import SUBJECTS, subject_of

PLAY = """
import json, sys
import slipstream
from slipstream.jit import mode
from slipstream.policies.base import find
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator

assert mode.COMPILED and not mode.PRIVATE
scenario = slipstream.load(json.loads(sys.stdin.read()))
print(json.dumps({name: digest(Simulator(scenario).play(find(name, scenario.family), 5)) for name in sys.argv[1:]}))
assert not [name for name in sys.modules if name.startswith("slipstream.jit.private")]
"""
MODULES = """
import sys
{prepare}
from slipstream.jit import decorators, funcptr, mode, prefetch, structs

@decorators.kernel
def add(first, second):
    return first + second

@decorators.entry
def double(value):
    return add(value, value)

print(double(21), mode.PRIVATE, any(name.startswith("slipstream.jit.private") for name in sys.modules))
"""


# One family is compiled in every run of the tests, which takes half a minute of processor time; the others more rarely.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "family", [SUBJECTS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS[1:])]
)
def test_documented_means_give_the_same_logs(family: str) -> None:
    subject = subject_of(family)
    plain = subprocess.run(
        [sys.executable, "-c", PLAY, *subject.played],
        input=json.dumps(subject.everything),
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "SLIPSTREAM_PLAIN_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (plain.returncode, plain.stderr) == (0, "")
    scenario = load(subject.everything)
    compiled = {name: digest(Simulator(scenario).play(find(name, family), 5)) for name in subject.played}
    assert json.loads(plain.stdout) == compiled


@pytest.mark.parametrize(("chosen", "private"), [("", True), ("0", True), ("1", False)])
def test_the_variable_chooses_the_means(chosen: str, private: bool) -> None:
    done = python(MODULES.format(prepare=""), whole=True, SLIPSTREAM_PLAIN_JIT=chosen)
    assert (done.stdout, done.stderr) == (f"42 {private} {private}\n", "")


def test_a_value_that_is_neither_0_nor_1_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("slipstream"), "run", "edge/tiny", "--policy", "edf"],
        env={**os.environ, "SLIPSTREAM_PLAIN_JIT": "yes"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: SLIPSTREAM_PLAIN_JIT: is 'yes', expected 0 or 1\n"


@pytest.mark.parametrize("version", ["0.64.0", "0.69.0", "1.0.0"])
def test_a_numba_outside_the_range_uses_documented_means_and_one_line_says_so(version: str) -> None:
    prepare = f"import numba; numba.__version__ = {version!r}"
    done = python(MODULES.format(prepare=prepare), whole=True, SLIPSTREAM_PLAIN_JIT="")
    assert done.stdout == "42 False False\n"
    oldest, above = mode.SUPPORTED
    expected = f"Numba {version} is outside the supported range (from {oldest}, below {above}): "
    assert done.stderr == f"{expected}compiled code is slower than it could be\n"


@pytest.mark.parametrize("version", ["0.65.0", "0.68.1"])
def test_a_numba_inside_the_range_is_not_mentioned(version: str) -> None:
    prepare = f"import numba; numba.__version__ = {version!r}"
    done = python(MODULES.format(prepare=prepare), whole=True, SLIPSTREAM_PLAIN_JIT="")
    assert (done.stdout, done.stderr) == ("42 True True\n", "")


# Numba's cache

STORE = """
import numpy as np
from slipstream.jit.cache_folder import cache_folder
from slipstream.sim.kernel.rng import stream_key
stream_key(np.uint64(7), 1)
print(sum(stream_key.stats.cache_hits.values()), cache_folder())
"""


def stored(cache: Path) -> tuple[str, Path]:
    """Return how often code was found on disk by a process that uses `cache`, and the folder of compiled code."""
    done = python(STORE, SLIPSTREAM_PLAIN_JIT="1", SLIPSTREAM_CACHE_DIR=str(cache))
    hits, folder = done.split()
    return hits, Path(folder) / "numba"


def test_documented_means_store_code_in_a_folder_that_only_the_user_can_enter(tmp_path: Path) -> None:
    hits, folder = stored(tmp_path)
    assert (hits, stat.S_IMODE(folder.stat().st_mode)) == ("0", 0o700)
    folder.chmod(0o755)
    assert stored(tmp_path) == ("1", folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_documented_means_use_no_folder_that_other_users_can_write_to(tmp_path: Path) -> None:
    folder = stored(tmp_path)[1]
    folder.chmod(0o777)
    assert stored(tmp_path) == ("0", folder)


# Choices by address


def last_legal(global_row: Any, rows: Any, mask: Any) -> int:
    if global_row[0] > 1.0:
        raise ValueError("failed")
    found = -5
    for index in range(rows.shape[0]):
        if mask[index] == 1 and rows[index, 1] > 0.0:
            found = index
    return found


@entry
def choose(address: Any, global_row: Any, rows: Any, mask: Any) -> Any:
    return call_choice(address, global_row, rows, mask)


def choices() -> list[int]:
    """Return the index of a choice that is made, and of one that fails."""
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
    mask = np.array([1, 1, 1, 0], np.int8)
    address, _kept = choice_address(last_legal)
    return [int(choose(address, np.array([given]), rows, mask)) for given in (0.0, 2.0)]


def test_a_choice_that_fails_gives_no_row() -> None:
    assert choices() == [1, -1]


def test_a_choice_that_fails_gives_no_row_by_documented_means() -> None:
    code = "from tests.jit.test_plain import choices; from slipstream.jit import mode; print(choices(), mode.PRIVATE)"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SLIPSTREAM_PLAIN_JIT": "1", "PYTHONPATH": os.pathsep.join([root, *sys.path])},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("[1, -1] False\n", 0), done.stderr
