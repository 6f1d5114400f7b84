"""What the compiled collector keeps is what the environments show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream
from slipstream.envs.env import SchedulingEnv
from slipstream.families.contract import family_of
from slipstream.families.shared.variation import Variation
from slipstream.learn.compiled.collect import CUT_OFF
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import LanePool
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy, decide
from slipstream.sim.kernel.lanes import ASKING
from slipstream.sim.simulator import Simulator
from tests.strategies import edge_scenarios


def learner_for(scenario, candidates, seed=0):
    torch.manual_seed(seed)
    family = family_of(scenario)
    widths = len(family.candidate_features.observed), len(family.global_features.observed)
    network = CandidateScorer(*widths, NetworkSettings(16))
    with torch.no_grad():
        network.logit.weight.mul_(100.0)
    return Learner(network, candidates)


def collect(scenario, lanes, steps, threads=1, groups=1, seed=0, **options):
    pool = LanePool([scenario] * groups, lanes, threads)
    learner = learner_for(scenario, pool.candidates)
    pool.start(np.arange(lanes))
    return pool.collect(learner.layout, learner.weights, steps, (seed, 0), **options), learner


def rows_of(rollout, lane, step):
    begin = rollout.begin[lane, step]
    return rollout.rows[begin : begin + rollout.count[lane, step]]


def begin(env, seed=None):
    """Start the next episode that asks for a choice, if one of many does."""
    shown = env.reset(seed=seed)
    for _ in range(1000):
        if env._arrays["lanes"][0]["status"] == ASKING:
            break
        shown = env.reset()
    return shown


@settings(max_examples=60, deadline=None)
@given(edge_scenarios(), st.integers(0, 5))
def test_packed_candidates_are_the_legal_rows_of_the_environment(scenario, seed):
    scenario = slipstream.load(scenario)
    rollout, _ = collect(scenario, 1, 40, seed=seed)
    env = SchedulingEnv("edge", scenario)
    observation, info = begin(env, 0)
    unit = family_of(scenario).nanoseconds_per_unit
    for step in range(int(rollout.length[0])):
        legal = np.flatnonzero(info["action_mask"])
        # Where they lie among the legal ones is the collector's own business: dispatch rows come first.
        shown, kept = observation["candidates"][legal], rows_of(rollout, 0, step)
        assert sorted(map(bytes, shown)) == sorted(map(bytes, kept))
        np.testing.assert_array_equal(rollout.globals[0, step], observation["globals"])
        same = [row for row in legal if bytes(observation["candidates"][row]) == bytes(kept[rollout.taken[0, step]])]
        if len(same) != 1:
            return  # Two rows look alike: which was taken cannot be told from what is kept.
        observation, reward, terminated, truncated, info = env.step(same[0])
        assert rollout.reward[0, step] == reward
        assert rollout.elapsed[0, step] / unit == info["elapsed"]
        assert rollout.ended[0, step] == (1 if terminated else 2 if truncated else 0)
        if terminated or truncated:
            observation, info = begin(env)


def test_the_number_of_threads_and_groups_changes_nothing():
    scenario = slipstream.load("edge/heavy")
    one, _ = collect(scenario, 6, 50, threads=1, groups=3)
    many, _ = collect(scenario, 6, 50, threads=2, groups=3)
    for name in ("globals", "count", "taken", "log_prob", "value", "reward", "elapsed", "time"):
        np.testing.assert_array_equal(one.arrays[name], many.arrays[name])
    for lane in range(6):
        for step in range(50):
            np.testing.assert_array_equal(rows_of(one, lane, step), rows_of(many, lane, step))


def test_chances_and_values_are_those_of_the_network():
    scenario = slipstream.load("edge/heavy")
    rollout, learner = collect(scenario, 4, 60)
    for lane in range(4):
        for step in range(60):
            seen = torch.from_numpy(rows_of(rollout, lane, step)), torch.from_numpy(rollout.globals[lane, step, None])
            with torch.no_grad():
                logits, values = learner.network(*seen, torch.tensor([len(seen[0])]))
            log_prob = torch.log_softmax(logits, 0)[rollout.taken[lane, step]]
            assert rollout.value[lane, step] == pytest.approx(float(values[0]), rel=1e-4, abs=1e-4)
            assert rollout.log_prob[lane, step] == pytest.approx(float(log_prob), abs=1e-4)


def test_candidates_are_drawn_as_often_as_their_chances_say():
    scenario = slipstream.load("edge/heavy")
    pool = LanePool([scenario], 20_000, 1)
    learner = learner_for(scenario, pool.candidates)
    pool.start(np.zeros(20_000, np.int64))
    rollout = pool.collect(learner.layout, learner.weights, 1, (0, 0))
    drawn = np.bincount(rollout.taken[:, 0], minlength=rollout.count[0, 0]) / 20_000
    chances = np.zeros_like(drawn)
    chances[rollout.taken[:, 0]] = np.exp(rollout.log_prob[:, 0])
    np.testing.assert_allclose(drawn, chances, atol=0.015)


def test_a_loyal_rollout_is_the_expert_s_and_its_labels_are_its_choices():
    scenario = slipstream.load("edge/heavy")
    expert = find("lookahead", "edge")
    rollout, _ = collect(scenario, 3, 200, expert=expert, expert_probability=1.0)
    np.testing.assert_array_equal(rollout.taken, rollout.label)
    simulator = Simulator(scenario)
    simulator.reset(1, "train")
    for step in range(200):
        assert rollout.time[1, step] == simulator.header["now"]
        simulator.step(expert.choose(*simulator.observe()))


def test_whole_episodes_stop_at_their_end():
    scenario = slipstream.load("edge/tiny")
    rollout, _ = collect(scenario, 5, 500, until_end=True)
    for lane in range(5):
        last = rollout.length[lane] - 1
        assert rollout.ended[lane, last] > 0
        assert not rollout.ended[lane, :last].any()
    assert len(rollout.choices()) == rollout.length.sum()


@settings(max_examples=30, deadline=None)
@given(edge_scenarios(), st.integers(0, 5))
def test_whole_episodes_in_compiled_code_are_those_chosen_one_by_one(scenario, seed):
    scenario = slipstream.load(scenario)
    learner = learner_for(scenario, 1, seed)
    policy = CompiledPolicy("net", "edge", learner.network.operations(), learner.network.arrays())

    class OneByOne:
        name = "one by one"

        def choose(self, *seen):
            return policy.choose(*seen)

    whole = Simulator(scenario).play(policy, seed)
    single = Simulator(scenario).play(OneByOne(), seed)
    np.testing.assert_array_equal(whole, single)


def test_compiled_choices_are_torch_s_on_a_hundred_thousand_observations():
    for number, network_settings in enumerate((NetworkSettings(32), NetworkSettings(16, "attention", layer_norm=True))):
        torch.manual_seed(number)
        network = CandidateScorer(32, 16, network_settings)
        policy = CompiledPolicy("net", "edge", network.operations(), network.arrays())
        rng = np.random.default_rng(number)
        count = rng.integers(1, 50, 50_000)
        ends = np.cumsum(count)
        rows = rng.uniform(-2.0, 2.0, (int(ends[-1]), 32)).astype(np.float32)
        global_rows = rng.uniform(-2.0, 2.0, (len(count), 16)).astype(np.float32)
        with torch.no_grad():
            logits = network(torch.from_numpy(rows), torch.from_numpy(global_rows), torch.from_numpy(count))[0].numpy()
        network_struct = policy.network(49)
        legal = np.arange(49, dtype=np.int32)
        for index, (size, end) in enumerate(zip(count, ends, strict=True)):
            chosen = decide(network_struct, rows[end - size : end], legal, int(size), global_rows[index])
            of_choice = logits[end - size : end]
            # Rounding may decide between candidates whose logits are all but equal.
            assert of_choice[chosen] >= of_choice.max() - 1e-5


def test_an_episode_that_is_cut_off_before_anything_is_listed_is_expected_to_go_on_as_before():
    scenario = slipstream.load("dag/small")
    cut = family_of(scenario).vary(scenario, Variation(length=0.5), 0)
    rollout, _ = collect(cut, 8, 64)
    over = (rollout.ended == CUT_OFF) & rollout.made
    assert over.any()
    np.testing.assert_array_equal(rollout.next_value[over], rollout.value[over])
