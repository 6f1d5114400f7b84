"""Requests to a real device: answers belong to their inputs, deadlines and queues hold, bad requests are told so."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.listening import ListeningRuntime
from slipstream.device.request_queue import RequestQueue
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.service.app import Service, serving
from slipstream.service.inputs import RAW
from slipstream.sim.eventlog import ARRIVAL, EXPIRE, FAIL, FINISH
from slipstream.sim.simulator import Simulator
from tests.dashboard.conftest import Client
from tests.device.conftest import scenario_of, task
from tests.service.models import GATE, RAISES, WAITS

EXTERNAL = {"kind": "external", "mean_gap_ms": 20}
ECHO = ("python:tests.service.models:echo", "synthetic:1x2x2")


def echo_scenario():
    return scenario_of(
        [
            task("patient", *ECHO, variants=2, arrival=EXTERNAL, deadline_ms=60_000),
            task("hasty", *ECHO, arrival=EXTERNAL, deadline_ms=150),
            task("inner", "builtin:mobilenet", arrival={"kind": "periodic", "period_ms": 50}),
            task("words", "builtin:transformer", "text-128", arrival=EXTERNAL, deadline_ms=60_000),
        ],
        600_000,
        queue_limit=4,
    )


@contextmanager
def service(scenario, policy="edf", **options):
    """Run a scenario and its service; give a client, the runtime, and a list that gets what happened in the end.

    What the client asks is found as its attribute `service`.
    """
    requests = RequestQueue(scenario, workload_of(scenario, allow_code=True))
    listening = socket.create_server(("127.0.0.1", 0))
    ended = []
    with CpuStreams(requests.workload, scenario.device.streams) as streams:
        runtime = ListeningRuntime(scenario, requests, streams, **options)
        playing = threading.Thread(target=lambda: ended.append(runtime.play(find(policy, "edge"), 0)))
        found = Service(scenario, requests)
        with serving(found, listening):
            client = Client(listening.getsockname()[1])
            client.service = found
            playing.start()
            try:
                until = time.monotonic() + 300
                while client.ask("/healthz")[0] != 200 and time.monotonic() < until:
                    time.sleep(0.02)
                yield client, runtime, ended
            finally:
                runtime.stop()
                playing.join(60)
    requests.close_sockets()


@pytest.fixture(scope="module")
def running():
    with service(echo_scenario()) as (client, _, _):
        yield client


def square(first, *rest):
    values = [first, *rest, *[0.0] * (3 - len(rest))]
    return [[values[:2], values[2:]]]


def ask(client, name, first=0.0, *rest):
    return client.ask(f"/v1/tasks/{name}", "POST", {"input": square(first, *rest)})


def test_an_answer_carries_outputs_variant_latency_and_the_deadline(running):
    status, _, found = ask(running, "patient", 1.5, 2.5, -3.0)
    assert status == 200
    rank = found["variant"]["rank"]
    assert found["outputs"] == [1.5 + rank, 2.5 + rank, -3.0 + rank, float(rank)]
    assert 0 < found["latency_ms"] < 60_000
    assert (found["task"], found["deadline_ms"], found["deadline_met"]) == ("patient", 60_000, True)


def test_a_tensor_comes_as_bytes_too_and_bytes_of_a_picture_are_normalised(running):
    def send(name, values):
        status, _, found = running.ask(f"/v1/tasks/{name}", "POST", values.tobytes(), {"Content-Type": RAW})
        assert status == 200, found
        return np.array(found["outputs"]) - found["variant"]["rank"]

    exact = np.array([[[1.25, 2.5], [3.75, -4.0]]], "<f4")
    assert send("patient", exact).tolist() == exact.reshape(-1).tolist()
    pixels = np.array([[[0, 255], [51, 102]]], np.uint8)
    assert send("patient", pixels) == pytest.approx((pixels.reshape(-1) / 255 - 0.5) / 0.25, abs=1e-5)
    tokens = np.arange(128)
    as_bytes = [send("words", tokens.astype(kind)).tolist() for kind in ("<i4", "<i8")]
    status, _, found = running.ask("/v1/tasks/words", "POST", {"input": tokens.tolist()})
    assert status == 200
    assert as_bytes == [found["outputs"]] * 2


def test_a_sample_of_the_task_can_stand_in_for_an_input(running):
    status, _, found = running.ask("/v1/tasks/patient", "POST", {"sample": 3})
    assert status == 200
    samples = workload_of(echo_scenario(), allow_code=True).sets[0].inputs
    assert np.array(found["outputs"]) - found["variant"]["rank"] == pytest.approx(samples[3].reshape(-1), abs=1e-5)


def test_answers_of_many_at_once_belong_to_their_inputs(running):
    def once(number):
        while True:  # who finds the queue full tries again
            status, _, found = ask(running, "patient", float(number), number + 0.5)
            if status != 429:
                return status, found["outputs"][:2], found["variant"]["rank"], found["job"]
            time.sleep(0.01)

    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(once, range(120)))
    for number, (status, outputs, rank, _) in enumerate(answers):
        assert status == 200
        assert outputs == [number + rank, number + 0.5 + rank]
    assert len({job for *_, job in answers}) == 120


def test_what_the_model_cannot_do_is_told_and_others_go_on(running):
    status, _, found = ask(running, "patient", RAISES)
    assert status == 500
    assert found["error"] == "the model failed: ValueError: this input is too much"
    assert not found["deadline_met"]
    assert ask(running, "patient", 1.0)[0] == 200


def test_overflow_is_refused_at_once_and_late_jobs_are_told_so(tmp_path, monkeypatch):
    """Both streams are held; then 4 of a task can wait, more are sent away; those with a deadline expire."""
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv(GATE, str(gate))
    with (
        service(echo_scenario(), watchdog=200_000) as (client, runtime, ended),
        ThreadPoolExecutor(32) as crowd,
    ):
        holders = [crowd.submit(ask, client, "patient", WAITS) for _ in range(2)]
        until = time.monotonic() + 120
        while [task for task, _, _ in runtime._jobs.values()] != [0, 0] and time.monotonic() < until:
            time.sleep(0.01)
        crowded = [crowd.submit(ask, client, "hasty") for _ in range(20)]
        statuses = Counter(one.result()[0] for one in crowded)
        assert set(statuses) == {429, 503}, statuses
        told = [one.result() for one in crowded]
        refused = next(one for one in told if one[0] == 429)
        assert refused[1]["Retry-After"] == "1"
        assert refused[2]["error"].endswith("try again later")
        expired = next(one for one in told if one[0] == 503)
        assert expired[2]["error"] == "its deadline passed before it could start"
        assert expired[2]["deadline_met"] is False
        assert expired[2]["latency_ms"] >= 150
        gate.unlink()
        assert [one.result()[0] for one in holders] == [200, 200]
        text = client.get("/metrics").decode()
    (execution,) = ended
    invariants.check(execution.events, 2, 4)
    kinds = Counter(execution.events[execution.events["task"] == 1]["kind"].tolist())
    assert kinds[EXPIRE] == statuses[503]
    assert f'slipstream_requests_total{{task="hasty",outcome="expired"}} {statuses[503]}' in text
    assert 'slipstream_latency_seconds_count{task="patient"} 2' in text


def test_the_log_holds_every_request_and_the_inner_tasks_too():
    with service(echo_scenario()) as (client, runtime, ended):
        outcomes = [ask(client, "patient", float(number))[0] for number in range(5)]
        outcomes.append(ask(client, "patient", RAISES)[0])
        time.sleep(0.2)
        runtime.stop()
        until = time.monotonic() + 60
        while not ended and time.monotonic() < until:
            time.sleep(0.05)
        assert ask(client, "patient")[0] == 503
        assert client.ask("/healthz")[0] == 503
    assert outcomes == [200] * 5 + [500]
    (execution,) = ended
    invariants.check(execution.events, 2, 4)
    kinds = Counter(map(tuple, execution.events[["task", "kind"]].tolist()))
    assert (kinds[0, ARRIVAL], kinds[0, FINISH], kinds[0, FAIL]) == (6, 5, 1)
    assert kinds[1, ARRIVAL] == kinds[3, ARRIVAL] == 0
    assert kinds[2, FINISH] > 0


BAD = {
    "unknown task": ("nobody", b'{"sample": 0}', {}, 404, "no task 'nobody' takes requests: expected one of patient"),
    "not external": ("inner", b'{"sample": 0}', {}, 404, "no task 'inner'"),
    "no type": ("patient", b"", {"Content-Type": "text/plain"}, 415, "expected application/json or"),
    "not JSON": ("patient", b"{", {}, 400, "expected JSON with one key"),
    "a list": ("patient", b"[1, 2]", {}, 400, "expected JSON with one key"),
    "other keys": ("patient", b'{"input": [], "more": 1}', {}, 400, "expected JSON with one key"),
    "deep": ("words", b'{"input": ' + b"[" * 2000, {}, 400, "expected JSON with one key"),
    "64 dimensions": (
        "patient",
        b'{"input": ' + b"[" * 64 + b"1" + b"]" * 64 + b"}",
        {},
        400,
        "expected lists of numbers",
    ),
    "ragged": ("patient", b'{"input": [[[1, 2], [3]]]}', {}, 400, "all of one length"),
    "words": ("patient", b'{"input": [[["1", "2"], ["3", "4"]]]}', {}, 400, "expected lists of numbers"),
    "huge": ("patient", b'{"input": [[[1e999, 2], [3, 4]]]}', {}, 400, "finite"),
    "not a number": ("patient", b'{"input": [[[NaN, 2], [3, 4]]]}', {}, 400, "finite"),
    "long integer": ("patient", b'{"input": [[[1' + b"0" * 400 + b", 2], [3, 4]]]}", {}, 400, "input: expected"),
    "shape": ("patient", b'{"input": [1, 2, 3]}', {}, 400, "is 1 x 3: expected samples of 1 x 2 x 2"),
    "tokens": ("words", b'{"input": [' + b"9999, " * 127 + b"0]}", {}, 400, "whole numbers from 0 to 8191"),
    "halves": ("words", b'{"input": [' + b"0.5, " * 127 + b"0]}", {}, 400, "whole numbers from 0 to 8191"),
    "sample": ("patient", b'{"sample": 64}', {}, 400, "sample: expected a whole number from 0 to 63"),
    "sample true": ("patient", b'{"sample": true}', {}, 400, "sample: expected a whole number"),
    "bytes": ("patient", b"12345", {"Content-Type": RAW}, 400, "5 bytes: expected 16 (float32) or 4 (uint8)"),
    "raw NaN": ("patient", b"\xff" * 16, {"Content-Type": RAW}, 400, "finite"),
    "other site": ("patient", b'{"sample": 0}', {"Origin": "http://evil.example"}, 403, "another site"),
    "other host": ("patient", b'{"sample": 0}', {"Host": "evil.example"}, 403, "this machine only"),
    "too long": ("patient", b" " * 1_000_000, {}, 413, "expected at most"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_get_a_sentence_and_reach_no_model(running, case):
    name, body, headers, status, told = BAD[case]
    found = running.ask(f"/v1/tasks/{name}", "POST", body, headers)
    assert found[0] == status, found
    assert told in found[2]["error"]
    assert "Traceback" not in json.dumps(found[2])


def test_other_places_and_methods_are_told_what_there_is(running):
    for path, method in (("/", "GET"), ("/v1/tasks/patient", "GET"), ("/docs", "GET"), ("/v1/tasks/../x", "POST")):
        status, _, found = running.ask(path, method, b"{}" if method == "POST" else None)
        assert status in (404, 405)
        assert "expected POST /v1/tasks/NAME" in found["error"]


def test_a_request_without_a_length_is_refused(running):
    with socket.create_connection(("127.0.0.1", running.port), 10) as raw:
        raw.sendall(
            b"POST /v1/tasks/patient HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_metrics_have_the_form_that_prometheus_reads(running):
    ask(running, "patient")
    status, headers, text = running.ask("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    sample = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+$')
    lines = text.decode().splitlines()
    assert all(line.startswith("# ") or sample.match(line) for line in lines)
    named = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    assert named >= {"slipstream_requests_total", "slipstream_latency_seconds_bucket", "slipstream_up"}


def test_without_listeners_external_tasks_are_simulated_as_a_poisson_process():
    tasks = [task("one", arrival=EXTERNAL), task("two")]
    external = scenario_of(tasks, 3000)
    poisson = scenario_of([{**tasks[0], "arrival": {**EXTERNAL, "kind": "poisson"}}, tasks[1]], 3000)
    played = [Simulator(one).play(find("edf", "edge"), 5) for one in (external, poisson)]
    assert (played[0] == played[1]).all()
    assert (played[0]["task"] == 0).sum() > 100


def test_a_scenario_that_nobody_can_ask_is_refused():
    scenario = scenario_of([task()])
    with pytest.raises(DeviceError, match="no task of the scenario takes requests: expected a task with"):
        RequestQueue(scenario, workload_of(scenario))


# The command


@pytest.fixture
def asked(tmp_path):
    scenario = scenario_of([task("mine", "builtin:mobilenet", arrival=EXTERNAL)], 100)
    (tmp_path / "asked.json").write_text(scenario.model_dump_json(exclude_unset=True))
    return tmp_path


class Command(subprocess.Popen):
    """A command that does not outlive a test that failed."""

    def __exit__(self, kind, *rest):
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)


def begin(folder, *options, limits=None):
    """Start the command, with limits of the system's where some are given."""

    def limit():
        for name, values in (limits or {}).items():
            resource.setrlimit(name, values)

    command = [Path(sys.executable).with_name("slipstream"), "execute", "asked.json", *options]
    return Command(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def wait_until_it_runs(client, headers=None):
    """Wait until the device takes work."""
    until = time.monotonic() + 300
    while client.ask("/healthz", headers=headers or {})[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped_and_then_writes_its_log(asked, number):
    with begin(asked, "--listen", "127.0.0.1:0", "--json", "--log", "served.parquet") as server:
        told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        assert told["tasks"] == ["mine"]
        client = Client(int(told["url"].split(":")[2].split("/")[0]))
        wait_until_it_runs(client)
        status, _, found = client.ask("/v1/tasks/mine", "POST", {"sample": 0})
        assert status == 200
        assert len(found["outputs"]) == 10
        os.kill(server.pid, number)
        assert server.wait(120) == 0
        ending = json.loads(server.stdout.read())
        assert ending["interrupted"]
        assert ending["metrics"]["released"] == 1
        assert [line for line in server.stderr if not line.startswith("Compiling ")] == []
    assert (asked / "served.parquet").is_file()


@pytest.mark.parametrize("token", ["sesame", ""])
def test_others_than_this_machine_need_a_token(asked, token):
    with begin(asked, "--listen", "0.0.0.0:0", "--json", "--token", token, "--seconds", "600") as server:
        told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        assert told["token"] == token if token else len(told["token"]) >= 24
        client = Client(int(told["url"].split(":")[2].split("/")[0]))
        assert client.ask("/healthz")[0] == 401
        assert client.ask("/healthz", headers={"Authorization": "Bearer "})[0] == 401
        wait_until_it_runs(client, {"Authorization": f"Bearer {told['token']}"})
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(120) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_before_the_device_runs_is_heard(asked, number):
    with begin(asked, "--listen", "127.0.0.1:0", "--json", "--log", "served.parquet") as server:
        json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        os.kill(server.pid, number)
        assert server.wait(120) == 0
        assert json.loads(server.stdout.read())["interrupted"]
    assert (asked / "served.parquet").is_file()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--listen", "8080"), "--listen: '8080': expected HOST:PORT, such as 127.0.0.1:8080"),
        (("--listen", "localhost:eighty"), "expected HOST:PORT"),
        (("--listen", "192.0.2.1:1"), "cannot listen there"),
        (("--seconds", "3"), "--seconds: is for --listen only"),
    ],
)
def test_an_address_that_is_none_ends_with_one_line(asked, options, told):
    server = begin(asked, *options)
    output, error = server.communicate(timeout=120)
    assert (server.returncode, output) == (2, "")
    assert told in error
    assert len(error.strip().splitlines()) == 1
