"""What a family tells the tests that all families share: the `SUBJECT` in its `tests/<family>/subject.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slipstream.families.contract import FAMILIES, Family
from slipstream.policies.base import Heuristic, find, names
from tests.mutation import Mutant
from tests.strategies import scripted_action

Json = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How many examples are tried, and how long: enough to find what is there, and no more, since time is scarce."""

    thorough: int = 1000
    """Scenarios on which kernel and reference are compared choice by choice."""
    brief: int = 40
    """Scenarios for each of the other laws."""
    per_policy: int = 20
    """Scenarios that each heuristic plays."""
    observed: int = 150
    """Scenarios in which what an agent sees is compared, up to `observed_choices`."""
    observed_choices: int = 100
    built_in_choices: int = 60
    """Choices of a built-in up to which what an agent sees is compared."""
    observe_every: int = 1
    """At every how many-th choice all rows are compared."""
    many: int = 5000
    """Scenarios of the slow comparison."""
    watched: int = 300
    """Scenarios of which the machine's rules must all come into play."""
    killing: tuple[int, int] = (200, 40)
    """Scenarios that a mutant is put to, in the slow and in the fast suite."""
    killing_choices: int = 60
    killing_observed_choices: int = 40
    killing_observe_every: int = 3


@dataclass(frozen=True)
class Subject:
    """A family under test; what fills a file of its own is found in the file of that name beside it."""

    family: Family
    reference: Callable[..., Any]
    """Makes an episode of the plain-Python simulator from a scenario, a seed and, where it matters, a split."""
    scenarios: Callable[[], st.SearchStrategy[Any]]
    """Draws small scenarios of the whole machine."""
    check_laws: Callable[[np.ndarray, Any], None]
    """Raises where the log of a whole episode of a scenario breaks a law."""
    logged: Sequence[int]
    """Kinds of events that a log has."""
    small: str
    """A built-in whose episodes are short."""
    busy: str
    """A built-in with some choices to make in every lane."""
    shown: Sequence[str]
    """Built-ins in which what an agent sees is compared as well."""
    everything: Json
    """A scenario with something of everything, that plain Python plays in seconds."""
    played: Sequence[str]
    """Heuristics of different kinds."""
    own_policies: Sequence[Heuristic] = ()
    """Heuristics to try beside those that are registered."""
    killing_policies: Sequence[Heuristic] = ()
    """Those that mutants are put to."""
    act: Callable[[int, int, Sequence[int]], int] = scripted_action
    """The action of a script at its n-th choice."""
    compare_more: Callable[[], None] = lambda: None
    """What mutants are put to besides."""
    effort: Effort = field(default_factory=Effort)

    @property
    def name(self) -> str:
        return self.family.name

    def _room(self, name: str) -> Any:
        return import_module(f"tests.{self.name}.{name}")

    @property
    def cases(self) -> Sequence[Any]:
        """Episodes worked out by hand; each has a name."""
        cases: Sequence[Any] = self._room("cases").CASES
        return cases

    def check_case(self, case: Any, make: Callable[[Any], Any]) -> None:
        """Assert that a case goes as worked out, in the lane that is made of its scenario."""
        self._room("cases").check(case, make)

    @property
    def mutants(self) -> list[Mutant]:
        mutants: list[Mutant] = self._room("mutants").MUTANTS
        return mutants

    @property
    def frozen(self) -> Mapping[str, str]:
        """Digests of the built-in scenarios."""
        digests: Mapping[str, str] = self._room("frozen").FROZEN
        return digests

    @property
    def written(self) -> Sequence[str]:
        """Keys with defaults, as `reward.drops`, that every built-in states all the same: they decide results."""
        keys: Sequence[str] = self._room("frozen").WRITTEN
        return keys

    def watched(self, scenario: Any, seed: int) -> Any:
        """Return an episode of a reference that counts in `seen` which of its rules came into play."""
        return self._room("watched").Watched(scenario, seed)

    @property
    def least_shares(self) -> Mapping[str, float]:
        """In what share of the drawn scenarios each rule comes into play at the least."""
        shares: Mapping[str, float] = self._room("watched").LEAST_SHARES
        return shares

    @property
    def policies(self) -> list[Heuristic]:
        """All heuristics, registered or not."""
        return [*(find(name, self.name) for name in names(self.name)), *self.own_policies]


def subject_of(family: str) -> Subject:
    """Return the subject of a family."""
    subject: Subject = import_module(f"tests.{family}.subject").SUBJECT
    return subject


SUBJECTS = list(FAMILIES)
"""Names of all families: each has a subject."""
