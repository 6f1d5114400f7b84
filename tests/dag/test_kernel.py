"""What only the dag kernel promises; `tests/test_kernels.py` compares it with the reference."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.families.dag.scenario import DagScenario
from slipstream.policies.base import Heuristic
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.simulator import Simulator
from tests.dag.strategies import dag_scenarios
from tests.dag.subject import SUBJECT
from tests.kernels import log_rows
from tests.strategies import episode_seeds

POLICIES = SUBJECT.policies


@settings(max_examples=60, derandomize=True, database=None)
@given(dag_scenarios(), episode_seeds(), st.data())
def test_arrivals_do_not_depend_on_the_policy(scenario: DagScenario, seed: int, data: st.DataObject) -> None:
    def arrivals(policy: Heuristic) -> list[tuple[int, ...]]:
        return [row for row in log_rows(Simulator(scenario).play(policy, seed)) if row[1] == ARRIVAL]

    one, other = arrivals(data.draw(st.sampled_from(POLICIES))), arrivals(data.draw(st.sampled_from(POLICIES)))
    # An episode that is cut off may end at different arrivals of the same stream, but for a fixed time it does not.
    shorter = min(len(one), len(other))
    assert one[:shorter] == other[:shorter]
    assert scenario.horizon.kind != "none" or len(one) == len(other)
