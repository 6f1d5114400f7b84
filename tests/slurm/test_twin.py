"""The twin of a queue: starts and reasons worked out by hand, intervals, what-ifs, and a real Slurm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from slipstream.dashboard.results.twins import read_twin
from slipstream.errors import DeviceError, InputError
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.rest import read_rest_snapshot
from slipstream.families.cluster.slurm.snapshot import SlurmJob, SlurmNode, Snapshot
from slipstream.families.cluster.twin.answer import Twin, TwinSettings, ask, to_dict
from slipstream.families.cluster.twin.futures import Machine, draw_futures
from slipstream.families.cluster.twin.history import (
    NO_HISTORY,
    coming,
    history_of,
    law_of,
)
from slipstream.families.cluster.twin.present import live_present, recorded_present
from slipstream.families.cluster.twin.run_times import JobsNow, RunTimes, RunTimeSettings, quantiles
from slipstream.families.cluster.twin.what_if import changed
from slipstream.policies.base import find
from slipstream.scenario import load
from tests.slurm.conftest import wait_for

SORTED = ("fifo", "sjf", "saf", "smallest", "f1", "f2", "f3", "f4", "wfp3", "unicep", "finish-time-fair", "first-fit")
RUNS = {"submit_s": 0.0, "started_s": 0.0, "gpus": 6, "run_s": 50.0, "requested_s": 100.0, "user": "ann"}
HELD = [{"kind": "a", "node": 0, "gpus": 4}, {"kind": "a", "node": 1, "gpus": 2}]
LARGE = {"submit_s": 5.0, "gpus": 8, "run_s": 9.0, "requested_s": 60.0, "user": "bob"}
SHORT = {"submit_s": 6.0, "gpus": 2, "run_s": 9.0, "requested_s": 50.0, "user": "bob"}
LONG = {"submit_s": 7.0, "gpus": 2, "run_s": 9.0, "requested_s": 500.0, "user": "cat"}
FIFO = TwinSettings(("fifo",), (), futures=4)


def scenario(*jobs, running=({**RUNS, "held": HELD},), **rules):
    """Return two nodes of four GPUs at time 20."""
    base = {"family": "cluster", "placement": "best-fit", "hold": False, "begins_s": 20.0}
    base |= {"nodes": [{"name": "a", "count": 2, "gpus": 4}], "jobs": {"kind": "list", "jobs": [*running, *jobs]}}
    return load({**base, **rules})


def answer(*jobs, history=NO_HISTORY, settings=FIFO, pooled=0.1, **rules):
    run_times = RunTimes(history, RunTimeSettings(pooled=pooled))
    return ask(recorded_present(scenario(*jobs, **rules)), run_times, settings)


def waiting(twin):
    """Return the medians of the starts and the kinds of the reasons of the jobs that wait."""
    return twin.interval()[1, 1:].tolist(), [reason.kind for reason in twin.reasons[1:]]


def past_jobs(rows):
    """Return jobs (user, requested, run, gpus), that were sent one a minute, as a history."""
    times = 60.0 * np.arange(len(rows))
    users, requested, run, gpus = zip(*rows, strict=True)
    return history_of(times, times, *(np.array(one, float) for one in (run, requested, gpus)), user=users)


# Starts and reasons, by hand


def test_without_history_jobs_run_as_long_as_requested_and_start_when_those_end():
    starts, kinds = waiting(answer(LARGE, SHORT, LONG))
    # At 20 the first runs for 80 more. SHORT ends at 50, before: it passes. LONG gets the GPUs after LARGE, from 80 to
    # 140: SHORT's are free from 50 on, but LONG would hold them when LARGE needs them.
    assert starts == [80.0, 0.0, 140.0]
    assert kinds == ["gpus", "starts", "gpus"]


def test_a_job_that_would_delay_the_reserved_one_names_it():
    twin = answer(LARGE, LONG)
    assert twin.reasons[2].kind == "reserved"
    text = "would delay job 1, which by the requested times starts in 80 s at the latest; 1 job comes before it"
    assert twin.reasons[2].text == text
    assert twin.reasons[1].text == (
        "not enough GPUs are free: it wants 8, 2 are free; by the requested times it starts in 80 s at the latest"
    )


def test_under_strict_order_nobody_may_pass():
    twin = answer(LARGE, SHORT, backfill="strict")
    assert twin.reasons[2].text.startswith("may not pass job 1")
    assert twin.interval()[1, 1:].tolist() == [80.0, 140.0]


def test_under_conservative_backfilling_no_job_before_it_is_delayed():
    running = {**RUNS, "gpus": 6}
    twin = answer(LARGE, LONG, running=(running,), placement="flat", backfill="conservative")
    assert twin.reasons[2].text == "would delay jobs that come before it; 1 job comes before it"


def test_a_limit_of_the_user_is_a_reason():
    twin = answer({**SHORT, "user": "ann"}, quotas={"ann": 7})
    assert twin.reasons[1].kind == "limit"
    assert twin.reasons[1].text == "limit of user ann: 7 GPUs, of which 6 are in use; it wants 2"
    assert twin.interval()[1, 1] == 80.0
    never = answer({**SHORT, "user": "bob"}, LARGE, quotas={"bob": 4})
    assert never.reasons[2].text == "never starts: it wants 8 GPUs, more than the limit of its user, 4"


def test_a_job_larger_than_the_cluster_never_starts():
    twin = answer({**LARGE, "gpus": 9}, SHORT)
    assert (twin.reasons[1].kind, twin.reasons[1].ahead) == ("too-large", None)
    jobs = to_dict(twin, FIFO, "x")["jobs"]
    assert [(job["job"], job["starts_in_s"] is None) for job in jobs] == [("2", False), ("1", True)]
    assert twin.table[0]["never_start"] == 1


def test_gpus_that_are_free_on_different_nodes_do_not_fit_a_job_that_is_kept_together():
    held = [{"kind": "a", "node": 0, "gpus": 3}, {"kind": "a", "node": 1, "gpus": 3}]
    twin = answer(SHORT, running=({**RUNS, "held": held},), placement="consolidate")
    assert twin.reasons[1].text == (
        "2 GPUs are free, but not so that its 2 fit together; by the requested times it starts in 80 s at the latest"
    )


def test_a_power_budget_is_a_reason():
    # 8 idle GPUs draw 400 W, and each at work 200 more.
    twin = answer(SHORT, power={"budget_w": 1900.0})
    assert twin.reasons[1].kind == "power"
    assert twin.interval()[1, 1] == 80.0


def slurm_job(number, state="PENDING", **more):
    base = {"user": "ann", "partition": "main", "reason": "Priority", "gpus": 2, "limit_s": 60.0}
    return SlurmJob(id=number, state=state, **{**base, "submit": 900.0, "start": 0.0, "end": 0.0, **more})


def test_jobs_of_slurm_keep_their_numbers_and_those_that_are_not_planned_say_why():
    running = slurm_job("1", "RUNNING", start=950.0, gpus=4, held=(("n1", 4),), limit_s=100.0)
    jobs = (running, slurm_job("2"), slurm_job("3", reason="JobHeldUser"), slurm_job("4", reason="Dependency"))
    jobs += (slurm_job("5", gpus=0), slurm_job("6", reason="QOSMaxJobsPerUserLimit"))
    snapshot = Snapshot(1000.0, (SlurmNode("n1", "a100", 4, True),), jobs)
    present = live_present(snapshot, counts=lambda job: not job.is_held)
    found = to_dict(ask(present, settings=FIFO), FIFO, "the live queue")
    assert [(job["job"], job["starts_in_s"]["median"], job["slurm_reason"]) for job in found["jobs"]] == [
        ("2", 50.0, ""),
        ("6", 50.0, "QOSMaxJobsPerUserLimit"),
    ]
    assert [(job["job"], job["why"]) for job in found["left_out"]] == [
        ("3", "held by its user, until it is released"),
        ("4", "waits for other jobs (dependency)"),
        ("5", "wants no GPU: only jobs with GPUs are planned here"),
    ]
    assert found["cluster"] == {"gpus": 4, "gpus_in_use": 4, "running": 1, "waiting": 2}


# Run times from history


def test_run_times_follow_the_users_own_history():
    past = past_jobs([("ann", 100.0, 50.0, 6)] * 20 + [("bob", 100.0, 90.0, 8)] * 20)
    settings = TwinSettings(("fifo",), (), 8, most_to_come=0)
    twin = answer(LARGE, history=past, settings=settings, pooled=0.0)
    # The job of ann runs 50 of its 100 s, so it ends at time 50; that of bob 54 of its 60 s.
    assert twin.interval()[:, 1].tolist() == [30.0, 30.0, 30.0]
    assert twin.futures.run[0].tolist() == [50.0, 54.0]


def test_users_without_history_get_that_of_all():
    past = past_jobs([("ann", 100.0, 50.0, 4)] * 20)
    draws = RunTimes(past).draw(
        JobsNow(np.array([200.0]), np.array([4]), ["new"], np.zeros(1)), None, 5, np.random.default_rng(0)
    )
    assert draws.tolist() == [[100.0]] * 5


def test_a_job_that_ran_longer_than_all_others_goes_on_within_its_request():
    past = past_jobs([("ann", 100.0, 5.0, 6)] * 20)
    twin = answer(LARGE, history=past, settings=TwinSettings(("fifo",), (), 64, most_to_come=0))
    ends = twin.futures.run[:, 0]
    assert ends.min() > 20.0
    assert ends.max() <= 100.0
    assert np.ptp(ends) > 40.0


def test_jobs_that_still_run_count_as_longer_than_they_have_run():
    # Four runs of 10, and two that have run 10 and 20 without an end: a third of the mass is between 20 and 100.
    found = 100.0 * quantiles(np.full(4, 0.1), np.array([0.1, 0.2]))
    assert (found[:170] == 10.0).all()
    assert np.ptp(np.diff(np.log(found[171:]))) < 1e-9
    assert 20.0 < found[171] < 20.4
    assert 99.0 < found[-1] <= 100.0
    # A run that ended after those makes the distribution complete: Kaplan and Meier give it all that is left.
    assert (quantiles(np.array([0.1, 0.1, 0.5]), np.array([0.2]))[129:] == 0.5).all()


def test_similar_jobs_that_run_now_lengthen_the_run_times_of_those_that_wait():
    past = past_jobs([("ann", 100.0, 5.0, 6)] * 12)
    waits = JobsNow(np.full(1, 100.0), np.full(1, 6), ["ann"], np.zeros(1))
    both = JobsNow(np.full(5, 100.0), np.full(5, 6), ["ann"] * 5, np.array([0.0, 60.0, 60.0, 60.0, 60.0]))
    runs = RunTimes(past)
    assert runs.draw(waits, 800.0, 500, np.random.default_rng(0)).max() == 5.0
    drawn = runs.draw(both, 800.0, 500, np.random.default_rng(0))[:, 0]
    assert 0.15 < (drawn > 60.0).mean() < 0.35


def test_jobs_of_one_user_are_alike_in_a_future():
    rng = np.random.default_rng(1)
    past = past_jobs([("ann", 100.0, run, 1) for run in rng.uniform(1.0, 100.0, 60)])
    now = JobsNow(np.full(2, 100.0), np.ones(2), ["ann", "ann"], np.zeros(2))

    def correlation(shared):
        drawn = RunTimes(past, RunTimeSettings(shared=shared)).draw(now, None, 2000, np.random.default_rng(2))
        return np.corrcoef(drawn.T)[0, 1]

    assert abs(correlation(0.0)) < 0.1
    assert correlation(0.8) > 0.6


def test_the_correlation_is_that_of_consecutive_jobs():
    rng = np.random.default_rng(5)
    steady = np.repeat(rng.uniform(1.0, 100.0, 30), 10)
    past = past_jobs(
        [("ann", 100.0, run, 1) for run in steady] + [("bob", 100.0, run, 1) for run in 100 * rng.random(300)]
    )
    own, overall = RunTimes(past).correlations()
    assert own[past.number["ann"]] > 0.7
    assert own[past.number["bob"]] < 0.25
    assert own[past.number["bob"]] < overall < own[past.number["ann"]]


def test_hidden_run_times_and_jobs_to_come_change_nothing_that_the_twin_says():
    rng = np.random.default_rng(3)
    past = past_jobs([(f"u{n % 3}", 100.0, run, 1 + n % 4) for n, run in enumerate(rng.uniform(1.0, 100.0, 60))])
    jobs = [{**LARGE}, {**SHORT}, {**LONG}, {**LONG, "user": "dan", "gpus": 3}]
    settings = TwinSettings(("fifo", "sjf"), ("nodes=+1",), 8)

    def said(factor, *more):
        hidden = [{**job, "run_s": job["run_s"] * factor} for job in jobs]
        running = ({**RUNS, "held": HELD, "run_s": 50.0 * factor},)
        found = to_dict(answer(*hidden, *more, running=running, history=past, settings=settings), settings, "x")
        return {**found, "compute_s": 0.0}

    later = {**SHORT, "submit_s": 21.0}
    assert said(1.0) == said(1.9) == said(3.0, later)


def test_the_law_of_a_generated_workload_stands_in_for_a_history():
    source = {"kind": "synthetic", "jobs": 400, "most_overestimate": 4.0, "sizes": [1, 2, 4, 8]}
    law = law_of(load({"family": "cluster", "nodes": [{"name": "a", "count": 2}], "jobs": source}))
    assert len(law) == 400
    assert 0.2 < np.median(law.ratio) < 0.6
    assert len(law_of(scenario(LARGE))) == 0
    assert np.ptp(answer(LARGE, history=law, settings=FIFO).starts[:, 1]) > 0.0


def test_jobs_to_come_are_those_of_a_past_moment_at_this_time_of_day():
    day = 86_400.0
    times = np.array([day * number + 3600.0 * hour for number in range(4) for hour in (0.0, 12.0)])
    past = history_of(times, times, *(np.full(8, one) for one in (50.0, 100.0, 1.0)), user=["ann"] * 8)
    found = coming(past, 10 * day + 11 * 3600.0, 3, 50, np.random.default_rng(0))
    # From eleven, give or take half an hour, the next one comes at noon.
    firsts = {round(float(one.submit[0]) / 1800.0) for one in found}
    assert firsts <= {1, 2, 3}
    assert all(len(one.submit) <= 3 for one in found)
    assert all(len(one.submit) == 0 for one in coming(past, None, 0, 2, np.random.default_rng(0)))


def test_jobs_to_come_delay_those_of_later_priority():
    past = past_jobs([("bob", 60.0, 60.0, 8)] * 30)
    settings = TwinSettings(("sjf",), (), 8, most_to_come=10)
    alone = TwinSettings(("sjf",), (), 8, most_to_come=0)
    later = answer({**LONG, "gpus": 8}, history=past, settings=settings).starts[:, 1]
    assert (later > answer({**LONG, "gpus": 8}, history=past, settings=alone).starts[:, 1] + 60.0).all()


def test_an_interval_holds_nine_of_ten_draws_like_its_own():
    present = recorded_present(scenario(LARGE))
    rng = np.random.default_rng(4)
    inside = []
    for _ in range(400):
        starts = rng.exponential(100.0, (33, 2))
        twin = Twin(present, None, starts[:32], [], [], 0.0)
        low, _, high = twin.interval()[:, 1]
        inside.append(low <= starts[32, 1] <= high)
    assert 0.86 <= np.mean(inside) <= 0.94


def test_a_widened_interval_is_as_much_longer_on_both_sides_of_its_median():
    starts = np.tile(np.linspace(0.0, 320.0, 33)[:32, None], 2)
    plain, wide = (Twin(None, None, starts, [], [], 0.0, widen).interval() for widen in (1.0, 1.5))
    assert np.allclose(wide[1:] - plain[1], 1.5 * (plain[1:] - plain[1]))
    assert wide[0].tolist() == [0.0, 0.0]  # never before now


# What if


def test_more_nodes_and_other_policies_are_compared_with_the_present_rules():
    table = answer(LARGE, SHORT, LONG, settings=TwinSettings(("fifo", "smallest"), ("nodes=+10",), 1)).table
    assert [(row["what_if"], row["policy"]) for row in table] == [
        ("present rules", "fifo"),
        ("present rules", "smallest"),
        ("nodes=+10", "fifo"),
        ("nodes=+10", "smallest"),
    ]
    # From submission: 95, 14 and 153 s under fifo; with more nodes all start at once.
    assert table[0]["wait_mean_s"] == pytest.approx((95 + 14 + 153) / 3)
    assert table[2]["wait_mean_s"] == pytest.approx((15 + 14 + 13) / 3)
    assert table[2]["wait_mean_s_difference"]["mean"] == pytest.approx(-220 / 3)
    # Until the last job ends at 640 s: 8 idle GPUs of 50 W, and what jobs add: 200 W for each of their GPUs.
    work = 6 * 80.0 + 8 * 60.0 + 2 * 50.0 + 2 * 500.0
    assert table[0]["energy_kwh"] == pytest.approx((640 * 400.0 + work * 200.0) / 3.6e6)


@pytest.mark.thorough
def test_compiled_futures_are_those_that_the_simulator_plays_one_by_one():
    rng = np.random.Generator(np.random.Philox(6))
    past = past_jobs([(f"u{n % 3}", 100.0, run, 1 + n % 4) for n, run in enumerate(rng.uniform(1.0, 100.0, 60))])
    jobs = [
        {
            "submit_s": float(n),
            "gpus": int(rng.integers(1, 9)),
            "run_s": 9.0,
            "requested_s": float(rng.integers(5, 200)),
        }
        | {"user": f"u{n % 4}"}
        for n in range(20)
    ]
    for rules in ({}, {"placement": "flat"}, {"placement": "consolidate", "backfill": "strict", "quotas": {"u1": 6}}):
        running = (RUNS if rules.get("placement") == "flat" else {**RUNS, "held": HELD},)
        present = recorded_present(scenario(*jobs, running=running, **rules))
        futures = draw_futures(present, RunTimes(past), 3, 10, 5)
        machine = Machine(present.scenario, futures)
        assert machine.count == 31 or rules.get("quotas")
        policies = [find(name, "cluster") for name in SORTED]
        for policy, fast in zip(policies, machine.play(policies), strict=True):
            slow = machine._play_singly(policy)
            for name in ("start", "wait", "slowdown"):
                np.testing.assert_allclose(vars(fast)[name], vars(slow)[name], rtol=0, atol=1e-9, err_msg=policy.name)
            np.testing.assert_allclose(fast.energy_kwh, slow.energy_kwh, rtol=1e-9)
            for one, other in zip(fast.waits_to_come, slow.waits_to_come, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_what_ifs_change_nodes_power_caps_and_rules():
    base = scenario(LARGE, nodes=[{"name": "a", "count": 2, "gpus": 4, "caps": "v100"}])
    assert changed(base, "nodes=+3").nodes[0].count == 5
    assert changed(base, "nodes.a=+1").nodes[0].count == 3
    assert changed(base, "power_w=1500").power.budget_w == 1500.0
    assert changed(base, "power=50%").power.budget_w == 1000.0
    assert changed(base, "backfill=greedy").backfill == "greedy"
    assert changed(base, "quota.bob=3").quotas == {"bob": 3}
    capped = changed(base, "cap_w=200").nodes[0]
    assert capped.caps == []
    assert capped.speed < 1.0
    assert capped.busy_w < 250.0
    assert changed(base, "nodes=+3").jobs is base.jobs


BAD_WHAT_IFS = {
    "nodes=10": "expected nodes=+N",
    "nodes.b=+1": "there are no nodes of kind 'b': expected a",
    "gpus=3": "expected nodes=+N",
    "power=x%": "expected nodes=+N",
    "backfill=none": "backfill: expected 'strict'",
    "cap_w=1": "nodes 'a' have no cap of at most 1 W",
    "nodes=+999999": "count: must be at most",
}


@pytest.mark.parametrize("text", BAD_WHAT_IFS)
def test_a_what_if_that_is_not_understood_is_one_line(text):
    with pytest.raises(InputError) as error:
        changed(scenario(LARGE), text)
    assert BAD_WHAT_IFS[text] in str(error.value)
    assert "\n" not in str(error.value)


# The command


@pytest.fixture
def slipstream(command, tmp_path):
    """Return a function that runs a command beside `now.json` and returns exit code, output and errors."""
    (tmp_path / "now.json").write_text(scenario(LARGE, SHORT, LONG).model_dump_json(exclude_unset=True))

    return command


def test_the_command_answers_as_text_and_as_json_and_writes_what_the_dashboard_reads(slipstream, tmp_path):
    code, output, error = slipstream("twin", "slurm", "now.json", "--policies", "fifo,sjf", "--out", "queue.json")
    assert (code, error) == (0, "")
    assert "not enough GPUs are free: it wants 8" in output
    assert "nodes=+10" in output
    found = read_twin(tmp_path / "queue.json")
    assert [job["job"] for job in found["jobs"]] == ["2", "1", "3"]
    code, output, _ = slipstream("twin", "slurm", "now.json", "--job", "1", "--what-if", "none", "-p", "fifo", "--json")
    found = json.loads(output)
    assert code == 0
    assert [job["starts_in_s"] for job in found["jobs"]] == [{"low": 80.0, "median": 80.0, "high": 80.0}]
    assert [row["what_if"] for row in found["what_if"]] == ["present rules"]


BAD_COMMANDS = {
    "an unknown job": (("now.json", "--job", "77"), "--job 77: no such job runs or waits"),
    "a scenario from its start": (("cluster/tiny",), "does not begin in the middle"),
    "another family": (("edge/tiny",), "expected a cluster scenario"),
    "no such file": (("none.json",), "none.json"),
    "an unknown policy": (("now.json", "--policies", "nope"), "unknown policy 'nope'"),
    "no policy": (("now.json", "--policies", ","), "--policies: expected one at least"),
    "a policy that does not apply": (("now.json", "--policies", "fifo,las"), "'las' does not apply"),
    "an unknown change": (("now.json", "--what-if", "x=1"), "--what-if 'x=1': expected nodes=+N"),
    "a history that is none": (("now.json", "--history", "now.json"), "row 1"),
    "a time of the live queue": (("--at", "2026-01-01"), "--at: is for a recorded scenario"),
    "a time that is none": (("now.json", "--at", "noon"), "--at: expected a time, got 'noon'"),
    "no socket": (("--rest", "none.sock"), "none.sock: no answer from slurmrestd"),
    "no controller": (("--slurm-conf", "none.conf"), ""),
    "a file of another kind": (("now.json", "--out", "now.json"), "now.json"),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_input_is_one_line(case, slipstream, tmp_path):
    words, text = BAD_COMMANDS[case]
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    code, output, error = slipstream("twin", "slurm", *words)
    assert (code, output) == (2, "")
    assert text in error
    assert error.count("\n") == 1
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before


def test_a_damaged_answer_is_one_line(slipstream, tmp_path):
    assert slipstream("twin", "slurm", "now.json", "-p", "fifo", "--what-if", "none", "--out", "queue.json")[0] == 0
    path = tmp_path / "queue.json"
    whole = json.loads(path.read_text())
    for key in ("policy", "futures", "history", "cluster", "jobs", "left_out", "what_if"):
        path.write_text(json.dumps({**whole, key: None}))
        with pytest.raises(InputError, match=key):
            read_twin(path)


@pytest.mark.thorough
def test_a_watched_queue_is_answered_again_and_again_until_a_signal(slipstream, tmp_path):
    words = [sys.executable, "-m", "slipstream", "twin", "slurm", "now.json", "-p", "fifo", "--what-if", "none"]
    words += ["--watch", "0.5", "--json"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60.0) == 0, process.stderr.read()
    assert [answer["jobs"][0]["job"] for answer in answers] == ["2", "2"]


# A real Slurm


@pytest.mark.thorough
def test_the_twin_of_a_real_queue_says_when_and_why_and_sends_nothing(slurm, slipstream):
    words = ("--time=10", "--output=/dev/null", "--chdir=/")
    running = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=16", *words)
    wait_for(lambda: any(job.id == str(running) and job.runs for job in read_snapshot(slurm.slurm).jobs))
    waits = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=8", *words)
    held = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=4", "--hold", *words)
    after = slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=4", f"--dependency=afterok:{waits}", *words)
    config = slurm.folder / "slurm.conf"
    code, output, error = slipstream("twin", "slurm", "--slurm-conf", config, "--policies", "fifo,sjf", "--json")
    assert (code, error) == (0, "")
    found = json.loads(output)
    (job,) = found["jobs"]
    assert job["job"] == str(waits)
    # The running job may take all of its ten minutes.
    assert 500.0 < job["starts_in_s"]["median"] <= 600.0
    assert job["why"].startswith("not enough GPUs are free: it wants 8, 0 are free")
    why = {one["job"]: one["why"] for one in found["left_out"]}
    assert why[str(held)] == "held by its user, until it is released"
    assert why[str(after)] == "waits for other jobs (dependency)"
    code, output, _ = slipstream("twin", "slurm", "--slurm-conf", config, "--held", "--job", held)
    assert code == 0
    assert "not enough GPUs are free: it wants 4, 0 are free" in output
    states = {job.id: (job.state, job.is_held) for job in read_snapshot(slurm.slurm).jobs}
    assert states[str(waits)] == ("PENDING", False)
    assert states[str(held)] == ("PENDING", True)


@pytest.mark.thorough
def test_slurmrestd_tells_the_same_as_the_commands(slurm, command, tmp_path):
    if shutil.which("slurmrestd") is None:
        pytest.skip("slurmrestd is not installed: expected the package slurmrestd")
    words = ("--time=10", "--output=/dev/null", "--chdir=/")
    slurm.slurm.submit("#!/bin/sh\nsleep 60\n", "--gpus=3", "--hold", *words)
    path = slurm.folder / "rest.sock"
    environment = {**slurm.slurm.environment, "SLURMRESTD_SECURITY": "disable_user_check"}
    server = ["slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/local", f"unix:{path}"]
    with subprocess.Popen(server, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(path.exists)
            by_rest, by_commands = read_rest_snapshot(path), read_snapshot(slurm.slurm)
            with pytest.raises(DeviceError, match="partition 'none'"):
                read_rest_snapshot(path, ["none"])
            assert command("import", "slurm", "--rest", path, "--held", "--out", "now.json")[0] == 0
        finally:
            process.terminate()
    assert by_rest.nodes == by_commands.nodes
    assert sorted(job.id for job in by_rest.jobs) == sorted(job.id for job in by_commands.jobs)
    assert {job for job in by_rest.jobs if job.waits} == {job for job in by_commands.jobs if job.waits}
    imported = load(tmp_path / "now.json")
    assert imported.gpus == sum(node.gpus for node in by_commands.nodes)
    assert 3 in [job.gpus for job in imported.jobs.jobs]
