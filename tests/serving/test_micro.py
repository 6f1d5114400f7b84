"""Proteus's own batchers, request by request: what its simulator answered when, on two accelerators."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.errors import InputError
from slipstream.families.serving.metrics import FINISHED, metrics, requests_of
from slipstream.families.serving.workload.sources import read_allocation, read_variants, scenario_of
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import DROP
from slipstream.sim.simulator import Simulator

Answer = tuple[str, int, float]
SHORT = json.loads(Path(__file__).with_name("proteus_answers.json").read_text())
"""What the simulator of UMass-LIDS/Proteus (6967c93) answered on short traces at ten rates; at the four lowest rates
there is a second trace, in which a head's alarm has the time of an older one."""
FURTHER = {
    ("40", "accscale"): (1561, 39, "1a8cd5479c3db71bd95099985523030e452b21807ead724f3811cc8be9d6086e"),
    ("40", "aimd"): (1594, 0, "2486fc17b683890280a0bc60fe11948957ce2b80d2db7696e6aa3d5d57ebf28d"),
    ("40", "nexus"): (1591, 9, "b6ebee18a23b964ad7e463cb4c3b736cd6b3223defa7a4b7e134624658ae4c87"),
    ("90", "accscale"): (2961, 639, "5cd1400cfdec9c8b12420fef9f138a1137ed3fb6a95f9b9f05a4dc769e90a614"),
    ("90", "aimd"): (1165, 2435, "5d1684dd341ccc6d0f38976134117a8a7111d21ad4bd0c5ca920798d4fcc9698"),
    ("90", "nexus"): (2960, 640, "859f2c3017b9c46170e3e01bf9d318ef4b49af370d3f39cde610ad514a16da52"),
}
"""How many requests it answered and dropped, and the SHA-256 of its answers as sorted lines `model,arrival,finish`."""


@pytest.fixture
def micro(shared_data: Path) -> Path:
    folder = shared_data / "serving" / "open"
    if not folder.is_dir():
        pytest.skip("the serving data are not beside this repository")
    return folder


def scenario_from(micro: Path, trace: str, batching: str) -> Any:
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
    return load(data)


def answers_of(scenario: Any, events: np.ndarray) -> Counter[Answer]:
    """Return model, arrival and finish in ms of the requests that were answered."""
    requests = requests_of(scenario, events)
    names = [model.name for model in scenario.models]
    done = requests.fate == FINISHED
    columns = (requests.model[done], requests.arrival[done] // 10**6, requests.finish[done] / 1e6)
    return Counter((names[model], int(arrival), float(end)) for model, arrival, end in zip(*columns, strict=True))


@pytest.mark.parametrize("batching", ["accscale", "aimd", "nexus"])
@pytest.mark.parametrize("trace", ["15", "65"])
def test_every_request_is_answered_when_proteus_answers_it(micro: Path, trace: str, batching: str) -> None:
    scenario = scenario_from(micro, trace, batching)
    events = Simulator(scenario).play(find("eft", "serving"), 0)
    known = micro / "expected" / f"micro_{trace}__{batching}"
    lines = gzip.decompress((known / "latency.csv.gz").read_bytes()).decode().split()[1:]
    cells = [line.split(",") for line in lines]
    expected = Counter((name, int(arrival), float(finish)) for name, arrival, finish, _ in cells)
    assert answers_of(scenario, events) == expected
    result = json.loads((known / "result.json").read_text())
    assert (events["kind"] == DROP).sum() == result["dropped"]
    figures = metrics(scenario, events)
    assert figures["violation_ratio"] == pytest.approx(result["slo_violation_true"])
    assert figures["proteus_violation_ratio"] == pytest.approx(result["slo_violation_reported"])
    assert figures["effective_accuracy"] == pytest.approx(result["effective_accuracy"] / 100.0)


@pytest.mark.parametrize(("trace", "batching"), FURTHER)
def test_further_rates_are_answered_as_by_proteus(micro: Path, trace: str, batching: str) -> None:
    scenario = scenario_from(micro, trace, batching)
    events = Simulator(scenario).play(find("eft", "serving"), 0)
    answers = answers_of(scenario, events)
    lines = sorted(f"{name},{arrival},{finish:.0f}" for name, arrival, finish in answers.elements())
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert (len(lines), (events["kind"] == DROP).sum(), digest) == FURTHER[trace, batching]


@pytest.mark.parametrize("batching", ["accscale", "aimd", "nexus"])
@pytest.mark.parametrize("case", SHORT["cases"], ids=lambda case: f"rate {case['rate_hz']}")
def test_short_traces_are_answered_as_by_proteus(case: dict[str, Any], batching: str) -> None:
    models = [
        {
            "name": name,
            "slo_ms": 300.0,
            "variants": [{"name": f"{name}-0", "accuracy": 90.0, "latency_ms": {"CPU": [40.0, 50.0, 70.0, 110.0]}}],
            "arrivals": {"kind": "trace", "times_ms": times},
        }
        for name, times in case["arrivals_ms"].items()
    ]
    scenario: Any = load(
        {
            "family": "serving",
            "accelerators": [{"name": "CPU", "count": 2}],
            "batch_sizes": [1, 2, 4, 8],
            "models": models,
            "initial": [{"variant": model["variants"][0]["name"], "accelerator": "CPU"} for model in models],
            "batching": batching,
            "routing": "random",
            "drop": "twice-deadline",
            "compat": "proteus",
            "planning": {"interval_s": 1000.0},
        }
    )
    events = Simulator(scenario).play(find("eft", "serving"), 0)
    known = case[batching]
    expected = Counter(
        (name, arrival, float(finish))
        for name, times in case["arrivals_ms"].items()
        for arrival, finish in zip(times, known["finish_ms"][name], strict=True)
        if finish is not None
    )
    assert answers_of(scenario, events) == expected
    assert (events["kind"] == DROP).sum() == known["dropped"]


@pytest.mark.parametrize(
    "text", ["", "required_predictors: 3", "required_predictors: {1: 2}", "required_predictors: {[]: 1}"]
)
def test_a_damaged_allocation_is_told_in_one_line(text, tmp_path):
    path = tmp_path / "alloc.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="expected 'required_predictors:' and a dictionary like") as error:
        read_allocation(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("read", [read_allocation, read_variants])
def test_a_missing_file_of_proteus_is_told_in_one_line(read, tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path / "nowhere.txt")
    assert str(error.value).startswith(f"{tmp_path / 'nowhere.txt'}: no such file: expected a")
