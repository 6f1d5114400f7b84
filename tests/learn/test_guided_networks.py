"""Networks that read what heuristics choose: the columns are those choices, wherever the network plays."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream
from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer, load_weights
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import load_policy, save_policy
from slipstream.policies.operations import Operation
from slipstream.policies.rollout import Rollout
from slipstream.sim.simulator import Simulator
from tests.learn.trainings import SMALL, check_that_it_goes_on
from tests.strategies import edge_scenarios

GUIDED = replace(SMALL, network=NetworkSettings(width=8, heuristics="edf,lookahead"))
OPERATIONS = [
    Operation("linear", "rows", "logits", "score.weight", "score.bias"),
    Operation("linear", "globals", "value", "value.weight", "value.bias"),
]


def follower(family, *heuristics):
    """Return a network that does what the last of `heuristics` does."""
    columns, global_columns = FAMILIES[family].candidate_features.observed, FAMILIES[family].global_features.observed
    weight = np.zeros((1, len(columns) + len(heuristics)), np.float32)
    weight[0, -1] = 1.0
    zero = np.zeros(1, np.float32)
    tensors = {"score.weight": weight, "score.bias": zero, "value.bias": zero}
    tensors["value.weight"] = np.zeros((1, len(global_columns)), np.float32)
    return CompiledPolicy("follower", family, OPERATIONS, tensors, heuristics)


class OneByOne:
    """Policy that chooses from rows what another one does."""

    name = "one by one"

    def __init__(self, policy):
        self.policy = policy

    def choose(self, *seen):
        return self.policy.choose(*seen)


@settings(max_examples=30, deadline=None)
@given(edge_scenarios(), st.integers(0, 5), st.sampled_from([("edf", "lookahead"), ("lookahead", "edf"), ("random",)]))
def test_a_network_that_takes_what_a_heuristic_takes_plays_its_episodes(scenario, seed, heuristics):
    scenario, policy = slipstream.load(scenario), follower("edge", *heuristics)
    expected = Simulator(scenario).play(find(heuristics[-1], "edge"), seed)
    np.testing.assert_array_equal(Simulator(scenario).play(policy, seed), expected)
    np.testing.assert_array_equal(Simulator(scenario).play(OneByOne(policy), seed), expected)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "heuristic"), [("dag/small", "fair"), ("cluster/light", "saf")])
def test_the_same_in_families_with_a_window(name, heuristic):
    scenario, policy = slipstream.load(name), follower(name.partition("/")[0], heuristic)
    expected = Simulator(scenario).play(find(heuristic, scenario.family), 0)
    np.testing.assert_array_equal(Simulator(scenario).play(policy, 0), expected)


def test_a_rollout_over_it_begins_with_its_choice():
    simulator = Simulator(slipstream.load("edge/tiny"))
    simulator.reset(seed=3)
    follows, lookahead = follower("edge", "lookahead"), find("lookahead", "edge")
    while simulator.asking:
        estimates = [Rollout("edge", [base], futures=4).estimate(simulator) for base in (follows, lookahead)]
        np.testing.assert_array_equal(*(estimate.actions[:1] for estimate in estimates))
        np.testing.assert_array_equal(*(estimate.totals for estimate in estimates))
        simulator.step(estimates[0].action)


def test_a_training_records_and_scales_the_choices():
    trainer = Trainer(slipstream.load("edge/tiny"), GUIDED)
    trainer.update()
    columns = len(FAMILIES["edge"].candidate_features.observed)
    rollout = trainer.collect()
    for lane, step in np.argwhere(rollout.made):
        begin, count = rollout.begin[lane, step], rollout.count[lane, step]
        chosen = rollout.rows[begin : begin + count, columns:]
        assert chosen.shape[1] == 2
        np.testing.assert_array_equal(chosen.sum(axis=0), [1.0, 1.0])
        assert chosen[rollout.label[lane, step], 1] == 1.0
    network = trainer.network
    np.testing.assert_array_equal(network.row_scale[columns:] != 0.0, [True, True])


def test_such_a_training_goes_on_from_its_state():
    check_that_it_goes_on("edge/tiny", GUIDED, 4)


def test_a_policy_folder_names_the_heuristics(tmp_path):
    policy = follower("edge", "lookahead")
    save_policy(tmp_path, "edge", policy.operations, policy.tensors, {}, policy.heuristics)
    assert load_policy(tmp_path).heuristics == ("lookahead",)
    scenario = slipstream.load("edge/tiny")
    expected = Simulator(scenario).play(find("lookahead", "edge"), 1)
    np.testing.assert_array_equal(Simulator(scenario).play(find(str(tmp_path), "edge"), 1), expected)


@pytest.mark.parametrize(
    ("heuristics", "message"),
    [
        ("lookahead", "heuristics: expected a list of texts"),
        ([7], "heuristics: expected a list of texts"),
        (["lokahead"], "did you mean 'lookahead'"),
        (["auto"], "'auto': expected heuristics with neither a number nor a plan"),
        ([], "score.weight"),
    ],
)
def test_a_card_with_others_is_refused_in_one_line(tmp_path, heuristics, message):
    policy = follower("edge", "lookahead")
    save_policy(tmp_path, "edge", policy.operations, policy.tensors, {}, policy.heuristics)
    card = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps({**card, "heuristics": heuristics}))
    with pytest.raises(PolicyError, match=message) as raised:
        load_policy(tmp_path)
    assert "\n" not in str(raised.value)


def test_heuristics_that_carry_a_plan_cannot_be_read():
    with pytest.raises(PolicyError, match="'heft': expected heuristics with neither a number nor a plan"):
        follower("taskgraph", "heft")


def test_only_networks_of_rows_read_them():
    with pytest.raises(InputError, match=r"network.heuristics is set: expected network.kind=rows"):
        TrainSettings().with_changes({"network.kind": "decima", "network.heuristics": "fair"})


def test_a_training_does_not_go_on_from_a_network_that_reads_others(tmp_path):
    one = Trainer(slipstream.load("edge/tiny"), replace(GUIDED, network=NetworkSettings(8, heuristics="lookahead")))
    save_policy(tmp_path, "edge", one.network.operations(), one.network.arrays(), {}, one.network.guides)
    other = Trainer(slipstream.load("edge/tiny"), replace(GUIDED, network=NetworkSettings(8, heuristics="edf")))
    load_weights(one.network, load_policy(tmp_path), "start_from")
    with pytest.raises(InputError, match="is another network"):
        load_weights(other.network, load_policy(tmp_path), "start_from")
