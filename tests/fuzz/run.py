"""Runs cases: each is decided by its surface, the seed and its number, and can be run again by itself."""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.checks import SECONDS, check_case
from tests.fuzz.given import Names, Scenarios, Traces
from tests.fuzz.stored import Comparisons, EventLogs, Folders, Libraries, Policies, Trainings
from tests.fuzz.surface import Surface, empty
from tests.fuzz.web import Requests

SURFACES: tuple[type[Surface], ...] = (
    Scenarios,
    Names,
    Traces,
    EventLogs,
    Policies,
    Libraries,
    Trainings,
    Requests,
    Folders,
    Comparisons,
)
LEAST = 5000
"""Cases of each surface in a full run."""


@dataclass
class Tally:
    """How the cases of a surface went."""

    cases: int = 0
    accepted: int = 0
    seconds: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count the cases of another tally too."""
        self.cases += other.cases
        self.accepted += other.accepted
        self.seconds += other.seconds
        self.failures += other.failures


def planned(cases: int) -> dict[str, int]:
    """Return how many cases each surface gets of `cases` in all: by its share, and of many at least `LEAST`."""
    whole = sum(surface.share for surface in SURFACES)
    least = LEAST if cases >= 2 * LEAST * len(SURFACES) else 1
    return {surface.name: max(least, round(cases * surface.share / whole)) for surface in SURFACES}


class Runner:
    """The cases of one surface, in a folder of their own."""

    def __init__(self, kind: type[Surface], home: Path, seed: int) -> None:
        self.surface, self.seed = kind(), seed
        self.folder = home / kind.name / "case"
        prepared = home / kind.name / "base"
        empty(prepared)
        self.surface.prepare(prepared)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.surface.close()

    def run(self, number: int, tally: Tally, seconds: float = SECONDS) -> None:
        """Run a case, and count it."""
        began = time.perf_counter()
        empty(self.folder)
        rng = Random(f"{self.seed} {self.surface.name} {number}")
        reading = self.surface.make(rng, self.folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accepted, broken = check_case(reading, self.folder, seconds)
        tally.cases += 1
        tally.accepted += accepted
        tally.seconds += time.perf_counter() - began
        if broken is not None:
            tally.failures.append((number, broken))


def tell(line: dict[str, Any]) -> None:
    """Write a line for the process that started this one."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def work(home: Path, seed: int, plan: dict[str, tuple[int, int, int]], end: float) -> None:
    """Run the cases of a plan, which gives first, last and step by surface, a block of each in turn, until a time.

    Before every case a line says which it is, so that one that takes the process with it is known.
    """
    runners = {kind.name: Runner(kind, home, seed) for kind in SURFACES if kind.name in plan}
    left = {name: list(range(*plan[name])) for name in runners}
    tallies = {name: Tally() for name in runners}
    while any(left.values()) and time.time() < end:
        for name, runner in runners.items():
            block, left[name] = left[name][:50], left[name][50:]
            for number in block:
                tell({"at": [name, number]})
                runner.run(number, tallies[name])
                if tallies[name].failures:
                    tell({"failed": [name, *tallies[name].failures[-1]]})
                    tallies[name].failures.clear()
                if time.time() >= end:
                    break
            told = tallies[name]
            tell({"done": [name, told.cases, told.accepted, told.seconds, left[name][0] if left[name] else None]})
            tallies[name] = Tally()
