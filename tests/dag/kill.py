"""Compare the dag kernel with the reference and stop at the first difference: run on a mutated copy of the package.

Exit code 0: no difference was found, the mutant survives. Anything else: it is dead.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from hypothesis import Phase
from hypothesis import strategies as st

from slipstream.core.simulator import Simulator
from slipstream.dag import features
from slipstream.dag.scenario import DagScenario
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from tests.dag.adapter import KernelDag, compare_episode, compare_observed, smallest_log
from tests.dag.strategies import dag_scenarios
from tests.dag.test_cases import CASES, test_case
from tests.kernels import log_rows
from tests.mutation import limit_time, with_limits
from tests.reference.dag_rows import ReferenceDag
from tests.strategies import action_scripts, episode_seeds, in_short_runs, often_eager_action

POLICIES: list[Heuristic] = [
    find("fair", "dag"),
    # A rule over all rows, stopping included.
    Heuristic("soonest", "dag", lambda row: row[features.PATH] - 2e9 * row[features.WAIT], True, True),
]


def compare_policy(scenario: DagScenario, seed: int, policy: Heuristic) -> None:
    """Assert that an episode inside the kernel's own loop is the one that the reference plays."""
    lane = ReferenceDag(scenario, seed)
    while not lane.over:
        whole = lane.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in lane.rows()])
        lane.step(policy.choose(global_row, rows, np.array(lane.mask(), np.int8)))
    assert log_rows(Simulator(scenario, smallest_log(scenario)).play(policy, seed)) == lane.log


def compare_random(scenario: DagScenario, seed: int, script: int, lot: int) -> None:
    """Assert that nothing tells kernel and reference apart, also in a lane that was used before."""
    limit_time()
    kernel = KernelDag(scenario, seed ^ 1, log_rows=smallest_log(scenario))
    while not kernel.over and kernel.choices <= 8 * (lot % 2):
        kernel.step(often_eager_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceDag(scenario, seed), script, observe_every=3, most_choices=60)
    if lot < len(POLICIES):
        compare_policy(scenario, seed, POLICIES[lot])
    else:
        compare_observed(scenario, seed, script, most_choices=40)


def main() -> None:
    """Look for a difference."""
    # Plain numpy warns where compiled code wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    for case in CASES:
        limit_time()
        test_case(case, KernelDag)
    limit_time()
    compare_observed(load("dag/tiny"), 5, 1, most_choices=60)
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    drawn = (dag_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 3))
    # What is found need not be made small.
    in_short_runs(compare_random, examples, *drawn, phases=[Phase.generate])


if __name__ == "__main__":
    with_limits(main)
