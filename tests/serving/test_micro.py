"""Proteus's own batchers, request by request: what its simulator answered when, on two accelerators."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slipstream.core.eventlog import DROP
from slipstream.core.simulator import Simulator
from slipstream.errors import InputError
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.serving.metrics import FINISHED, metrics, requests_of
from slipstream.serving.sources import read_allocation, scenario_of


@pytest.fixture
def micro(shared_data: Path) -> Path:
    folder = shared_data / "serving" / "open"
    if not folder.is_dir():
        pytest.skip("the serving data are not beside this repository")
    return folder


@pytest.mark.parametrize("batching", ["accscale", "aimd", "nexus"])
@pytest.mark.parametrize("trace", ["15", "65"])
def test_every_request_is_answered_when_proteus_answers_it(micro: Path, trace: str, batching: str) -> None:
    data = scenario_of(
        micro / "micro" / "profile.csv",
        micro / "micro" / "variants",
        micro / "micro" / f"trace_{trace}",
        slo_ms=300.0,
        fleet={"CPU": 2},
        initial=read_allocation(micro / "micro" / "alloc.txt"),
        batching=batching,
        routing="random",
        drop="twice-deadline",
        compat="proteus",
        planning={"interval_s": 1000.0},
    )
    scenario: Any = load(data)
    events = Simulator(scenario).play(find("eft", "serving"), 0)
    requests = requests_of(scenario, events)
    names = [model.name for model in scenario.models]
    done = requests.fate == FINISHED
    columns = (requests.model[done], requests.arrival[done] // 10**6, requests.finish[done] / 1e6)
    answered = Counter((names[model], arrival, finish) for model, arrival, finish in zip(*columns, strict=True))
    known = micro / "expected" / f"micro_{trace}__{batching}"
    lines = gzip.decompress((known / "latency.csv.gz").read_bytes()).decode().split()[1:]
    cells = [line.split(",") for line in lines]
    assert answered == Counter((name, int(arrival), float(finish)) for name, arrival, finish, _ in cells)
    result = json.loads((known / "result.json").read_text())
    assert (events["kind"] == DROP).sum() == result["dropped"]
    figures = metrics(scenario, events)
    assert figures["violation_ratio"] == pytest.approx(result["slo_violation_true"])
    assert figures["proteus_violation_ratio"] == pytest.approx(result["slo_violation_reported"])
    assert figures["effective_accuracy"] == pytest.approx(result["effective_accuracy"])


@pytest.mark.parametrize(
    "text", ["", "required_predictors: 3", "required_predictors: {1: 2}", "required_predictors: {[]: 1}"]
)
def test_a_damaged_allocation_is_told_in_one_line(text, tmp_path):
    path = tmp_path / "alloc.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="expected 'required_predictors:' and a dictionary like") as error:
        read_allocation(path)
    assert "\n" not in str(error.value)
