"""Base model of all objects of a scenario: strict, frozen, with suggestions for unknown keys; units of time."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

NANOSECONDS_PER_MS = 1_000_000
LONGEST_MS = 8.64e9
"""One hundred days. Below 2**53 ns, so every time is exact as a float64 too."""

PositiveMs = Annotated[float, Field(ge=1e-6, le=LONGEST_MS)]
"""A duration in milliseconds, at least one nanosecond."""
NonNegativeMs = Annotated[float, Field(ge=0.0, le=LONGEST_MS)]
NANOSECONDS_PER_S = 1_000_000_000
LONGEST_S = LONGEST_MS / 1e3
PositiveSeconds = Annotated[float, Field(ge=1e-9, le=LONGEST_S)]
"""A duration in seconds, at least one nanosecond."""
NonNegativeSeconds = Annotated[float, Field(ge=0.0, le=LONGEST_S)]
PositiveHz = Annotated[float, Field(ge=1e-6, le=1e9)]
"""A rate, in arrivals per second."""
NonNegative = Annotated[float, Field(ge=0.0, le=1e6)]
"""A weight, a price or an energy."""
Name = Annotated[str, Field(min_length=1, max_length=200)]


def nanoseconds(milliseconds: float) -> int:
    """Return `milliseconds` in whole nanoseconds, the unit of time of all kernels."""
    return round(milliseconds * NANOSECONDS_PER_MS)


def nanoseconds_of(seconds: float) -> int:
    """Return `seconds` in whole nanoseconds."""
    return round(seconds * NANOSECONDS_PER_S)


def gap_or_rate(gap: str, found: bool, rate_found: bool) -> None:
    """Raise an error unless exactly one of the keys `gap` and 'rate_hz' was given."""
    if found == rate_found:
        raise PydanticCustomError("rate", "expected either '{gap}' or 'rate_hz'", {"gap": gap})


class StrictModel(BaseModel):
    """A JSON object of a scenario: no unknown keys, no silent conversions, no NaN, immutable."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    newer_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that were added after digests had come into use."""

    def digest_data(self) -> dict[str, Any]:
        """Return the JSON form without newer keys at their default, so that new keys do not change old digests."""
        data = self.model_dump(mode="json")
        for key in self.newer_keys:
            if getattr(self, key) == type(self).model_fields[key].default:
                del data[key]
        return data

    @model_validator(mode="before")
    @classmethod
    def _suggest_the_nearest_key(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    near = difflib.get_close_matches(str(key), cls.model_fields, n=1, cutoff=0.5)
                    hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(cls.model_fields)}"
                    raise PydanticCustomError(
                        "unknown_key", "unknown key '{key}': {hint}", {"key": str(key), "hint": hint}
                    )
        return data


class ScenarioModel(StrictModel):
    """What the scenarios of all families have in common; a family narrows `family` to its own name."""

    family: str
    name: Name = "unnamed"
    description: str = ""

    _folder: Path = PrivateAttr(default_factory=Path)
