"""Files that scenarios name: every fault of one is answered in one line that names the key and the file."""

from __future__ import annotations

import json
import os

import pytest

from slipstream.errors import InputError
from slipstream.families.contract import family_of
from slipstream.scenario import digest, dump, load

FILE = "given.csv"


def changed(builtin, change):
    """Return a built-in scenario as data, changed in place by a function."""
    data = json.loads(dump(load(builtin)))
    change(data)
    return data


def build(data, folder):
    """Read everything that a scenario names."""
    scenario = load(data, folder)
    digest(scenario)
    family_of(scenario).spec_arrays(scenario)


def edge_trace(data):
    for key in ("periodic_tasks", "poisson_tasks"):
        data.pop(key, None)
    data["tasks"][1] |= {"deadline_ms": 50, "arrival": {"kind": "trace", "path": FILE}}


def serving(arrivals):
    return lambda data: data["models"][1].update({"arrivals": {**arrivals, "path": FILE}})


def dag(jobs):
    return lambda data: data.update({"arrivals": {"kind": "batch", "jobs": 2}, "jobs": {**jobs, "path": FILE}})


def cluster(kind):
    return lambda data: data.update({"jobs": {"kind": kind, "path": FILE}})


def graph(kind):
    return lambda data: data.update({"graphs": [{"kind": "cholesky", "n": 2}, {"kind": kind, "path": FILE}]})


def durations(data):
    data["graphs"] = [{"kind": "cholesky", "n": 2}]
    data["durations"] = {"kind": "profile", "path": FILE, "machine": "m", "kernels": {}}


CASES = {
    "edge/light tasks[1].arrival.path": edge_trace,
    "edge/light profile": lambda data: data.update({"profile": FILE}),
    "dag/tiny arrivals.path": lambda data: data.update({"arrivals": {"kind": "trace", "path": FILE}}),
    "dag/tiny jobs.path": dag({"kind": "alibaba"}),
    "taskgraph/tiny durations.path": durations,
    **{f"taskgraph/tiny graphs[1].path {kind}": graph(kind) for kind in ("stg", "wfcommons", "file")},
    **{f"cluster/tiny jobs.path {kind}": cluster(kind) for kind in ("swf", "philly", "helios", "openb")},
    "serving/tiny models[1].arrivals.path rates": serving({"kind": "rates"}),
    "serving/tiny models[1].arrivals.path trace": serving({"kind": "trace"}),
    "serving/tiny models[1].arrivals.path azure": serving({"kind": "trace", "format": "azure-llm"}),
}

FAULTS = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "unreadable": os.mkfifo,
    "empty": lambda path: path.write_bytes(b""),
    "of another format": lambda path: path.write_bytes(b"hello world\nwhat,is,this\n"),
    "binary": lambda path: path.write_bytes(b"\x00\xff\x01\x02"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("case", CASES)
def test_a_faulty_file_is_answered_by_its_key_and_its_name(case, fault, tmp_path):
    builtin, key = case.split()[:2]
    FAULTS[fault](tmp_path / FILE)
    with pytest.raises(InputError) as caught:
        build(changed(builtin, CASES[case]), tmp_path)
    assert str(caught.value).startswith(f"{key}: {tmp_path / FILE}: ")
    assert "\n" not in str(caught.value)


def test_a_folder_of_queries_that_is_missing_is_named(tmp_path):
    scenario = load(changed("dag/tiny", dag({"kind": "tpch"})), tmp_path)
    with pytest.raises(InputError, match=rf"^jobs\.path: {tmp_path / FILE}: no such folder: expected"):
        digest(scenario)
