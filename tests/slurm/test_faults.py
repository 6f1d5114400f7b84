"""Faults of everything around a driven queue at once: no job is lost, run twice or held for ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from slipstream.device.slurm.handback import HandBack
from slipstream.device.slurm.local import LocalCluster
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.snapshot import SlurmJob
from tests.slurm.conftest import NODE_TIMEOUT_S, wait_for
from tests.slurm.test_driver import RULES, all_ended

PATIENCE_S = 240.0
HOSTILE = "a\nb'\"\x1b[31m;$(exit 1)`|&"


class Faults:
    """What an administrator, a user or a broken machine does to a driven queue, one step at a time."""

    def __init__(self, cluster: LocalCluster, jobs: list[str]) -> None:
        self.cluster, self.jobs = cluster, jobs
        self.cancelled: set[str] = set()
        self.requeued: set[str] = set()
        """Jobs that may run once more than others."""

    def steps(self) -> Iterator[Callable[[], None]]:
        """Yield the faults in order, each with what mends it behind it."""
        yield lambda: self.by_hand("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
        yield self.cancel_and_requeue
        yield self.edit
        yield self.restart_controller
        yield self.resume
        yield self.fail_node
        yield lambda: self.cluster.start_node("n1")

    def by_hand(self, *words: str, check: bool = True) -> None:
        subprocess.run(words, env=self.cluster.slurm.environment, check=check, capture_output=True)

    def found(self, condition: Callable[[SlurmJob], bool]) -> list[str]:
        return [job.id for job in read_snapshot(self.cluster.slurm).jobs if job.id in self.jobs and condition(job)]

    def resume(self) -> None:
        """Take the drained node back; a controller that has just started may do so and report an error all the same."""
        self.by_hand("scontrol", "update", "NodeName=n4", "State=RESUME", check=False)
        wait_for(lambda: "drain" not in self.cluster.slurm.query("sinfo", "--noheader", "--nodes=n4", "--format=%T"))

    def cancel_and_requeue(self) -> None:
        waiting = self.found(lambda job: job.is_held)[-1]
        self.by_hand("scancel", waiting)
        self.cancelled.add(waiting)
        running = wait_for(lambda: self.found(lambda job: job.state == "RUNNING"))[-1]
        self.by_hand("scontrol", "requeue", running, check=False)  # it may have ended meanwhile
        self.requeued.add(running)

    def edit(self) -> None:
        for index, job in enumerate(self.found(lambda job: job.is_held)[:3]):
            change = ("TimeLimit=3", "Priority=7", "JobName=x'\";\n$(exit)")[index]
            self.by_hand("scontrol", "update", f"JobId={job}", change, check=False)

    def restart_controller(self) -> None:
        self.cluster.stop_controller()
        self.cluster.start_controller(fresh=False)

    def fail_node(self) -> None:
        """Kill a node and wait until its jobs are requeued; its processes run on, so their end may be written twice."""
        self.cluster.fail_node("n1")
        self.requeued |= {
            job.id for job in read_snapshot(self.cluster.slurm).jobs if job.id in self.jobs and "n1" in dict(job.held)
        }
        time.sleep(NODE_TIMEOUT_S + 2.0)


def submit_written(cluster: LocalCluster, seconds: float, gpus: int, folder: Path) -> str:
    """Submit a held job that writes its begin and its end into a file of its own; return its number."""
    lines = [f"echo begin >> {folder}/$SLURM_JOB_ID", f"sleep {seconds}", f"echo end >> {folder}/$SLURM_JOB_ID"]
    words = (
        "--hold",
        f"--gpus={gpus}",
        "--output=/dev/null",
        "--chdir=/",
        "--time=5",
        "--requeue",
        f"--job-name={HOSTILE}",
    )
    return str(cluster.slurm.submit("\n".join(["#!/bin/sh", *lines, ""]), *words))


def switches_of(cluster: LocalCluster) -> list[psutil.Process]:
    """Return the dead-man switches that are at work for a cluster, of drivers that were killed too."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if {HandBack.__module__, str(cluster.folder / "slurm.conf")} <= set(process.info["cmdline"] or [])
    ]


@pytest.mark.parametrize(
    ("kills", "count"),
    [pytest.param(7, 16, marks=pytest.mark.thorough), pytest.param(20, 48, marks=pytest.mark.slow)],
)
def test_whatever_fails_while_drivers_are_killed_every_job_ends_and_runs_once(frail, tmp_path, kills, count):  # type: ignore[no-untyped-def]
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    written = tmp_path / "written"
    written.mkdir()
    words = [sys.executable, "-m", "slipstream", "execute", "rules.json", "--engine", "slurm", "--policy", "fifo"]
    words += ["--slurm-conf", str(frail.folder / "slurm.conf"), "--interval-s", "0.3", "--state", "state", "--force"]
    rng = np.random.Generator(np.random.Philox(kills))
    jobs = [
        submit_written(frail, 3.0 + 2.0 * rng.random(), int(rng.choice([1, 2, 4, 8])), written) for _ in range(count)
    ]
    faults = Faults(frail, jobs)
    steps = faults.steps()
    for kill in range(kills):
        # The switches of all but the last wait for another driver to take over; that one releases what still waits.
        grace = "0" if kill == kills - 1 else "60"
        with subprocess.Popen([*words, "--grace-s", grace], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout.readline().startswith("Driving.")
                if kill % (kills // 7) == 0 and (step := next(steps, None)) is not None:
                    step()
                time.sleep(2.0 * rng.random())
            finally:
                os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: all_ended(jobs)(read_snapshot(frail.slurm)), PATIENCE_S)
    wait_for(lambda: not switches_of(frail), PATIENCE_S)
    ended = {job.id: job.state for job in read_snapshot(frail.slurm).jobs}
    for job in jobs:
        lines = (written / job).read_text().split() if (written / job).exists() else []
        if job in faults.cancelled:
            assert (ended[job], lines) == ("CANCELLED", [])
            continue
        assert (ended[job], lines[-1]) == ("COMPLETED", "end")
        assert lines.count("begin") <= 1 + (job in faults.requeued)
        assert job in faults.requeued or lines == ["begin", "end"]
