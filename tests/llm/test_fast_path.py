"""The loop of the first in the queue writes the same event log as the one that scores all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from slipstream.families.llm.policies import FirstInQueue
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.kernel.lanes import TERMINATED
from slipstream.sim.simulator import NO_LIMIT, Simulator
from tests.kernels import log_rows, smallest_log
from tests.llm.strategies import llm_scenarios
from tests.strategies import episode_seeds

FCFS: Any = find("fcfs", "llm")
BY_ROWS = Heuristic("fcfs-by-rows", "llm", FCFS.function, is_rule=True)
THOROUGH = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@THOROUGH
@given(llm_scenarios(), episode_seeds())
def test_the_fast_loop_writes_the_same_log_as_the_one_that_scores_rows(scenario: Any, seed: int) -> None:
    assert isinstance(FCFS, FirstInQueue)
    flushed: list[np.ndarray] = []
    fast = Simulator(scenario, smallest_log(scenario))
    fast.play(FCFS, seed, sink=flushed.append)
    slow = Simulator(scenario)
    assert log_rows(np.concatenate(flushed)) == log_rows(slow.play(BY_ROWS, seed))
    assert fast.header["choices"] == slow.header["choices"]
    assert fast.header["mistakes"] == 0


def test_both_loops_take_turns_within_an_episode() -> None:
    scenario = load("llm/fleet")
    simulator = Simulator(scenario)
    simulator.reset(3)
    while simulator.asking:
        FCFS.run(simulator, 7)
        if BY_ROWS.run(simulator, 5 if simulator.asking else 0) == TERMINATED:
            break
    whole = Simulator(scenario)
    whole.reset(3)
    assert BY_ROWS.run(whole, NO_LIMIT) == TERMINATED
    assert digest(simulator.log()) == digest(whole.log())
