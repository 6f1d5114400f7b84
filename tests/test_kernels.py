"""Every compiled kernel does exactly what its reference does, event by event and number by number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.errors import InputError
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator
from tests.comparison import compare_after_another, compare_episode, compare_observed
from tests.kernels import KernelLane, log_rows, play_reference, smallest_log
from tests.strategies import action_scripts, episode_seeds, in_short_runs
from tests.subjects import SUBJECTS, Subject, subject_of

# The same examples on every run: a difference found once is found again. Drawing a scenario takes a few milliseconds,
# which is no mistake of ours.
REPEATED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def each_case() -> list[Any]:
    return [
        pytest.param(family, case, id=f"{family}: {case.name}")
        for family in SUBJECTS
        for case in subject_of(family).cases
    ]


def each_policy() -> list[Any]:
    return [
        pytest.param(family, policy, id=f"{family}: {policy.name}")
        for family in SUBJECTS
        for policy in subject_of(family).policies
    ]


@pytest.mark.parametrize(("family", "case"), each_case())
def test_the_reference_plays_a_case_as_worked_out_by_hand(family: str, case: Any) -> None:
    subject = subject_of(family)
    subject.check_case(case, lambda scenario: subject.reference(scenario, 7))


@pytest.mark.parametrize(("family", "case"), each_case())
def test_the_kernel_plays_a_case_as_worked_out_by_hand(family: str, case: Any) -> None:
    subject_of(family).check_case(case, lambda scenario: KernelLane(scenario, 7))


def test_kernel_equals_reference(subject: Subject) -> None:
    @settings(REPEATED, max_examples=subject.effort.thorough)
    @given(subject.scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
    def check(scenario: Any, seed: int, script: int, split: int) -> None:
        kernel, reference = KernelLane(scenario, seed, split), subject.reference(scenario, seed, split)
        compare_episode(subject, kernel, reference, script, subject.effort.observe_every)

    check()


@pytest.mark.slow
def test_kernel_equals_reference_on_many_more_scenarios(subject: Subject) -> None:
    def check(scenario: Any, seed: int, script: int) -> None:
        compare_episode(subject, KernelLane(scenario, seed), subject.reference(scenario, seed), script)

    in_short_runs(check, subject.effort.many, subject.scenarios(), episode_seeds(), action_scripts())


def test_an_episode_does_not_depend_on_the_one_before(subject: Subject) -> None:
    @settings(REPEATED, max_examples=subject.effort.brief)
    @given(subject.scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
    def check(scenario: Any, seed: int, script: int, steps: int) -> None:
        compare_after_another(subject, scenario, seed, script, steps)

    check()


def test_flushing_the_log_changes_no_step(subject: Subject) -> None:
    @settings(REPEATED, max_examples=subject.effort.brief)
    @given(subject.scenarios(), episode_seeds(), action_scripts(), st.integers(0, 31))
    def check(scenario: Any, seed: int, script: int, more_rows: int) -> None:
        kernel = KernelLane(scenario, seed, log_rows=smallest_log(scenario) + more_rows)
        compare_episode(subject, kernel, subject.reference(scenario, seed), script, observe_every=5)

    check()


@pytest.mark.thorough
def test_a_log_flushed_in_pieces_is_the_whole_log(subject: Subject) -> None:
    @settings(REPEATED, max_examples=subject.effort.brief)
    @given(subject.scenarios(), episode_seeds(), st.integers(0, 31), st.sampled_from(subject.policies))
    def check(scenario: Any, seed: int, more_rows: int, policy: Heuristic) -> None:
        rows = smallest_log(scenario) + more_rows
        whole = Simulator(scenario).play(policy, seed)
        pieces: list[np.ndarray] = []
        returned = Simulator(scenario, log_rows=rows).play(policy, seed, sink=pieces.append)
        assert len(returned) == 0
        assert all(len(piece) <= rows for piece in pieces)
        assert log_rows(np.concatenate(pieces)) == log_rows(whole)

    check()


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "policy"), each_policy())
def test_compiled_play_equals_the_reference_under_the_plain_rule(family: str, policy: Heuristic) -> None:
    subject = subject_of(family)

    @settings(REPEATED, max_examples=subject.effort.per_policy)
    @given(subject.scenarios(), episode_seeds())
    def check(scenario: Any, seed: int) -> None:
        played = Simulator(scenario).play(policy, seed)
        assert log_rows(played) == play_reference(subject.reference(scenario, seed), policy)

    check()


@pytest.mark.thorough
def test_an_agent_sees_the_clipped_image_of_what_there_is(subject: Subject) -> None:
    @settings(REPEATED, max_examples=subject.effort.observed)
    @given(subject.scenarios(), episode_seeds(), action_scripts())
    def check(scenario: Any, seed: int, script: int) -> None:
        compare_observed(subject, scenario, seed, script, subject.effort.observed_choices)

    check()


@pytest.mark.parametrize("name", [name for family in SUBJECTS for name in subject_of(family).shown])
def test_an_agent_sees_the_clipped_image_in_the_built_ins(name: str) -> None:
    subject = subject_of(name.partition("/")[0])
    compare_observed(subject, load(name), 5, 1, subject.effort.built_in_choices)


def test_illegal_actions_of_any_size_are_flagged_and_go_on(subject: Subject) -> None:
    scenario = load(subject.small)
    for action in (-(2**63), -1, 10**6, 2**63 - 1):
        kernel, reference = KernelLane(scenario, 0), subject.reference(scenario, 0)
        while not kernel.over:
            kernel.step(action)
            reference.step(action)
            assert kernel.illegal
            assert reference.illegal
        assert kernel.log == reference.log


def test_the_reward_of_the_steps_is_that_of_the_log(subject: Subject) -> None:
    scenario = load(subject.small)
    simulator, policy, total = Simulator(scenario), find(subject.played[0], subject.name), 0.0
    simulator.reset(3)
    while simulator.asking:
        simulator.step(policy.choose(*simulator.observe()))
        total += float(simulator.header["reward"])
    assert total == pytest.approx(subject.family.metrics(scenario, simulator.log())["reward"])


@pytest.mark.parametrize("seed", [-1, 2**62])
def test_seeds_outside_the_key_space_are_refused(subject: Subject, seed: int) -> None:
    with pytest.raises(InputError, match="2\\*\\*62"):
        Simulator(load(subject.small)).reset(seed)


PLAIN = """
import json, sys, warnings

