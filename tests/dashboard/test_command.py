"""`slipstream dashboard`: how it begins, how it ends, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from slipstream.scenario import dump, load
from tests.dashboard.conftest import Client

COMMAND = Path(sys.executable).with_name("slipstream")


def refused(*arguments):
    done = subprocess.run([COMMAND, "dashboard", *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.strip().splitlines()
    return line


def test_bad_input_ends_with_one_line(tmp_path):
    assert refused(str(tmp_path / "gone")).endswith("expected the folder that holds your runs")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = refused(str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert "address already in use" in line


@pytest.mark.parametrize("blank", [None, "option", "variable"])
def test_it_serves_strangers_with_a_token_only_and_ends_quietly(tmp_path, blank):
    arguments = [COMMAND, "dashboard", str(tmp_path), "--host", "0.0.0.0", "--port", "0", "--json"]
    arguments += ["--token", ""] if blank == "option" else []
    env = {**os.environ, **({"SLIPSTREAM_TOKEN": "  "} if blank == "variable" else {})}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as server:
        told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        assert len(told["token"]) >= 24
        assert told["url"].endswith(f"/?token={told['token']}")
        client = Client(int(told["url"].split(":")[2].split("/")[0]))
        assert client.ask("/api/runs")[0] == 401
        assert client.ask("/api/runs", headers={"Authorization": f"Bearer {told['token']}"})[0] == 200
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(60) == 0
        assert server.stderr.read() == ""


def gets_huge_pages(pid):
    """Return whether the system may give a process huge pages."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("THP_enabled")]
    return line.split()[1] == "1"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what pages a process gets")
def test_it_does_without_huge_pages_but_what_is_tried_has_them(tmp_path):
    arguments = [COMMAND, "dashboard", str(tmp_path), "--port", "0", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        try:
            told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
            client = Client(int(told["url"].split(":")[2].split("/")[0]))
            assert not gets_huge_pages(server.pid)
            status, _, job = client.ask("/api/jobs", "POST", {"text": dump(load("edge/heavy")), "policies": ["edf"]})
            assert status == 201
            (tried,) = psutil.Process(server.pid).children()
            seen = False
            while not seen and client.get(f"/api/jobs/{job['name']}")["state"] == "running":
                with suppress(FileNotFoundError):  # it has just ended
                    seen = gets_huge_pages(tried.pid)
            assert seen
        finally:
            server.terminate()
