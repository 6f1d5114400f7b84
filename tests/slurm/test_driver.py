"""A real Slurm under a policy: where and when jobs start, and what may happen in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from slipstream.device.slurm.decisions import InterruptionOf, StartOf, decide, warm_up
from slipstream.device.slurm.driver import Driver, DriverSettings, chosen_policy, commands_of
from slipstream.device.slurm.handback import HandBack
from slipstream.device.slurm.recording import Recorder
from slipstream.errors import InputError
from slipstream.families.cluster.invariants import check
from slipstream.families.cluster.metrics import metrics
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.scenario import live_scenario
from slipstream.families.cluster.slurm.snapshot import SlurmJob, SlurmNode, Snapshot
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import PREEMPT
from tests.slurm.conftest import wait_for

RULES = {
    "family": "cluster",
    "placement": "best-fit",
    "nodes": [{"name": "a100", "count": 4, "gpus": 4}],
    "jobs": {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 1.0}]},
}
SETTINGS = DriverSettings(interval_s=0.3)


def submit(slurm, seconds, gpus, *words):
    quiet = ("--output=/dev/null", "--chdir=/", "--time=5")
    return str(slurm.slurm.submit(f"#!/bin/sh\nsleep {seconds}\n", "--hold", f"--gpus={gpus}", *quiet, *words))


def all_ended(jobs):
    """Return whether the given jobs have ended, as a condition of a driver."""
    return lambda snapshot: not any(job.id in jobs and (job.waits or job.runs) for job in snapshot.jobs)


def ended_within(seconds, jobs):
    limit, ended = time.monotonic() + seconds, all_ended(jobs)

    def until(snapshot):
        assert time.monotonic() < limit, [job for job in snapshot.jobs if job.id in jobs]
        return ended(snapshot)

    return until


@contextmanager
def driven(slurm, policy="fifo", settings=SETTINGS, **rules):
    """Drive the cluster in a thread."""
    scenario = load({**RULES, **rules})
    warm_up(scenario, find(policy, "cluster"))
    driver = Driver(slurm.slurm, scenario, find(policy, "cluster"), settings)
    thread = threading.Thread(target=driver.run, kwargs={"tell": lambda _: None})
    thread.start()
    try:
        yield driver
    finally:
        driver.stop()
        thread.join()


# Decisions, without a cluster


def job_of(number, state="PENDING", **more):
    base = {"user": "ann", "partition": "main", "reason": "JobHeldUser", "gpus": 2, "limit_s": 60.0}
    return SlurmJob(id=number, state=state, **{**base, "submit": 900.0, "start": 0.0, "end": 0.0, **more})


def moment(*jobs, nodes=2):
    return Snapshot(1000.0, tuple(SlurmNode(f"n{number}", "a100", 4, True) for number in range(1, nodes + 1)), jobs)


def test_a_policy_starts_what_fits_beside_what_runs():
    running = job_of("1", "RUNNING", start=950.0, gpus=3, held=(("n1", 3),))
    live = live_scenario(moment(running, job_of("2", gpus=8), job_of("3", gpus=4), job_of("4", gpus=1)))
    decisions = decide(live, find("sjf", "cluster"))
    # Job 2 comes first and is reserved for the end of job 1; the others would end at the same time, so they may pass.
    assert [(one.job.id, one.held) for one in decisions] == []
    soon = {**dict.fromkeys(("3", "4"), 5.0)}
    live = live_scenario(
        moment(running, job_of("2", gpus=8), job_of("3", gpus=4), job_of("4", gpus=1)),
        requested=lambda job: soon.get(job.id, 60.0),
    )
    decisions = decide(live, find("fifo", "cluster"))
    assert [(one.job.id, one.held) for one in decisions] == [("3", (("n2", 4),)), ("4", (("n1", 1),))]


def test_a_policy_may_interrupt_what_runs():
    rules = load({**RULES, "preemption": {"cost_s": 0.0}, "nodes": [{"name": "a100", "count": 1, "gpus": 4}]})
    long = job_of("1", "RUNNING", start=950.0, gpus=4, held=(("n1", 4),), limit_s=5000.0)
    live = live_scenario(moment(long, job_of("2", gpus=4, limit_s=10.0), nodes=1), rules)
    decisions = decide(live, find("srsf", "cluster"))
    assert [type(one) for one in decisions] == [InterruptionOf, StartOf]
    assert [one.job.id for one in decisions] == ["1", "2"]


def test_commands_name_nodes_unless_the_job_asks_for_some():
    held = (("n1", 4), ("n2", 2))
    plain = commands_of(StartOf(job_of("7", gpus=6), held))
    assert plain == [
        ["update", "JobId=7", "ReqNodeList=n1,n2", "NumNodes=2-2", "AdminComment=slipstream"],
        ["release", "7"],
    ]
    assert commands_of(StartOf(job_of("7", constrained=True), held)) == [["release", "7"]]
    assert commands_of(StartOf(job_of("7", on_nodes=1), held)) == [["release", "7"]]
    assert commands_of(StartOf(job_of("7_3", restarts=1), ()))[0] == ["update", "JobId=7_3", "StartTime=now"]


def test_a_requeue_and_the_next_start_in_the_same_second_do_not_overlap():
    node = (("n1", 4),)
    first = {"gpus": 4, "submit": 1000.0}
    second = {"gpus": 4, "submit": 1004.0}
    ended = job_of("2", "COMPLETED", start=1006.0, end=1009.0, **second)
    recorder = Recorder()
    for now, *jobs in (
        (1000.2, job_of("1", **first)),
        (1005.6, job_of("1", "RUNNING", start=1001.0, held=node, **first), job_of("2", **second)),
        (1006.9, job_of("1", gpus=4, submit=1006.0), job_of("2", "RUNNING", start=1006.0, held=node, **second)),
        (1012.1, job_of("1", "RUNNING", gpus=4, submit=1006.0, start=1009.0, held=node), ended),
        (1020.3, job_of("1", "COMPLETED", gpus=4, submit=1006.0, start=1009.0, end=1018.0), ended),
    ):
        recorder.observe(Snapshot(now, (SlurmNode("n1", "a100", 4, True),), tuple(jobs)))
    runs = [[(run.start, run.end) for run in recorder.jobs[name].runs] for name in ("1", "2")]
    assert runs == [[(1001.0, 1006.0), (1009.0, 1018.0)], [(1006.0, 1009.0)]]
    scenario, events = recorder.result(load({**RULES, "preemption": {"cost_s": 0.0}}))
    check(events, scenario)


def test_a_job_that_runs_at_the_beginning_may_be_requeued_in_the_same_second():
    node = (("n1", 4),)
    recorder = Recorder()
    for now, job in (
        (1000.4, job_of("1", "RUNNING", gpus=4, submit=900.0, start=950.0, held=node)),
        (1000.9, job_of("1", gpus=4, submit=1000.0)),
        (1010.2, job_of("1", "RUNNING", gpus=4, submit=1000.0, start=1004.0, held=node)),
        (1020.3, job_of("1", "COMPLETED", gpus=4, submit=1000.0, start=1004.0, end=1015.0)),
    ):
        recorder.observe(Snapshot(now, (SlurmNode("n1", "a100", 4, True),), (job,)))
    assert [(run.start, run.end) for run in recorder.jobs["1"].runs] == [(950.0, 1000.0), (1004.0, 1015.0)]
    scenario, events = recorder.result(load({**RULES, "preemption": {"cost_s": 0.0}}))
    check(events, scenario)


def test_rules_that_a_real_cluster_cannot_follow_are_refused():
    sliced = {**RULES, "nodes": [{"name": "a100", "count": 1, "gpus": 4, "slices": 2}]}
    with pytest.raises(InputError, match="nodes with slices"):
        Driver(None, load(sliced), find("fifo", "cluster"), SETTINGS)


@pytest.mark.thorough
def test_auto_chooses_one_policy_by_the_jobs_of_the_scenario_before_it_drives():
    scenario = load("cluster/tiny")
    chosen = chosen_policy(find("auto", "cluster"), scenario)
    assert chosen.name != "auto"
    assert chosen_policy(chosen, scenario) is chosen


# A real cluster


@pytest.mark.thorough
def test_jobs_start_in_the_order_of_the_policy_and_the_log_is_that_of_an_episode(slurm):
    lengths = [(6, 16), (4, 16), (3, 16), (3, 8), (3, 8)]
    jobs = [submit(slurm, seconds, gpus) for seconds, gpus in lengths]
    requested = {job: float(seconds) for job, (seconds, _) in zip(jobs, lengths, strict=True)}
    rules = load(RULES)
    settings = DriverSettings(interval_s=0.3, requested=requested)
    driver = Driver(slurm.slurm, rules, find("sjf", "cluster"), settings)
    told = []
    driver.run(ended_within(90.0, jobs), told.append)
    scenario, events = driver.recorder.result(rules, requested)
    check(events, scenario)
    figures = metrics(scenario, events)
    assert figures["jobs"] == 5.0
    # Beside its starts a driver says where the controller did not answer in time.
    starts = [int(line.split()[2]) for line in told if line.startswith("start job ")]
    # Of the three of 3 s the first in the queue is the large one; then the two small ones run together.
    assert [jobs.index(str(job)) for job in starts] == [2, 3, 4, 1, 0]
    pieces = {piece for seen in driver.recorder.jobs.values() for piece in seen.runs[0].held}
    assert pieces <= {(f"n{number}", 4) for number in range(1, 5)}


@pytest.mark.thorough
def test_a_job_is_interrupted_for_a_shorter_one_and_runs_again(slurm):
    long = submit(slurm, 5, 16)
    requested = {long: 100.0}
    rules = {**RULES, "preemption": {"cost_s": 0.0}}
    with driven(slurm, "srsf", DriverSettings(interval_s=0.3, requested=requested), **rules) as driver:
        wait_for(lambda: any(job.state == "RUNNING" for job in read_snapshot(slurm.slurm).jobs if job.id == long))
        short = submit(slurm, 2, 16)
        requested[short] = 2.0
        wait_for(lambda: all_ended([long, short])(read_snapshot(slurm.slurm)), 90.0)
    assert driver.counts["requeued"] == 1
    found = {job.id: job for job in read_snapshot(slurm.slurm).jobs}
    assert [(found[job].state, found[job].restarts) for job in (long, short)] == [("COMPLETED", 1), ("COMPLETED", 0)]
    assert found[short].end <= found[long].start
    scenario, events = driver.recorder.result(load(rules), requested)
    check(events, scenario)
    assert (events["kind"] == PREEMPT).sum() == 1


@pytest.mark.thorough
def test_jobs_cancelled_requeued_and_held_by_hand_and_a_drained_node_lose_no_job(slurm):
    hand = slurm.slurm.environment

    def by_hand(*words):
        subprocess.run(words, env=hand, check=True, capture_output=True)

    jobs = [submit(slurm, 5, 4) for _ in range(7)]
    with driven(slurm):
        wait_for(lambda: sum(job.runs for job in read_snapshot(slurm.slurm).jobs if job.id in jobs) == 4)
        running = [job.id for job in read_snapshot(slurm.slurm).jobs if job.id in jobs and job.runs]
        waiting = [job for job in jobs if job not in running]
        by_hand("scontrol", "requeue", running[0])
        by_hand("scancel", waiting[0])
        by_hand("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
        by_hand("scontrol", "update", f"JobId={waiting[1]}", "TimeLimit=3")
        late = submit(slurm, 3, 16)
        time.sleep(3.0)
        by_hand("scontrol", "update", "NodeName=n4", "State=RESUME")
        left = [*(job for job in jobs if job != waiting[0]), late]
        wait_for(lambda: all_ended(left)(read_snapshot(slurm.slurm)), 90.0)
    states = {job.id: job.state for job in read_snapshot(slurm.slurm).jobs}
    assert {states[job] for job in left} == {"COMPLETED"}
    assert states[waiting[0]] == "CANCELLED"


@pytest.mark.thorough
def test_a_controller_that_restarts_is_waited_for(slurm):
    jobs = [submit(slurm, 4, 8) for _ in range(4)]
    with driven(slurm) as driver:
        wait_for(lambda: driver.counts["started"] >= 2)
        slurm.stop_controller()
        time.sleep(2.0)
        slurm.start_controller(fresh=False)
        wait_for(lambda: all_ended(jobs)(read_snapshot(slurm.slurm)), 240.0)
    states = {job.id: job.state for job in read_snapshot(slurm.slurm).jobs}
    assert {states[job] for job in jobs} == {"COMPLETED"}


def test_the_end_of_a_driver_hands_held_jobs_back(slurm, tmp_path):
    job = submit(slurm, 1, 1)
    with HandBack(tmp_path, slurm.folder / "slurm.conf", [], 60.0) as switch:
        pass
    assert switch.released == 1
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))


def test_a_switch_that_was_killed_is_started_again(slurm, tmp_path):
    job = submit(slurm, 1, 1)
    with HandBack(tmp_path, slurm.folder / "slurm.conf", [], 60.0) as switch:
        first = switch.pid
        switch.keep()
        assert switch.pid == first
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: (switch.keep(), switch.pid)[1] != first)
    assert switch.released == 1
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))


@pytest.mark.thorough
def test_a_controller_that_is_away_at_the_end_gets_its_jobs_back_later(slurm, tmp_path):
    job = submit(slurm, 1, 1)
    with HandBack(tmp_path, slurm.folder / "slurm.conf", [], 60.0) as switch:
        slurm.stop_controller()
    assert switch.released == 0
    slurm.start_controller(fresh=False)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)), 60.0)


def test_a_moment_without_nodes_is_reported_and_decides_nothing(slurm):
    job = submit(slurm, 1, 1)
    subprocess.run(
        ["scontrol", "update", "NodeName=n[1-4]", "State=DRAIN", "Reason=test"], env=slurm.slurm.environment, check=True
    )
    driver = Driver(slurm.slurm, load(RULES), find("fifo", "cluster"), SETTINGS)
    assert driver.plan() == (None, [])
    assert driver.problem == "no node with GPUs is available: expected one at least"
    subprocess.run(["scontrol", "update", "NodeName=n[1-4]", "State=RESUME"], env=slurm.slurm.environment, check=True)
    slurm.slurm.change("release", job)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))


@pytest.mark.parametrize("what", ["controller", "partition"])
def test_a_driver_without_its_controller_or_partition_is_one_line_and_sends_nothing(slurm, tmp_path, what):
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    job = submit(slurm, 1, 1)
    config = (slurm.folder / "slurm.conf").read_text()
    port = next(line for line in config.splitlines() if line.startswith("SlurmctldPort="))
    away = config.replace(port, "SlurmctldPort=1\nMessageTimeout=1\nSlurmctldTimeout=1")
    (tmp_path / "slurm.conf").write_text(away if what == "controller" else config)
    words = [sys.executable, "-m", "slipstream", "execute", "rules.json", "--engine", "slurm", "--policy", "fifo"]
    words += ["--slurm-conf", "slurm.conf", "--state", "state", *(["--partition", "x\n"] * (what == "partition"))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rules.json", "slurm.conf"]
    assert next(one for one in read_snapshot(slurm.slurm).jobs if one.id == job).is_held
    slurm.slurm.change("release", job)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))


def test_a_dry_run_prints_what_it_would_do_and_sends_nothing(slurm, tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    job = submit(slurm, 1, 3, "--job-name=a\nb'\"\x1b[31m;touch x")
    words = [sys.executable, "-m", "slipstream", "execute", "rules.json", "--engine", "slurm", "--policy", "sjf"]
    words += ["--slurm-conf", str(slurm.folder / "slurm.conf"), "--dry-run"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"scontrol update JobId={job} ReqNodeList=n1 NumNodes=1-1 AdminComment=slipstream" in done.stdout
    assert f"scontrol release {job}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["rules.json"]
    assert next(one for one in read_snapshot(slurm.slurm).jobs if one.id == job).is_held
    slurm.slurm.change("release", job)
    wait_for(lambda: all_ended([job])(read_snapshot(slurm.slurm)))
