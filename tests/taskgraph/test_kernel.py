"""The compiled taskgraph kernel does exactly what the reference does, event by event and number by number."""

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

from slipstream.core.eventlog import ARRIVAL, FINISH, START, digest
from slipstream.core.simulator import Simulator
from slipstream.errors import InputError
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import load
from slipstream.taskgraph import features
from slipstream.taskgraph.scenario import TaskgraphScenario
from tests.kernels import log_rows
from tests.reference.taskgraph_rows import ReferenceTaskgraph
from tests.strategies import action_scripts, episode_seeds, in_short_runs, scripted_action
from tests.taskgraph.adapter import KernelTaskgraph, compare_episode, compare_observed, smallest_log
from tests.taskgraph.strategies import taskgraph_scenarios

# The same examples on every run: a difference found once is found again.
THOROUGH = settings(
    max_examples=1000, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BRIEF = settings(THOROUGH, max_examples=40)
PLANNERS = ("heft", "peft", "cpop")


def longest_first(row: np.ndarray) -> float:
    """Score tasks by their rank, and waiting in between."""
    return row[features.RANK] * (1.0 - row[features.WAIT]) + 4e6 * row[features.WAIT]


POLICIES = [
    *(find(name, "taskgraph") for name in names("taskgraph")),
    Heuristic("longest-first", "taskgraph", longest_first, is_rule=True, scores_all_rows=True),
    Heuristic("first", "taskgraph", lambda row: row[features.DISPATCH], is_rule=True),
]


@THOROUGH
@given(taskgraph_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
def test_kernel_equals_reference(scenario: TaskgraphScenario, seed: int, script: int, namespace: int) -> None:
    kernel = KernelTaskgraph(scenario, seed, namespace)
    compare_episode(kernel, ReferenceTaskgraph(scenario, seed, namespace), script, observe_every=2)


@pytest.mark.slow
def test_kernel_equals_reference_on_many_more_workloads() -> None:
    def compare(scenario: TaskgraphScenario, seed: int, script: int) -> None:
        compare_episode(KernelTaskgraph(scenario, seed), ReferenceTaskgraph(scenario, seed), script)

    in_short_runs(compare, 5_000, taskgraph_scenarios(), episode_seeds(), action_scripts())


@BRIEF
@given(taskgraph_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
def test_an_episode_does_not_depend_on_the_one_before(
    scenario: TaskgraphScenario, seed: int, script: int, steps: int
) -> None:
    kernel = KernelTaskgraph(scenario, seed ^ 1)
    while not kernel.over and kernel.choices <= steps:
        kernel.step(scripted_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceTaskgraph(scenario, seed), script)


def reference_events(scenario: TaskgraphScenario, seed: int, policy: Heuristic) -> list[tuple[int, ...]]:
    """Return the log of the reference under the policy's plain-Python form."""
    reference = ReferenceTaskgraph(scenario, seed)
    reference.planned = (policy.name,) if policy.name in PLANNERS else ()
    while not reference.over:
        whole = reference.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in reference.rows()])
        reference.step(policy.choose(global_row, rows, np.array(reference.mask(), np.int8)))
        assert not reference.illegal
    return list(reference.log)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_compiled_play_equals_the_reference_under_the_plain_rule(policy: Heuristic) -> None:
    @settings(BRIEF, max_examples=20)
    @given(taskgraph_scenarios(), episode_seeds())
    def check_one(scenario: TaskgraphScenario, seed: int) -> None:
        assert log_rows(Simulator(scenario).play(policy, seed)) == reference_events(scenario, seed, policy)

    check_one()


@BRIEF
@given(taskgraph_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 31))
def test_flushing_the_log_changes_no_step(scenario: TaskgraphScenario, seed: int, script: int, more_rows: int) -> None:
    kernel = KernelTaskgraph(scenario, seed, log_rows=smallest_log(scenario) + more_rows)
    compare_episode(kernel, ReferenceTaskgraph(scenario, seed), script, observe_every=5)


@settings(THOROUGH, max_examples=150)
@given(taskgraph_scenarios(), episode_seeds(), action_scripts())
def test_an_agent_sees_the_image_of_rows_and_graph(scenario: TaskgraphScenario, seed: int, script: int) -> None:
    compare_observed(scenario, seed, script, most_choices=100)


