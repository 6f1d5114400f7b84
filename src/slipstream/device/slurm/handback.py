"""Dead-man switch: a process that gives all held jobs back to Slurm's own scheduler when the driver is gone.

It waits for the end of its standard input, which the system closes however the driver ends. Then, after a time in which
another driver may take over, it releases every held job of the driven partitions, and tries again until the controller
has answered.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from slipstream.errors import DeviceError, InputError
from slipstream.families.cluster.slurm.commands import Slurm
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.files.lock import FolderLock

AT_ONCE = "now"
"""What an orderly end of the driver writes: no other is going to take over."""
ACTIVITY = "driving this cluster"
"""What the lock of a driver is for."""
TAKE_OVER_TRIES = 10
RETRY_S = 5.0
END_S = 2.0
"""Time that a switch has to end after its report."""
MOST_REFUSALS = 10
"""Attempts after which jobs of which Slurm refuses a change are given up."""
PATIENCE_S = 7 * 86_400.0
"""Longest time for which it tries to reach the controller."""


_WORKING_ON: list[subprocess.Popen[str]] = []
"""Switches that work on after the end of their driver."""


class HandBack:
    """The switch, seen from the driver: a context that hands all held jobs back at its end."""

    def __init__(self, folder: Path, config: Path | None, partitions: Sequence[str], grace_s: float) -> None:
        self._words = [sys.executable, "-m", __name__, str(folder), str(config or ""), f"{grace_s:g}", *partitions]
        self._process = self._started()
        self.released = 0
        """Number of jobs that it released at the end."""

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Its own session: what ends the driver's process group leaves it alone.
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Process id of the switch."""
        return self._process.pid

    def keep(self) -> None:
        """Start the switch again if something has ended it."""
        if self._process.poll() is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = self._started()

    def __enter__(self) -> HandBack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(AT_ONCE)
            self._process.stdin.close()
        if not isinstance(error, DeviceError):
            self.released = int(self._process.stdout.readline() or 0)
        self._process.stdout.close()
        try:
            self._process.wait(0.0 if isinstance(error, DeviceError) else END_S)
        except subprocess.TimeoutExpired:
            _WORKING_ON.append(self._process)  # the controller is lost: it goes on trying when this process has ended


def driver_lock(folder: Path) -> FolderLock:
    """Return the lock of the only driver; the switch of one before, which looks at it now and then, is waited for.

    Raises:
        InputError: One line: another driver, or its switch, is at work.
    """
    for _ in range(TAKE_OVER_TRIES):
        with suppress(InputError):
            return FolderLock(folder, ACTIVITY)
        time.sleep(0.1)
    return FolderLock(folder, ACTIVITY)


def hand_back(slurm: Slurm, partitions: Sequence[str]) -> tuple[int, int]:
    """Release all held jobs of `partitions`, without the nodes that a driver chose.

    Returns the number of jobs released, and of those of which Slurm refused a change: some have vanished meanwhile.
    """
    released = refused = 0
    for job in read_snapshot(slurm, partitions).jobs:
        if not job.waits or not (job.is_held or job.is_placed):
            continue
        try:
            if job.is_placed:
                clear_placement(slurm, job.id, job.on_nodes)
            if job.is_held:
                slurm.change("release", job.id)
                released += 1
            if job.restarts:
                slurm.change("update", f"JobId={job.id}", "StartTime=now")
        except DeviceError:
            refused += 1
    return released, refused


def clear_placement(slurm: Slurm, job: str, on_nodes: int | None) -> None:
    """Take the list of nodes and the mark off a job; where it asked for GPUs on any number of nodes, that too."""
    number = ["NumNodes=1"] if on_nodes is None else []
    slurm.change("update", f"JobId={job}", "ReqNodeList=", *number, "AdminComment=")


def main(words: Sequence[str]) -> None:
    """Wait for the end of the driver, then hand back."""
    folder, config, grace_s, *partitions = words
    lock = None
    if sys.stdin.read() != AT_ONCE:
        until = time.monotonic() + float(grace_s)
        try:
            while (lock := FolderLock(Path(folder), ACTIVITY)) and time.monotonic() < until:
                lock.release()
                time.sleep(1.0)
        except InputError:
            return  # another driver has taken over
    _hand_back_all(Slurm(Path(config) if config else None), partitions, Path(folder), lock)


def _hand_back_all(slurm: Slurm, partitions: Sequence[str], folder: Path, lock: FolderLock | None) -> None:
    """Hand back until nothing is refused, or another driver is at work; print the number of released jobs."""
    total = 0
    for attempt in range(round(PATIENCE_S / RETRY_S)):
        if attempt:
            time.sleep(RETRY_S)
            try:
                lock = lock or FolderLock(folder, ACTIVITY)
            except InputError:
                return
        with suppress(DeviceError):
            released, refused = hand_back(slurm, partitions)
            total += released
            if not refused or attempt >= MOST_REFUSALS:
                break
        _report(total)  # the driver need not wait for more
    _report(total)
    if lock is not None:
        lock.release()


def _report(released: int) -> None:
    """Print a number for the driver, once."""
    if not sys.stdout.closed:
        with suppress(BrokenPipeError):
            print(released, flush=True)
            sys.stdout.close()


if __name__ == "__main__":
    main(sys.argv[1:])
