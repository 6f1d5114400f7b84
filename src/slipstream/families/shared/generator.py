"""Interface of a family's scenario generator, used by `slipstream generate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.shared.schema import ScenarioModel, StrictModel


@dataclass(frozen=True)
class Generator:
    """A seeded source of scenarios."""

    settings: type[StrictModel]
    """Each field becomes a command-line option, with the docstring under it as help text."""
    generate: Callable[[Any, int], Any]
    """Returns the scenario of the settings and a seed."""
    traced: Callable[[Any, int, str, Any], tuple[Any, dict[str, bytes]]]
    """Takes a scenario, a seed, the name of a folder and 'csv' or 'parquet'.

    Returns the scenario with the arrivals of that seed as traces, and the trace files by their relative paths.
    """
    draw: Callable[[np.random.Generator], Any]
    """Returns random settings: sizes, loads, arrival processes and hardware over the ranges that users have."""

    def random_scenario(self, seed: int) -> ScenarioModel:
        """Return the scenario of `seed` with random settings, drawn by the same seed."""
        scenario: ScenarioModel = self.generate(self.draw(np.random.default_rng([seed, SETTINGS])), seed)
        return scenario


SETTINGS = 1
"""Key of the draws of random settings, beside those of the scenario itself."""


def log_uniform(draws: np.random.Generator, low: float, high: float) -> float:
    """Return a number between `low` and `high` whose logarithm is uniform."""
    return float(np.exp(draws.uniform(np.log(low), np.log(high))))


def one_of(draws: np.random.Generator, *values: Any) -> Any:
    """Return one of `values`, each as likely as the others."""
    return values[int(draws.integers(len(values)))]


def option(field: str) -> str:
    """Return the command-line option that sets `field`."""
    return "--" + field.replace("_", "-")


def options(settings: StrictModel) -> list[str]:
    """Return the command-line arguments that give `settings`; defaults are left out."""
    words = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.default:
            words += [option(name), str(value)]
    return words
