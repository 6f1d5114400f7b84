"""Scenarios of elastic jobs: what is refused, traces, imports and the generator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipstream.errors import InputError, ScenarioError, TraceError
from slipstream.families.contract import FAMILIES
from slipstream.families.elastic.workload.generator import GENERATOR, Settings
from slipstream.families.elastic.workload.importing import import_trace
from slipstream.families.elastic.workload.sources import Place, read_workload
from slipstream.scenario import load
from tests.elastic.cases import scenario


def changed(**keys: Any) -> dict[str, Any]:
    return {**scenario((0, 5), (3, 5)), **keys}


def with_model(**keys: Any) -> dict[str, Any]:
    data = scenario((0, 5))
    return {**data, "models": [{**data["models"][0], **keys}]}


REFUSED = {
    "kinds twice": (changed(kinds=[{"name": "fast", "gpus": 2}] * 2), "kinds: expected names that differ"),
    "too many GPUs": (
        changed(kinds=[{"name": "fast", "gpus": 1}, {"name": "slow", "gpus": 1}]),
        "model 'model', configurations[1]: 2 of kind 'fast': expected at most 1",
    ),
    "no such kind": (changed(kinds=[{"name": "fast", "gpus": 2}]), "1 of kind 'slow': expected at most 0"),
    "no such model": (
        changed(jobs={"kind": "list", "jobs": [{"arrival_s": 0, "model": "x", "work": 1}]}),
        "job 0: unknown model 'x': expected one of model",
    ),
    "no such number": (
        changed(jobs={"kind": "list", "jobs": [{"arrival_s": 0, "model": "model", "work": 1, "gpus": [4]}]}),
        "job 0: gpus: model 'model' was measured on none of these numbers",
    ),
    "earlier": (
        changed(jobs={"kind": "list", "jobs": [{"arrival_s": time, "model": "model", "work": 1} for time in (2, 1)]}),
        "jobs[1].arrival_s is earlier than the one before it",
    ),
    "restart longer than a round": (with_model(restart_s=10.0), "start_s and restart_s: expected less than round_s"),
    "configuration twice": (
        with_model(configurations=[{"kind": "fast", "gpus": 1, "per_s": 1.0}] * 2),
        "configurations: expected each kind and number of GPUs once",
    ),
    "gavel without rounds": (changed(round_s=None, compat="gavel"), "compat: expected round_s, and no at_events"),
    "gavel with restarts": (
        {**with_model(restart_s=1.0), "compat": "gavel"},
        "compat: starts take no time there",
    ),
    "gavel with slow models": (changed(compat="gavel", round_s=1.5), "compat: expected at least one step"),
    "models of a trace": (
        changed(jobs={"kind": "gavel", "path": "x", "throughputs": {"path": "y"}}),
        "models: a trace of Gavel brings its own: expected none",
    ),
    "misspelt": (changed(rounds=3), "unknown key 'rounds': did you mean 'round_s'?"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_scenario_is_refused_in_one_line(name: str) -> None:
    data, told = REFUSED[name]
    with pytest.raises(ScenarioError) as caught:
        load(data)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


# Traces of Gavel

LINE = "m (batch size 8)\tpython3 x.py\tfolder\t-n\t1\t{steps}\t{gpus}\t{weight}\t-1.000000\t{arrival}"
TABLE = {"fast": {"('m (batch size 8)', 2)": {"null": 4.0}}, "slow": {"('m (batch size 8)', 2)": {"null": 0.0}}}


def gavel(folder: Path, *lines: str, table: Any = TABLE) -> Any:
    """Return a scenario beside a trace of these lines."""
    (folder / "t.trace").write_text("\n".join(lines) + "\n")
    (folder / "t.json").write_text(json.dumps(table))
    source = {"kind": "gavel", "path": "t.trace", "throughputs": {"path": "t.json"}}
    data = {"family": "elastic", "kinds": scenario()["kinds"], "jobs": source, "round_s": 360.0, "compat": "gavel"}
    (folder / "s.json").write_text(json.dumps(data))
    return load(folder / "s.json")


def line(steps: Any = 100, gpus: Any = 2, weight: Any = 1, arrival: Any = 5.5) -> str:
    return LINE.format(steps=steps, gpus=gpus, weight=weight, arrival=arrival)


def test_a_trace_of_gavel_gives_jobs_with_the_kinds_that_have_a_throughput(tmp_path: Path) -> None:
    found = read_workload(gavel(tmp_path, line(), line(weight=5, arrival=9)))
    assert (found.models, found.arrivals) == (("m (batch size 8)",), (5_500_000_000, 9_000_000_000))
    assert [one.weight for one in found.templates] == [1.0, 5.0]
    assert found.templates[0].places == (Place(0, 2, 4.0),)
    assert found.templates[0].work == 100.0


@pytest.mark.parametrize(
    ("lines", "table", "told"),
    [
        (["a\tb"], TABLE, "line 1: 2 fields: expected 10, separated by tabs"),
        ([line(steps="many")], TABLE, "line 1: steps: expected a number from 1 to 1e+15, got 'many'"),
        ([line(gpus=1)], TABLE, "line 1: no kind of GPU has a throughput of 'm (batch size 8)' on 1"),
        ([line(), line(arrival=1)], TABLE, "line 2: arrives before the job above it"),
        ([line()], {"fast": {}}, "expected an object with the throughputs of 'slow', got"),
        ([line()], {**TABLE, "fast": {"('m (batch size 8)', 2)": {"null": "x"}}}, "line 1: throughput 'x': expected"),
        (
            [line()],
            {**TABLE, "fast": {"('m (batch size 8)', 2)": {"null": 0.001}}},
            "line 1: 'm (batch size 8)' does not do one step in a round: expected a longer round_s",
        ),
    ],
)
def test_a_damaged_trace_is_refused_with_its_line(lines: list[str], table: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read_workload(gavel(tmp_path, *lines, table=table))
    assert told in str(caught.value)


def test_a_lost_trace_is_named_with_its_key(tmp_path: Path) -> None:
    found = gavel(tmp_path, line())
    (tmp_path / "t.trace").unlink()
    with pytest.raises(InputError, match=r"jobs\.path"):
        read_workload(found)


# Imports and generated scenarios


def test_jobs_are_imported_with_what_is_known_of_them(tmp_path: Path) -> None:
    base: Any = load("elastic/tiny")
    (tmp_path / "t.csv").write_text("arrival_s,model,work,gpus,weight\n5,lstm,100,2,3\n1,resnet,,,\n")
    found = import_trace(base, [tmp_path / "t.csv"])
    jobs = [job.model_dump(exclude_unset=True) for job in found.jobs.jobs]  # type: ignore[union-attr]
    assert jobs == [
        {"arrival_s": 1.0, "model": "resnet", "work": 20000.0},
        {"arrival_s": 5.0, "model": "lstm", "work": 100.0, "gpus": [2], "weight": 3.0},
    ]
    with pytest.raises(InputError, match="no model 'x' in the scenario: expected one of resnet, lstm"):
        import_trace(base, [tmp_path / "t.csv"], ["x"])


def test_generated_scenarios_keep_their_settings() -> None:
    found = GENERATOR.generate(Settings(jobs=9, kinds=2, gpus=4, elastic=0.0, round_s=0.0), 3)
    assert [kind.gpus for kind in found.kinds] == [4, 4]
    assert found.round_s is None
    assert all(job.gpus is not None for job in found.jobs.templates)
    assert found == GENERATOR.generate(Settings(jobs=9, kinds=2, gpus=4, elastic=0.0, round_s=0.0), 3)
    assert found != GENERATOR.generate(Settings(jobs=9, kinds=2, gpus=4, elastic=0.0, round_s=0.0), 4)


def test_the_family_is_listed() -> None:
    assert FAMILIES["elastic"].env_id == "slipstream/Elastic-v0"
