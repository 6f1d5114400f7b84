"""What people hand over as files of text or as words: scenarios, names and traces."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from slipstream.cli.addresses import parse_address
from slipstream.cli.importing import pairs
from slipstream.dashboard.jobs import Jobs
from slipstream.dashboard.runs import RunsFolder
from slipstream.dashboard.trial import problems_of
from slipstream.device.models import addresses
from slipstream.device.models.datasets import dataset_type, samples_of
from slipstream.families.cluster.workload.sources import swf, tables
from slipstream.families.contract import FAMILIES
from slipstream.families.dag.scenario import Alibaba, Tpch
from slipstream.families.dag.workload.sources import alibaba, tpch
from slipstream.families.edge.scenario import Trace
from slipstream.families.edge.workload.arrivals import trace_times
from slipstream.families.edge.workload.importers.ladder import read_ladder
from slipstream.families.edge.workload.importers.tasklist import TaskList, scenario_of
from slipstream.families.edge.workload.importers.trace import read_releases
from slipstream.families.edge.workload.measured import read_profile
from slipstream.families.serving.workload import sources as proteus
from slipstream.families.serving.workload.arrivals import arrival_process
from slipstream.families.taskgraph.scenario import Profile, Stg, WfCommons
from slipstream.families.taskgraph.workload.durations import _profile
from slipstream.families.taskgraph.workload.sources import inline, stg, wfcommons
from slipstream.files.validation import read_model
from slipstream.library.storage.records import check_name, parse_reference
from slipstream.policies import find
from slipstream.scenario import builtin_names, changed, digest, dump, load
from slipstream.sim.simulator import Simulator
from slipstream.suite.catalogue import load_suite
from slipstream.suite.submission import read_submission
from tests.fuzz.mutations import any_json, damaged_bytes, file_name, nasty, nasty_name, odd_entry
from tests.fuzz.surface import Reading, Surface, put

LARGEST_BASE = 20_000
BUILT = 0.1
"""Share of the scenarios which, once read, are also made ready to be simulated."""


class Scenarios(Surface):
    """Scenario files of every family, and their drafts on the dashboard."""

    name = "scenarios"
    share = 1.5

    def prepare(self, home: Path) -> None:
        texts = [dump(load(name)).encode() for name in builtin_names()]
        self.texts = [text for text in texts if len(text) <= LARGEST_BASE]

    def make(self, rng: Random, folder: Path) -> Reading:
        content = any_json(rng, rng.choice(self.texts))
        path = folder / "scenario.json"
        path.write_bytes(content)
        draft, built = rng.random() < 0.2, rng.random() < BUILT

        def read() -> list[str]:
            if draft:
                return [text for pair in problems_of(content.decode("utf-8", "replace"))[1] for text in pair]
            scenario = load(path)
            digest(scenario)
            if built:
                Simulator(scenario, log_rows=0)
            return [dump(scenario)]

        return read


class Names(Surface):
    """Words that name something, wherever one can be given."""

    name = "names"
    share = 1.5

    def prepare(self, home: Path) -> None:
        self.scenario = load("edge/tiny")
        self.data = json.loads(dump(self.scenario))
        self.jobs = Jobs(home)

    def make(self, rng: Random, folder: Path) -> Reading:
        name, family = nasty_name(rng), rng.choice(list(FAMILIES))
        runs = folder / "runs"
        runs.mkdir()
        listed = runs / (file_name(rng) + rng.choice((".html", ".json", ".parquet", ".live.jsonl", "")))
        listed.write_bytes(b"{}")
        data = {**self.data, rng.choice(("name", "description")): name}
        data["tasks"] = [{**task, rng.choice(("name", "model", "dataset")): name} for task in self.data["tasks"]]
        asks: list[Callable[[], list[str]]] = [
            lambda: [str(find(name, family))],
            lambda: [dump(load(data))],
            lambda: [digest(load(data))],
            lambda: [dump(changed(self.scenario, f"{name}={name}"))],
            lambda: [dump(changed(self.scenario, f"tasks.0.name={name}"))],
            lambda: [dump(load(name.replace("/etc", "etc")))],  # by its whole name, any file may be a scenario
            lambda: [check_name(name)],
            lambda: [str(parse_reference(name))],
            lambda: [json.dumps([one.to_dict() for one in RunsFolder(runs).listing()[0]], ensure_ascii=False)],
            lambda: [str(RunsFolder(runs).entry(name).to_dict())],
            lambda: [str(self.jobs.find(name).to_dict())],
            lambda: [addresses.parse(f"{rng.choice(addresses.KINDS)}:{name}", 0, folder).text],
            lambda: [dataset_type(name).name],
            lambda: [str(parse_address(name))],
            lambda: list(pairs("--where", [name]).values()) and [],
        ]
        return rng.choice(asks)


class Kind:
    """A kind of trace: the name of its file, a whole one, and who reads it."""

    def __init__(self, name: str, content: bytes, read: Callable[[Path], Any]) -> None:
        self.name, self.content, self.read = name, content, read


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
SWF_LINE = b"1 0 5 100 4 -1 -1 4 200 -1 1 7 1 1 1 -1 -1 -1\n"
PODS = (
    b"name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\np1,1,1000,LS,0,10,1\np2,2,1000,BE,5,50,7\n"
)
MEASURED = {"machine": "m", "kernel": "k", "arch": "cpu", "ncores": 1, "size_bytes": 8, "mean_us": 5.0, "n": 3}
STARPU = Profile(
    kind="profile", path="starpu.json", machine="m", tile_bytes=8, kernels={"GEMM": "k"}, kinds={"cpu": "cpu"}
)


def trace_kinds() -> list[Kind]:
    """Return every kind of file that arrivals, graphs, measurements, samples and results are read from."""
    edge: Any = load("edge/tiny")
    times = b"arrival_ms\n0\n1.5\n20\n"
    philly = b"timestamp,duration,num_gpus,cluster\n2017-10-01 00:00:01,50,2,vc1\n"
    helios = b"job_id,submit_time,gpu_num,duration,vc\n1,2020-04-01 00:00:00,1,60,vc\n"
    azure = b"TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.9799600,4808\n2023-11-16 18:17:04.0319600,3180\n"
    profile = b"Model,Accel,batchsize,50th_pct\nresnet,onnxruntime_cpu,1,5.0\nresnet,onnxruntime_cpu,2,9.0\n"
    allocation = b"required_predictors: {('resnet', 'CPU'): 2}\n"
    return [
        Kind("trace.csv", times, _trace),
        Kind("trace.parquet", _parquet(arrival_ms=[0.0, 1.5, 20.0]), _trace),
        Kind("rows.csv", b"task,arrival_ms\ncamera,0\nalarm,3\n", lambda path: read_releases(path, edge, None)),
        Kind(
            "rows.parquet",
            _parquet(task=["camera", "alarm"], arrival_ms=[0, 3]),
            lambda path: read_releases(path, edge, None),
        ),
        Kind("ladder.csv", b"model,latency_ms,accuracy\na,1,70\nb,2.5,80\n", lambda path: read_ladder(path, {})),
        Kind("log.swf", b"; a header\n" + 2 * SWF_LINE, swf.jobs),
        Kind("log.swf.gz", _gzip(b"; a header\n" + 2 * SWF_LINE), swf.jobs),
        Kind("philly.csv", philly, tables.philly),
        Kind("helios.csv", helios, tables.helios),
        Kind("openb.csv", PODS, tables.openb),
        Kind(
            "graph.stg",
            b"2\n0 0 0\n1 5 1 0\n2 7 1 1\n3 0 1 2\n",
            lambda path: stg.template(Stg(kind="stg", path=path.name), path),
        ),
        Kind(
            "workflow.json",
            json.dumps(WORKFLOW).encode(),
            lambda path: wfcommons.template(WfCommons(kind="wfcommons", path=path.name), path),
        ),
        Kind("graph.json", json.dumps(GRAPH).encode(), inline.template_of_file),
        Kind("starpu.json", json.dumps({"kernels": [MEASURED]}).encode(), lambda path: _profile(STARPU, path)),
        Kind("jobs.npz", _packed(), lambda path: alibaba.library(Alibaba(kind="alibaba", path=path.name), path.parent)),
        Kind("tpch/2g/adj_mat_1.npy", _npy(np.array([[0.0, 1.0], [0.0, 0.0]])), _queries),
        Kind("tpch/2g/task_duration_1.npy", _durations(), _queries),
        Kind("requests.csv", b"0,0.5,100\n10,0.5,100\n30,0.7,50\n", lambda path: _requests(path, "requests")),
        Kind("azure.csv", azure, lambda path: _requests(path, "azure-llm")),
        Kind("rates.txt", b"1,5\n2,7.5\n", _rates),
        Kind("proteus.csv", profile, proteus.read_profile),
        Kind("variants.txt", b"resnet,70.5\n", proteus.read_variants),
        Kind("allocation.txt", allocation, proteus.read_allocation),
        Kind("tasks.json", json.dumps(TASKS).encode(), _tasks),
        Kind("profile.json", _measured(), read_profile),
        Kind("inputs.npy", _npy(np.zeros((3, 1, 2, 2), np.float32)), _samples),
        Kind("a/picture.png", _picture("PNG"), _pictures),
        Kind("a/picture.jpg", _picture("JPEG"), _pictures),
        Kind("submission.json", _submission(), read_submission),
    ]


class Traces(Surface):
    """Files that scenarios name, and that are imported."""

    name = "traces"
    share = 1.5

    def prepare(self, home: Path) -> None:
        self.kinds = trace_kinds()
        self.outside = home / "outside"
        put({Path(kind.name).name: kind.content for kind in self.kinds}, self.outside)

    def make(self, rng: Random, folder: Path) -> Reading:
        kind = rng.choice(self.kinds)
        put({other.name: other.content for other in self.kinds if other.name.startswith("tpch/")}, folder)
        path = folder / kind.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.04:
            # A link that a scenario's author made is followed; all else that is no file is refused.
            odd_entry(rng, path, folder)
        elif kind.name.endswith(".json"):
            path.write_bytes(any_json(rng, kind.content))
        elif kind.name.endswith(".csv") and rng.random() < 0.5:
            path.write_bytes(_cells(rng, kind.content))
        elif kind.name.endswith(".parquet") and rng.random() < 0.5:
            path.write_bytes(_columns(rng, kind.content))
        else:
            path.write_bytes(damaged_bytes(rng, kind.content))

        def read() -> list[str]:
            kind.read(path)
            return []

        return read


def _cells(rng: Random, content: bytes) -> bytes:
    """Return a table of text with some of its cells replaced."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = str(nasty(rng))[:6000]
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


