"""Interface of a family's scenario generator, used by `slipstream generate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstream.families.shared.schema import StrictModel


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
