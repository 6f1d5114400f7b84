"""A real Slurm cluster on this machine, in a temporary folder; tests that need it skip where Slurm is not installed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slipstream.cli.main import main
from slipstream.device.slurm.local import LocalCluster, VirtualNodes, local_cluster, missing_programs

NODES, GPUS = 4, 4
NODE_TIMEOUT_S = 6
"""Time after which a node that was killed counts as down; of the cluster of `frail`."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[LocalCluster]:
    """A cluster of four nodes with four GPUs each."""
    yield from running_cluster()


@pytest.fixture(scope="module")
def frail() -> Iterator[LocalCluster]:
    """The same, and a node that fails is noticed soon."""
    yield from running_cluster(node_timeout_s=NODE_TIMEOUT_S)


def running_cluster(**options: int) -> Iterator[LocalCluster]:
    """Start a cluster, skip where Slurm is not installed; fail if a process of it is left at the end."""
    if reason := missing_programs():
        pytest.skip(reason)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    # Not `tmp_path`: the path of a socket may have about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        with local_cluster(Path(folder), [VirtualNodes(NODES, GPUS)], **options) as cluster:
            yield cluster
        # A dead-man switch that reached its controller late ends a moment after.
        left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
        assert not psutil.wait_procs(left, timeout=15.0)[1]


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):  # type: ignore[no-untyped-def]
    """Return a function that runs a command in an empty folder and returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("slipstream.cli.common.console._width", 200)

    def run(*arguments):  # type: ignore[no-untyped-def]
        monkeypatch.setattr("sys.argv", ["slipstream", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsys.readouterr()
        return ending.value.code or 0, captured.out, captured.err

    return run


def wait_for(condition, seconds=30.0):  # type: ignore[no-untyped-def]
    """Return the first true value of `condition`; fail if there is none in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
