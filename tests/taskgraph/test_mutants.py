"""The comparison with the reference is worth what it catches: every mutant of the taskgraph kernel is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation import Mutant, check_death, check_places, check_survival
from tests.taskgraph.mutants import MUTANTS

KILLER = "tests/taskgraph/kill.py"
EXAMPLES, FEW_EXAMPLES = 200, 40


def test_every_mutant_changes_one_place() -> None:
    check_places(MUTANTS)


def test_the_kernel_as_it_is_survives_a_few_examples(tmp_path: Path) -> None:
    check_survival(tmp_path, KILLER, FEW_EXAMPLES)


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.quick], ids=lambda mutant: mutant.why)
def test_mutant_is_killed_by_a_few_examples(mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, KILLER, mutant, FEW_EXAMPLES)


@pytest.mark.slow
def test_the_kernel_as_it_is_survives(tmp_path: Path) -> None:
    check_survival(tmp_path, KILLER, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.why)
def test_mutant_is_killed(mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, KILLER, mutant, EXAMPLES)
