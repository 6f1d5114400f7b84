"""The benchmark of all serving systems: places, dominance, table and picture, on made-up figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
INFAAS, PROTEUS = "INFaaS", "Proteus"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("serving_baselines", BENCHMARKS / "serving_policies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(benchmark: Any, **changes: tuple[float, float, float]) -> dict[str, dict[str, float]]:
    """Return rows in which ours is first; changes are on-time accuracy, violations and accuracy of single systems."""
    rows = dict.fromkeys(benchmark.SYSTEMS, (0.5, 0.4, 0.8)) | {benchmark.OURS: (0.9, 0.05, 0.95)} | changes
    names = ("on_time_accuracy", "violation_ratio", "effective_accuracy")
    return {name: dict(zip(names, row, strict=True)) for name, row in rows.items()}


def results(benchmark: Any, rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return them as those of the only scenario."""
    return {"some trace": {"systems": rows, **benchmark.verdict(rows)}}


def test_who_is_better_in_both_respects_dominates(benchmark: Any) -> None:
    rows = figures(benchmark, **{INFAAS: (0.89, 0.05, 0.96), PROTEUS: (0.95, 0.01, 0.949)})
    found = benchmark.verdict(rows)
    assert found["dominated_by"] == [INFAAS]
    assert (found["rank"], found["best_other"]) == (2, PROTEUS)
    assert found["ahead"] == pytest.approx(-0.05)


def test_equals_do_not_dominate(benchmark: Any) -> None:
    found = benchmark.verdict(figures(benchmark, **{INFAAS: (0.9, 0.05, 0.95)}))
    assert (found["rank"], found["dominated_by"]) == (1, [])


def test_the_mean_counts_every_scenario_alike(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SHOWN", ("on_time_accuracy", "violation_ratio", "effective_accuracy"))
    lost, won = figures(benchmark, **{INFAAS: (0.95, 0.01, 0.96)}), figures(benchmark, **{INFAAS: (0.55, 0.4, 0.7)})
    played = results(benchmark, lost) | {"another trace": {"systems": won, **benchmark.verdict(won)}}
    mean = benchmark.together(played)
    assert mean[INFAAS]["on_time_accuracy"] == pytest.approx(0.75)
    assert [one["rank"] for one in (*played.values(), benchmark.verdict(mean))] == [2, 1, 1]


def test_the_table_has_a_line_for_every_system(benchmark: Any) -> None:
    lines = benchmark.table(results(benchmark, figures(benchmark, **{INFAAS: (0.95, 0.01, 0.96)}))).splitlines()
    assert len(lines) == 2 + len(benchmark.SYSTEMS) + 2
    assert "| INFaaS | **0.9500** (1.00%) |" in lines
    assert "| milp-thorough, our data plane | 0.9000 (5.00%) |" in lines
    assert lines[-2:] == ["| rank of the default | 2 |", "| it is dominated by | INFaaS |"]


def test_the_pareto_front_rises_from_the_fewest_violations(benchmark: Any) -> None:
    points = {"first": (1.0, 80.0), "behind": (2.0, 70.0), "better": (5.0, 90.0)}
    assert benchmark.pareto_front(points) == [(1.0, 80.0), (5.0, 80.0), (5.0, 90.0), (100.0, 90.0)]


def test_the_picture_has_a_panel_for_every_scenario(benchmark: Any, tmp_path: Path) -> None:
    from PIL import Image

    one = results(benchmark, figures(benchmark))["some trace"]
    heights = []
    for count in (1, 4):
        benchmark.draw({f"trace {number}": one for number in range(count)}, tmp_path / "picture.png")
        with Image.open(tmp_path / "picture.png") as picture:
            heights.append(picture.size[1])
    assert heights[1] > 1.5 * heights[0]
