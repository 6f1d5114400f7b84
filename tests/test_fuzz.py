"""A few hundred damaged inputs of every kind, and what the fuzz driver must notice; `make fuzz` runs many more."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from slipstream.errors import InputError
from tests.fuzz import checks
from tests.fuzz.checks import HIDDEN, check_case
from tests.fuzz.given import Scenarios, trace_kinds
from tests.fuzz.run import SURFACES, Runner, Tally, planned
from tests.fuzz.surface import put

FEW = 40
"""Cases of each surface."""


@pytest.mark.parametrize("kind", SURFACES, ids=lambda kind: kind.name)
def test_damaged_input_is_read_or_refused_in_one_line(kind, tmp_path):
    tally = Tally()
    with Runner(kind, tmp_path, seed=0) as runner:
        for number in range(FEW):
            runner.run(number, tally, seconds=60.0)  # the first of a kind may compile
    assert tally.failures == []
    assert tally.cases == FEW


@pytest.mark.parametrize("kind", trace_kinds(), ids=lambda kind: kind.name)
def test_what_is_damaged_is_whole_before(kind, tmp_path):
    put({other.name: other.content for other in trace_kinds() if other.name.startswith("tpch/")}, tmp_path)
    put({kind.name: kind.content}, tmp_path)
    kind.read(tmp_path / kind.name)


def test_a_case_is_decided_by_its_surface_seed_and_number(tmp_path):
    def written(name, number):
        with Runner(Scenarios, tmp_path / name, seed=1) as runner:
            runner.run(number, Tally())
            return (runner.folder / "scenario.json").read_bytes()

    assert written("one", 3) == written("two", 3) != written("one", 4)


def test_a_full_run_tries_every_surface_often_enough():
    counts = planned(100_000)
    assert counts.keys() == {kind.name for kind in SURFACES}
    assert min(counts.values()) >= 5000
    assert 99_990 <= sum(counts.values()) <= 110_000


# What is noticed


def refused():
    raise InputError("a.json: expected a number")


def escaped():
    raise KeyError("a")


def two_lines():
    error = InputError("a")
    error.args = ("a\nb",)
    raise error


def hanging():
    while True:
        time.sleep(0.01)


def large():
    return [str(np.ones(100 * 2**20 // 8).sum())]


def reads_outside():
    return [Path("/etc/hostname").read_text()[:0]]


def writes_outside(place):
    place.write_text("x")
    return []


@pytest.mark.parametrize(
    ("run", "accepted", "expected"),
    [
        (lambda: ["all is well\n"], True, None),
        (refused, False, None),
        (escaped, False, "KeyError"),
        (two_lines, False, "not one line"),
        (lambda: ["\x1b[2J"], True, r"control character '\x1b'"),
        (lambda: ["\u202eevil"], True, r"control character '\u202e'"),
        (lambda: ["\x7f"], True, "control character"),
        (lambda: ["\ud800"], True, "no valid Unicode"),
        (lambda: [HIDDEN], True, "shows a file outside"),
        (reads_outside, True, "reads '/etc/hostname', outside of the folder"),
        (hanging, False, "took more than 0.2 s"),
        (lambda: [str(subprocess.run(["true"], check=True).returncode)], True, "subprocess.Popen"),
    ],
)
def test_a_broken_rule_is_noticed(tmp_path, run, accepted, expected):
    (tmp_path / "case").mkdir()
    found = check_case(run, tmp_path / "case", 0.2 if run is hanging else 10.0)
    assert found[0] == accepted
    assert expected in (found[1] or "") if expected else found[1] is None


def test_files_of_the_case_are_its_own_and_others_are_not(tmp_path):
    (tmp_path / "case").mkdir()
    assert check_case(lambda: writes_outside(tmp_path / "case" / "x"), tmp_path / "case") == (True, None)
    _, broken = check_case(lambda: writes_outside(tmp_path / "y"), tmp_path / "case")
    assert "writes" in broken
    (tmp_path / "case" / "link").symlink_to(tmp_path / "y")
    _, broken = check_case(lambda: [(tmp_path / "case" / "link").read_text()], tmp_path / "case")
    assert "outside of the folder" in broken


def test_memory_that_a_case_takes_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "GROWTH", 50 * 2**20)
    peaks = iter((0, 100 * 2**20))
    monkeypatch.setattr(checks, "_peak", lambda: next(peaks))
    assert check_case(large, tmp_path) == (True, "took 100 MB more than any case before")
