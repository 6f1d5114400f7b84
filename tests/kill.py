"""Compare a family's kernel with its reference, up to the first difference: run on a mutated copy of the package.

    python tests/kill.py FAMILY EXAMPLES

Exit code 0: no difference was found, the mutant survives. Anything else: it is dead.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.comparison import compare_after_another, compare_observed
from tests.kernels import KernelLane, log_rows, play_reference, smallest_log
from tests.mutation import limit_time, with_limits
from tests.strategies import action_scripts, episode_seeds, in_short_runs
from tests.subjects import Subject, subject_of


def compare_random(subject: Subject, scenario: Any, seed: int, script: int, lot: int) -> None:
    """Assert that nothing tells kernel and reference apart, also in a lane that was used before."""
    limit_time()
    effort, rows = subject.effort, smallest_log(scenario)
    options = {"observe_every": effort.killing_observe_every, "most_choices": effort.killing_choices}
    compare_after_another(subject, scenario, seed, script, 8 * (lot % 2), rows, **options)
    if lot < len(subject.killing_policies):
        policy = subject.killing_policies[lot]
        reference_log = play_reference(subject.reference(scenario, seed), policy)
        assert log_rows(Simulator(scenario, rows).play(policy, seed)) == reference_log
    else:
        compare_observed(subject, scenario, seed, script, effort.killing_observed_choices)


def main(family: str, examples: int) -> None:
    """Look for a difference."""
    # Plain numpy warns where compiled code wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    subject = subject_of(family)
    subject.compare_more()
    for case in subject.cases:
        limit_time()
        subject.check_case(case, lambda scenario: KernelLane(scenario, 7, log_rows=smallest_log(scenario)))
    limit_time()
    compare_observed(subject, load(subject.shown[0]), 5, 1, most_choices=60)
    drawn = (
        subject.scenarios(),
        episode_seeds(),
        action_scripts(),
        st.integers(0, max(3, len(subject.killing_policies))),
    )

    def compare(scenario: Any, seed: int, script: int, lot: int) -> None:
        compare_random(subject, scenario, seed, script, lot)

    # What is found need not be made small.
    in_short_runs(compare, examples, *drawn, phases=[Phase.generate])


if __name__ == "__main__":
    with_limits(lambda: main(sys.argv[1], int(sys.argv[2])))
