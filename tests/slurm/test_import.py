"""Scenarios of a Slurm cluster: from its live controller, from `sacct`, from a file of completed jobs."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import numpy as np
import pytest

from slipstream.errors import TraceError
from slipstream.families.cluster.invariants import check
from slipstream.families.cluster.slurm.accounting import read_accounting
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.scenario import live_scenario
from slipstream.families.cluster.slurm.snapshot import (
    SlurmJob,
    SlurmNode,
    Snapshot,
    array_tasks,
    gpus_of_tres,
    gres_of,
    nodes_of,
    seconds_of_limit,
)
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import START
from slipstream.sim.simulator import Simulator
from tests.slurm.conftest import wait_for

HOSTILE = "a b\n'\"|$(touch /tmp/x)\\n\x1b[31m JobState=FAILED JobId=7"
HEADER = "JobID|JobName|User|Partition|State|Submit|Start|End|Timelimit|AllocTRES|ReqTRES"
NODES = {"family": "cluster", "nodes": [{"name": "a100", "count": 2, "gpus": 4}], "placement": "best-fit"}


@pytest.fixture
def slipstream(command, tmp_path):
    """Return a function that runs a command beside `nodes.json` and returns exit code, output and errors."""
    jobs = {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 1.0}]}
    (tmp_path / "nodes.json").write_text(json.dumps({**NODES, "jobs": jobs}))

    return command


def row(number, name="job", state="COMPLETED", submit=0, start=0, end=0, gpus=1, limit="00:10:00"):
    def clock(seconds):
        return f"2026-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}" if seconds else "Unknown"

    tres = f"billing=1,cpu=1,gres/gpu:a100={gpus},gres/gpu={gpus}"
    times = f"{clock(submit)}|{clock(start)}|{clock(end)}"
    return f"{number}|{name}|ann|main|{state}|{times}|{limit}|{tres}|{tres}"


# The notations of Slurm


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=4,gres/gpu=2", 2),
        ("gres/gpu:a100=3,gres/gpu=3,cpu=1", 3),
        ("gres/gpu:a100=3,gres/gpu:v100=1", 4),
        ("gres:gpu:6", 6),
        ("gres:gpu:a100:2", 2),
        ("gres/gpu", 1),
        ("gpu:2", 2),
        ("cpu=4,mem=1G,gres/mps=100", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_in_every_notation(text, gpus):
    assert gpus_of_tres(text) == gpus


def test_other_notations_are_read():
    assert gres_of("gpu:a100:4(S:0-1),nvme:2") == ("a100", 4)
    assert gres_of("gpu:8") == ("gpu", 8)
    assert gres_of("(null)") == ("", 0)
    assert [seconds_of_limit(text) for text in ("1-02:03:04", "02:03:04", "3:04")] == [93784.0, 7384.0, 184.0]
    assert seconds_of_limit("UNLIMITED") == math.inf
    assert seconds_of_limit("soon") is None
    assert nodes_of("n[1-3,05],login,r[1-2]n[08-09]") == [
        *["n1", "n2", "n3", "n05", "login", "r1n08", "r1n09", "r2n08", "r2n09"]
    ]
    assert array_tasks("0-3,7%2") == [0, 1, 2, 3, 7]
    assert array_tasks("0-8:4") == [0, 4, 8]


# The state of a moment


def job_of(number, state="PENDING", **more):
    base = {"user": "ann", "partition": "main", "reason": "Priority", "gpus": 2, "limit_s": 60.0}
    return SlurmJob(id=number, state=state, **{**base, "submit": 900.0, "start": 0.0, "end": 0.0, **more})


def test_a_moment_becomes_an_episode_that_begins_there():
    nodes = [SlurmNode(f"n{number}", "a100", 4, number != 3) for number in (10, 2, 3)]
    jobs = [
        job_of("1", "RUNNING", start=950.0, gpus=6, held=(("n10", 4), ("n2", 2))),
        job_of("2", gpus=4, submit=880.0),
        job_of("3", reason="Dependency"),
        job_of("4", gpus=0),
        job_of("5", "COMPLETED", start=890.0, end=899.0),
        job_of("6", "RUNNING", start=950.0, held=(("n3", 2),)),
        job_of("7", "RUNNING", start=910.0, held=(("n2", 2),), limit_s=math.inf),
    ]
    live = live_scenario(Snapshot(1000.0, tuple(nodes), tuple(jobs)))
    assert live.nodes == ("n2", "n10")
    assert [job.id for job in live.jobs] == ["1", "2", "7"]
    assert live.left_out == {
        "that wait for other jobs or for a time": 1,
        "that want no GPU": 1,
        "that run on nodes that are not available": 1,
    }
    scenario = live.scenario
    assert scenario.begins_s == 120.0
    first, second, third = scenario.jobs.jobs
    assert (first.submit_s, first.started_s, first.run_s) == (20.0, 70.0, 60.0)
    assert [(piece.kind, piece.node, piece.gpus) for piece in first.held] == [("a100", 1, 4), ("a100", 0, 2)]
    assert (second.submit_s, second.started_s) == (0.0, None)
    assert third.run_s == 7 * 86_400.0
    events = Simulator(scenario).play(find("fifo", "cluster"), 0)
    check(events, scenario)


def test_a_job_beyond_its_time_limit_is_expected_to_end_soon():
    nodes = (SlurmNode("n1", "a100", 4, True),)
    late = job_of("1", "RUNNING", start=905.0, limit_s=60.0, held=(("n1", 2),))
    live = live_scenario(Snapshot(1000.0, nodes, (late,)))
    assert live.scenario.jobs.jobs[0].run_s == 96.0


def test_the_live_queue_becomes_a_scenario(slurm, slipstream):
    config = slurm.folder / "slurm.conf"
    words = ("--time=10", "--output=/dev/null", "--chdir=/", f"--job-name={HOSTILE}")
    running = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=6", *words)
    waiting = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=3", "--hold", *words)
    slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=1", "--hold", "--array=3,5", *words)
    wait_for(lambda: any(job.id == str(running) and job.runs for job in read_snapshot(slurm.slurm).jobs))
    code, _, error = slipstream("import", "slurm", "--slurm-conf", config, "--held", "--out", "now.json")
    assert (code, error) == (0, ""), error
    scenario = load("now.json")
    assert [(kind.name, kind.count, kind.gpus) for kind in scenario.nodes] == [("a100", 4, 4)]
    jobs = scenario.jobs.jobs
    assert sorted((job.gpus, job.started_s is not None) for job in jobs) == [
        *[(1, False), (1, False), (3, False), (6, True)]
    ]
    assert {job.requested_s for job in jobs} == {600.0}
    assert sum(piece.gpus for job in jobs for piece in job.held) == 6
    events = Simulator(scenario).play(find("fifo", "cluster"), 0)
    check(events, scenario)
    # The waiting jobs fit beside the running one, so all start at once.
    assert (events["time"][events["kind"] == START] == 0).all()
    assert slipstream("import", "slurm", "--slurm-conf", config, "--out", "other.json")[0] == 0
    assert len(load("other.json").jobs.jobs) == 1
    states = {job.id: job.state for job in read_snapshot(slurm.slurm).jobs}
    assert states[str(waiting)] == "PENDING"


def test_a_partition_that_is_not_there_is_one_line(slurm, slipstream):
    config = slurm.folder / "slurm.conf"
    code, output, error = slipstream("import", "slurm", "--slurm-conf", config, "--partition", "none")
    assert (code, output) == (2, "")
    assert error.startswith("error: partition 'none': the controller has none of that name")
    assert error.count("\n") == 1


def test_a_controller_that_is_not_there_is_one_line(slipstream):
    code, output, error = slipstream("import", "slurm", "--slurm-conf", "none.conf")
    assert (code, output) == (2, "")
    assert error.count("\n") == 1


def test_a_socket_that_is_not_there_or_beside_files_is_one_line(slipstream):
    code, _, error = slipstream("import", "slurm", "--rest", "none.sock")
    assert (code, error.count("\n")) == (2, 1)
    assert "none.sock: no answer from slurmrestd" in error
    code, _, error = slipstream("import", "slurm", "sacct.txt", "--rest", "none.sock")
    assert (code, error) == (2, "error: --rest: is for the live queue: expected no files with it\n")


# Accounting


def test_ended_jobs_of_sacct_become_a_workload(slipstream, tmp_path):
    rows = [HEADER, row(1, submit=10, start=20, end=80, gpus=2), row("1.batch", start=20, end=80), row(2, submit=5)]
    rows += [row("3_4", submit=30, start=90, end=100, gpus=4, limit="UNLIMITED", state="CANCELLED by 0")]
    (tmp_path / "sacct.txt").write_text("\n".join(rows) + "\n")
    code, _, error = slipstream("import", "slurm", "sacct.txt", "--scenario", "nodes.json", "--out", "past.json")
    assert (code, error) == (0, "note: jobs left out that never ran: 1\n")
    first, second = load("past.json").jobs.jobs
    assert (first.submit_s, first.run_s, first.requested_s, first.gpus, first.user) == (0.0, 60.0, 600.0, 2, "ann")
    assert (second.submit_s, second.run_s, second.gpus) == (20.0, 10.0, 4)


def test_accounting_begins_at_the_time_that_is_asked_for(slipstream, tmp_path):
    rows = [row(1, submit=10, start=20, end=80, gpus=2), row(2, submit=30, start=80, end=90, gpus=8)]
    rows += [row(3, submit=50, start=95, end=99), row(4, submit=2, start=3, end=9), row(5, "x", "RUNNING", 12, 13)]
    rows += [row(6, "x", "PENDING", 14)]
    (tmp_path / "sacct.txt").write_text("\n".join([HEADER, *rows]) + "\n")
    words = ("import", "slurm", "sacct.txt", "--scenario", "nodes.json", "--at", "2026-01-01T00:00:40")
    code, _, error = slipstream(*words, "--out", "then.json")
    assert (code, error) == (0, "note: jobs left out that had ended: 1\n")
    scenario = load("then.json")
    assert scenario.begins_s == 30.0
    found = [(job.submit_s, job.started_s, job.run_s) for job in scenario.jobs.jobs]
    assert found == [(0.0, 10.0, 60.0), (2.0, 3.0, 600.0), (4.0, None, 600.0), (20.0, None, 10.0), (40.0, None, 4.0)]
    check(Simulator(scenario).play(find("fifo", "cluster"), 0), scenario)


def test_names_with_separators_and_line_ends_belong_to_one_job(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([HEADER, row(1, "a|b|c\nd|e", submit=1, start=2, end=3), row(2, submit=4)]))
    jobs, _ = read_accounting(path)
    assert [(job.id, job.user, job.gpus) for job in jobs] == [("1", "ann", 1), ("2", "ann", 1)]


def test_completed_jobs_of_a_real_slurm_are_read(slurm, slipstream):
    words = ("--time=10", "--output=/dev/null", "--chdir=/")
    plain = slurm.slurm.submit("#!/bin/sh\nsleep 2\n", "--gpus=2", *words)
    hostile = slurm.slurm.submit("#!/bin/sh\nsleep 2\n", "--gpus=2", f"--job-name={HOSTILE}", *words)
    path = slurm.folder / "jobcomp.txt"
    wait_for(lambda: path.exists() and all(f"JobId={job} " in path.read_text() for job in (plain, hostile)))
    jobs, left_out = read_accounting(path)
    found = next(job for job in jobs if job.id == str(plain))
    # GPUs are in this file only where a database counts them.
    assert (found.gpus, found.limit_s, found.state) == (0, 600.0, "COMPLETED")
    assert 1.0 <= found.end - found.start <= 5.0
    assert left_out == {}
    assert next(job for job in jobs if job.id == str(hostile)).state == "COMPLETED"


def test_a_name_that_repeats_the_fields_after_it_is_left_out(tmp_path):
    fields = "JobState=COMPLETED Partition=main TimeLimit=1 StartTime=2026-01-01T00:00:01 EndTime=2026-01-01T00:00:09 "
    record = (
        "JobId={} UserId=ann(1) GroupId=ann(1) Name={} {}NodeList=n1 Tres=gres/gpu=2 SubmitTime=2026-01-01T00:00:00"
    )
    lines = [record.format(1, "plain", fields), record.format(2, f"x {fields}NodeList=n9", fields)]
    (tmp_path / "jobcomp.txt").write_text("\n".join(lines) + "\n")
    jobs, left_out = read_accounting(tmp_path / "jobcomp.txt")
    assert [(job.id, job.gpus, job.end - job.start) for job in jobs] == [("1", 2, 8.0)]
    assert left_out == {"whose name looks like fields": 1}


BAD_FILES = {
    "an empty file": ("", "row 1: '': expected the output of"),
    "something else": ("time,job\n1,2\n", "row 1: 'time,job': expected the output of"),
    "no state": ("JobID|User|Submit|Start|End\n", "row 1: no column State"),
    "no resources": ("JobID|User|State|Submit|Start|End\n", "row 1: no column AllocTRES or ReqTRES"),
    "a row that was cut": (f"{HEADER}\n{row(1, submit=1)}\n{row(2, submit=1)[:40]}\n", "row 3: 6 fields: expected 11"),
    "a time": (f"{HEADER}\n{row(1, submit=1).replace('2026', 'x')}\n", "row 2: Submit: expected a time, got 'x-01"),
    "a limit": (f"{HEADER}\n{row(1, submit=1, limit='soon')}\n", "row 2: Timelimit: expected days"),
    "a number": (f"{HEADER}\n{row('x', submit=1)}\n", "row 2: JobID: expected a number, got 'x'"),
    "a state": (f"{HEADER}\n{row(1, state='?', submit=1)}\n", "row 2: State: expected a word"),
    "bytes": (b"JobID|\xff\n", "is not text in UTF-8"),
    "a record that was cut": ("JobId=1 UserId=ann(1) GroupId=x\n", "row 1: 'JobId=1 UserId=ann(1)"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_damaged_accounting_is_one_line(case, slipstream, tmp_path):
    content, text = BAD_FILES[case]
    (tmp_path / "bad.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, output, error = slipstream("import", "slurm", "bad.txt", "--scenario", "nodes.json")
    assert (code, output) == (2, "")
    assert text in error
    assert error.count("\n") == 1


def test_any_cut_or_changed_accounting_is_read_or_refused_in_one_line(tmp_path):
    whole = "\n".join([HEADER, *(row(number, submit=1, start=2, end=9) for number in range(4))]).encode()
    rng = np.random.Generator(np.random.Philox(1))
    path = tmp_path / "sacct.txt"
    for _ in range(300):
        damaged = bytearray(whole[: rng.integers(1, len(whole))])
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        with suppress(TraceError):
            read_accounting(path)


def test_files_without_nodes_are_refused(slipstream):
    code, _, error = slipstream("import", "slurm", "sacct.txt")
    assert (code, error) == (2, "error: --scenario: is missing: accounting does not say which nodes there are\n")


def test_limits_of_users_become_quotas(slipstream, tmp_path):
    (tmp_path / "sacct.txt").write_text("\n".join([HEADER, row(1, submit=1, start=2, end=9)]))
    lines = ["Cluster|Account|User|GrpTRES", "c|a||gres/gpu=90", "c|a|ann|cpu=9,gres/gpu=4", "c|b|ann|gres/gpu=3"]
    (tmp_path / "limits.txt").write_text("\n".join(lines))
    words = ("import", "slurm", "sacct.txt", "--scenario", "nodes.json", "--limits", "limits.txt", "--out", "l.json")
    assert slipstream(*words)[0] == 0
    assert load("l.json").quotas == {"ann": 3}
