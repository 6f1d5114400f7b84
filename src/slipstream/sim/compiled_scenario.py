"""Scenarios built into arrays, once for each: every part of an environment asks for the same ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, TypeVar

import numpy as np

Scenario = TypeVar("Scenario")
Result = TypeVar("Result")
Sizes = TypeVar("Sizes")
Library = TypeVar("Library")


@dataclass(frozen=True)
class Built(Generic[Sizes, Library]):
    """A scenario as arrays, for families whose jobs are drawn from a library of templates."""

    spec: dict[str, np.ndarray]
    sizes: Sizes
    """How large the arrays of a lane are."""
    library: Library


def keep_built(build: Callable[[Scenario], Result]) -> Callable[[Scenario], Result]:
    """Return a function that builds each scenario object once and keeps the result while the object lives.

    All users of one scenario share its arrays, so what one of them writes (a plan) every simulator of it sees. Equal
    scenarios that are different objects are built separately.
    """
    kept: dict[int, tuple[weakref.ref[Any], Result]] = {}

    @wraps(build)
    def built(scenario: Scenario) -> Result:
        key = id(scenario)
        if key not in kept:
            kept[key] = (weakref.ref(scenario, lambda _: kept.pop(key, None)), build(scenario))
        return kept[key][1]

    return built