def _columns(rng: Random, content: bytes) -> bytes:
    """Return a Parquet table with a column replaced by one of another type, name or length."""
    table = pq.read_table(io.BytesIO(content))
    place = rng.randrange(table.num_columns)
    others: list[Any] = [
        pa.nulls(table.num_rows), pa.array([None, *range(table.num_rows - 1)]), pa.array([[1]] * table.num_rows),
        pa.array([b"\xff"] * table.num_rows), pa.array(["x" * 9000] * table.num_rows),
        pa.array([float("nan")] * table.num_rows), pa.array([2**63 - 1] * table.num_rows),
        pa.array(["\x1b[2J"] * table.num_rows).dictionary_encode(), pa.array([True] * table.num_rows),
        pa.array([{"a": 1}] * table.num_rows), pa.array([-5] * table.num_rows, pa.timestamp("ns")),
    ]  # fmt: skip
    name = table.column_names[place] if rng.random() < 0.9 else rng.choice(["x\x1b", "", "a.b"])
    if rng.random() < 0.1:
        table = table.append_column(table.column_names[place], table.column(place))
    file = io.BytesIO()
    pq.write_table(table.set_column(place, name, rng.choice(others)), file)
    return file.getvalue()


def _parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _packed() -> bytes:
    file = io.BytesIO()
    arrays = {"stage_ptr": [0, 2, 3], "edge_ptr": [0, 1, 1], "edges": [[0, 1]], "num_tasks": [2, 1, 4]}
    np.savez(file, **{name: np.array(values) for name, values in arrays.items()}, duration=np.array([3.0, 4.0, 1.0]))
    return file.getvalue()


