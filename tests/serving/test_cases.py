"""Hand-worked cases hold for the kernel and for the reference."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.scenario import load
from slipstream.serving.laws import check
from tests.reference.serving_rows import ReferenceServing
from tests.serving.adapter import KernelServing
from tests.serving.cases import CASES, MOVE, READY, Case


@pytest.mark.parametrize("machine", [KernelServing, ReferenceServing])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, machine: Any) -> None:
    scenario: Any = load(case.scenario)
    lane = machine(scenario, 0)
    choice = 0
    while not lane.over:
        lane.step(case.actions.get(choice, len(lane.mask()) - 1))
        choice += 1
    lines = [(time / 1e6, kind, task, job, resource) for time, kind, task, job, _, resource in lane.log]
    assert [line for line in lines if line[0] > 0 or line[1] not in (MOVE, READY)] == case.lines
    if isinstance(lane, KernelServing):
        check(lane.events, scenario)
