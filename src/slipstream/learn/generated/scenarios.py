"""Generated scenarios of a family, of which a network is trained that is good on scenarios it has never seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES, Family, Scenario
from slipstream.families.shared.generator import Generator

SEEDS_PER_SPLIT = 2**40
SPLITS = ("train", "selection", "outcome")
"""Scenarios to learn from, to select the best network, and to compare it with the best rule.

Their generator seeds are disjoint, and none is below 2^40, where `slipstream generate` is used by hand.
"""


@dataclass(frozen=True)
class GeneratedScenarios:
    """Random scenarios of one family, by split and number."""

    family: Family

    @classmethod
    def of(cls, name: str) -> GeneratedScenarios:
        """Return the generated scenarios of the family `name`."""
        if name not in FAMILIES:
            raise InputError(f"{name}: expected a family to generate scenarios of: {', '.join(FAMILIES)}")
        if FAMILIES[name].generator is None:
            raise InputError(f"{name}: this family has no generator of scenarios")
        return cls(FAMILIES[name])

    @property
    def label(self) -> str:
        """Name of the scenarios in tables and cards."""
        return f"{self.family.name}/generated"

    def seed(self, split: str, number: int) -> int:
        """Return the generator seed of a scenario."""
        assert 0 <= number < SEEDS_PER_SPLIT
        return SEEDS_PER_SPLIT * (1 + SPLITS.index(split)) + number

    def scenario(self, split: str, number: int) -> Scenario:
        """Return scenario `number` of a split."""
        return _scenario(self.family.name, self.seed(split, number))


@lru_cache(maxsize=256)
def _scenario(family: str, seed: int) -> Scenario:
    generator: Generator | Any = FAMILIES[family].generator
    scenario: Scenario = generator.random_scenario(seed)
    return scenario
