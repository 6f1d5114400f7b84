"""The compiled dag kernel does exactly what the reference does, event by event and number by number."""

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
from slipstream.dag import features
from slipstream.dag.scenario import DagScenario
from slipstream.errors import InputError
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import load
from tests.dag.adapter import KernelDag, compare_episode, compare_observed, smallest_log
from tests.dag.strategies import dag_scenarios
from tests.kernels import log_rows
from tests.reference.dag_rows import ReferenceDag
from tests.strategies import action_scripts, episode_seeds, in_short_runs, often_eager_action

# The same examples on every run: a difference found once is found again.
THOROUGH = settings(
    max_examples=1000, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BRIEF = settings(THOROUGH, max_examples=60)


def longest_first(row: np.ndarray) -> float:
    """Score stages by their path, numbers of executors by being small, and stopping in between."""
    return row[features.PATH] * (1.0 - row[features.WAIT]) - row[features.COUNT] + 3e9 * row[features.WAIT]


POLICIES = [
    *(find(name, "dag") for name in names("dag")),
    find("srpt(2)", "dag"),
    Heuristic("longest-first", "dag", longest_first, is_rule=True, scores_all_rows=True),
    Heuristic("first", "dag", lambda row: row[features.DISPATCH], is_rule=True),
]


@THOROUGH
@given(dag_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
def test_kernel_equals_reference(scenario: DagScenario, seed: int, script: int, namespace: int) -> None:
    compare_episode(KernelDag(scenario, seed, namespace), ReferenceDag(scenario, seed, namespace), script)


@pytest.mark.slow
def test_kernel_equals_reference_on_many_more_workloads() -> None:
    def compare(scenario: DagScenario, seed: int, script: int) -> None:
        compare_episode(KernelDag(scenario, seed), ReferenceDag(scenario, seed), script)

    in_short_runs(compare, 10_000, dag_scenarios(), episode_seeds(), action_scripts())


@BRIEF
@given(dag_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
def test_an_episode_does_not_depend_on_the_one_before(
    scenario: DagScenario, seed: int, script: int, steps: int
) -> None:
    kernel = KernelDag(scenario, seed ^ 1)
    while not kernel.over and kernel.choices <= steps:
        kernel.step(often_eager_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceDag(scenario, seed), script)


def reference_events(scenario: DagScenario, seed: int, policy: Heuristic) -> list[tuple[int, ...]]:
    """Return the log of the reference under the policy's plain-Python form."""
    reference = ReferenceDag(scenario, seed)
    while not reference.over:
        whole = reference.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in reference.rows()])
        reference.step(policy.choose(global_row, rows, np.array(reference.mask(), np.int8)))
        assert not reference.illegal
    return list(reference.log)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_compiled_play_equals_the_reference_under_the_plain_rule(policy: Heuristic) -> None:
    @BRIEF
    @given(dag_scenarios(), episode_seeds())
    def check_one(scenario: DagScenario, seed: int) -> None:
        assert log_rows(Simulator(scenario).play(policy, seed)) == reference_events(scenario, seed, policy)

    check_one()


@BRIEF
@given(dag_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 31))
def test_flushing_the_log_changes_no_step(scenario: DagScenario, seed: int, script: int, more_rows: int) -> None:
    kernel = KernelDag(scenario, seed, log_rows=smallest_log(scenario) + more_rows)
    compare_episode(kernel, ReferenceDag(scenario, seed), script)


@settings(THOROUGH, max_examples=200)
@given(dag_scenarios(), episode_seeds(), action_scripts())
def test_an_agent_sees_the_image_of_rows_and_graph(scenario: DagScenario, seed: int, script: int) -> None:
    compare_observed(scenario, seed, script, most_choices=200)


@pytest.mark.parametrize("name", ["dag/tiny", "dag/ml-workflow"])
def test_an_agent_sees_the_image_in_the_built_ins(name: str) -> None:
    compare_observed(load(name), 5, 1, most_choices=60)


@BRIEF
@given(dag_scenarios(), episode_seeds(), st.data())
def test_arrivals_do_not_depend_on_the_policy(scenario: DagScenario, seed: int, data: st.DataObject) -> None:
    def arrivals(policy: Heuristic) -> list[tuple[int, ...]]:
        return [row for row in log_rows(Simulator(scenario).play(policy, seed)) if row[1] == ARRIVAL]

    one, other = arrivals(data.draw(st.sampled_from(POLICIES))), arrivals(data.draw(st.sampled_from(POLICIES)))
    # An episode that is cut off may end at different arrivals of the same stream, but for a fixed time it does not.
    shorter = min(len(one), len(other))
    assert one[:shorter] == other[:shorter]
    assert scenario.horizon.kind != "none" or len(one) == len(other)


