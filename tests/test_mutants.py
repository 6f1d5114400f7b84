"""The comparison with the reference is worth what it catches: every mutant of a family's kernel is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mutation import Mutant, check_death, check_places, check_survival
from tests.subjects import SUBJECTS, subject_of


def each(quick: bool) -> list[Any]:
    return [
        pytest.param(family, mutant, id=f"{family}: {mutant.why}")
        for family in SUBJECTS
        for mutant in subject_of(family).mutants
        if mutant.quick or not quick
    ]


@pytest.mark.parametrize("family", SUBJECTS)
def test_every_mutant_changes_one_place(family: str) -> None:
    check_places(subject_of(family).mutants)


@pytest.mark.thorough
@pytest.mark.parametrize("family", SUBJECTS)
def test_the_kernel_as_it_is_survives_a_few_examples(family: str, tmp_path: Path) -> None:
    check_survival(tmp_path, family, subject_of(family).effort.killing[1])


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "mutant"), each(quick=True))
def test_mutant_is_killed_by_a_few_examples(family: str, mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, family, mutant, subject_of(family).effort.killing[1])


@pytest.mark.slow
@pytest.mark.parametrize("family", SUBJECTS)
def test_the_kernel_as_it_is_survives(family: str, tmp_path: Path) -> None:
    check_survival(tmp_path, family, subject_of(family).effort.killing[0])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "mutant"), each(quick=False))
def test_mutant_is_killed(family: str, mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, family, mutant, subject_of(family).effort.killing[0])
