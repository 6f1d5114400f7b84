"""Training on graphs: what is packed is what the environment shows, and trainings repeat, go on and can be shipped."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream
from slipstream.envs.env import SchedulingEnv
from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import family_of
from slipstream.learn.networks.decima import Decima
from slipstream.learn.networks.graphs import PackedGraphs
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import LanePool
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.learn.training import train
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import load_policy, save_policy
from slipstream.sim.simulator import Simulator
from tests.dag.strategies import dag_scenarios
from tests.learn import trainings
from tests.learn.test_rollout import begin, rows_of

pytestmark = pytest.mark.thorough

GRAPH_KEYS = ("nodes", "node_job", "edges", "candidate_node")


def decima_for(family, seed=0):
    torch.manual_seed(seed)
    tables = (family.candidate_features, family.global_features, family.node_features)
    chosen = NetworkSettings(16, node_width=8, kind="decima")
    network = Decima(*(len(table.observed) for table in tables), chosen, family.global_features.index("phase"))
    with torch.no_grad():
        network.logit.weight.mul_(100.0)
        network.other_logit.weight.mul_(100.0)
    return network


def policy_for(scenario, seed=0):
    network = decima_for(family_of(scenario), seed)
    return network, CompiledPolicy("net", "dag", network.operations(), network.arrays())


def collect(scenario, lanes, steps, threads=1, groups=1, seed=0, **options):
    pool = LanePool([scenario] * groups, lanes, threads, graph=True)
    learner = Learner(decima_for(family_of(scenario)), pool.candidates, 1, pool.graph)
    pool.start(np.arange(lanes))
    return pool.collect(learner.layout, learner.weights, steps, (seed, 0), **options), learner


def graph_of(rollout, lane, step):
    """Return nodes, jobs, edges and the candidates' nodes of one choice."""
    span = rollout.spans[lane, step]
    nodes = slice(span["node_begin"], span["node_begin"] + span["nodes"])
    edges = slice(span["edge_begin"], span["edge_begin"] + span["edges"])
    first = rollout.begin[lane, step]
    own = rollout.row_node[first : first + rollout.count[lane, step]]
    return rollout.nodes[nodes], rollout.node_job[nodes], rollout.edges[edges], own


def shown_graph(observation):
    """Return the same from an observation, without its padding."""
    nodes = observation["node_job"] >= 0
    edges = observation["edges"][:, observation["edges"][0] >= 0]
    return observation["nodes"][nodes], observation["node_job"][nodes], edges.T


def torch_scores(network, observation, mask):
    """Return the logits of the legal rows and the value, by the definition."""
    legal = np.flatnonzero(mask)
    nodes, node_job, edges = shown_graph(observation)
    graphs = PackedGraphs(
        torch.from_numpy(nodes),
        torch.from_numpy(edges.T.astype(np.int64)),
        torch.from_numpy(node_job.astype(np.int64)),
        torch.zeros(int(node_job.max(initial=-1)) + 1, dtype=torch.long),
        torch.from_numpy(observation["candidate_node"][legal].astype(np.int64)),
    )
    rows, global_row = torch.from_numpy(observation["candidates"][legal]), torch.from_numpy(observation["globals"])
    with torch.no_grad():
        logits, values = network(rows, global_row.unsqueeze(0), torch.tensor([len(legal)]), graphs)
    return legal, logits.numpy(), float(values[0])


@settings(max_examples=40, deadline=None)
@given(dag_scenarios(), st.integers(0, 5))
def test_packed_graphs_are_those_that_the_environment_shows(scenario, seed):
    rollout, _ = collect(scenario, 1, 40, seed=seed)
    env = SchedulingEnv("dag", scenario)
    observation, info = begin(env, 0)
    for step in range(int(rollout.length[0])):
        *graph, own = graph_of(rollout, 0, step)
        for ours, shown in zip(graph, shown_graph(observation), strict=True):
            np.testing.assert_array_equal(ours, shown)
        # Rows are listed in their order, the one that stops last: so are the environment's.
        legal = np.flatnonzero(info["action_mask"])
        np.testing.assert_array_equal(own, observation["candidate_node"][legal])
        np.testing.assert_array_equal(rows_of(rollout, 0, step), observation["candidates"][legal])
        observation, reward, terminated, truncated, info = env.step(legal[rollout.taken[0, step]])
        assert rollout.reward[0, step] == reward
        if terminated or truncated:
            observation, info = begin(env)


def test_both_phases_of_a_choice_share_one_graph():
    rollout, _ = collect(slipstream.load("dag/small"), 4, 60)
    phase = family_of(slipstream.load("dag/small")).global_features.index("phase")
    second = rollout.globals[:, 1:, phase] == 1.0
    same_span = rollout.spans["node_begin"][:, 1:] == rollout.spans["node_begin"][:, :-1]
    assert second.sum() > 10
    assert same_span[second].all()
    assert not same_span[~second].all()


