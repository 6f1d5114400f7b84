"""Damaged files of every kind that we read: each is read, or refused in one line; never anything else.

Good files are damaged by a few edits: bytes cut out, doubled, swapped for others, or for words that readers trip over.
`make test-all` tries 100,000 of them, `make test` a few hundred.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slipstream.cli.common import describe_run
from slipstream.cluster.sources import swf, tables
from slipstream.core.eventlog import LogWriter
from slipstream.core.family import FAMILIES
from slipstream.core.simulator import Simulator
from slipstream.dag.scenario import Alibaba
from slipstream.dag.sources import alibaba
from slipstream.edge.arrivals import trace_times
from slipstream.edge.importers.ladder import read_ladder
from slipstream.edge.importers.tasklist import TaskList, scenario_of
from slipstream.edge.importers.trace import read_releases
from slipstream.edge.measured import read_profile
from slipstream.edge.scenario import Trace
from slipstream.errors import InputError
from slipstream.policies import find
from slipstream.policies.learned import read_card
from slipstream.report.runs import read_run
from slipstream.scenario import digest, dump, load, read_json
from slipstream.serving.arrivals import flow_of
from slipstream.taskgraph.scenario import Stg, WfCommons
from slipstream.taskgraph.sources import inline, stg, wfcommons

ALL = 100_000
FEW = 30
"""Cases of `make test` for each kind of file."""

WORDS = [b"-1", b"0", b"0.5", b"1e309", b"1e-320", b"NaN", b"-Infinity", b"null", b"true", b'""', b"[]", b"{}"]
WORDS += [b"9" * 25, b"-9223372036854775809", b"2020-02-30", b"0001-01-01", b"[" * 3000]
WORDS += [b"\xff", b"\x00", b"\n", b",", b'"', b";", b" ", b"\xed\xa0\x80"]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    name: str
    content: bytes
    read: Callable[[Path], Any]
    """Reads such a file, by its path."""


def _scenario(path: Path) -> None:
    digest(load(path))


def _serving_trace(path: Path) -> None:
    data = json.loads(dump(load("serving/tiny")))
    data["models"][0]["arrivals"] = {"kind": "trace", "path": str(path)}
    scenario: Any = load(data)
    flow_of(scenario, scenario.models[0])


def _recorded(tmp_path: Path) -> bytes:
    scenario: Any = load("edge/tiny")
    writer = LogWriter(tmp_path / "run.parquet", describe_run("edge/tiny", scenario, "edf", 0))
    writer.write(Simulator(scenario).play(find("edf", "edge"), 0))
    writer.close()
    return (tmp_path / "run.parquet").read_bytes()


def _packed() -> bytes:
    file = io.BytesIO()
    arrays = {"stage_ptr": [0, 2, 3], "edge_ptr": [0, 1, 1], "edges": [[0, 1]], "num_tasks": [2, 1, 4]}
    np.savez(file, **{name: np.array(values) for name, values in arrays.items()}, duration=np.array([3.0, 4.0, 1.0]))
    return file.getvalue()


GRAPH = {"tasks": [{"name": "a", "duration_ms": 2}, {"name": "b", "duration_ms": 1, "after": ["a"]}]}
WORKFLOW = {
    "workflow": {
        "specification": {
            "tasks": [
                {"name": "t1", "id": "t_1", "parents": [], "inputFiles": ["f"], "outputFiles": ["g"]},
                {"name": "t2", "id": "t_2", "parents": ["t_1"], "inputFiles": ["g"], "outputFiles": []},
            ],
            "files": [{"id": "f", "sizeInBytes": 10}, {"id": "g", "sizeInBytes": 20}],
        },
        "execution": {"tasks": [{"id": "t_1", "runtimeInSeconds": 1.5}, {"id": "t_2", "runtimeInSeconds": 2}]},
    }
}
LISTED = {"name": "a", "model": "resnet50", "data": "x", "if_periodic": True, "period_ms": 10}
TASKS = {"num_tasks": 1, "num_variants": 5, "total_time_ms": 100, "task_list": [LISTED]}
PROFILE = {"device": "d", "backend": "cpu", "variants": []}
SWF_LINE = b"1 0 5 100 4 -1 -1 4 200 -1 1 7 1 1 1 -1 -1 -1\n"
PODS = (
    b"name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\np1,1,1000,LS,0,10,1\np2,2,1000,BE,5,50,7\n"
)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    edge: Any = load("edge/tiny")
    found = [Kind(f"{name}.json", dump(load(f"{name}/tiny")).encode(), _scenario) for name in FAMILIES]
    times = b"arrival_ms\n0\n1.5\n20\n"
    found += [
        Kind("trace.csv", times, lambda path: trace_times(Trace(kind="trace", path=path.name), path.parent)),
        Kind("rows.csv", b"task,arrival_ms\ncamera,0\nalarm,3\n", lambda path: read_releases(path, edge, None)),
        Kind("ladder.csv", b"model,latency_ms,accuracy\na,1,70\nb,2.5,80\n", lambda path: read_ladder(path, {})),
        Kind("log.swf", b"; a header\n" + 2 * SWF_LINE, swf.jobs),
        Kind("philly.csv", b"timestamp,duration,num_gpus,cluster\n2017-10-01 00:00:01,50,2,vc1\n", tables.philly),
        Kind("helios.csv", b"job_id,submit_time,gpu_num,duration,vc\n1,2020-04-01 00:00:00,1,60,vc\n", tables.helios),
        Kind("openb.csv", PODS, tables.openb),
        Kind("graph.stg", b"2\n0 0 0\n1 5 1 0\n2 7 1 1\n3 0 1 2\n", lambda path: stg.template(_stg(), path)),
        Kind("workflow.json", json.dumps(WORKFLOW).encode(), lambda path: wfcommons.template(_workflow(), path)),
        Kind("graph.json", json.dumps(GRAPH).encode(), inline.template_of_file),
        Kind("jobs.npz", _packed(), lambda path: alibaba.library(Alibaba(kind="alibaba", path=path.name), path.parent)),
        Kind("requests.csv", b"0,0.5,100\n10,0.5,100\n30,0.7,50\n", _serving_trace),
        Kind("tasks.json", json.dumps(TASKS).encode(), _tasks),
        Kind("profile.json", json.dumps(PROFILE).encode(), read_profile),
        Kind("policy.json", b'{"format": 1, "family": "edge", "operations": []}', read_card),
        Kind("run.parquet", _recorded(tmp_path_factory.mktemp("recorded")), read_run),
    ]
    return {kind.name: kind for kind in found}


def _stg() -> Stg:
    return Stg(kind="stg", path="graph.stg")


def _workflow() -> WfCommons:
    return WfCommons(kind="wfcommons", path="workflow.json")


def _tasks(path: Path) -> None:
    scenario_of(read_json(path, TaskList), "fuzzed", "exponential", 0)


NAMES = [f"{name}.json" for name in FAMILIES]
NAMES += ["trace.csv", "rows.csv", "ladder.csv", "log.swf", "philly.csv", "helios.csv", "openb.csv", "graph.stg"]
NAMES += ["workflow.json", "graph.json", "jobs.npz", "requests.csv", "tasks.json", "profile.json", "policy.json"]
NAMES += ["run.parquet"]

KINDS_OF_EDITS = ["word", "cut", "double", "bytes"]
EDIT = st.tuples(st.integers(0, 2**20), st.integers(0, 24), st.sampled_from(KINDS_OF_EDITS), st.integers(0, 2**32))


def damaged(content: bytes, edits: list[tuple[int, int, str, int]]) -> bytes:
    """Return a file after some edits: at a place, over a length."""
    for place, length, what, lot in edits:
        begin = place % (len(content) + 1)
        piece = content[begin : begin + length]
        new = {
            "word": WORDS[lot % len(WORDS)],
            "cut": b"",
            "double": piece + piece,
            "bytes": (lot * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little")[: 1 + lot % 8],
        }[what]
        content = content[:begin] + new + content[begin + length :]
    return content


def check(kind: Kind, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    told = ""
    try:
        kind.read(path)
    except InputError as error:
        told = str(error)
    assert len(told.splitlines()) <= 1, told


def fuzz(kind: Kind, folder: Path, cases: int) -> None:
    path = folder / kind.name

    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(EDIT, min_size=1, max_size=4))
    def run(edits: list[tuple[int, int, str, int]]) -> None:
        check(kind, path, damaged(kind.content, edits))

    run()


def test_every_kind_of_file_is_listed(kinds):
    assert list(kinds) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_file_that_is_damaged_is_a_good_one(kinds, name, tmp_path):
    if name in ("profile.json", "policy.json"):
        pytest.skip("a whole one is long: this is the beginning of one")
    (tmp_path / name).write_bytes(kinds[name].content)
    kinds[name].read(tmp_path / name)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused_in_one_line(kinds, name, tmp_path):
    fuzz(kinds[name], tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_damaged_files_are_read_or_refused_in_one_line(kinds, name, tmp_path):
    fuzz(kinds[name], tmp_path, -(-ALL // len(NAMES)))
