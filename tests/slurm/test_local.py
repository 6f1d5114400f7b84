"""The local cluster is a real Slurm: its nodes have GPUs, its jobs run where they are sent, its daemons end."""

from __future__ import annotations

import shutil

import pytest

from slipstream.device.slurm import local
from slipstream.device.slurm.local import LocalCluster
from slipstream.errors import DeviceError
from slipstream.families.cluster.slurm.commands import RateLimit, Slurm
from tests.slurm.conftest import wait_for


def test_every_virtual_node_is_idle_and_has_its_gpus(slurm: LocalCluster) -> None:
    lines = slurm.slurm.query("sinfo", "--noheader", "--Node", "--format=%N %T %G").splitlines()
    assert sorted(line.strip() for line in lines) == [f"n{number} idle gpu:a100:4" for number in range(1, 5)]


def test_a_held_job_starts_on_the_nodes_that_it_is_released_to(slurm: LocalCluster) -> None:
    job = slurm.slurm.submit("#!/bin/sh\nsleep 30\n", "--hold", "--gpus=6", "--output=/dev/null", "--chdir=/")
    slurm.slurm.change("update", f"JobId={job}", "ReqNodeList=n2,n4", "NumNodes=2-2")
    slurm.slurm.change("release", str(job))

    def nodes() -> str:
        return slurm.slurm.query("squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%N").strip()

    assert wait_for(nodes) == "n[2,4]"


def test_only_commands_that_cancel_nothing_can_be_sent() -> None:
    with pytest.raises(AssertionError):
        Slurm().change("cancel", "1")
    with pytest.raises(AssertionError):
        Slurm().query("scontrol", "delete", "JobId=1")


def test_an_error_of_slurm_is_one_line(slurm: LocalCluster) -> None:
    with pytest.raises(DeviceError) as error:
        slurm.slurm.change("release", "999999")
    assert "\n" not in str(error.value)
    assert "scontrol: " in str(error.value)


def test_a_controller_that_is_not_there_is_reported_in_one_line(tmp_path, slurm: LocalCluster) -> None:  # type: ignore[no-untyped-def]
    text = (slurm.folder / "slurm.conf").read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    (tmp_path / "slurm.conf").write_text(text.replace(port, "SlurmctldPort=1\nMessageTimeout=1\nSlurmctldTimeout=1"))
    with pytest.raises(DeviceError) as error:
        Slurm(tmp_path / "slurm.conf", timeout_s=60.0).query("squeue", "--noheader")
    assert "\n" not in str(error.value)


def test_without_slurm_the_reason_names_the_packages(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "slurm-wlm munge" in local.missing_programs()
    with pytest.raises(DeviceError, match="no squeue"):
        Slurm().query("squeue")


def test_changes_are_spread_so_that_no_second_has_more_than_the_rate() -> None:
    now, begun = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    limit = RateLimit(5.0, lambda: now[0], sleep)
    for _ in range(23):
        limit.wait()
        begun.append(now[0])
    assert max(sum(start <= other < start + 1.0 for other in begun) for start in begun) == 5
    assert begun[-1] == 4.0
