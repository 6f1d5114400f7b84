"""Scenarios drawn from around one, and scenarios drawn from a seed."""

from __future__ import annotations

import json

import pytest

from slipstream.errors import InputError
from slipstream.evaluation import evaluate
from slipstream.families.contract import family_of
from slipstream.families.shared.variation import Variation
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import GraphStream, TaskgraphScenario
from slipstream.families.taskgraph.workload.generator import Settings, generate, traced
from slipstream.files.validation import check
from slipstream.scenario import digest, load


def varied(scenario: object, seed: int = 1, **widths: float) -> TaskgraphScenario:
    loaded = load(scenario)  # type: ignore[arg-type]
    found = family_of(loaded).vary(loaded, Variation(**widths), seed)
    assert isinstance(found, TaskgraphScenario)
    return found


def gap(scenario: TaskgraphScenario) -> float:
    assert isinstance(scenario.arrivals, GraphStream)
    return scenario.arrivals.mean_gap_ms


def durations(scenario: TaskgraphScenario) -> list[list[int]]:
    rows: list[list[int]] = compiled_scenario(scenario).library.durations[0].tolist()
    return rows


def test_nothing_varies_where_nothing_is_asked_for() -> None:
    scenario = load("taskgraph/unrolled")
    assert family_of(scenario).vary(scenario, Variation(), 3) is scenario


def test_load_and_rate_change_the_gaps_of_a_stream() -> None:
    assert gap(varied("taskgraph/unrolled", load=2.0)) == 30.0
    drawn = {gap(varied("taskgraph/unrolled", seed, rate=0.2)) for seed in range(20)}
    assert len(drawn) == 20
    assert 60.0 / 1.2 <= min(drawn) < 60.0 < max(drawn) <= 60.0 / 0.8
    assert varied("taskgraph/tiny", load=2.0).arrivals == load("taskgraph/tiny").arrivals  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["taskgraph/cholesky-4-2g2c", "taskgraph/tight-memory", "taskgraph/wait-for-reuse"])
def test_durations_are_multiplied_each_by_a_factor_of_its_own(name: str) -> None:
    before, after = durations(load(name)), durations(varied(name, latency=0.2))
    factors = {
        (one, other): other / one
        for row, others in zip(before, after, strict=True)
        for one, other in zip(row, others, strict=True)
    }
    assert len(set(factors.values())) == len(factors) >= 6
    assert all(0.8 - 1e-6 <= factor <= 1.2 + 1e-6 for factor in factors.values())
    assert durations(varied(name, latency=0.2)) == after
    assert durations(varied(name, 2, latency=0.2)) != after
    # Wider, the same way.
    wider = durations(varied(name, latency=0.4))
    assert abs((wider[0][0] - before[0][0]) - 2 * (after[0][0] - before[0][0])) <= 2


def test_random_graphs_are_drawn_anew_and_others_stay() -> None:
    graphs = [{"kind": "cholesky", "n": 3}, {"kind": "spgemm", "n": 6}, {"kind": "layered", "layers": 3, "width": 4}]
    scenario = {"family": "taskgraph", "processors": [{"name": "cpu", "count": 1}], "graphs": graphs}
    one, two = (varied(scenario, seed, latency=0.1) for seed in (1, 2))
    assert one.graphs[0] == two.graphs[0]
    assert len({graph.seed for varied in (one, two) for graph in varied.graphs[1:]}) == 4  # type: ignore[union-attr]
    assert digest(varied(scenario, 1, latency=0.1)) == digest(one)


def test_what_does_not_vary_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"variation: length: scenarios of 'taskgraph' .* expected latency, rate, load"
    ):
        varied("taskgraph/tiny", length=0.1)


def test_a_generated_scenario_has_every_kind_in_every_size() -> None:
    scenario = generate(Settings(graphs="cholesky,spgemm,layered", sizes="3,5", visible=7, jobs=2), 4)
    assert [template.name.rpartition("-")[0] for template in compiled_scenario(scenario).library.templates] == [
        *("cholesky", "cholesky", "spgemm-3", "spgemm-5", "layered-3x3", "layered-5x5")
    ]
    assert scenario.visibility.kind == "window"
    assert generate(Settings(graphs="cholesky,spgemm,layered", sizes="3,5", visible=7, jobs=2), 4) == scenario
    assert generate(Settings(), 1).graphs != generate(Settings(), 2).graphs


def test_a_generated_machine_is_as_wished() -> None:
    wish = Settings(gpus=1, cpus=3, bandwidth_mb_s=1000.0, memory_tiles=5, noise_cv=0.2, pipeline=2, mode="push")
    scenario = generate(wish, 0)
    gpu, cpu = scenario.processors
    assert (gpu.count, gpu.device, gpu.memory_mb, cpu.count, cpu.device) == (1, True, 18.432, 3, False)
    assert scenario.links is not None
    assert scenario.links.to_host.bandwidth_mb_s == 1000.0
    assert (scenario.pipeline, scenario.mode, scenario.noise.kind) == (2, "push", "lognormal")
    assert [kind.name for kind in generate(Settings(cpus=0), 0).processors] == ["gpu"]
    assert evaluate(scenario, "dmda", 1, 0).mean("tasks") > 0


def test_traced_arrivals_are_those_of_the_seed() -> None:
    scenario = generate(Settings(graphs="cholesky", sizes="2,3", jobs=3), 0)
    written, files = traced(scenario, 5, "arrivals", "csv")
    assert not files
    ours, theirs = (evaluate(one, "fifo", 1, 5).mean("makespan_ms") for one in (scenario, written))
    assert ours == theirs
    assert json.loads(written.model_dump_json())["arrivals"]["kind"] == "trace"


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        ({"graphs": "cholesky,fft"}, "graphs: unknown kind 'fft': expected some of cholesky, lu"),
        ({"sizes": "4,x"}, "sizes: 'x' among them: expected whole numbers from 1 to 128"),
        ({"gpus": 0, "cpus": 0}, "gpus and cpus are 0: expected a processor"),
        ({"memory_tiles": 4}, "memory_tiles without bandwidth_mb_s"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(wishes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        check(wishes, Settings, "generate taskgraph")
