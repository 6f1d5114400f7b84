"""`slipstream dashboard`: how it begins, how it ends, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

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


def test_it_serves_strangers_with_a_token_only_and_ends_quietly(tmp_path):
    arguments = [COMMAND, "dashboard", str(tmp_path), "--host", "0.0.0.0", "--port", "0", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        assert told["url"].endswith(f"/?token={told['token']}")
        client = Client(int(told["url"].split(":")[2].split("/")[0]))
        assert client.ask("/api/runs")[0] == 401
        assert client.ask("/api/runs", headers={"Authorization": f"Bearer {told['token']}"})[0] == 200
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(60) == 0
        assert server.stderr.read() == ""
