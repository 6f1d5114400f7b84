"""Scenarios and reward weights are frozen: nobody can win by moving them."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.scenario import builtin_names, digest, load
from tests.subjects import SUBJECTS, subject_of

FROZEN = {name: found for family in SUBJECTS for name, found in subject_of(family).frozen.items()}


def is_written(part: Any, key: str) -> bool:
    """Return whether a key like `reward.drops` stands in the file and is not left to its default."""
    name, _, rest = key.partition(".")
    return name in part.model_fields_set and (not rest or is_written(getattr(part, name), rest))


def test_every_built_in_is_frozen() -> None:
    assert set(FROZEN) == set(builtin_names())


@pytest.mark.parametrize("name", FROZEN)
def test_a_built_in_has_not_been_moved(name: str) -> None:
    assert digest(load(name)) == FROZEN[name]


@pytest.mark.parametrize("name", FROZEN)
def test_what_decides_results_is_written_out(name: str) -> None:
    scenario = load(name)
    assert [key for key in subject_of(scenario.family).written if not is_written(scenario, key)] == []