def test_chances_and_values_are_those_of_torch():
    rollout, learner = collect(slipstream.load("dag/small"), 3, 50)
    choices = rollout.choices()
    own = choices.picked(np.arange(len(choices)))
    seen = (torch.from_numpy(array) for array in (own.rows, own.global_rows, own.count.astype(np.int64)))
    with torch.no_grad():
        logits, values = learner.network(*seen, PackedGraphs.of(own))
    np.testing.assert_allclose(rollout.value[rollout.made], values.numpy(), rtol=1e-3, atol=1e-3)
    for index, (first, count) in enumerate(zip(own.begin, own.count, strict=True)):
        taken = torch.log_softmax(logits[first : first + count], 0)[rollout.taken[rollout.made][index]]
        assert rollout.log_prob[rollout.made][index] == pytest.approx(float(taken), abs=1e-3)


def test_stages_and_numbers_of_executors_have_a_head_each():
    scenario = slipstream.load("dag/small")
    trainer = Trainer(scenario, SMALL)
    assert trainer.network.has_other
    own = (rollout := collect(scenario, 3, 50)[0]).choices().picked(np.arange(int(rollout.made.sum())))
    seen = [torch.from_numpy(array) for array in (own.rows, own.global_rows, own.count.astype(np.int64))]
    network = decima_for(family_of(scenario))
    counting = own.global_rows[:, family_of(scenario).global_features.index("phase")] == 1.0
    changed = []
    for head in (network.logit, network.other_logit):
        with torch.no_grad():
            before = network(*seen, PackedGraphs.of(own))[0].numpy()
            head.bias.add_(1.0)
            after = network(*seen, PackedGraphs.of(own))[0].numpy()
        changed.append(np.repeat(counting, own.count)[before != after])
    assert 0 < counting.sum() < len(counting)
    assert not changed[0].any()
    assert changed[1].all()
    assert sum(map(len, changed)) == len(own.rows)


