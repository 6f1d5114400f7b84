"""What a family offers to `slipstream generate`: settings, and the function that turns them into a scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstream.families.shared.schema import StrictModel


@dataclass(frozen=True)
class Generator:
    """A seeded source of scenarios."""

    settings: type[StrictModel]
    """Each field becomes an option of the command line, and the docstring under it the help."""
    generate: Callable[[Any, int], Any]
    """Returns the scenario of some settings and a seed."""
    traced: Callable[[Any, int, str, Any], tuple[Any, dict[str, bytes]]]
    """Takes a scenario, a seed, the name of a folder and 'csv' or 'parquet'.

    Returns the scenario with the arrivals of that seed as traces, and those files by their paths beside the scenario.
    """


def option(field: str) -> str:
    """Return the option of the command line that sets a field."""
    return "--" + field.replace("_", "-")


def options(settings: StrictModel) -> list[str]:
    """Return the words of a command line that gives these settings; defaults are left out."""
    words = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.default:
            words += [option(name), str(value)]
    return words
