"""Scenarios whose parts do not agree are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.errors import ScenarioError
from slipstream.scenario import digest, load

NODE = {"name": "node", "count": 2, "gpus": 2}
CAPS = [{"watts": 100.0, "time": 1.25, "power": 0.5}]

PLACED = {"nodes": [NODE], "placement": "best-fit", "begins_s": 6.0}


def running(times: int = 1, **more: Any) -> dict[str, Any]:
    """Return jobs of two GPUs that run since 5 s."""
    job = {"submit_s": 1.0, "gpus": 2, "run_s": 10.0, "started_s": 5.0, **more}
    return {"kind": "list", "jobs": [job] * times}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a budget that the end of a job breaks": (
        {"nodes": [{**NODE, "busy_w": 40.0}], "power": {"budget_w": 500.0}},
        "expected busy_w of at least idle_w",
    ),
    "the same at a cap": (
        {"nodes": [{**NODE, "idle_w": 50.0, "busy_w": 80.0, "caps": CAPS}], "power": {"budget_w": 500.0}},
        "expected busy_w of at least idle_w",
    ),
    "slices of nobody's nodes": (
        {"nodes": [{**NODE, "slices": 2}], "placement": "flat"},
        "placement 'flat' with slices or sleep",
    ),
    "sleeping slices": (
        {"nodes": [{**NODE, "slices": 2}], "placement": "first-fit", "sleep": {"after_s": 1.0}},
        "sleep with slices: expected one of them",
    ),
    "different slices": (
        {"nodes": [NODE, {**NODE, "name": "other", "slices": 2}], "placement": "first-fit"},
        "different numbers of slices",
    ),
    "a start without a beginning": (
        {"nodes": [NODE], "jobs": running()},
        r"jobs.jobs\[0\].started_s without begins_s",
    ),
    "a beginning of a generated workload": (
        {"nodes": [NODE], "jobs": {"kind": "lublin", "largest": 2}, "begins_s": 1.0},
        "begins_s: expected jobs of kind 'list'",
    ),
    "a start after the beginning": (
        {"nodes": [NODE], "jobs": running(started_s=7.0), "begins_s": 6.0},
        r"jobs.jobs\[0\].started_s 7: expected a time from submit_s to begins_s",
    ),
    "nodes where placement is flat": (
        {"nodes": [NODE], "jobs": running(held=[{"kind": "node", "gpus": 2}]), "begins_s": 6.0},
        "with placement 'flat': expected none",
    ),
    "fewer GPUs than the job wants": (
        {**PLACED, "jobs": running(held=[{"kind": "node", "gpus": 1}])},
        r"jobs.jobs\[0\].held lists 1 GPUs: expected the 2 of the job",
    ),
    "a node that is not there": (
        {**PLACED, "jobs": running(held=[{"kind": "node", "node": 2, "gpus": 2}])},
        "there is no node 2 of kind 'node'",
    ),
    "GPUs held twice": (
        {**PLACED, "jobs": running(held=[{"kind": "node", "gpus": 2}], times=2)},
        "more GPUs of node 0 of kind 'node' are held than it has, 2",
    ),
    "more GPUs held than there are": (
        {"nodes": [NODE], "jobs": running(times=3), "begins_s": 6.0},
        "more than 4 GPUs are held at the beginning",
    ),
    "preemption beside greed": (
        {"nodes": [NODE], "backfill": "greedy", "preemption": {}},
        "expected 'strict' or 'easy'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_parts_that_do_not_agree_are_refused_in_one_line(case):
    parts, text = BAD[case]
    jobs = {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 1.0}]}
    with pytest.raises(ScenarioError, match=text) as error:
        load({"family": "cluster", "jobs": jobs, **parts})
    assert "\n" not in str(error.value)


def test_a_budget_is_fine_where_work_draws_more_than_idling():
    jobs = {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 1.0}]}
    node = {**NODE, "idle_w": 40.0, "busy_w": 80.0, "caps": CAPS}
    load({"family": "cluster", "jobs": jobs, "nodes": [node], "power": {"budget_w": 500.0}})


def test_what_runs_at_the_beginning_is_part_of_the_digest_and_unset_keys_are_not():
    parts = {"family": "cluster", **PLACED}
    here, there = (running(held=[{"kind": "node", "node": node, "gpus": 2}]) for node in (0, 1))
    assert digest(load({**parts, "jobs": here})) != digest(load({**parts, "jobs": there}))
    waiting = {"kind": "list", "jobs": [{"submit_s": 1.0, "gpus": 2, "run_s": 10.0}]}
    unset = {**waiting["jobs"][0], "started_s": None, "held": []}
    plain = {"family": "cluster", "nodes": [NODE]}
    assert digest(load({**plain, "jobs": waiting})) == digest(
        load({**plain, "begins_s": None, "jobs": {"kind": "list", "jobs": [unset]}})
    )
