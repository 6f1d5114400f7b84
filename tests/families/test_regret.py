"""Regret over any family: what can still come never rises, and what was missed is accounted for."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from slipstream.families.contract import FAMILIES
from slipstream.families.shared.regret import Rollouts, ValueBounds, choices_of, hindsight_of, regret_of
from slipstream.policies.base import default_for, find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator


def regret(name, policy, seconds=math.inf):
    scenario = load(name)
    family = FAMILIES[scenario.family]
    simulator = Simulator(scenario, log_rows=0)
    actions = choices_of(simulator, find(policy, family.name), 0, "test")
    return regret_of(simulator, actions, 0, "test", hindsight_of(scenario, 0, "test", seconds))


def test_regret_of_a_short_edge_episode_is_proven_and_adds_up():
    optimum = FAMILIES["edge"].oracle(load("edge/tiny"), 0, "test", 20.0)
    assert optimum.exact
    for policy in ("fifo", "edf", "random"):
        found = regret("edge/tiny", policy)
        assert found.exact
        assert found.best_known == pytest.approx(optimum.best_known)
        assert min(one.regret for one in found.decisions) >= 0.0
        assert sum(one.regret for one in found.decisions) == pytest.approx(found.best_known - found.reached)
        for one in found.worst(100):
            assert one.best != one.chosen
            assert one.what != one.better


def test_what_would_have_been_best_leads_to_the_best():
    scenario = load("edge/tiny")
    simulator = Simulator(scenario, log_rows=0)
    found = regret("edge/tiny", "random")
    actions = choices_of(simulator, find("random", "edge"), 0, "test")
    dearest = found.worst(1)[0]
    better = [*actions[: dearest.number], dearest.best]
    simulator.reset(0, "test")
    earned = 0.0
    for action in better:
        simulator.step(action)
        earned += float(simulator.header["reward"])
    rest = hindsight_of(scenario, 0, "test", math.inf).value_bounds(simulator, earned, ValueBounds(-math.inf, math.inf))
    assert rest.best == pytest.approx(found.values[dearest.number].best)


def test_families_that_solve_nothing_estimate_by_their_heuristics():
    found = regret("dag/tiny", "fifo")
    scenario = load("dag/tiny")
    rewards = []
    for name in ("fifo", "fair", "critical-path"):
        events = Simulator(scenario).play(find(name, "dag"), 0)
        rewards.append(FAMILIES["dag"].metrics(scenario, events)["reward"])
    assert found.reached == pytest.approx(rewards[0])
    assert found.best_known >= max(rewards) - 1e-9
    assert found.bound is None
    assert not found.exact
    assert min(one.regret for one in found.decisions) >= 0.0


def test_rollouts_leave_the_simulator_where_it_is():
    scenario = load("edge/tiny")
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(0, "test")
    before = {name: array.tobytes() for name, array in simulator.arrays.items()}
    found = Rollouts(scenario, "too long").value_bounds(simulator, 0.0, ValueBounds(-math.inf, math.inf))
    assert {name: array.tobytes() for name, array in simulator.arrays.items()} == before
    assert found.bound == math.inf
    assert found.action >= 0


WORDS = {
    "edge/tiny": r"stream \d (waits|runs \S+ as .+)|drop a job of .+",
    "dag/tiny": r"(\d executors? for )?stage \w+ of job \d|end the round",
    "taskgraph/tiny": r"\w+ \d (waits|takes [\w ]+)",
    "serving/tiny": r"host \S+ on a free \w+|free a \w+ of \S+|end the plan",
    "serving/route": r"send to \w+ \d, which hosts \S+|decline the request",
    "llm/tiny": r"engine \d (admits request \d+ of \w+|admits nothing more)",
    "elastic/tiny": r"(run|keep) job \d+ of \w+ on \d+ \w+|begin the round",
    "cluster/tiny": r"(start|reserve for) job \d+ of [\w ]+, \d+ GPUs?|wait",
}


@pytest.mark.parametrize("name", WORDS)
def test_every_legal_row_has_a_name_of_its_own(name):
    scenario = load(name)
    simulator = Simulator(scenario, log_rows=0)
    policy = find(default_for(scenario), scenario.family)
    simulator.reset(0, "test")
    seen = 0
    while simulator.asking and seen < 20:
        observed = simulator.observe()
        legal = np.flatnonzero(observed[2]).tolist()
        names = [simulator.family.row_name(simulator, row) for row in legal]
        assert all(re.fullmatch(WORDS[name], one) for one in names)
        assert len(set(names)) == len(names)
        simulator.step(policy.choose(*observed))
        seen += 1
    assert seen > 0


def test_regret_is_told_in_words_beside_the_indices():
    for name, policy in (("dag/tiny", "fifo"), ("cluster/tiny", "fifo")):
        found = regret(name, policy)
        for one in found.decisions:
            data = one.to_dict()
            assert data["chosen_name"] == one.what
            assert data["best_name"] == one.better
            assert "row" not in one.what
            assert (data["chosen"] == data["best"]) == (one.what == one.better)
