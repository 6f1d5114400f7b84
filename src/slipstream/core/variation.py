"""How far a scenario is varied: for domain randomisation, for a curriculum, for tests of robustness."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.errors import InputError

LEAST_LOAD, MOST_LOAD = 1e-3, 1e3


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

    def __post_init__(self) -> None:
        for name in ("latency", "profile_error", "interference", "rate"):
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                raise InputError(f"variation: {name} is {value}: expected at least 0 and less than 1")
        if not LEAST_LOAD <= self.load <= MOST_LOAD:
            raise InputError(
                f"variation: load is {self.load}: expected a multiple between {LEAST_LOAD:g} and {MOST_LOAD:g}"
            )

    @property
    def nothing(self) -> bool:
        """Whether it leaves every scenario as it is."""
        return self == Variation()
