"""A Slurm cluster of virtual nodes with pretended GPUs on this machine, in one folder, for tests and trials.

It needs the programs of the system's packages and no service manager. Everything listens on the loopback address, and
every process is ended by its id.
"""

from __future__ import annotations

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slipstream.errors import DeviceError
from slipstream.families.cluster.slurm.commands import Slurm

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch")
PACKAGES = "slurm-wlm munge"
PR_SET_PDEATHSIG = 1
READY_S = 30.0
"""Longest time until all nodes are idle."""
NODE_TIMEOUT_S = 300
"""Time without an answer of a node after which the controller takes it for down."""
BACKFILL_INTERVAL_S = 1
"""Time between two passes of Slurm's own backfill."""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where daemons are that may not be in the search path of users."""


@dataclass(frozen=True)
class VirtualNodes:
    """Nodes of one kind: `count` of them with `gpus` GPUs each."""

    count: int
    gpus: int
    kind: str = "a100"
    """Type of the GPUs, as Slurm calls it."""


def program(name: str) -> str | None:
    """Return the path of a program of Slurm or MUNGE, None if it is not installed."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))


def missing_programs() -> str:
    """Return why no local cluster can be started here, in a sentence; empty if one can."""
    absent = [name for name in PROGRAMS if program(name) is None]
    if not absent:
        return ""
    return f"no {absent[0]} on this machine: install the packages {PACKAGES}"