def test_the_number_of_threads_changes_nothing():
    scenario = slipstream.load("dag/small")
    one, many = (collect(scenario, 6, 50, threads=threads, groups=3)[0] for threads in (1, 2))
    for name in ("globals", "count", "taken", "log_prob", "value", "reward", "time"):
        np.testing.assert_array_equal(one.arrays[name], many.arrays[name])
    for lane in range(6):
        for step in range(50):
            for ours, theirs in zip(graph_of(one, lane, step), graph_of(many, lane, step), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_an_expert_s_labels_are_its_choices_whatever_network_it_teaches():
    scenario, expert = slipstream.load("dag/small"), find("fair", "dag")
    rollout, _ = collect(scenario, 2, 80, expert=expert, expert_probability=1.0)
    np.testing.assert_array_equal(rollout.taken, rollout.label)
    simulator = Simulator(scenario)
    simulator.reset(1, "train")
    for step in range(80):
        assert rollout.time[1, step] == simulator.header["now"]
        simulator.step(expert.choose(*simulator.observe()))
        if not simulator.asking:
            break


@settings(max_examples=25, deadline=None)
@given(dag_scenarios(), st.integers(0, 5))
def test_whole_episodes_in_compiled_code_are_those_that_torch_would_play(scenario, seed):
    network, policy = policy_for(scenario, seed)
    simulator = Simulator(scenario, log_rows=0)
    env = SchedulingEnv("dag", scenario, split="test")
    observation, info = env.reset(seed=seed)
    simulator.reset(seed, "test")
    for _ in range(60):
        if not simulator.asking:
            break
        legal, logits, _ = torch_scores(network, observation, info["action_mask"])
        before = simulator.header["choices"].item()
        policy.run(simulator, 1)
        best = np.sort(logits)[-2:]
        if len(best) > 1 and best[1] - best[0] < 1e-4:
            return  # Rounding may decide between candidates whose logits are all but equal.
        observation, reward, _, _, info = env.step(legal[logits.argmax()])
        assert simulator.header["reward"] == reward
        assert simulator.header["now"] / 1e9 == pytest.approx(info["time"])
        assert simulator.header["choices"] != before or not simulator.asking


def test_single_choices_without_their_graph_are_refused():
    scenario = slipstream.load("dag/tiny")
    _, policy = policy_for(scenario)
    simulator = Simulator(scenario)
    simulator.reset(0)
    with pytest.raises(PolicyError, match="reads the graph of a choice: expected whole episodes"):
        policy.choose(*simulator.observe())


SMALL = replace(trainings.SMALL, warm_start="srpt", network=NetworkSettings(16, node_width=8, kind="decima"))
KINDS = {
    "ppo": SMALL,
    "reinforce": SMALL.with_changes({"algo": "reinforce", "n_envs": 32, "episode_choices": 64}),
    "hindsight": SMALL.with_changes(
        {"hindsight.rounds": 3, "hindsight.buffer_rounds": 2, "hindsight.gradient_steps": 2}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [2, 5])
def test_a_training_that_goes_on_from_its_state_does_what_it_would_have_done(kind, stop):
    trainings.check_that_it_goes_on("dag/small", KINDS[kind], stop, updates=2)


def test_scales_are_measured_from_what_is_seen():
    trainer = Trainer(slipstream.load("dag/small"), SMALL.with_changes({"hidden": ("job_age",)}))
    trainer.update()
    network, names = trainer.network, trainer.family.node_features.observed.names
    assert network.node_scale[names.index("job_age")] == 0.0
    assert network.node_scale[names.index("work")] != 1.0
    # They are measured in the rollout that the expert plays before the first update.
    again = Trainer(slipstream.load("dag/small"), trainer.settings)
    played = again.pool.collect(again.learner.layout, again.learner.weights, 32, (0, 2**31), again.experts[0], 1.0)
    spans = played.choices().graphs.spans
    assert float(network.job_scale[0]) == pytest.approx(spans["jobs"].sum() / spans["nodes"].sum())
    assert float(network.total_scale[0]) == pytest.approx(len(spans) / spans["jobs"].sum())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("decima") / "run"
    train("dag/small", SMALL, out)
    return out


def test_a_trained_folder_plays_compiled_next_to_heuristics_and_without_torch(folder):
    best = folder / "best"
    comparison = slipstream.compare("dag/small", f"fair,{best}", 2)
    assert comparison.of(str(best)).mean("jobs_done") == 10.0
    code = (
        "import sys; sys.modules['torch'] = sys.modules['torch_geometric'] = None\n"
        "import slipstream\n"
        f"print(slipstream.evaluate('dag/small', {str(best)!r}, 2).mean('reward'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == comparison.of(str(best)).mean("reward")


def test_a_policy_plays_scenarios_of_other_sizes(folder):
    policy = load_policy(folder / "best")
    for name in ("dag/tiny", "dag/ml-workflow"):
        assert slipstream.evaluate(name, policy, 1).mean("jobs_done") > 0


def test_the_card_names_the_columns_of_nodes_and_refuses_others(folder, tmp_path):
    policy = load_policy(folder / "best")
    names = family_of(slipstream.load("dag/small")).node_features.observed.names
    assert policy.card["features"]["nodes"] == names
    assert policy.card["network"]["kind"] == "decima"
    save_policy(tmp_path, "dag", policy.operations, policy.tensors, {})
    card = json.loads((tmp_path / "policy.json").read_text())
    for nodes, message in ((["shoe_size", *names[1:]], "it saw shoe_size"), (None, "expected an object with")):
        features = {**card["features"], "nodes": nodes}
        if nodes is None:
            del features["nodes"]
        (tmp_path / "policy.json").write_text(json.dumps({**card, "features": features}))
        with pytest.raises(PolicyError, match=message):
            load_policy(tmp_path)


def test_a_network_for_graphs_is_refused_where_there_are_none(tmp_path):
    with pytest.raises(InputError, match="the family 'edge' has no graphs"):
        Trainer(slipstream.load("edge/tiny"), TrainSettings().with_changes({"network.kind": "decima"}))
    with pytest.raises(InputError, match="expected 'rows' or 'decima'"):
        TrainSettings().with_changes({"network.kind": "gpt"})
    edge = family_of(slipstream.load("edge/tiny"))
    network = Decima(len(edge.candidate_features.observed), len(edge.global_features.observed), 5)
    save_policy(tmp_path, "edge", network.operations(), network.arrays(), {})
    with pytest.raises(PolicyError, match="'nodes' is read before it is written"):
        load_policy(tmp_path)


def test_rows_networks_pack_no_graphs():
    pool = LanePool([slipstream.load("dag/small")], 2, 1)
    trainer = Trainer(slipstream.load("dag/small"), SMALL.with_changes({"network.kind": "rows"}))
    assert pool.graph.nodes == trainer.pool.graph.nodes == 0
    rollout = trainer.collect()
    assert rollout.nodes.size == rollout.spans.size == 0
    assert isinstance(rollout.choices(), Choices)
    assert not len(rollout.choices().graphs.spans)


@pytest.mark.slow
def test_a_short_training_from_random_weights_beats_fair():
    changes = {"ppo.discount_horizon": 10, "n_envs": 64, "ppo.batch_size": 1024, "network.kind": "decima"}
    training = train("dag/small", TrainSettings(steps=600_000).with_changes(changes))
    found = slipstream.compare("dag/small", ["fair", training.policy], 30)
    assert found.of("learned").mean("avg_jct_s") < found.of("fair").mean("avg_jct_s")
