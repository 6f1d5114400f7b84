"""Compare the serving kernel with the reference, up to the first difference: run on a mutated copy of the package.

Exit code 0: no difference was found, the mutant survives. Anything else: it is dead.
"""

from __future__ import annotations

import sys
import warnings

from hypothesis import Phase
from hypothesis import strategies as st

from slipstream.serving.scenario import ServingScenario
from tests.mutation import limit_time, with_limits
from tests.reference.serving_rows import ReferenceServing
from tests.serving.adapter import KernelServing, compare_episode, compare_observed, smallest_log
from tests.serving.cases import CASES
from tests.serving.strategies import serving_scenarios
from tests.serving.test_cases import test_case
from tests.strategies import action_scripts, episode_seeds, in_short_runs, scripted_action


def compare_random(scenario: ServingScenario, seed: int, script: int, lot: int) -> None:
    """Assert that nothing tells kernel and reference apart, also in a lane that was used before."""
    limit_time()
    kernel = KernelServing(scenario, seed ^ 1, log_rows=smallest_log(scenario))
    while not kernel.over and kernel.choices <= 8 * (lot % 2):
        kernel.step(scripted_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceServing(scenario, seed), script, observe_every=4, most_choices=60)
    if lot == 0:
        compare_observed(scenario, seed, script, most_choices=15)


def main() -> None:
    """Look for a difference."""
    # Plain numpy warns where compiled code wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    for case in CASES:
        limit_time()
        test_case(case, KernelServing)
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    drawn = (serving_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 7))
    # What is found need not be made small.
    in_short_runs(compare_random, examples, *drawn, phases=[Phase.generate])


if __name__ == "__main__":
    with_limits(main)
