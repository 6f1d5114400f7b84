"""Random variation of a scenario: for domain randomisation, curricula and tests of robustness."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from slipstream.errors import InputError

LEAST_LOAD, MOST_LOAD = 1e-3, 1e3
WIDTHS = ("latency", "profile_error", "interference", "rate")
"""Properties that are multiplied by a random factor."""


@dataclass(frozen=True)
class Variation:
    """Half-widths of random factors: x means a factor drawn uniformly from 1 − x to 1 + x, 0 no variation."""

    latency: float = 0.0
    """Duration of runs, both in the profile and actual: visible to policies."""
    profile_error: float = 0.0
    """Actual duration of runs with an unchanged profile: invisible to policies."""
    interference: float = 0.0
    """Slowdown of concurrent jobs."""
    rate: float = 0.0
    """Arrival rate of jobs."""
    load: float = 1.0
    """Not a half-width: a multiplier of every arrival rate; 1 leaves them unchanged."""

    length: float = 0.0
    """Not a half-width: mean length of episodes cut off at a memoryless random time, in units of the family's
    timescale; 0 cuts none."""

    def __post_init__(self) -> None:
        for name in WIDTHS:
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                raise InputError(f"variation: {name} is {value}: expected at least 0 and less than 1")
        if not self.length >= 0.0:
            raise InputError(f"variation: length is {self.length}: expected at least 0")
        if not LEAST_LOAD <= self.load <= MOST_LOAD:
            raise InputError(
                f"variation: load is {self.load}: expected a multiple between {LEAST_LOAD:g} and {MOST_LOAD:g}"
            )

    def factors(self, seed: int, name: str, count: int) -> np.ndarray:
        """Return `count` random factors of the property `name`: exactly 1 where its width is 0.

        Every property has its own draws, which do not depend on the widths: a wider variation of the same seed deviates
        in the same direction, only farther.
        """
        source = np.random.SeedSequence(seed, spawn_key=(WIDTHS.index(name),))
        draws = np.random.Generator(np.random.PCG64(source)).random(count)
        factors: np.ndarray = 1.0 + getattr(self, name) * (2.0 * draws - 1.0)
        return factors

    def require_only(self, family: str, *names: str) -> None:
        """Raise an InputError if a property other than `names`, those that `family` supports, is varied."""
        for field in fields(self):
            if field.name not in names and getattr(self, field.name) != field.default:
                known = ", ".join(names)
                raise InputError(f"variation: {field.name}: scenarios of '{family}' do not vary so: expected {known}")

    def description(self, seed: int) -> str:
        """Return a sentence that lists the varied properties and `seed`."""
        varied = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"Varied: {', '.join(f'{field.name} {getattr(self, field.name):g}' for field in varied)}, seed {seed}."

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every scenario unchanged."""
        return self == Variation()
