"""The trained policies that come with the family of LLM engines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import slipstream
from slipstream.policies.base import find
from slipstream.policies.learned import load_policy, shipped

pytestmark = pytest.mark.thorough

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHIPPED: tuple[str, ...] = ("learned-azure-code",)


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("llm_policies")
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(BENCHMARKS) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_those_that_held_up_are_there() -> None:
    assert set(shipped("llm")) == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_small_and_says_where_it_comes_from(name: str) -> None:
    folder = shipped("llm")[name]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40_000
    card = load_policy(folder).card
    assert card["command"].startswith(f"python benchmarks/llm_search.py {name.removeprefix('learned-')}")
    assert card["algorithm"] == "evolution"


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("scenario", ["llm/tiny", "llm/fleet"])
def test_it_plays_scenarios_that_it_was_not_trained_on(name: str, scenario: str) -> None:
    assert slipstream.evaluate(scenario, name, 2, 20_000).mean("rejected") == 0.0


def test_it_is_ahead_of_the_shortest_prompt_with_a_good_budget(
    benchmark: Any, shared_data: Path, tmp_path: Path
) -> None:
    benchmark.write_parts(shared_data, tmp_path)
    load, name = 0.8, "azure-code"
    seconds = benchmark.gap_s(name, tmp_path, load)
    test = benchmark.described(name, tmp_path, "test", seconds, {"token_budget": 512})
    theirs: Any = slipstream.load(test)
    ours: Any = slipstream.load({**benchmark.training_scenario(name, tmp_path), "requests": test["requests"]})
    seeds = benchmark.windows(theirs, benchmark.SEED, 10)
    trained = benchmark.episodes(ours, find(f"learned-{name}", "llm"), seeds)
    rule = benchmark.episodes(theirs, find("shortest-prompt", "llm"), seeds)
    assert trained["slo_attainment"].mean() > rule["slo_attainment"].mean()
    assert trained["e2e_mean_s"].mean() < rule["e2e_mean_s"].mean()
    assert trained["e2e_p99_s"].mean() < 1.02 * rule["e2e_p99_s"].mean()
