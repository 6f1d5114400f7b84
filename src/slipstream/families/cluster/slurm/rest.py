"""The state of a live Slurm controller, read from slurmrestd over its socket."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import DeviceError
from slipstream.families.cluster.slurm.commands import TIMEOUT_S
from slipstream.families.cluster.slurm.controller import AVAILABLE, jobs_of_records
from slipstream.families.cluster.slurm.snapshot import SlurmNode, Snapshot, gres_of

VERSION = "v0.0.38"
"""Of the interface: the last that Slurm 22.05 has, which later releases keep for some years."""
LARGEST_ANSWER = 256 * 2**20


class _Connection(http.client.HTTPConnection):
    """Connection to a socket in the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def read_rest_snapshot(path: Path, partitions: Sequence[str] = ()) -> Snapshot:
    """Return the nodes and jobs of `partitions`, of all of them if none is named, from the socket at `path`.

    Raises:
        DeviceError: One line: there is no such socket, or no answer in a form that is known.
    """
    nodes = _answer(path, "nodes")
    try:
        found = tuple(
            _node(record)
            for record in nodes
            if not partitions or any(name in partitions for name in record["partitions"])
        )
        known = {name for record in nodes for name in record["partitions"]}
    except (KeyError, TypeError, ValueError) as error:
        raise DeviceError(f"{path}: nodes: not understood ({type(error).__name__}: {error})") from None
    missing = [name for name in partitions if name not in known]
    if missing:
        raise DeviceError(f"partition '{missing[0]}': the controller has none of that name with nodes")
    jobs = jobs_of_records(f"{path}: jobs", _answer(path, "jobs"))
    return Snapshot(time.time(), found, tuple(job for job in jobs if not partitions or job.partition in partitions))


def _node(record: dict[str, Any]) -> SlurmNode:
    kind, gpus = gres_of(str(record.get("gres") or ""))
    flags = record.get("state_flags") or []
    usable = str(record["state"]) in AVAILABLE and not set(flags) - {"COMPLETING", "PLANNED"}
    return SlurmNode(str(record["name"]), kind, gpus, usable)


def _answer(path: Path, what: str) -> list[dict[str, Any]]:
    """Return the list of `what` that slurmrestd answers with."""
    connection = _Connection(path)
    try:
        connection.request("GET", f"/slurm/{VERSION}/{what}")
        response = connection.getresponse()
        text = response.read(LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise DeviceError(f"{path}: no answer from slurmrestd ({reason}): expected its socket") from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise DeviceError(f"{path}: slurmrestd answered with status {response.status}: expected {VERSION} to be served")
    try:
        found = json.loads(text)[what]
        assert isinstance(found, list)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise DeviceError(f"{path}: {what}: expected the answer of slurmrestd {VERSION}") from None
    return found
