"""Compare the kernel with the reference and stop at the first difference: run on a mutated copy of the package.

Exit code 0: no difference was found, the mutant survives. Anything else: it is dead.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from hypothesis import Phase
from hypothesis import strategies as st

from slipstream.core import rng
from slipstream.core.simulator import Simulator
from slipstream.edge import features
from slipstream.edge.scenario import EdgeScenario
from slipstream.policies.base import Heuristic, find
from tests.edge.adapter import KernelEdge, compare_episode, compare_observed, log_rows, smallest_log
from tests.edge.cases import CASES, check
from tests.mutation import limit_time, with_limits
from tests.reference import edge as reference
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, in_short_runs, scripted_action

POLICIES: list[Heuristic] = [
    find("edf-fit", "edge"),
    find("stf", "edge"),
    # A rule over all rows, drop and wait included.
    Heuristic("soonest", "edge", lambda row: row[features.NEXT_ARRIVAL] - row[features.SLACK], True, True),
]


def compare_numbers() -> None:
    """Assert that keys and seeds are those of the reference."""
    for number in range(5):
        word = np.uint64(reference.bits(1, number))
        assert int(rng.next_seed(number)) == reference.next_seed(number)
        assert int(rng.bits(word, number)) == reference.bits(int(word), number)


def compare_policy(device: EdgeScenario, seed: int, policy: Heuristic) -> None:
    """Assert that an episode inside the kernel's own loop is the one that the reference plays."""
    edge = reference.ReferenceEdge(device, seed)
    while not edge.over:
        whole = edge.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in edge.rows()])
        edge.step(policy.choose(global_row, rows, np.array(edge.mask(), np.int8)))
    assert log_rows(Simulator(device, smallest_log(device)).play(policy, seed)) == edge.log


def compare_random(device: EdgeScenario, seed: int, script: int, lot: int) -> None:
    """Assert that nothing tells kernel and reference apart, also in a lane that was used before."""
    limit_time()
    kernel = KernelEdge(device, seed ^ 1, log_rows=smallest_log(device))
    while not kernel.over and kernel.choices <= 8 * (lot % 2):
        kernel.step(scripted_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, reference.ReferenceEdge(device, seed), script, observe_every=4, most_choices=80)
    if lot < len(POLICIES):
        compare_policy(device, seed, POLICIES[lot])
    else:
        compare_observed(device, seed, script, most_choices=80)


def main() -> None:
    """Look for a difference."""
    # Plain numpy warns where compiled code wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    compare_numbers()
    for case in CASES:
        limit_time()
        check(case, lambda scenario: KernelEdge(scenario, seed=7, log_rows=smallest_log(scenario)))
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    drawn = (edge_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 3))
    # What is found need not be made small.
    in_short_runs(compare_random, examples, *drawn, phases=[Phase.generate])


if __name__ == "__main__":
    with_limits(main)
