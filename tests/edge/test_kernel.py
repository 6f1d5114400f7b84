"""The compiled kernel does exactly what the reference does, event by event and number by number."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slipstream.core.eventlog import digest
from slipstream.core.simulator import Simulator
from slipstream.edge import features
from slipstream.edge.scenario import EdgeScenario
from slipstream.errors import InputError
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import load
from tests.edge.adapter import KernelEdge, compare_episode, compare_observed, log_rows, smallest_log
from tests.edge.cases import CASES, Case, check, scenario, share, task, trace
from tests.reference.edge import ReferenceEdge
from tests.strategies import action_scripts, edge_scenarios, episode_seeds, scripted_action

# The same examples on every run: a difference found once is found again. Drawing a scenario takes a few milliseconds,
# which is no mistake of ours.
THOROUGH = settings(
    max_examples=2000, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BRIEF = settings(THOROUGH, max_examples=100)


def by_urge(row: np.ndarray) -> float:
    """Score drop and wait rows too: drop what is about to be late, and wait where something comes soon."""
    return (
        row[features.DISPATCH] * (row[features.SLACK] - row[features.CORUN_LATENCY])
        + row[features.DROP] * (row[features.FASTEST_LATENCY] - row[features.SLACK])
        + row[features.WAIT] * (2e6 - row[features.NEXT_ARRIVAL])
    )


def never_moved(row: np.ndarray) -> float:
    """Score all rows alike: the tie goes to the lowest legal row."""
    return 1.0 + 0.0 * row[features.WAIT]


POLICIES = [
    *(find(name, "edge") for name in names("edge")),
    Heuristic("by-urge", "edge", by_urge, is_rule=True, scores_all_rows=True),
    Heuristic("never-moved", "edge", never_moved, is_rule=True, scores_all_rows=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    check(case, lambda scenario: KernelEdge(scenario, seed=7))


@THOROUGH
@given(edge_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
def test_kernel_equals_reference(device: EdgeScenario, seed: int, script: int, namespace: int) -> None:
    compare_episode(KernelEdge(device, seed, namespace), ReferenceEdge(device, seed, namespace), script)


@BRIEF
@given(edge_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
def test_an_episode_does_not_depend_on_the_one_before(device: EdgeScenario, seed: int, script: int, steps: int) -> None:
    kernel = KernelEdge(device, seed ^ 1)
    while not kernel.over and kernel.choices <= steps:
        kernel.step(scripted_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceEdge(device, seed), script)


def reference_events(device: EdgeScenario, seed: int, policy: Heuristic) -> list[tuple[int, ...]]:
    """Return the log of the reference under the policy's plain-Python form."""
    reference = ReferenceEdge(device, seed)
    while not reference.over:
        whole = reference.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in reference.rows()])
        reference.step(policy.choose(global_row, rows, np.array(reference.mask(), np.int8)))
    return list(reference.log)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_compiled_play_equals_the_reference_under_the_plain_rule(policy: Heuristic) -> None:
    @BRIEF
    @given(edge_scenarios(), episode_seeds())
    def check_one(device: EdgeScenario, seed: int) -> None:
        assert log_rows(Simulator(device).play(policy, seed)) == reference_events(device, seed, policy)

    check_one()


@BRIEF
@given(edge_scenarios(), episode_seeds(), st.integers(0, 31), st.sampled_from(POLICIES))
def test_a_log_flushed_in_pieces_is_the_whole_log(
    device: EdgeScenario, seed: int, more_rows: int, policy: Heuristic
) -> None:
    rows = smallest_log(device) + more_rows
    whole = Simulator(device).play(policy, seed)
    pieces: list[np.ndarray] = []
    returned = Simulator(device, log_rows=rows).play(policy, seed, sink=pieces.append)
    assert len(returned) == 0
    assert all(len(piece) <= rows for piece in pieces)
    assert log_rows(np.concatenate(pieces)) == log_rows(whole)


@BRIEF
@given(edge_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 31))
def test_flushing_the_log_changes_no_step(device: EdgeScenario, seed: int, script: int, more_rows: int) -> None:
    kernel = KernelEdge(device, seed, log_rows=smallest_log(device) + more_rows)
    compare_episode(kernel, ReferenceEdge(device, seed), script)


def test_the_end_is_recorded_once_wherever_it_falls_in_a_full_log() -> None:
    device = EdgeScenario.model_validate(scenario(30, [task({"kind": "periodic", "period_ms": 2}, [1])]))
    for rows in range(smallest_log(device), 60):
        kernel = KernelEdge(device, seed=0, log_rows=rows)
        compare_episode(kernel, ReferenceEdge(device, seed=0), script=0)


