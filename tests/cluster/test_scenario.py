"""Scenarios whose parts do not agree are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.errors import ScenarioError
from slipstream.scenario import load

NODE = {"name": "node", "count": 2, "gpus": 2}
CAPS = [{"watts": 100.0, "time": 1.25, "power": 0.5}]

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