def test_illegal_actions_of_any_size_are_flagged_and_go_on() -> None:
    scenario = load("dag/tiny")
    for action in (-(2**63), -1, 10**6, 2**63 - 1):
        kernel, reference = KernelDag(scenario, 0), ReferenceDag(scenario, 0)
        while not kernel.over:
            kernel.step(action)
            reference.step(action)
            assert kernel.illegal
            assert reference.illegal
        assert kernel.log == reference.log


@pytest.mark.parametrize("seed", [-1, 2**62])
def test_seeds_outside_the_key_space_are_refused(seed: int) -> None:
    with pytest.raises(InputError, match="2\\*\\*62"):
        Simulator(load("dag/tiny")).reset(seed)


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
scenario = slipstream.load(json.loads(sys.stdin.read()))
print(json.dumps({name: digest(Simulator(scenario).play(find(name, "dag"), 5)) for name in sys.argv[1:]}))
"""
EVERYTHING = {
    "family": "dag",
    "executors": 4,
    "classes": [{"name": "a", "count": 1, "speed": 2.0}, {"name": "b", "count": 3, "speed": 0.7}],
    "arrivals": {"kind": "poisson", "jobs": 6, "mean_gap_s": 20.0, "initial_jobs": 2},
    "jobs": {"kind": "ml-workflow", "templates": 2, "most_trials": 3},
    "stragglers": {"probability": 0.1},
    "failures": {"probability": 0.1},
    "reward": {"discount_per_s": 0.01},
}


def test_plain_python_mode_gives_the_same_log() -> None:
    played = ["fair", "random", "srpt(2)"]
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN, *played],
        input=json.dumps(EVERYTHING),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert plain.returncode == 0, plain.stderr
    scenario = load(EVERYTHING)
    compiled = {name: digest(Simulator(scenario).play(find(name, "dag"), 5)) for name in played}
    assert json.loads(plain.stdout) == compiled


class Watched(ReferenceDag):
    """A reference that notes which of its rules came into play."""

    seen: Counter[str]

    def __init__(self, scenario: DagScenario, seed: int) -> None:
        self.seen = Counter()
        super().__init__(scenario, seed)

    def _another_stage(self, executor):  # type: ignore[no-untyped-def]
        found = super()._another_stage(executor)
        kind = "none" if found is None else "own" if found[0] is executor.job else "other"
        self.seen[f"another stage: {kind}"] += 1
        return found

    def _begin_round(self, source):  # type: ignore[no-untyped-def]
        kind = "common" if source[0] is None else "job" if source[1] is None else "stage"
        forced = not self.something_is_coming()
        begun = super()._begin_round(source)
        self.seen[f"{'' if begun else 'no '}round at {kind}"] += 1
        self.seen["forced round"] += begun and forced
        return begun

    def _keep(self, executor, promise):  # type: ignore[no-untyped-def]
        self.seen["a promise kept later"] += not self.in_round and self.source is None
        self.seen["home"] += promise.job is None
        super()._keep(executor, promise)

    def rows_of_stages(self):  # type: ignore[no-untyped-def]
        self.seen["a window"] += len(self.shown()) < len(self.active)
        return super().rows_of_stages()


LEAST_SHARES = {
    "another stage: none": 0.05,
    "another stage: own": 0.02,
    "another stage: other": 0.02,
    "round at common": 0.5,
    "round at job": 0.2,
    "round at stage": 0.2,
    "no round at stage": 0.2,
    "forced round": 0.05,
    "home": 0.2,
    "a window": 0.05,
}
"""In what share of the scenarios each rule comes into play at the least."""


def test_the_drawn_scenarios_use_the_whole_machine() -> None:
    seen_in: Counter[str] = Counter()
    played = 0

    def play(scenario: DagScenario, seed: int, script: int) -> None:
        nonlocal played
        played += 1
        reference = Watched(scenario, seed)
        while not reference.over:
            reference.step(often_eager_action(script, reference.choices - 1, reference.mask()))
        seen_in.update({name for name, count in reference.seen.items() if count})

    in_short_runs(play, 600, dag_scenarios(), episode_seeds(), action_scripts())
    too_rare = {name: seen_in[name] for name, share in LEAST_SHARES.items() if seen_in[name] < share * played}
    assert too_rare == {}, f"of {played} scenarios: {seen_in}"
