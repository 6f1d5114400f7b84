"""Compare the cluster kernel with the reference, up to the first difference: run on a mutated copy of the package.

Exit code 0: no difference was found, the mutant survives. Anything else: it is dead.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from hypothesis import Phase
from hypothesis import strategies as st

from slipstream.cluster.scenario import ClusterScenario
from slipstream.core.simulator import FOREVER, Simulator
from slipstream.policies.base import find
from tests.cluster.adapter import KernelCluster, compare_episode, compare_observed, smallest_log
from tests.cluster.strategies import cluster_scenarios
from tests.kernels import log_rows
from tests.mutation import limit_time, with_limits
from tests.reference.cluster_rows import ReferenceCluster
from tests.strategies import action_scripts, episode_seeds, in_short_runs, often_eager_action

ORDERS = ("fifo", "sjf", "saf", "f2", "wfp3", "unicep")


def compare_walk(scenario: ClusterScenario, seed: int, name: str) -> None:
    """Assert that a walk along the queue makes the choices that its rows do."""
    policy, by_rows = find(name, "cluster"), Simulator(scenario)
    by_rows.reset(seed)
    policy.run(by_rows, FOREVER - 1)
    flushed: list[np.ndarray] = []
    Simulator(scenario, smallest_log(scenario)).play(policy, seed, sink=flushed.append)
    assert log_rows(np.concatenate(flushed)) == log_rows(by_rows.log())


def compare_random(scenario: ClusterScenario, seed: int, script: int, lot: int) -> None:
    """Assert that nothing tells kernel and reference apart, also in a lane that was used before."""
    limit_time()
    kernel = KernelCluster(scenario, seed ^ 1, log_rows=smallest_log(scenario))
    while not kernel.over and kernel.choices <= 8 * (lot % 2):
        kernel.step(often_eager_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceCluster(scenario, seed), script, observe_every=2)
    if lot < len(ORDERS):
        compare_walk(scenario, seed, ORDERS[lot])
    else:
        compare_observed(scenario, seed, script, most_choices=15)


def main() -> None:
    """Look for a difference."""
    # Plain numpy warns where compiled code wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    drawn = (cluster_scenarios(), episode_seeds(), action_scripts(), st.integers(0, len(ORDERS) + 1))
    # What is found need not be made small.
    in_short_runs(compare_random, examples, *drawn, phases=[Phase.generate])


if __name__ == "__main__":
    with_limits(main)