# Compiled code wraps around silently; plain numpy warns about it.
warnings.filterwarnings("ignore", category=RuntimeWarning)
import slipstream
from slipstream.sim.eventlog import digest
from slipstream.jit.decorators import COMPILED
from slipstream.sim.simulator import Simulator
from slipstream.policies.base import find

assert not COMPILED
scenario = slipstream.load(json.loads(sys.stdin.read()))
print(json.dumps({name: digest(Simulator(scenario).play(find(name, scenario.family), 5)) for name in sys.argv[1:]}))
"""


def test_plain_python_mode_gives_the_same_log(subject: Subject) -> None:
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN, *subject.played],
        input=json.dumps(subject.everything),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert plain.returncode == 0, plain.stderr
    scenario = load(subject.everything)
    compiled = {name: digest(Simulator(scenario).play(find(name, subject.name), 5)) for name in subject.played}
    assert json.loads(plain.stdout) == compiled


def test_the_drawn_scenarios_use_the_whole_machine(subject: Subject) -> None:
    seen_in: Counter[str] = Counter()
    played = 0

    def play(scenario: Any, seed: int, script: int) -> None:
        nonlocal played
        played += 1
        reference = subject.watched(scenario, seed)
        while not reference.over:
            reference.step(subject.act(script, reference.choices - 1, reference.mask()))
        seen_in.update({name for name, count in reference.seen.items() if count})

    in_short_runs(play, subject.effort.watched, subject.scenarios(), episode_seeds(), action_scripts())
    too_rare = {name: seen_in[name] for name, share in subject.least_shares.items() if seen_in[name] < share * played}
    assert too_rare == {}, f"of {played} scenarios: {seen_in}"
