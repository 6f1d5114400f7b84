"""Graphs have the tasks and edges that they are known to have, and files are read as they are meant."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from slipstream.errors import ScenarioError, TraceError
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import Layered, SpGemm, Stg, Tiled, WfCommons
from slipstream.families.taskgraph.workload.durations import kernel_table
from slipstream.families.taskgraph.workload.sources import read_graph
from slipstream.families.taskgraph.workload.templates import GraphBuilder
from slipstream.scenario import digest, load

BASE = {"family": "taskgraph", "processors": [{"name": "cpu", "count": 1}, {"name": "gpu", "count": 1}]}


def graph_of(**source):
    return compiled_scenario(load({**BASE, "durations": {"kind": "table"}, "graphs": [source]})).library.templates[0]


@pytest.mark.parametrize(
    ("kind", "n", "tasks", "edges"),
    [
        *(
            ("cholesky", n, t, e)
            for n, t, e in [(4, 20, 30), (6, 56, 105), (8, 120, 252), (10, 220, 495), (12, 364, 858)]
        ),
        *(("lu", n, t, e) for n, t, e in [(4, 30, 54), (6, 91, 195), (8, 204, 476), (10, 385, 945)]),
        *(("qr", n, t, e) for n, t, e in [(4, 30, 54), (6, 91, 195), (8, 204, 476)]),
        ("gemm", 3, 27, 18),
    ],
)
def test_factorisations_have_their_tasks_and_edges(kind, n, tasks, edges):
    graph = read_graph(Tiled(kind=kind, n=n), Path())
    assert (len(graph.tasks), len(graph.edges)) == (tasks, edges)


def test_a_sparse_product_has_a_task_where_both_factors_have_a_tile():
    graph = read_graph(SpGemm(kind="spgemm", n=24, density=0.15, seed=0), Path())
    assert (len(graph.tasks), len(graph.tile_names)) == (355, 445)


@pytest.mark.parametrize(
    ("kind", "file", "names"),
    [("cholesky", "chol", None), ("lu", "LU", {"LU": "lu", "BMOD": "bmod", "BDIV": "bdiv", "FWD": "fwd"})],
)
@pytest.mark.parametrize("n", [4, 6, 8])
def test_graphs_are_those_of_readys_with_its_labels_put_right(shared_data, kind, file, names, n):
    path = shared_data / "taskgraph" / "readys_graphs" / f"{file}_{n}.json"
    if not path.is_file():
        pytest.skip("the graphs of READYS are not among the shared data")
    theirs = json.loads(path.read_text())
    labels = [theirs["kernel_names"][kernel] for kernel in theirs["kernel_by_node_id"]]
    graph = read_graph(Tiled(kind=kind, n=n), Path())
    ours = [(names or {}).get(task.kernel, task.kernel) for task in graph.tasks]
    assert profile([label.upper() for label in ours], graph.edges) == profile(
        [label.upper() for label in labels], [tuple(edge) for edge in theirs["edges"]]
    )


def profile(labels, edges):
    """Return how often each kind of task has which parents and children: the same for graphs that are the same."""
    parents = Counter((labels[parent], child) for parent, child in edges)
    children = Counter((parent, labels[child]) for parent, child in edges)
    tasks = []
    for task, label in enumerate(labels):
        before = sorted((name, count) for (name, child), count in parents.items() if child == task)
        after = sorted((name, count) for (parent, name), count in children.items() if parent == task)
        tasks.append((label, tuple(before), tuple(after)))
    return Counter(tasks)


def test_dependencies_follow_the_last_writer_and_its_readers():
    builder = GraphBuilder(1)
    builder.task("write", "K", [("t", "w")])
    builder.task("read", "K", [("t", "r")])
    builder.task("read too", "K", [("t", "r"), ("u", "rw")])
    builder.task("write again", "K", [("t", "rw")])
    builder.task("read last", "K", [("t", "r"), ("t", "r")], after=[2])
    graph = builder.template("graph")
    assert [task.parents for task in graph.tasks] == [(), (0,), (0,), (0, 1, 2), (2, 3)]
    assert graph.children[0] == (1, 2, 3)


def test_a_layered_graph_is_decided_by_its_seed():
    graphs = [read_graph(Layered(kind="layered", layers=6, width=5, seed=seed), Path()) for seed in (1, 1, 2)]
    assert graphs[0].tasks == graphs[1].tasks
    assert graphs[0].edges != graphs[2].edges
    roots = [task for task in graphs[0].tasks if not task.parents]
    assert all(task.name.split()[1] == "0" for task in roots)
    assert all(len(task.parents) <= 3 for task in graphs[0].tasks)


STG = """  3
  0  0  0
  1  8  1  0
  2  5  1  0
  3  2  2  1 2
  4  0  1  3