def test_a_full_log_without_a_sink_is_an_error() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task({"kind": "periodic", "period_ms": 2}, [1])]))
    simulator = Simulator(device, log_rows=16)
    simulator.reset(0)

    def play_on() -> None:
        while simulator.asking:
            simulator.step(0)

    with pytest.raises(InputError, match="log is full"):
        play_on()


@pytest.mark.filterwarnings("ignore:policy 'scripted' made")
@BRIEF
@given(edge_scenarios(), episode_seeds(), action_scripts())
def test_a_policy_that_is_no_heuristic_is_asked_with_the_same_rows(
    device: EdgeScenario, seed: int, script: int
) -> None:
    class Scripted:
        name = "scripted"
        asked = 0

        def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
            self.asked += 1
            return scripted_action(script, self.asked - 1, mask.tolist())

    played = Simulator(device).play(Scripted(), seed)
    reference = ReferenceEdge(device, seed)
    while not reference.over:
        reference.step(scripted_action(script, reference.choices - 1, reference.mask()))
    assert log_rows(played) == reference.log


def test_illegal_actions_of_any_size_count_as_wait() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task(trace(0, 5), [4])]))
    for action in (-(2**63), -1, 3, 10**6, 2**63 - 1):
        kernel = KernelEdge(device, seed=0)
        kernel.step(action)
        assert (kernel.illegal, kernel.now, kernel.asked) == (True, 5_000_000, 0)


@pytest.mark.parametrize("seed", [-1, 2**62])
def test_seeds_outside_the_key_space_are_refused(seed: int) -> None:
    device = EdgeScenario.model_validate(scenario(100, [task(trace(0), [4])]))
    with pytest.raises(InputError, match="2\\*\\*62"):
        Simulator(device).reset(seed)


MIXED = scenario(
    200,
    [
        task({"kind": "periodic", "period_ms": 9, "phase_ms": 1, "jitter_ms": 3}, [2, 5], 12, demand=0.7),
        task({"kind": "poisson", "mean_gap_ms": 11}, [3, 4], 20),
        task(
            {"kind": "bursty", "calm_gap_ms": 15, "burst_gap_ms": 3, "calm_ms": 30, "burst_ms": 10}, [2], 9, demand=2.0
        ),
        task({"kind": "closed", "think_ms": 4}, [1, 6], 30),
        task(trace(3, 3, 50), [4], 25),
    ],
    streams=2,
    interference=share(1.25),
    latency={"kind": "lognormal", "cv": 0.3},
    decision_time_ms=0.05,
)
"""Something of everything."""

PLAIN = """
import json, sys, warnings

import numpy as np

# Compiled code wraps around silently; plain numpy warns about it.
warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
import slipstream
from slipstream.core.eventlog import digest
from slipstream.core.jit import COMPILED
from slipstream.core.simulator import Simulator
from slipstream.edge.scenario import EdgeScenario
from slipstream.policies.base import find

assert not COMPILED
device = EdgeScenario.model_validate(json.loads(sys.stdin.read()))
print(json.dumps({name: digest(Simulator(device).play(find(name, "edge"), 5)) for name in sys.argv[1:]}))
"""


def test_plain_python_mode_gives_the_same_log() -> None:
    played = ["edf-fit", "random", "fifo"]
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN, *played],
        input=json.dumps(MIXED),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert plain.returncode == 0, plain.stderr
    device = EdgeScenario.model_validate(MIXED)
    compiled = {name: digest(Simulator(device).play(find(name, "edge"), 5)) for name in played}
    assert json.loads(plain.stdout) == compiled


@BRIEF
@given(edge_scenarios(), episode_seeds(), action_scripts(), st.data())
def test_arrivals_do_not_depend_on_the_policy(
    device: EdgeScenario, seed: int, script: int, data: st.DataObject
) -> None:
    # A closed loop reacts to the policy by design.
    assume(all(task.arrival.kind != "closed" for task in device.tasks))

    def releases(policy: Heuristic) -> list[tuple[int, int, int]]:
        log = log_rows(Simulator(device).play(policy, seed))
        return [(time, task, job) for time, kind, task, job, _, _ in log if kind == 0]

    one, other = data.draw(st.sampled_from(POLICIES)), data.draw(st.sampled_from(POLICIES))
    assert releases(one) == releases(other)


def test_column_constants_agree_with_the_feature_tables() -> None:
    for table in (features.CANDIDATE, features.GLOBAL):
        assert [getattr(features, name.upper()) for name in table.names] == list(range(len(table)))


@settings(THOROUGH, max_examples=200)
@given(edge_scenarios(), episode_seeds(), action_scripts())
def test_an_agent_sees_the_clipped_image_of_the_raw_rows(device: EdgeScenario, seed: int, script: int) -> None:
    compare_observed(device, seed, script, most_choices=200)


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/drone"])
def test_an_agent_sees_the_clipped_image_in_the_built_ins(name: str) -> None:
    compare_observed(load(name), 5, 1, most_choices=500)
