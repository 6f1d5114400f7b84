"""The service under load and faults: everybody gets an answer, and whatever ends it, what was recorded is written."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from slipstream.device import engine as engine_module
from slipstream.families.shared import invariants
from slipstream.sim import eventlog
from slipstream.sim.eventlog import ARRIVAL, END, FINISH
from tests.dashboard.conftest import Client
from tests.device.conftest import scenario_of, task
from tests.service.models import GATE, WAITS
from tests.service.test_server import answers, connected, everything, next_answer, wait_until
from tests.service.test_service import ECHO, EXTERNAL, ask, begin, service, square, wait_until_it_runs

pytestmark = pytest.mark.thorough

ASKED = b'{"sample": 0}'


def sample(name, close=False):
    head = f"POST /v1/tasks/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(ASKED)}\r\n" + ("Connection: close\r\n" if close else "")
    return head.encode() + b"\r\n" + ASKED


def quick_scenario(queue_limit):
    return scenario_of([task("quick", *ECHO, arrival=EXTERNAL, deadline_ms=600_000)], 600_000, queue_limit=queue_limit)


def test_hundreds_of_connections_at_once_all_get_their_answers():
    """More than 32 bodies at a time were once refused; every job has a place in the queue."""
    connections, turns = 300, 5
    with service(quick_scenario(512)) as (client, _, ended), ExitStack() as stack:
        crowd = [stack.enter_context(connected(client.port)) for _ in range(connections)]
        before = client.service.handoff.wakeups
        for _ in range(turns):
            for one in crowd:
                one.sendall(sample("quick"))
            statuses = Counter(next_answer(one)[0] for one in crowd)
            assert statuses == {200: connections}
        assert client.service.handoff.wakeups - before <= connections * turns
    (execution,) = ended
    invariants.check(execution.events, 2, 512)
    assert (execution.events["kind"] == FINISH).sum() == connections * turns


def test_what_waits_to_be_taken_up_does_not_wait_for_the_next_event(tmp_path, monkeypatch):
    """Two inputs are offered before the runtime looks, and there are two streams: while one is held, the other runs."""
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv(GATE, str(gate))
    monkeypatch.setattr(engine_module, "LONGEST_SLEEP_NS", 100_000_000_000)
    held = json.dumps({"input": square(WAITS)}).encode()
    slow = sample("quick", close=True).replace(ASKED, held).replace(b"Length: 13", b"Length: %d" % len(held))
    both = threading.Event()
    both.set()
    with service(quick_scenario(16), watchdog=200_000, watcher=lambda *_: both.wait(60)) as (client, _, _):
        requests = client.service._requests
        assert ask(client, "quick")[0] == 200
        both.clear()
        with connected(client.port, slow) as first, connected(client.port, sample("quick", close=True)) as second:
            wait_until(lambda: len(requests._offered) == 2)
            both.set()
            assert [status for status, _ in answers(everything(second))] == [200]
            monkeypatch.setattr(engine_module, "LONGEST_SLEEP_NS", 100_000_000)
            gate.unlink()
            assert [status for status, _ in answers(everything(first))] == [200]


def test_a_thousand_half_sent_heads_keep_nobody_out():
    half = min(1023, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3)
    with service(quick_scenario(16)) as (client, _, _), ExitStack() as stack:
        for _ in range(half):
            stack.enter_context(connected(client.port, b"POST /v1/tasks/quick HTTP/1.1\r\nHost: localhost\r\nX-Slow: "))
        for _ in range(20):
            assert client.ask("/healthz")[0] == 200
            assert ask(client, "quick", 1.0)[0] == 200


# The command


@pytest.fixture
def asked(tmp_path):
    scenario = scenario_of([task("mine", "builtin:mobilenet", arrival=EXTERNAL, deadline_ms=60_000)], 100)
    (tmp_path / "asked.json").write_text(scenario.model_dump_json(exclude_unset=True))
    return tmp_path


def listening_client(server):
    told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
    client = Client(int(told["url"].split(":")[2].split("/")[0]))
    wait_until_it_runs(client)
    return client


def starter(server):
    """Return the process that starts the workers of a command."""
    return next(child for child in psutil.Process(server.pid).children() if child.children())


def read_log(path):
    events, about = eventlog.read(path)
    invariants.check(events, 2, 16)
    assert about["policy"]
    return Counter(events["kind"].tolist())


def test_few_open_files_and_the_death_of_a_worker_do_not_end_the_service(asked):
    """With 64 open files allowed: a crowd takes all connections, and both workers die meanwhile."""
    command = ["--listen", "127.0.0.1:0", "--json", "--log", "served.parquet"]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        server = stack.enter_context(begin(asked, *command, limits={resource.RLIMIT_NOFILE: (64, 64)}))
        client = listening_client(server)
        assert client.ask("/v1/tasks/mine", "POST", {"sample": 0})[0] == 200
        crowd = [stack.enter_context(connected(client.port)) for _ in range(100)]
        for worker in starter(server).children():
            worker.kill()
        assert client.ask("/healthz")[0] == 200
        for one in crowd:
            try:
                one.sendall(sample("mine", close=True))
            except ConnectionError:
                continue
        statuses = Counter(status for one in crowd for status, _ in answers(everything(one)))
        assert set(statuses) <= {200, 429, 500, 503}
        assert statuses[200] > 0
        good = 1 + statuses[200]
        for _ in range(5):
            found = client.ask("/v1/tasks/mine", "POST", {"sample": 0})[0]
            good += found == 200
        assert found == 200
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(120) == 0
        assert json.loads(server.stdout.read())["restarts"] == 2
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    assert read_log(asked / "served.parquet")[FINISH] == good


def test_what_was_recorded_is_written_when_the_device_is_lost(asked):
    with begin(asked, "--listen", "127.0.0.1:0", "--json", "--log", "lost.parquet", "--out", "lost.html") as server:
        client = listening_client(server)
        for _ in range(5):
            assert client.ask("/v1/tasks/mine", "POST", {"sample": 0})[0] == 200
        starter(server).kill()
        assert server.wait(120) == 2
        told = server.stderr.read().strip().splitlines()
    assert told == [
        "written up to the error: lost.parquet, lost.html",
        "error: the process that starts the workers died",
    ]
    kinds = read_log(asked / "lost.parquet")
    assert (kinds[ARRIVAL], kinds[FINISH], kinds[END]) == (5, 5, 1)
    assert "<html" in (asked / "lost.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_run_without_requests_in_order_too(tmp_path, number):
    scenario = scenario_of([task("mine", "builtin:mobilenet")], 600_000)
    (tmp_path / "asked.json").write_text(scenario.model_dump_json(exclude_unset=True))
    options = ("--json", "--log", "ended.parquet", "--live", "ended.live.jsonl")
    with begin(tmp_path, *options) as running:
        live = tmp_path / "ended.live.jsonl"
        wait_until(lambda: live.exists() and live.read_text().count("\n") > 2)
        os.kill(running.pid, number)
        assert running.wait(120) == 0
        assert json.loads(running.stdout.read())["interrupted"]
    assert read_log(tmp_path / "ended.parquet")[FINISH] > 0


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="there is no folder here in which nobody can write")
def test_a_log_that_cannot_be_written_takes_nothing_else_with_it(tmp_path):
    scenario = scenario_of([task("mine", "builtin:mobilenet")], 100)
    (tmp_path / "asked.json").write_text(scenario.model_dump_json(exclude_unset=True))
    running = begin(tmp_path, "--json", "--log", "/sys/kernel/nowhere.parquet", "--out", "report.html")
    output, error = running.communicate(timeout=120)
    assert running.returncode == 2
    (line,) = error.strip().splitlines()
    assert line.startswith("error: /sys/kernel/nowhere.parquet: cannot be written")
    assert json.loads(output)["metrics"]["released"] > 0
    assert "<html" in (tmp_path / "report.html").read_text()


def test_too_few_open_files_to_begin_with_are_told_in_one_line(asked):
    server = begin(asked, "--listen", "127.0.0.1:0", "--json", limits={resource.RLIMIT_NOFILE: (14, 14)})
    output, error = server.communicate(timeout=120)
    assert (server.returncode, output) == (2, "")
    assert error == "error: too many open files: expected a higher limit (`ulimit -n`)\n"
