"""A folder of runs, and the real server over it."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
import uvicorn

from slipstream.dashboard.app import create_app
from slipstream.evaluation import compare
from slipstream.families.contract import FAMILIES
from slipstream.sim.eventlog import LogWriter, read
from tests.reports.test_report import record

HISTORY = [
    {"update": n, "steps": 1000 * n, "seconds": 2.0 * n, "phase": "ppo", "reward": 10.0 + n, "heuristic_reward": 12.5}
    for n in (1, 2, 3)
]
LIVE = {"time_s": 1.0, "released": 9, "finished": 6, "missed": 1, "busy": 1, "streams": 2, "waiting": 2}
LEVEL = {"mean": 0.0, "low": 0.0, "high": 0.0}
LESS = {"mean": -300.0, "low": -400.0, "high": -200.0}
TWIN = {"kind": "slurm-twin", "taken_at": "2026-01-15T12:00:00", "policy": "fifo", "futures": 32, "interval": 0.9}
TWIN |= {"history": {"jobs": 500}, "cluster": {"gpus": 16, "gpus_in_use": 12, "running": 3, "waiting": 2}}
TWIN["jobs"] = [
    {
        "job": "17",
        "user": "ann",
        "gpus": 8,
        "waited_s": 600.0,
        "why": "not enough GPUs are free: it wants 8, 4 are free",
    }
    | {"starts_in_s": {"low": 60.0, "median": 1800.0, "high": 7200.0}},
    {"job": "<b>18", "user": "bob", "gpus": 99, "waited_s": 30.0, "why": "never starts", "starts_in_s": None},
]
TWIN["left_out"] = [{"job": "19", "user": "bob", "gpus": 1, "why": "held by its user, until it is released"}]
TWIN["what_if"] = [
    {"what_if": what_if, "policy": "fifo", "never_start": 1, "wait_mean_s": 900.0, "wait_mean_s_difference": wait}
    | {"slowdown_mean": 3.0, "slowdown_mean_difference": LEVEL, "energy_kwh": 5.0, "energy_kwh_difference": LEVEL}
    for what_if, wait in (("present rules", LEVEL), ("nodes=+10", LESS))
]
"""What `slipstream twin slurm --out` writes, in short."""
HARDWARE = "Imaginary CPU, 2 cores"
LIVE |= {"latency_ms": 4.5, "tasks": [{"name": "camera", "released": 9, "waiting": 2, "running": 1, "finished": 6}]}


def relabel(source, target, **changes):
    """Copy a log under other metadata."""
    events, about = read(source)
    writer = LogWriter(target, {**about, **changes})
    writer.write(events)
    writer.close()
    return target


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs of every kind that a page shows; tests only add to it."""
    folder = tmp_path_factory.mktemp("home") / "runs"
    (folder / "deep").mkdir(parents=True)
    record(folder / "fit.parquet")
    record(folder / "deep" / "edf.parquet", policy="edf")
    relabel(folder / "deep" / "edf.parquet", folder / "real.parquet", device="cpu", policy="edf-fit", hardware=HARDWARE)
    (folder / "all.json").write_text(
        json.dumps(compare("edge/tiny", "edf,edf-fit", episodes=3, oracle_seconds=1.0).to_dict())
    )
    training = folder / "trained"
    training.mkdir()
    about = {"scenario": "edge/heavy", "command": "slipstream train edge/heavy", "settings": {"algo": "ppo", "seed": 3}}
    (training / "run.json").write_text(json.dumps(about))
    (training / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in HISTORY))
    (folder / "camera.live.jsonl").write_text(json.dumps(LIVE) + "\n")
    (folder / "validation.html").write_text(
        "<!doctype html><title>validated</title><script>document.title = 'ran'</script>"
    )
    (folder / "queue.json").write_text(json.dumps(TWIN))
    (folder / "notes.txt").write_text("not a run")
    (folder / "other.json").write_text('{"not": "a comparison"}')
    (folder.parent / "secret.json").write_text((folder / "all.json").read_text())
    shutil.copy(folder / "fit.parquet", folder.parent / "secret.parquet")
    (folder / "way-out.parquet").symlink_to(folder.parent / "secret.parquet")
    return folder


@pytest.fixture(scope="session")
def family_runs(tmp_path_factory):
    """A short run of every family."""
    folder = tmp_path_factory.mktemp("families")
    for name, family in FAMILIES.items():
        record(folder / f"{name}.parquet", f"{name}/tiny", family.default_policy, seed=1, family=name)
    return folder


@pytest.fixture(scope="session")
def simulated_runs(tmp_path_factory):
    """A short run of every family with futures, under a policy that simulates ahead."""
    folder = tmp_path_factory.mktemp("simulated")
    for name, family in FAMILIES.items():
        if family.members.kernel.resample is not None:
            record(folder / f"{name}.parquet", f"{name}/tiny", "rollout", seed=1, family=name)
    return folder


class Client:
    """Asks a server, without tidying up the questions as a browser would."""

    def __init__(self, port):
        self.port = port
        self.address = f"http://127.0.0.1:{port}/"

    def ask(self, path, method="GET", body=None, headers=None, **parameters):
        """Return status, headers and what was answered, from JSON where it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        target = path + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")
        data = json.dumps(body) if isinstance(body, dict) else body
        given = {"Content-Type": "application/json"} if data is not None else {}
        connection.request(method, target, data, {**given, **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        found = json.loads(text) if response.headers.get_content_type() == "application/json" else text
        return response.status, response.headers, found

    def get(self, path, **parameters):
        """Return the answer to a question that is a good one."""
        status, _, found = self.ask(path, **parameters)
        assert status == 200, found
        return found


@contextmanager
def serving(app):
    """Run the server of an app; give a client of it."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def client(runs):
    with serving(create_app(runs)) as found:
        yield found
