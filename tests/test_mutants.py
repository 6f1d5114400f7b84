"""The comparison with the reference is worth what it catches: every mutant of a family's kernel is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.mutants import MUTANTS as CLUSTER
from tests.dag.mutants import MUTANTS as DAG
from tests.edge.mutants import MUTANTS as EDGE
from tests.mutation import Mutant, check_death, check_places, check_survival
from tests.taskgraph.mutants import MUTANTS as TASKGRAPH

MUTANTS = {"edge": EDGE, "dag": DAG, "taskgraph": TASKGRAPH, "cluster": CLUSTER}
EXAMPLES = {"edge": (150, 30), "dag": (200, 40), "taskgraph": (200, 40), "cluster": (200, 40)}
"""Scenarios of a long and of a short comparison."""


def killer(family: str) -> str:
    return f"tests/{family}/kill.py"


def each(quick: bool) -> list[Any]:
    return [
        pytest.param(family, mutant, id=f"{family}: {mutant.why}")
        for family, mutants in MUTANTS.items()
        for mutant in mutants
        if mutant.quick or not quick
    ]


@pytest.mark.parametrize("family", MUTANTS)
def test_every_mutant_changes_one_place(family: str) -> None:
    check_places(MUTANTS[family])


@pytest.mark.parametrize("family", MUTANTS)
def test_the_kernel_as_it_is_survives_a_few_examples(family: str, tmp_path: Path) -> None:
    check_survival(tmp_path, killer(family), EXAMPLES[family][1])


@pytest.mark.parametrize(("family", "mutant"), each(quick=True))
def test_mutant_is_killed_by_a_few_examples(family: str, mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, killer(family), mutant, EXAMPLES[family][1])


@pytest.mark.slow
@pytest.mark.parametrize("family", MUTANTS)
def test_the_kernel_as_it_is_survives(family: str, tmp_path: Path) -> None:
    check_survival(tmp_path, killer(family), EXAMPLES[family][0])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "mutant"), each(quick=False))
def test_mutant_is_killed(family: str, mutant: Mutant, tmp_path: Path) -> None:
    check_death(tmp_path, killer(family), mutant, EXAMPLES[family][0])
