"""The suite's data: scenarios with their digests, seeds, and reference rewards of every test episode.

All of it is package data: `v2/suite.json` lists the scenarios and the seeds, `v2/scenarios` holds the scenarios, and
`v2/reference` the rewards of `random`, every other rule and the oracle in each test episode.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import SuiteError
from slipstream.families.contract import Scenario
from slipstream.files.inputs import read_bytes
from slipstream.scenario import digest, load

VERSION = "v2"
NAME = re.compile(r"v[0-9]{1,6}")
FLOOR = "random"
"""The policy whose score is 0."""


@dataclass(frozen=True)
class Reference:
    """Reference rewards of the test episodes of a scenario; arrays have one value per episode."""

    best: np.ndarray
    """The best reward of the oracle and all rules."""
    bound: np.ndarray
    """A reward that no policy can exceed."""
    rules: dict[str, np.ndarray]
    """Rewards of every rule, `random` among them."""
    learned: dict[str, tuple[str, np.ndarray]]
    """Rewards of the package's trained policies, each with the hash of its files."""

    @property
    def floor(self) -> np.ndarray:
        """Rewards of `random`."""
        return self.rules[FLOOR]

    @cached_property
    def scale(self) -> float:
        """Difference in mean reward between a score of 0 and one of 100."""
        return float(self.best.mean() - self.floor.mean())


@dataclass(frozen=True)
class Entry:
    """A scenario of the suite."""

    suite: str
    family: str
    name: str
    kind: str
    """What the scenario tests: `size`, `load` or `shift`."""
    digest: str

    @property
    def id(self) -> str:
        """Its name in tables, such as 'edge/heavy'."""
        return f"{self.family}/{self.name}"

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario; a SuiteError if its digest is not the frozen one."""
        text = (
            _data_folder(self.suite).joinpath("scenarios", self.family, f"{self.name}.json").read_text(encoding="utf-8")
        )
        loaded = load(json.loads(text))
        found = digest(loaded)
        if found != self.digest:
            raise SuiteError(f"suite {self.suite}: {self.id}: its digest is {found}: expected {self.digest}")
        return loaded

    @cached_property
    def reference(self) -> Reference:
        """Reference rewards of its test episodes."""
        return reference_of(_references(self.suite, self.family), self)


@dataclass(frozen=True)
class Seeds:
    """A range of episodes: split, first seed and number."""

    split: str
    first: int
    episodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the seeds as JSON-ready data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Suite:
    """The whole suite, or a selection of its families."""

    version: str
    entries: tuple[Entry, ...]
    test: Seeds
    practice: Seeds
    """Seeds for model selection; the test seeds must not be used for training or selection."""

    @property
    def families(self) -> list[str]:
        """The families, in the order of the suite."""
        return list(dict.fromkeys(entry.family for entry in self.entries))

    def of(self, family: str) -> list[Entry]:
        """Return the scenarios of `family`."""
        return [entry for entry in self.entries if entry.family == family]

    @cached_property
    def digest(self) -> str:
        """Hash of everything that determines results: the scenarios' digests and the seeds."""
        listed = [(entry.id, entry.digest) for entry in self.entries]
        text = json.dumps([self.version, listed, self.test.to_dict()], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def only(self, families: Sequence[str]) -> Suite:
        """Return the suite restricted to `families`."""
        for family in families:
            if family not in self.families:
                raise SuiteError(f"unknown family '{family}': expected one of {', '.join(self.families)}")
        kept = tuple(entry for entry in self.entries if entry.family in families)
        return Suite(self.version, kept, self.test, self.practice)


def load_suite(version: str = VERSION) -> Suite:
    """Return the suite of `version`."""
    listing = _data_folder(version).joinpath("suite.json")
    if not NAME.fullmatch(version) or not listing.is_file():  # checked first: a path could point anywhere
        raise SuiteError(f"suite '{version}' is not known: expected {VERSION}")
    data = json.loads(listing.read_text(encoding="utf-8"))
    entries = tuple(Entry(version, *(one[key] for key in ENTRY_KEYS)) for one in data["scenarios"])
    return Suite(version, entries, *(Seeds(**data["seeds"][name]) for name in ("test", "practice")))


ENTRY_KEYS = ("family", "name", "kind", "digest")


def reference_of(data: dict[str, Any], entry: Entry) -> Reference:
    """Return the reference of `entry` from `data`, the content of a reference file."""
    found = data.get(entry.name)
    if found is None or found["digest"] != entry.digest:
        raise SuiteError(f"suite {entry.suite}: {entry.id}: nothing is known of its episodes: expected a reference")
    rules = {name: np.array(values) for name, values in found["rules"].items()}
    learned = {name: (one["sha256"], np.array(one["rewards"])) for name, one in found["learned"].items()}
    reached = np.max([found["best_known"], *rules.values()], axis=0)
    return Reference(reached, np.array(found["bound"]), rules, learned)


def _data_folder(version: str) -> Any:
    return resources.files("slipstream.suite").joinpath(version)


def _references(version: str, family: str) -> dict[str, Any]:
    file = _data_folder(version).joinpath("reference", f"{family}.json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def folder_hash(folder: Path) -> str:
    """Return a hash of names and contents of the files in `folder`."""
    content = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            raw = read_bytes(path, "a file of a policy", folder=folder)
            content.update(os.fsencode(path.name) + b"\0" + hashlib.sha256(raw).digest())
    return content.hexdigest()
