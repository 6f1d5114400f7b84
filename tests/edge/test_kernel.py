"""What only the edge kernel promises; `tests/test_kernels.py` compares it with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slipstream.errors import InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.policies.base import Heuristic
from slipstream.sim.simulator import Simulator
from tests.comparison import compare_episode
from tests.edge.cases import scenario, task, trace
from tests.edge.subject import SUBJECT
from tests.kernels import KernelLane, log_rows, smallest_log
from tests.reference.edge import ReferenceEdge
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, scripted_action

POLICIES = SUBJECT.policies


def test_the_end_is_recorded_once_wherever_it_falls_in_a_full_log() -> None:
    device = EdgeScenario.model_validate(scenario(30, [task({"kind": "periodic", "period_ms": 2}, [1])]))
    for rows in range(smallest_log(device), 60):
        kernel = KernelLane(device, seed=0, log_rows=rows)
        compare_episode(SUBJECT, kernel, ReferenceEdge(device, seed=0), script=0)


def test_a_full_log_without_a_sink_is_an_error() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task({"kind": "periodic", "period_ms": 2}, [1])]))
    simulator = Simulator(device, log_rows=16)
    simulator.reset(0)

    def play_on() -> None:
        while simulator.asking:
            simulator.step(0)

    with pytest.raises(InputError, match="log is full"):
        play_on()


@pytest.mark.filterwarnings("ignore:policy 'scripted' made")
@settings(max_examples=100, derandomize=True, database=None)
@given(edge_scenarios(), episode_seeds(), action_scripts())
def test_a_policy_that_is_no_heuristic_is_asked_with_the_same_rows(
    device: EdgeScenario, seed: int, script: int
) -> None:
    class Scripted:
        name = "scripted"
        asked = 0

        def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
            self.asked += 1
            return scripted_action(script, self.asked - 1, mask.tolist())

    played = Simulator(device).play(Scripted(), seed)
    reference = ReferenceEdge(device, seed)
    while not reference.over:
        reference.step(scripted_action(script, reference.choices - 1, reference.mask()))
    assert log_rows(played) == reference.log


def test_illegal_actions_of_any_size_count_as_wait() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task(trace(0, 5), [4])]))
    for action in (-(2**63), -1, 3, 10**6, 2**63 - 1):
        kernel = KernelLane(device, seed=0)
        kernel.step(action)
        assert (kernel.illegal, kernel.now, kernel.asked) == (True, 5_000_000, 0)


@settings(max_examples=100, derandomize=True, database=None)
@given(edge_scenarios(), episode_seeds(), action_scripts(), st.data())
def test_arrivals_do_not_depend_on_the_policy(
    device: EdgeScenario, seed: int, script: int, data: st.DataObject
) -> None:
    # A closed loop reacts to the policy by design.
    assume(all(task.arrival.kind != "closed" for task in device.tasks))

    def releases(policy: Heuristic) -> list[tuple[int, int, int]]:
        log = log_rows(Simulator(device).play(policy, seed))
        return [(time, task, job) for time, kind, task, job, _, _ in log if kind == 0]

    one, other = data.draw(st.sampled_from(POLICIES)), data.draw(st.sampled_from(POLICIES))
    assert releases(one) == releases(other)