@pytest.mark.parametrize("name", ["taskgraph/cholesky-4-2g2c", "taskgraph/tight-memory", "taskgraph/unrolled"])
def test_an_agent_sees_the_image_in_the_built_ins(name: str) -> None:
    compare_observed(load(name), 5, 1, most_choices=60)


@BRIEF
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


def test_illegal_actions_of_any_size_are_flagged_and_go_on() -> None:
    scenario = load("taskgraph/cholesky-4-2g2c")
    for action in (-(2**63), -1, 10**6, 2**63 - 1):
        kernel, reference = KernelTaskgraph(scenario, 0), ReferenceTaskgraph(scenario, 0)
        while not kernel.over:
            kernel.step(action)
            reference.step(action)
            assert kernel.illegal
            assert reference.illegal
        assert kernel.log == reference.log


@pytest.mark.parametrize("seed", [-1, 2**62])
def test_seeds_outside_the_key_space_are_refused(seed: int) -> None:
    with pytest.raises(InputError, match="2\\*\\*62"):
        Simulator(load("taskgraph/cholesky-4-2g2c")).reset(seed)


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
print(json.dumps({name: digest(Simulator(scenario).play(find(name, "taskgraph"), 5)) for name in sys.argv[1:]}))
"""
EVERYTHING = {
    "family": "taskgraph",
    "processors": [{"name": "gpu", "count": 2, "device": True, "memory_mb": 20.0}, {"name": "cpu", "count": 1}],
    "links": {"to_device": {"bandwidth_mb_s": 2000.0}, "to_host": {"bandwidth_mb_s": 2000.0, "latency_us": 9.0}},
    "noise": {"kind": "lognormal", "cv": 0.3},
    "graphs": [{"kind": "cholesky", "n": 4}, {"kind": "qr", "n": 3}],
    "arrivals": {"kind": "poisson", "jobs": 4, "mean_gap_ms": 30.0},
    "visibility": {"kind": "window", "tasks": 12},
    "mode": "push",
    "pipeline": 2,
    "prefetch": 2,
    "eviction": "luf",
}


def test_plain_python_mode_gives_the_same_log() -> None:
    played = ["dmda", "random", "heft"]
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
    compiled = {name: digest(Simulator(scenario).play(find(name, "taskgraph"), 5)) for name in played}
    assert json.loads(plain.stdout) == compiled


class Watched(ReferenceTaskgraph):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: TaskgraphScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def _make_room(self, device, tile, k):  # type: ignore[no-untyped-def]
        fits = super()._make_room(device, tile, k)
        self.seen["a write-back is needed"] += device.write_back is not None
        self.seen["no room for now"] += not fits
        return fits

    def _forget(self, tile, node):  # type: ignore[no-untyped-def]
        self.seen["a copy is lost"] += 1
        super()._forget(tile, node)

    def _carry(self, device, which, tile):  # type: ignore[no-untyped-def]
        self.seen[("load", "send", "peer")[which]] += 1
        super()._carry(device, which, tile)

    def rows_of_choice(self):  # type: ignore[no-untyped-def]
        shown, behind = super().rows_of_choice()
        self.seen[f"phase {self.phase}"] += 1
        self.seen["a window"] += bool(behind)
        return shown, behind


LEAST_SHARES = {
    "a write-back is needed": 0.05,
    "no room for now": 0.1,
    "a copy is lost": 0.3,
    "load": 0.3,
    "send": 0.1,
    "peer": 0.05,
    "phase 0": 0.5,
    "phase 1": 0.2,
    "phase 2": 0.05,
    "a window": 0.15,
}
"""In what share of the scenarios each rule comes into play at the least."""


def test_the_drawn_scenarios_use_the_whole_machine() -> None:
    seen_in: Counter[str] = Counter()
    played = 0

    def play(scenario: TaskgraphScenario, seed: int, script: int) -> None:
        nonlocal played
        played += 1
        reference = Watched(scenario, seed)
        while not reference.over:
            reference.step(scripted_action(script, reference.choices - 1, reference.mask()))
        seen_in.update({name for name, count in reference.seen.items() if count})

    in_short_runs(play, 300, taskgraph_scenarios(), episode_seeds(), action_scripts())
    too_rare = {name: seen_in[name] for name, share in LEAST_SHARES.items() if seen_in[name] < share * played}
    assert too_rare == {}, f"of {played} scenarios: {seen_in}"
