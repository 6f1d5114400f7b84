"""The compiled serving kernel does exactly what the reference does, event by event and number by number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.core.eventlog import ARRIVAL, digest
from slipstream.core.simulator import Simulator
from slipstream.errors import InputError
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.serving import features
from slipstream.serving.scenario import ServingScenario
from tests.kernels import log_rows
from tests.reference.serving_rows import ReferenceServing
from tests.serving.adapter import KernelServing, compare_episode, compare_observed, smallest_log
from tests.serving.strategies import serving_scenarios
from tests.strategies import action_scripts, episode_seeds, in_short_runs, scripted_action

# The same examples on every run: a difference found once is found again.
THOROUGH = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BRIEF = settings(THOROUGH, max_examples=25)
SOONEST = Heuristic("soonest", "serving", lambda row: row[features.PEAK] - 3e8 * row[features.WAIT], True, True)
POLICIES = [find("eft", "serving"), find("most-accurate", "serving"), SOONEST]


@THOROUGH
@given(serving_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
def test_kernel_equals_reference(scenario: ServingScenario, seed: int, script: int, namespace: int) -> None:
    kernel = KernelServing(scenario, seed, namespace, smallest_log(scenario) + 200)
    reference = ReferenceServing(scenario, seed, namespace)
    compare_episode(kernel, reference, script, observe_every=3, most_choices=200)


@pytest.mark.slow
def test_kernel_equals_reference_on_thousands_of_scenarios() -> None:
    def compare(scenario: ServingScenario, seed: int, script: int) -> None:
        kernel = KernelServing(scenario, seed, log_rows=smallest_log(scenario))
        compare_episode(kernel, ReferenceServing(scenario, seed), script, observe_every=3, most_choices=300)

    in_short_runs(compare, 5_000, serving_scenarios(), episode_seeds(), action_scripts())


@BRIEF
@given(serving_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
def test_an_episode_does_not_depend_on_the_one_before(
    scenario: ServingScenario, seed: int, script: int, steps: int
) -> None:
    kernel = KernelServing(scenario, seed ^ 1, log_rows=smallest_log(scenario))
    while not kernel.over and kernel.choices <= steps:
        kernel.step(scripted_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceServing(scenario, seed), script, observe_every=5, most_choices=100)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_compiled_play_equals_the_reference_under_the_plain_rule(policy: Heuristic) -> None:
    @settings(BRIEF, max_examples=15)
    @given(serving_scenarios(), episode_seeds())
    def check_one(scenario: ServingScenario, seed: int) -> None:
        assert log_rows(Simulator(scenario).play(policy, seed)) == reference_events(scenario, seed, policy)

    check_one()


def reference_events(scenario: ServingScenario, seed: int, policy: Heuristic) -> list[tuple[int, ...]]:
    """Return the log of the reference under the policy's plain-Python form."""
    reference = ReferenceServing(scenario, seed)
    while not reference.over:
        whole = reference.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in reference.rows()])
        reference.step(policy.choose(global_row, rows, np.array(reference.mask(), np.int8)))
        assert not reference.illegal
    return list(reference.log)


@BRIEF
@given(serving_scenarios(), episode_seeds(), action_scripts())
def test_an_agent_sees_the_image_of_the_rows(scenario: ServingScenario, seed: int, script: int) -> None:
    compare_observed(scenario, seed, script, most_choices=40)


@BRIEF
@given(serving_scenarios(), episode_seeds(), action_scripts())
def test_arrivals_do_not_depend_on_the_policy(scenario: ServingScenario, seed: int, script: int) -> None:
    def arrivals(numbers: int) -> list[tuple[int, ...]]:
        kernel = KernelServing(scenario, seed, log_rows=smallest_log(scenario))
        while not kernel.over:
            kernel.step(scripted_action(numbers, kernel.choices, kernel.mask()))
        return [row for row in kernel.log if row[1] == ARRIVAL]

    assert arrivals(script) == arrivals(script + 1)


def test_illegal_actions_of_any_size_are_flagged_and_go_on() -> None:
    scenario = load("serving/tiny")
    for action in (-(2**63), -1, 10**6, 2**63 - 1):
        kernel, reference = KernelServing(scenario, 0), ReferenceServing(scenario, 0)
        while not kernel.over:
            kernel.step(action)
            reference.step(action)
            assert kernel.illegal
            assert reference.illegal
        assert kernel.log == reference.log


@pytest.mark.parametrize("seed", [-1, 2**62])
def test_seeds_outside_the_key_space_are_refused(seed: int) -> None:
    with pytest.raises(InputError, match="2\\*\\*62"):
        Simulator(load("serving/tiny")).reset(seed)


PLAIN = """
import json, sys, warnings

# Compiled code wraps around silently; plain numpy warns about it.
warnings.filterwarnings("ignore", category=RuntimeWarning)
import slipstream
from slipstream.core.eventlog import digest
from slipstream.core.jit import COMPILED
from slipstream.core.simulator import Simulator
from slipstream.policies.base import find

assert not COMPILED
scenario = slipstream.load("serving/tiny")
print(json.dumps({name: digest(Simulator(scenario).play(find(name, "serving"), 5)) for name in sys.argv[1:]}))
"""


def test_plain_python_mode_gives_the_same_log() -> None:
    played = ["milp", "random", "infaas"]
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN, *played],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert plain.returncode == 0, plain.stderr
    scenario = load("serving/tiny")
    compiled = {name: digest(Simulator(scenario).play(find(name, "serving"), 5)) for name in played}
    assert json.loads(plain.stdout) == compiled


class Watched(ReferenceServing):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: ServingScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def write(self, kind, task, job, variant, resource):  # type: ignore[no-untyped-def]
        self.seen[f"log {kind}"] += 1
        super().write(kind, task, job, variant, resource)

    def free(self, column):  # type: ignore[no-untyped-def]
        hosting = [a for a in self.accelerators if a.column is column]
        self.seen["requests move"] += bool(min(len(a.queue) for a in hosting))
        self.seen["a load is given up"] += any(a.must_load for a in hosting)
        super().free(column)

    def ring(self, a):  # type: ignore[no-untyped-def]
        self.seen["an alarm while busy" if not a.can_start else "an alarm"] += 1
        super().ring(a)

    def start(self, a, requests, size):  # type: ignore[no-untyped-def]
        self.seen["a batch"] += requests > 1
        self.seen["a batch that is not full"] += requests < size
        super().start(a, requests, size)


LEAST_SHARES = {
    "log 4": 0.4,
    "log 5": 0.2,
    "log 8": 0.9,
    "log 9": 0.5,
    "requests move": 0.05,
    "a load is given up": 0.05,
    "an alarm": 0.05,
    "an alarm while busy": 0.03,
    "a batch": 0.3,
    "a batch that is not full": 0.01,
}
"""In what share of the scenarios each rule comes into play at the least."""


def test_the_drawn_scenarios_use_the_whole_machine() -> None:
    seen_in: Counter[str] = Counter()
    played = 0

    def play(scenario: ServingScenario, seed: int, script: int) -> None:
        nonlocal played
        played += 1
        reference = Watched(scenario, seed)
        while not reference.over and reference.choices < 300:
            reference.step(scripted_action(script, reference.choices - 1, reference.mask()))
        seen_in.update({name for name, count in reference.seen.items() if count})

    in_short_runs(play, 200, serving_scenarios(), episode_seeds(), action_scripts())
    too_rare = {name: seen_in[name] for name, share in LEAST_SHARES.items() if seen_in[name] < share * played}
    assert too_rare == {}, f"of {played} scenarios: {seen_in}"