class LocalCluster:
    """A running local cluster."""

    def __init__(
        self, folder: Path, nodes: Sequence[VirtualNodes], cpus: int = 64, node_timeout_s: int = NODE_TIMEOUT_S
    ) -> None:
        self.folder = folder
        self._nodes = nodes
        self._cpus = cpus
        self._node_timeout_s = node_timeout_s
        self._ports = _free_ports(1 + sum(kind.count for kind in nodes))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.slurm = Slurm(config=folder / "slurm.conf")
        """Its commands."""

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [f"n{number + 1}" for number in range(sum(kind.count for kind in self._nodes))]

    def start(self) -> None:
        """Write the configuration, start all daemons and wait until every node is idle."""
        self._write()
        self._start_munged()
        self.start_controller()
        for name in self.names:
            self.start_node(name)
        self.wait_until_idle()

    def start_node(self, name: str) -> None:
        """Start the daemon of a node."""
        self._spawn(name, "slurmd", "-D", "-N", name, "-f", str(self.folder / "slurm.conf"))

    def fail_node(self, name: str) -> None:
        """Kill the daemon of a node, as if the node had failed; processes of its jobs run on."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def start_controller(self, fresh: bool = True) -> None:
        """Start the controller; unless `fresh`, with the jobs that it had."""
        clean = ["-c"] if fresh else []
        self._spawn("slurmctld", "slurmctld", *clean, "-D", "-f", str(self.folder / "slurm.conf"))

    def stop_controller(self) -> None:
        """End the controller; its jobs run on."""
        self._end("slurmctld")

    def wait_until_idle(self) -> None:
        """Wait until the controller answers and every node is idle."""
        limit = time.monotonic() + READY_S
        while time.monotonic() < limit:
            self._check_alive()
            with suppress(DeviceError):
                states = self.slurm.query("sinfo", "--noheader", "--Node", "--format=%T").split()
                if len(states) >= len(self.names) and set(states) == {"idle"}:
                    return
            time.sleep(0.1)
        raise DeviceError(f"the local Slurm cluster was not ready within {READY_S:g} s: see the logs in {self.folder}")

    def stop(self) -> None:
        """End all daemons and the jobs that still run."""
        for name in [name for name in self._processes if name not in ("munged", "slurmctld")]:
            self._end(name)
        self._end("slurmctld")
        self._end("munged")

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                last = (self.folder / f"{name}.out").read_text(errors="replace").strip().splitlines()[-1:]
                raise DeviceError(f"{name} ended with {process.returncode}: {''.join(last) or 'without a message'}")

    def _spawn(self, name: str, *words: str) -> None:
        path = program(words[0])
        if path is None:
            raise DeviceError(missing_programs())
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [path, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=self.slurm.environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def _start_munged(self) -> None:
        folder = self.folder / "munge"
        folder.mkdir(mode=0o711)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = [f"--{what}-file={folder / what}" for what in ("key", "pid", "log", "seed")]
        # Forced, since it would refuse a folder that other users cannot enter.
        self._spawn("munged", "munged", "--foreground", "--force", f"--socket={folder / 'socket'}", *files)
        limit = time.monotonic() + READY_S
        while not (folder / "socket").exists():
            self._check_alive()
            if time.monotonic() > limit:
                raise DeviceError(f"munged was not ready within {READY_S:g} s")
            time.sleep(0.02)

    def _write(self) -> None:
        devices = self.folder / "dev"
        devices.mkdir()
        for gpu in range(max(kind.gpus for kind in self._nodes)):
            (devices / f"gpu{gpu}").symlink_to(os.devnull)
        (self.folder / "state").mkdir()
        for name in self.names:
            (self.folder / name).mkdir()
        (self.folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *self._gres_lines()]) + "\n")
        (self.folder / "slurm.conf").write_text("\n".join(self._config_lines()) + "\n")
        # The system's own file may demand a hierarchy of control groups that containers do not have.
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def _gres_lines(self) -> Iterator[str]:
        for first, kind in self._numbered():
            files = f"{self.folder / 'dev'}/gpu[0-{kind.gpus - 1}]"
            yield f"NodeName={_range(first, kind.count)} Name=gpu Type={kind.kind} File={files}"

    def _numbered(self) -> Iterator[tuple[int, VirtualNodes]]:
        first = 1
        for kind in self._nodes:
            yield first, kind
            first += kind.count

    def _config_lines(self) -> Iterator[str]:
        user, folder = getpass.getuser(), self.folder
        yield from [
            "ClusterName=local",
            "SlurmctldHost=localhost",
            f"SlurmctldPort={self._ports[0]}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={folder / 'munge' / 'socket'}",
            "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
            f"StateSaveLocation={folder / 'state'}",
            f"SlurmdSpoolDir={folder}/%n",
            f"SlurmctldPidFile={folder / 'slurmctld.pid'}",
            f"SlurmdPidFile={folder}/%n.pid",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SlurmdParameters=config_overrides",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=sched_interval=1,sched_min_interval=1000,batch_sched_delay=0,"
            f"bf_interval={BACKFILL_INTERVAL_S},bf_resolution=1",
            "PriorityType=priority/basic",
            "GresTypes=gpu",
            "JobCompType=jobcomp/filetxt",
            f"JobCompLoc={folder / 'jobcomp.txt'}",
            "JobRequeue=1",
            "MailProg=/bin/true",
            "MpiDefault=none",
            "ReturnToService=2",
            f"SlurmdTimeout={self._node_timeout_s}",
        ]
        host = socket.gethostname().partition(".")[0]
        ports = iter(self._ports[1:])
        for first, kind in self._numbered():
            for number in range(first, first + kind.count):
                yield (
                    f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={next(ports)} CPUs={self._cpus} "
                    f"RealMemory=1000 Gres=gpu:{kind.kind}:{kind.gpus} State=UNKNOWN"
                )
        yield f"PartitionName=main Nodes={_range(1, len(self.names))} Default=YES MaxTime=INFINITE State=UP"


def _end_with_parent() -> None:
    """Ask the system to end this process when the one that started it ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _range(first: int, count: int) -> str:
    return f"n[{first}-{first + count - 1}]"


def _free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


@contextmanager
def local_cluster(
    folder: Path, nodes: Sequence[VirtualNodes], node_timeout_s: int = NODE_TIMEOUT_S
) -> Iterator[LocalCluster]:
    """Start a cluster in the empty `folder`; end all of its processes at the end."""
    cluster = LocalCluster(folder, nodes, node_timeout_s=node_timeout_s)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
