"""`slipstream import`."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.families.contract import FAMILIES
from slipstream.scenario import digest, dump, load
from slipstream.sim.eventlog import ARRIVAL, read
from tests.cli.test_files import tree
from tests.edge.test_importers import LIST, MEASURED


def test_a_task_list_becomes_a_scenario_that_runs(slipstream, tmp_path):
    (tmp_path / "list.json").write_text(json.dumps(LIST))
    code, output, _ = slipstream("import", "tasklist", "list.json", "--out", "s.json", "--json")
    assert code == 0
    assert json.loads(output) == {"written": ["s.json"], "digest": digest(load(tmp_path / "s.json"))}
    scenario = load(tmp_path / "s.json")
    assert scenario.name == "list"
    assert dump(scenario) == (tmp_path / "s.json").read_text()
    assert slipstream("run", "s.json", "--json")[0] == 0


def test_a_task_list_takes_its_gaps_horizon_and_ladders_from_options(slipstream, tmp_path):
    (tmp_path / "list.json").write_text(json.dumps(LIST))
    words = ("--gaps", "integer-poisson", "--seed", "3", "--horizon-ms", "500", "--profile", "vgg16=vit@xavier-trt")
    code, output, _ = slipstream("import", "tasklist", "list.json", *words)
    assert code == 0
    scenario = load(json.loads(output))
    assert scenario.horizon_ms == 500
    assert scenario.tasks[0].profile == "vit@xavier-trt"
    times = scenario.tasks[1].arrival.times_ms
    assert times[0] == 0.0
    assert 400 < times[-1] < 500


def test_arrivals_of_one_task_replace_its_own(slipstream, tmp_path):
    (tmp_path / "t.csv").write_text("arrival_ms\n1\n2.5\n")
    (tmp_path / "u.csv").write_text("arrival_ms\n4\n")
    words = ("--scenario", "edge/light", "--task", "task1", "--task", "task3", "--out", "s.json")
    code, output, _ = slipstream("import", "trace", "t.csv", "u.csv", *words)
    assert code == 0
    assert output.startswith("Written: s.json (digest ")
    scenario = load(tmp_path / "s.json")
    assert [scenario.tasks[index].arrival.times_ms for index in (0, 2)] == [[1.0, 2.5], [4.0]]
    assert scenario.tasks[1] == load("edge/light").tasks[1]


def test_arrivals_in_seconds_go_to_files_of_their_own(slipstream, tmp_path):
    (tmp_path / "t.csv").write_text("who,at\ntask1,0.5\ntask2,0.25\ntask1,2\n")
    words = ("--task-column", "who", "--column", "at", "--unit", "s", "--horizon-ms", "1000", "--trace", "parquet")
    code, output, error = slipstream("import", "trace", "t.csv", "--scenario", "edge/light", *words, "--out", "s.json")
    assert code == 0
    assert "and 2 traces in s-arrivals" in output
    assert error == "note: releases at or after the horizon (1000 ms) never happen: 1\n"
    assert tree(tmp_path)[:3] == ["s-arrivals", "s-arrivals/1-task1.parquet", "s-arrivals/2-task2.parquet"]
    assert pq.read_table(tmp_path / "s-arrivals" / "1-task1.parquet").column("arrival_ms").to_pylist() == [500, 2000]
    assert slipstream("run", "s.json", "--log", "run.parquet", "--json")[0] == 0
    events = read(tmp_path / "run.parquet")[0]
    assert events["time"][(events["kind"] == ARRIVAL) & (events["task"] == 0)].tolist() == [500_000_000]


def test_a_ladder_is_a_list_for_variants_or_goes_into_a_scenario(slipstream, tmp_path):
    (tmp_path / "p.csv").write_text(MEASURED)
    ladder = json.loads(slipstream("import", "profile", "p.csv", "--device", "x", "--pareto")[1])
    assert ladder == [
        {"name": "fast", "latency_ms": 2.0, "accuracy": 0.6},
        {"name": "slow", "latency_ms": 9.0, "accuracy": 0.8},
    ]
    code, output, _ = slipstream("import", "profile", "p.csv", "--where", "device=x", "--out", "l.json", "--json")
    assert (code, json.loads(output)) == (0, {"written": ["l.json"], "variants": 3})
    words = ("--device", "x", "--scenario", "edge/light", "--task", "task2", "--out", "s.json")
    assert slipstream("import", "profile", "p.csv", *words)[0] == 0
    assert [variant.name for variant in load(tmp_path / "s.json").tasks[1].ladder] == ["fast", "odd", "slow"]
    assert slipstream("run", "s.json", "--json")[0] == 0


@pytest.mark.parametrize("words", [(), ("--trace", "csv"), ("--trace", "parquet")])
def test_a_recorded_run_is_replayed_under_another_policy(words, slipstream, tmp_path):
    slipstream("run", "edge/heavy", "--policy", "edf", "--seed", "3", "--log", "run.parquet", "--json")
    assert slipstream("import", "log", "run.parquet", *words, "--out", "s.json")[0] == 0
    slipstream("run", "s.json", "--seed", "3", "--policy", "edf-fit", "--log", "other.parquet", "--json")
    logs = [read(tmp_path / name)[0] for name in ("run.parquet", "other.parquet")]
    arrivals = [log[log["kind"] == ARRIVAL] for log in logs]
    assert arrivals[0].tolist() == arrivals[1].tolist()
    assert len(logs[0]) != len(logs[1])


def test_a_run_recorded_from_a_trace_is_imported_where_the_trace_is_gone(slipstream, tmp_path):
    (tmp_path / "t.csv").write_text("arrival_ms\n1\n")
    base = json.loads(dump(load("edge/tiny")))
    for task in base["tasks"]:
        task |= {"arrival": {"kind": "trace", "path": "t.csv"}, "deadline_ms": 5}
    base.pop("periodic_tasks", None)
    (tmp_path / "base.json").write_text(json.dumps(base))
    assert slipstream("run", "base.json", "--log", "run.parquet")[0] == 0
    (tmp_path / "t.csv").unlink()
    code, output, _ = slipstream("import", "log", "run.parquet")
    assert code == 0
    assert {tuple(task["arrival"]["times_ms"]) for task in json.loads(output)["tasks"]} == {(1.0,)}


TRACE = ("import", "trace", "t.csv", "--scenario", "edge/light", "--task", "task1", "--out", "s.json")
ROWS = ("import", "trace", "t.csv", "--scenario", "edge/light", "--out", "s.json")
DAMAGED = {
    "gap": (TRACE, b"task,arrival_ms\na,1\nb,\n", "t.csv: row 3: arrival_ms: expected a number, got nothing"),
    "negative": (TRACE, b"arrival_ms\n-1\n", "t.csv: row 2: expected a time between 0 and 8.64e+09 ms, got -1"),
    "column": (TRACE, b"time\n1\n", "t.csv: row 1: column 'arrival_ms' is missing (found time)"),
    "long": (
        TRACE,
        b"arrival_ms\n" + b"1\n" * 1_000_000 + b"x\n",
        "row 1000002: arrival_ms: expected a number, got 'x'",
    ),
    "bytes": (TRACE, b"arrival_ms\n1\n\xff\n", "t.csv: row 3: not UTF-8 at byte 13: expected a text file"),
    "unsorted": (TRACE, b"arrival_ms\n2\n1\n", "t.csv: row 3: 1 is earlier than the row before it: expected ascending"),
    "too many": (
        TRACE,
        b"arrival_ms\n" + b"1\n" * 1_000_001,
        "1,000,001 releases: expected at most 1,000,000 in a sce",
    ),
    "stranger": (ROWS, b"task,arrival_ms\nx,1\n", "t.csv: row 2: no task 'x' in the scenario: expected one of task1"),
    "no file": (("import", "trace", "no.csv", *TRACE[3:]), b"", "no.csv: no such file: expected a text file"),
    "two files": (("import", "trace", "t.csv", *TRACE[2:]), b"", "1 names for 2 files: expected one per file, or none"),
    "twice": (("import", "trace", "t.csv", *ROWS[2:]), b"task,arrival_ms\ntask1,1\n", "has releases in another file"),
    "list": (("import", "tasklist", "t.csv"), b'{"num_tasks": 1}', "t.csv: num_variants: this key is required"),
    "no list": (("import", "tasklist", "t.csv"), b"\xff", "t.csv: is not UTF-8 text (byte 0): expected a JSON file"),
    "absent list": (("import", "tasklist", "no.json"), b"", "no.json: no such file: expected a JSON file"),
    "pair": (
        ("import", "tasklist", "l.json", "--profile", "vgg16"),
        b"",
        "--profile: 'vgg16': expected two words with",
    ),
    "ladder": (("import", "tasklist", "l.json", "--profile", "vgg16=x"), b"", "l.json: --profile: unknown ladder 'x'"),
    "profile": (
        ("import", "profile", "t.csv"),
        MEASURED.encode(),
        "t.csv: row 5: accuracy: expected a number, got noth",
    ),
    "half": (("import", "profile", "t.csv", "--task", "a"), b"", "--scenario and --task go together"),
    "log": (("import", "log", "t.csv"), b"x", "t.csv: not a Parquet file: expected an event log written by slipstream"),
    "other": (("import", "log", "o.parquet"), b"", "o.parquet: column 'time' is missing: expected an event log with"),
    "traces to nowhere": ((*TRACE[:-2], "--trace", "csv"), b"arrival_ms\n1\n", "--out is missing: a scenario with"),
    "existing": (
        (*TRACE[:-1], "l.json"),
        b"arrival_ms\n1\n",
        "l.json: exists already: expected a new name, or --force",
    ),
    "lost base": ((*ROWS[:4], "lost.json", *ROWS[5:]), b"task,arrival_ms\na,1\n", "gone.csv: no such file"),
    "late": ((*TRACE[:-1], "l.json", "--horizon-ms", 1), b"arrival_ms\n1\n", "l.json: exists already"),
    "folder": ((*TRACE[:-1], "l.json/s.json"), b"arrival_ms\n1\n", "l.json/s.json: cannot be written"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_input_ends_with_one_line_and_no_file(case, slipstream, tmp_path):
    words, content, expected = DAMAGED[case]
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "l.json").write_text(json.dumps(LIST))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "o.parquet")
    task = {"model": "m", "dataset": "d", "num_variants": 5, "profile": "vgg@xavier-trt", "deadline_ms": 5}
    tasks = [{**task, "name": name, "arrival": {"kind": "trace", "path": "gone.csv"}} for name in ("a", "b")]
    (tmp_path / "lost.json").write_text(json.dumps({"family": "edge", "horizon_ms": 9, "tasks": tasks}))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, output, error = slipstream(*words)
    assert (code, output) == (2, "")
    assert expected in error
    assert len(error.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


FAMILY_TRACES = {
    "edge": "arrival_ms,task\n1,task1\n",
    "dag": "arrival_s\n1\n2\n",
    "taskgraph": "arrival_ms\n1\n2\n",
    "serving": "arrival_ms,model\n1,detect\n",
    "cluster": "submit_s,run_s,gpus\n0,60,1\n5,60,2\n",
    "elastic": "arrival_s,work\n0,100\n1.5,3000\n",
    "llm": "arrival_s,prompt,output\n0,100,20\n1.5,30,4\n",
}


@pytest.mark.parametrize("family", FAMILY_TRACES)
def test_a_trace_is_imported_into_the_default_scenario_of_any_family(family, slipstream, tmp_path):
    base = load(FAMILIES[family].default_scenario)
    named = base.models[0].name if family == "serving" else base.tasks[0].name if family == "edge" else ""
    content = FAMILY_TRACES[family].replace("detect", named).replace("task1", named)
    (tmp_path / "t.csv").write_text(content)
    code, _, error = slipstream("import", "trace", "t.csv", "--family", family, "--out", "s.json")
    assert (code, error) == (0, "")
    assert load(tmp_path / "s.json").family == family


def test_paths_of_an_imported_scenario_start_at_its_new_folder(slipstream, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "graph.json").write_text(json.dumps({"tasks": [{"name": "a", "duration_ms": 1}]}))
    base = json.loads(dump(load("taskgraph/tiny"))) | {"graphs": [{"kind": "file", "path": "graph.json"}]}
    (tmp_path / "data" / "base.json").write_text(json.dumps(base))
    (tmp_path / "t.csv").write_text("arrival_ms\n1\n2\n")
    code, _, error = slipstream("import", "trace", "t.csv", "--scenario", "data/base.json", "--out", "s.json")
    assert (code, error) == (0, "")
    assert load(tmp_path / "s.json").graphs[0].path == "data/graph.json"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "import trace: expected --scenario, or --family to start from its default scenario"),
        (("--family", "egde"), "--family: unknown family 'egde': expected one of edge, dag"),
        (("--family", "dag", "--scenario", "edge/light"), "edge/light: is of the family 'edge': expected one of 'dag'"),
        (("--family", "dag", "--trace", "csv"), "--trace: is for the family 'edge' only"),
    ],
)
def test_a_base_that_does_not_fit_is_refused(words, told, slipstream, tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s\n1\n")
    code, output, error = slipstream("import", "trace", "t.csv", *words)
    assert (code, output) == (2, "")
    assert told in error


def test_help_lists_the_columns_of_every_family(slipstream):
    code, output, _ = slipstream("import", "--help")
    assert code == 0
    told = " ".join(output.split())
    for name, family in FAMILIES.items():
        assert f"{name}: {family.trace_importer.described}" in told
