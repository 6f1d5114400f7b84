"""How far a scenario is varied: for domain randomisation, for a curriculum, for tests of robustness."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from slipstream.errors import InputError

LEAST_LOAD, MOST_LOAD = 1e-3, 1e3
WIDTHS = ("latency", "profile_error", "interference", "rate")
"""Properties that are varied by a factor drawn at random."""


@dataclass(frozen=True)
class Variation:
    """Half-widths of random factors: x stands for a factor drawn uniformly from 1 − x to 1 + x, so 0 varies nothing."""

    latency: float = 0.0
    """How long runs take, as the profile says and as they really do: a policy sees it."""
    profile_error: float = 0.0
    """How long runs really take, beside a profile that stays as it is: a policy does not see it."""
    interference: float = 0.0
    """How much jobs that run side by side slow each other down."""
    rate: float = 0.0
    """How often jobs arrive."""
    load: float = 1.0
    """No half-width: a multiple of every arrival rate; 1 leaves them as they are."""

    length: float = 0.0
    """No half-width: mean length of an episode in the family's timescale, cut off at any moment alike; 0 never."""

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
        """Return the factors of one property: exactly 1 where its width is 0.

        Every property has draws of its own, which do not depend on the widths: a wider variation of the same seed goes
        the same way, only farther.
        """
        source = np.random.SeedSequence(seed, spawn_key=(WIDTHS.index(name),))
        draws = np.random.Generator(np.random.PCG64(source)).random(count)
        factors: np.ndarray = 1.0 + getattr(self, name) * (2.0 * draws - 1.0)
        return factors

    def only(self, family: str, *names: str) -> None:
        """Refuse what a family cannot vary."""
        for field in fields(self):
            if field.name not in names and getattr(self, field.name) != field.default:
                known = ", ".join(names)
                raise InputError(f"variation: {field.name}: scenarios of '{family}' do not vary so: expected {known}")

    def told(self, seed: int) -> str:
        """Return a sentence that says how a scenario came to be."""
        varied = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"Varied: {', '.join(f'{field.name} {getattr(self, field.name):g}' for field in varied)}, seed {seed}."

    @property
    def nothing(self) -> bool:
        """Whether it leaves every scenario as it is."""
        return self == Variation()
