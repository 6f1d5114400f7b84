"""What only the taskgraph kernel promises; `tests/test_kernels.py` compares it with the reference."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies.base import Heuristic
from slipstream.sim.eventlog import ARRIVAL, FINISH, START
from slipstream.sim.simulator import Simulator
from tests.kernels import log_rows
from tests.strategies import episode_seeds
from tests.taskgraph.strategies import taskgraph_scenarios
from tests.taskgraph.subject import SUBJECT

POLICIES = SUBJECT.policies


@settings(max_examples=40, derandomize=True, database=None)
@given(taskgraph_scenarios(), episode_seeds(), st.data())
def test_luck_does_not_depend_on_the_policy(scenario: TaskgraphScenario, seed: int, data: st.DataObject) -> None:
    def luck(policy: Heuristic) -> tuple[list[tuple[int, ...]], dict[tuple[int, int, int], int]]:
        """Return the arrivals, and how long each task took on the kind of processor where it ran."""
        rows = log_rows(Simulator(scenario).play(policy, seed))
        began = {(task, job, kind): time for time, what, task, job, kind, _ in rows if what == START}
        ended = {(task, job, kind): time for time, what, task, job, kind, _ in rows if what == FINISH}
        return [row for row in rows if row[1] == ARRIVAL], {key: ended[key] - began[key] for key in ended}

    first, second = (luck(data.draw(st.sampled_from(POLICIES))) for _ in range(2))
    assert first[0] == second[0]
    common = set(first[1]) & set(second[1])
    assert {key: first[1][key] for key in common} == {key: second[1][key] for key in common}
