"""The benchmark of `auto`: its scenarios are nobody else's, and a run that was stopped continues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import auto as benchmark

from slipstream.families.contract import FAMILIES
from slipstream.learn.generated.scenarios import SPLITS, GeneratedScenarios
from slipstream.scenario import builtin_names, digest, load
from slipstream.suite import load_suite

LONG = ("dag",)
"""Families whose forty scenarios take long to draw."""


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.thorough) if name in LONG else name for name in FAMILIES]
)
def test_generated_scenarios_are_not_of_the_suite_nor_built_in_nor_trained_on(family: str) -> None:
    drawn = [digest(benchmark.scenario_of(family, number)) for number in range(40)]
    assert len(set(drawn)) == len(drawn)
    others = {entry.digest for entry in load_suite().of(family)}
    others |= {digest(load(name)) for name in builtin_names() if name.startswith(f"{family}/")}
    trained = GeneratedScenarios.of(family)
    others |= {digest(trained.scenario(split, number)) for split in SPLITS for number in range(3)}
    assert not others & set(drawn)
    assert benchmark.FIRST + len(drawn) < min(trained.seed(split, 0) for split in SPLITS)


def test_a_finished_piece_is_not_measured_again_and_none_begins_too_late(tmp_path: Path) -> None:
    path, about = tmp_path / "kept.jsonl", {"episodes": 2}
    kept = benchmark.Kept(path, 1.0, about)
    assert kept.get("one", lambda number: {"found": number}, 3) == [{"found": 3}]
    again = benchmark.Kept(path, 0.0, about)
    assert again.get("one", lambda: pytest.fail("measured again")) == [{"found": 3}]
    assert (again.get("two", lambda: pytest.fail("began too late")), again.left) == ([], 1)
    other = benchmark.Kept(path, 1.0, {"episodes": 3})
    assert other.get("one", lambda: 5) == [5]


def test_a_point_is_a_hundredth_of_the_lead_of_the_best_rule_over_random() -> None:
    reached = {"random": np.array([0.0, -10.0]), "one": np.array([2.0, 4.0]), "best": np.array([5.0, 5.0])}
    assert benchmark.unit_of(reached) == 0.1
    rows = [{"gain": {"mean": mean, "high": mean + 1.0}, "number": number} for number, mean in enumerate((4.0, -2.0))]
    found = benchmark.generated_summary(rows)
    assert (found["gain"]["mean"], found["worst"]["number"], found["surely_behind"]) == (1.0, 1, 1)
