"""Scenarios compiled to arrays, cached per scenario object, because every part of an environment needs them."""

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
class CompiledScenario(Generic[Sizes, Library]):
    """A scenario as arrays, for families whose jobs are drawn from a library of templates."""

    spec: dict[str, np.ndarray]
    sizes: Sizes
    """Sizes of the arrays of a lane."""
    library: Library


def cached_per_scenario(build: Callable[[Scenario], Result]) -> Callable[[Scenario], Result]:
    """Return `build` with a cache: it runs once per scenario object, and its result lives as long as the object.

    All users of a scenario share its arrays, so a plan that one of them writes is seen by every simulator of it. Equal
    scenarios that are different objects are compiled separately.
    """
    cache: dict[int, tuple[weakref.ref[Any], Result]] = {}

    @wraps(build)
    def cached(scenario: Scenario) -> Result:
        key = id(scenario)
        if key not in cache:
            cache[key] = (weakref.ref(scenario, lambda _: cache.pop(key, None)), build(scenario))
        return cache[key][1]

    return cached
