"""Generated serving scenarios are valid, repeat, and suit their load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipstream.families.serving.build import candidate_rows, compiled_scenario
from slipstream.families.serving.metrics import requests_of
from slipstream.families.serving.workload.generator import GENERATOR, Settings, generate
from slipstream.policies.base import find
from slipstream.scenario import digest, dump, load
from slipstream.sim.simulator import Simulator


@pytest.mark.parametrize("arrivals", ["poisson", "gamma", "even", "diurnal", "bursty", "blis"])
def test_a_seed_gives_the_same_scenario(arrivals: Any) -> None:
    settings = Settings(arrivals=arrivals, models=3, duration_s=5.0)
    assert digest(generate(settings, 4)) == digest(generate(settings, 4)) != digest(generate(settings, 5))
    assert compiled_scenario(generate(settings, 4)).spec["models"]["expected"].sum() > 0


def test_shares_and_the_generator_of_the_original() -> None:
    rates = compiled_scenario(generate(Settings(arrivals="poisson", models=3), 0)).spec["models"]["expected"]
    assert rates[0] / rates[2] == pytest.approx(3.0, rel=0.01)
    blis = compiled_scenario(generate(Settings(arrivals="blis", models=3), 0)).spec["models"]["expected"]
    assert blis.tolist() == pytest.approx([100.0, 50.0, 100.0 / 3.0])


def test_random_runtimes_are_whole_and_from_20_to_100() -> None:
    scenario = generate(Settings(random_runtimes=True, models=4), 1)
    alone = [times[0] for model in scenario.models for one in model.variants for times in one.latency_ms.values()]
    assert all(20 <= time <= 100 and time == int(time) for time in alone)
    assert "--random-runtimes" in scenario.description
    assert "True" not in scenario.description


def test_registered_models_that_are_not_active_cost_no_rows() -> None:
    few = generate(Settings(models=5, active=5, duration_s=5.0), 0)
    many = generate(Settings(models=2000, active=5, duration_s=5.0), 0)
    assert candidate_rows(few) == candidate_rows(many)


def test_traces_hold_the_arrivals_of_the_seed(tmp_path: Path) -> None:
    scenario = generate(Settings(models=2, accelerators=3, duration_s=3.0), 2)
    moved, files = GENERATOR.traced(scenario, 2, "arrivals", "csv")
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "s.json").write_text(dump(moved))
    again: Any = load(tmp_path / "s.json")
    one, other = (requests_of(s, Simulator(s).play(find("eft", "serving"), 2)) for s in (scenario, again))
    assert one.arrival.tolist() == other.arrival.tolist()
    assert one.deadline.tolist() == other.deadline.tolist()