# a comment
"""


def test_a_standard_task_graph_is_read_without_its_dummies(tmp_path):
    (tmp_path / "g.stg").write_text(STG)
    graph = read_graph(Stg(kind="stg", path="g.stg", unit_ms=2.0), tmp_path)
    assert [task.base_ms for task in graph.tasks] == [16.0, 10.0, 4.0]
    assert graph.edges == ((0, 2), (1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n0 0 0\n1 x 0\n", "row 3: expected whole numbers"),
        ("1\n0 0 0\n1 5 2 0\n2 0 1 1\n", "row 3: expected a task, its time, a number of parents"),
        ("5\n0 0 0\n", "found 1 tasks: expected 7"),
        ("1\n0 0 0\n1 5 1 2\n2 0 1 1\n", "row 3: task 1 waits for 2: expected an earlier one"),
        ("0\n0 0 0\n1 0 1 0\n", "no task has a processing time"),
    ],
)
def test_a_broken_stg_file_is_told_with_its_row(tmp_path, text, message):
    (tmp_path / "g.stg").write_text(text)
    with pytest.raises(TraceError, match=message):
        read_graph(Stg(kind="stg", path="g.stg"), tmp_path)


def test_all_shared_standard_graphs_are_read(shared_data):
    folder = shared_data / "taskgraph" / "stg" / "100"
    if not folder.is_dir():
        pytest.skip("the standard task graphs are not among the shared data")
    paths = sorted(folder.glob("*.stg"))[::20]
    graphs = [read_graph(Stg(kind="stg", path=str(path)), folder) for path in paths]
    assert {len(graph.tasks) for graph in graphs} == {100}


WORKFLOW = {
    "workflow": {
        "specification": {
            "tasks": [
                {"id": "sum_2", "parents": ["scan_1"], "inputFiles": ["mid"], "outputFiles": ["out"]},
                {"id": "scan_1", "parents": [], "inputFiles": ["in"], "outputFiles": ["mid"]},
            ],
            "files": [
                {"id": "in", "sizeInBytes": 10},
                {"id": "mid", "sizeInBytes": 20},
                {"id": "out", "sizeInBytes": 0},
            ],
        },
        "execution": {"tasks": [{"id": "scan_1", "runtimeInSeconds": 2.0}, {"id": "sum_2", "runtimeInSeconds": 0.5}]},
    }
}


def test_a_workflow_is_read_with_its_files(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(WORKFLOW))
    graph = read_graph(WfCommons(kind="wfcommons", path="w.json", scale=0.5), tmp_path)
    assert [(task.name, task.kernel, task.base_ms) for task in graph.tasks] == [
        ("scan_1", "scan", 1000.0),
        ("sum_2", "sum", 250.0),
    ]
    assert dict(zip(graph.tile_names, graph.tile_bytes, strict=True)) == {"in": 10, "mid": 20, "out": 1}
    assert graph.edges == ((0, 1),)


def test_a_workflow_that_waits_for_itself_is_refused(tmp_path):
    broken = json.loads(json.dumps(WORKFLOW))
    broken["workflow"]["specification"]["tasks"][1]["parents"] = ["sum_2"]
    (tmp_path / "w.json").write_text(json.dumps(broken))
    with pytest.raises(TraceError, match="waits for itself"):
        read_graph(WfCommons(kind="wfcommons", path="w.json"), tmp_path)


def test_shared_workflows_are_read(shared_data):
    folder = shared_data / "taskgraph" / "wfinstances"
    if not folder.is_dir():
        pytest.skip("the workflow instances are not among the shared data")
    counts = [
        len(read_graph(WfCommons(kind="wfcommons", path=str(path)), folder).tasks) for path in folder.glob("*.json")
    ]
    assert (min(counts), max(counts), len(counts)) == (5, 101, 12)


GRAPH = {
    "tasks": [
        {"name": "a", "duration_ms": 4.0, "accesses": {"t": "w"}},
        {"name": "b", "duration_ms": {"cpu": 2.0, "gpu": 1.0}, "accesses": {"t": "r"}},
    ],
    "tiles": {"t": 7},
}


def test_a_file_of_ones_own_and_the_scenario_say_the_same(tmp_path):
    (tmp_path / "inline.json").write_text(json.dumps(GRAPH))
    there = {
        **BASE,
        "durations": {"kind": "table"},
        "graphs": [{"kind": "file", "path": str(tmp_path / "inline.json")}],
    }
    here = {**BASE, "durations": {"kind": "table"}, "graphs": [{"kind": "inline", **GRAPH}]}
    assert digest(load(there)) == digest(load(here))
    library = compiled_scenario(load(there)).library
    assert library.durations[0].tolist() == [[4_000_000, 4_000_000], [1_000_000, 2_000_000]]
    assert library.templates[0].tile_bytes == (7,)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"tasks": []}, "tasks"),
        (
            {"tasks": [{"name": "a", "duration_ms": 1.0, "after": ["b"]}]},
            "waits for 'b': expected the name of an earlier",
        ),
        ({"tasks": [{"name": "a", "duration_ms": 1.0, "kernel": "K"}]}, "either 'kernel' or 'duration_ms'"),
        ({"tasks": [{"name": "a", "duration_ms": 1.0}], "tiles": {"t": 1}}, "no task uses 't'"),
    ],
)
def test_a_broken_file_of_ones_own_is_told(tmp_path, graph, message):
    (tmp_path / "g.json").write_text(json.dumps(graph))
    with pytest.raises(TraceError, match=message):
        graph_of(kind="file", path=str(tmp_path / "g.json"))


def test_speed_divides_what_is_given_for_speed_one():
    processors = [{"name": "cpu", "count": 1}, {"name": "gpu", "count": 1, "speed": 4.0}]
    scenario = load({**BASE, "processors": processors, "graphs": [{"kind": "inline", **GRAPH}]})
    library = compiled_scenario(scenario).library
    assert [kind.name for kind in library.kinds] == ["gpu", "cpu"]
    assert library.durations[0].tolist() == [[1_000_000, 4_000_000], [1_000_000, 2_000_000]]


def test_a_kernel_without_a_duration_is_told():
    with pytest.raises(ScenarioError, match="none for kernel 'POTRF' of graph 'cholesky-2'"):
        graph_of(kind="cholesky", n=2)
    scenario = {**BASE, "durations": {"kind": "table", "kernels_ms": {"POTRF": {"cpu": 1.0}}}}
    with pytest.raises(ScenarioError, match="kernel 'POTRF' has none for processors of kind 'gpu'"):
        compiled_scenario(load({**scenario, "graphs": [{"kind": "cholesky", "n": 1}]}))


def test_measurements_of_starpu_are_read_from_a_file(tmp_path):
    rows = [
        {"kernel": "m", "machine": "x", "arch": arch, "ncores": cores, "size_bytes": size, "mean_us": mean, "n": n}
        for arch, cores, size, mean, n in [
            ("cpu", 1, 200, 3000.0, 5),
            ("cpu", 2, 200, 9.0, 5),
            ("cuda", 1, 200, 1000.0, 1),
            ("cuda", 1, 200, 2000.0, 3),
            ("cuda", 1, 150, 9.0, 1),
        ]
    ]
    (tmp_path / "p.json").write_text(json.dumps({"kernels": rows}))
    profile_of = {"kind": "profile", "path": str(tmp_path / "p.json"), "machine": "x", "tile_bytes": 100}
    scenario = {**BASE, "graphs": [{"kind": "cholesky", "n": 1}]}
    found = load({**scenario, "durations": {**profile_of, "kernels": {"POTRF": "m"}}})
    assert kernel_table(found) == {"POTRF": {"cpu": 3.0, "gpu": 1.75}}
    with pytest.raises(TraceError, match="no measurement of model 'other' on cpu of machine 'x'"):
        compiled_scenario(load({**scenario, "durations": {**profile_of, "kernels": {"POTRF": "other"}}}))


def test_shared_measurements_of_starpu_are_those_of_the_facts(shared_data):
    path = shared_data / "taskgraph" / "starpu_perfmodels" / "starpu_perfmodels.json"
    if not path.is_file():
        pytest.skip("the measurements of StarPU are not among the shared data")
    kernels = {name: f"chol_model_{name.lower()}" for name in ("POTRF", "TRSM", "SYRK", "GEMM")}
    durations = {"kind": "profile", "path": str(path), "machine": "sirocco", "kernels": kernels}
    table = kernel_table(load({**BASE, "durations": durations, "graphs": [{"kind": "cholesky", "n": 2}]}))
    assert table["GEMM"] == pytest.approx({"cpu": 34.94, "gpu": 0.74}, rel=0.02)
    assert table["TRSM"] == pytest.approx({"cpu": 17.76, "gpu": 2.01}, rel=0.02)