def _durations() -> bytes:
    level = {5: [10.0, 20.0], 10: [30.0]}
    waves = {"fresh_durations": level, "first_wave": level, "rest_wave": level}
    return _npy(np.array({0: waves, 1: waves}, dtype=object))


def _gzip(content: bytes) -> bytes:
    import gzip

    return gzip.compress(content, mtime=0)


def _picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (5, 4), (10, 20, 30)).save(file, kind)
    return file.getvalue()


def _measured() -> bytes:
    times = {f"{name}_ms": 1.5 for name in ("latency", "p50", "p95", "p99")}
    variant = {"model": "builtin:mobilenet", "dataset": "cifar10", "variant": 0, "cv": 0.1, "runs": 9, **times}
    noise = {"others": 0.01, "others_worst": 0.02, "spread": 0.05, "quiet": True}
    about = {"device": "made up", "backend": "cpu", "streams": 2, "noise": noise}
    return json.dumps({**about, "variants": [variant], "slowdowns": [[1.5]]}).encode()


def _submission() -> bytes:
    score = {"mean": 1.0, "low": 0.5, "high": 1.5}
    played = {"heavy": {"digest": "0" * 64, "policy": "edf", "rewards": [1.0, 2.0], "score": 0.5}}
    families = {"edge": {"score": score, "ceiling": 2.0, "best_rule": "edf", "gain": score, "scenarios": played}}
    players = {"edge": {"policy": "edf", "kind": "rule", "source": "edf", "sha256": "0" * 64}}
    suite = {"version": load_suite().version, "digest": load_suite().digest}
    about = {"format": 1, "title": "t", "suite": suite, "slipstream": "1"}
    return json.dumps({**about, "players": players, "families": families}).encode()


def _trace(path: Path) -> None:
    trace_times(Trace(kind="trace", path=path.name), path.parent)


def _queries(path: Path) -> None:
    tpch.library(Tpch(kind="tpch", path="tpch", queries=[1], sizes=["2g"]), path.parents[2], None)


def _served(arrivals: dict[str, Any]) -> None:
    data = json.loads(dump(load("serving/tiny")))
    data["models"][0]["arrivals"] = arrivals
    scenario: Any = load(data)
    arrival_process(scenario, scenario.models[0])
    digest(scenario)


def _requests(path: Path, kind: str) -> None:
    _served({"kind": "trace", "path": str(path), "format": kind})


def _rates(path: Path) -> None:
    _served({"kind": "rates", "path": str(path), "step_s": 1.0})


def _tasks(path: Path) -> None:
    scenario_of(read_model(path, TaskList), "fuzzed", "exponential", 0)


def _samples(path: Path) -> None:
    samples_of(dataset_type("synthetic:1x2x2"), path.parent, 0)


def _pictures(path: Path) -> None:
    samples_of(dataset_type("synthetic:3x2x2"), path.parents[1], 0)
