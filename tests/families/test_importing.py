"""Import of arrivals from tables, in every family: CSV, Parquet and JSON, with names, into a scenario that runs."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.errors import InputError
from slipstream.families.cluster.workload.importing import import_trace as import_cluster
from slipstream.families.contract import FAMILIES, family_of
from slipstream.families.dag.workload.importing import import_trace as import_dag
from slipstream.families.edge.workload.importing import import_profile, import_tasklist
from slipstream.families.edge.workload.importing import import_trace as import_edge
from slipstream.families.serving.workload.importing import import_trace as import_serving
from slipstream.families.taskgraph.workload.importing import import_trace as import_taskgraph
from slipstream.policies.base import default_for, find
from slipstream.scenario import dump, load
from slipstream.sim.simulator import Simulator


def plays(scenario):
    """Return the number of event rows of an episode, from a copy that was written and read."""
    copy = load(json.loads(dump(scenario)), scenario._folder)
    return len(Simulator(copy).play(find(default_for(copy), copy.family), 0))


def test_every_family_imports_traces():
    for family in FAMILIES.values():
        assert family.trace_importer is not None
        assert family.trace_importer.columns.time in family.trace_importer.described


def test_edge_takes_releases_by_task_from_json(tmp_path):
    rows = [
        {"arrival_ms": 1.5, "task": "task1"},
        {"arrival_ms": 2, "task": "task2"},
        {"arrival_ms": 9, "task": "task1"},
    ]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    found = import_edge(load("edge/light"), [tmp_path / "t.json"])
    assert [task.arrival.times_ms for task in found.tasks[:2]] == [[1.5, 9.0], [2.0]]
    (tmp_path / "n.json").write_text("[1, 2, 3]")
    found = import_edge(load("edge/light"), [tmp_path / "n.json"], ["task1"])
    assert found.tasks[0].arrival.times_ms == [1.0, 2.0, 3.0]
    assert plays(found) > 3


def test_dag_takes_times_and_jobs_of_the_source(tmp_path):
    base = load("dag/tiny")
    name = base.jobs.jobs[0].name
    (tmp_path / "t.csv").write_text(f"arrival_s,job\n5,{name}\n1,{name}\n")
    found = import_dag(base, [tmp_path / "t.csv"])
    assert (found.arrivals.times_s, found.arrivals.names) == ([1.0, 5.0], [name, name])
    assert plays(found) > 3
    (tmp_path / "t.csv").write_text("arrival_s\n1\n")
    assert import_dag(base, [tmp_path / "t.csv"]).arrivals.names is None
    with pytest.raises(InputError, match="no job 'other' in the source"):
        import_dag(base, [tmp_path / "t.csv"], ["other"])


def test_taskgraph_takes_times_in_any_unit(tmp_path):
    pq.write_table(pa.table({"when": [0.25, 0.5]}), tmp_path / "t.parquet")
    columns = FAMILIES["taskgraph"].trace_importer.columns
    seconds = type(columns)("when", "s", columns.name)
    found = import_taskgraph(load("taskgraph/tiny"), [tmp_path / "t.parquet"], None, seconds)
    assert found.arrivals.times_ms == [250.0, 500.0]
    assert plays(found) > 3


def test_serving_takes_requests_by_model(tmp_path):
    base = load("serving/tiny")
    names = [model.name for model in base.models]
    (tmp_path / "t.csv").write_text(f"arrival_ms,model\n30,{names[1]}\n10,{names[1]}\n")
    found = import_serving(base, [tmp_path / "t.csv"])
    assert found.models[0].arrivals == base.models[0].arrivals
    assert found.models[1].arrivals.times_ms == [10.0, 30.0]
    assert plays(found) > 3
    with pytest.raises(InputError, match=f"no model 'x' in the scenario: expected one of {names[0]}"):
        import_serving(base, [tmp_path / "t.csv"], ["x"])


def test_cluster_takes_jobs_with_what_is_known_of_them(tmp_path):
    (tmp_path / "t.csv").write_text("submit_s,run_s,gpus,user\n0,60,2,ann\n5,30.5,,\n")
    found = import_cluster(load("cluster/tiny"), [tmp_path / "t.csv"])
    jobs = [job.model_dump(exclude_unset=True) for job in found.jobs.jobs]
    assert jobs == [
        {"submit_s": 0.0, "gpus": 2, "run_s": 60.0, "user": "ann"},
        {"submit_s": 5.0, "run_s": 30.5},
    ]
    assert plays(found) > 3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.csv", "other\n1\n", "column '{time}' is missing (found other)"),
        ("t.csv", "{time},{name},run_s,prompt,output\n-1,task1,1,1,1\n", "-1"),
        ("t.json", "{{}}", "expected a list of numbers or of objects, got an object"),
        ("t.json", "[]", "has no rows: expected at least one arrival"),
        ("t.txt", "1\n", "unknown kind of file: expected a .csv or .parquet file"),
        ("none.csv", None, "no such file"),
    ],
)
def test_a_damaged_trace_is_refused_with_its_file(family, name, content, told, tmp_path):
    importer = FAMILIES[family].trace_importer
    words = {"time": importer.columns.time, "name": importer.columns.name}
    if content is not None:
        (tmp_path / name).write_text(content.format(**words))
    with pytest.raises(InputError) as caught:
        importer.import_trace(load(FAMILIES[family].default_scenario), [tmp_path / name], None, importer.columns)
    assert str(tmp_path / name) in str(caught.value)
    assert told.format(**words) in str(caught.value)


def test_task_lists_and_ladders_are_imported_by_functions(tmp_path):
    listed = {"name": "a", "model": "vgg16", "data": "cifar", "if_periodic": True, "period_ms": 20}
    tasks = {"num_tasks": 1, "num_variants": 2, "total_time_ms": 100, "task_list": [listed]}
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    scenario = import_tasklist(tmp_path / "tasks.json", horizon_ms=50)
    assert (scenario.horizon_ms, [task.name for task in scenario.tasks]) == (50, ["a"])
    (tmp_path / "ladder.csv").write_text("model,latency_ms,accuracy\nsmall,2,0.5\nlarge,4,0.75\n")
    measured = import_profile(scenario, "a", tmp_path / "ladder.csv")
    assert [variant.latency_ms for variant in measured.tasks[0].ladder] == [2.0, 4.0]
    assert family_of(measured).name == "edge"
