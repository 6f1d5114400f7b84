"""Networks of a user's own: trained by the same algorithms as compiled ones, saved, resumed and played."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import slipstream
from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.learn.algorithms.imitation import ImitationSettings
from slipstream.learn.compiled.objective import CLIPPED, EXPECTED, LIKELIHOOD, Objective
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.networks.own import OwnNetwork
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import LanePool
from slipstream.learn.rollout.torch_learner import TorchLearner
from slipstream.learn.rollout.torch_rollouts import TorchPool, inputs_layout
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer, build_network
from slipstream.learn.training import train
from slipstream.networks.import_path import path_of
from slipstream.networks.inputs import Columns
from slipstream.policies import find
from slipstream.policies.torch_policy import TorchPolicy, load_torch_policy
from tests.learn import own_networks
from tests.learn.test_networks import random_batch, random_choices, random_network
from tests.learn.trainings import SMALL, check_that_it_goes_on, same

FILE = Path(own_networks.__file__)
COMPILED, TORCH, GRAPH = (path_of(getattr(own_networks, name)) for name in ("Pooled", "Products", "GraphSums"))
TINY = SMALL.with_changes({"steps": 6 * 16 * 16, "n_steps": 16})
RTOL, ATOL = 2e-3, 2e-4
"""Tolerance of gradients in float32, relative to their greatest number."""


def own(name, family="edge"):
    torch.manual_seed(0)
    return OwnNetwork(Columns.of(FAMILIES[family]), NetworkSettings(module=path_of(getattr(own_networks, name))))


def with_network(settings, module, **changes):
    return settings.with_changes({"network.module": module, **changes})


# Both backends

NETWORKS = {
    "pool": lambda: random_network(0, 32, 16, NetworkSettings(16)),
    "attention": lambda: random_network(1, 32, 16, NetworkSettings(16, "attention", 2, "tanh", True)),
    "own": lambda: own("Pooled"),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("term", [CLIPPED, LIKELIHOOD, EXPECTED])
@pytest.mark.parametrize("threads", [1, 2])
def test_both_backends_compute_the_same_losses_and_gradients(name, term, threads):
    rng = np.random.default_rng(0)
    batch = random_batch(rng, random_choices(rng, 32, 16, 300))
    picks, objective = rng.permutation(300)[:200], Objective(term, 0.5, 0.05, 0.2)
    found = []
    for kind in (Learner, TorchLearner):
        learner = kind(NETWORKS[name](), 12, threads)
        gradient, sums = learner.gradient(batch, picks, objective, 1.0 / len(picks))
        assert np.isfinite(gradient).all()
        assert gradient.any()
        found.append((learner.weights.copy(), gradient, sums))
    (weights, gradient, sums), (others, theirs, their_sums) = found
    np.testing.assert_array_equal(weights, others)
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(theirs / scale, gradient / scale, rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(their_sums, sums, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_both_backends_reach_the_same_score(algo):
    settings = SMALL.with_changes({"algo": algo, "episode_choices": 64, "steps": 16 * 16 * 32})
    runs = [train("edge/tiny", settings.with_changes({"backend": one})) for one in ("compiled", "torch")]
    assert runs[0].reward == pytest.approx(runs[1].reward, abs=1e-6)
    for name, tensor in runs[0].policy.tensors.items():
        np.testing.assert_allclose(runs[1].policy.tensors[name], tensor, rtol=0.02, atol=0.02, err_msg=name)


@pytest.mark.parametrize("until_end", [False, True])
def test_lanes_that_torch_plays_do_what_compiled_lanes_do(until_end):
    scenario, lanes, network = slipstream.load("edge/medium"), 13, own("Pooled")
    bounds, expert = [0, 6, 13], find("edf", "edge")
    compiled = LanePool([scenario] * 2, lanes, 1, bounds=bounds)
    learner = Learner(network, compiled.candidates)
    played = TorchPool(network, [scenario] * 2, lanes, bounds=bounds)
    layout = inputs_layout(learner.layout.widths[:2], played.candidates, played.graph)
    for pool in (compiled, played):
        pool.start(np.arange(lanes))
    for number in range(2):
        found = [
            pool.collect(*inputs, 40, (0, number), expert, 0.3, until_end)
            for pool, inputs in (
                (compiled, (learner.layout, learner.weights)),
                (played, (layout, np.zeros(layout.weights, np.float32))),
            )
        ]
        ours, theirs = found
        made = ours.made
        for name in ("length", "made"):
            np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))
        for name in ("taken", "label", "count", "reward", "elapsed", "time", "ended", "globals"):
            np.testing.assert_array_equal(getattr(theirs, name)[made], getattr(ours, name)[made], err_msg=name)
        for name in ("log_prob", "value"):
            np.testing.assert_allclose(getattr(theirs, name)[made], getattr(ours, name)[made], atol=1e-4)
        ends = made & ((ours.ended == 2) | (np.arange(40) == 39)) & (ours.ended != 1)
        assert until_end or ends.any()
        np.testing.assert_allclose(theirs.next_value[ends], ours.next_value[ends], atol=1e-4)
        parts = [rollout.choices().picked(np.arange(int(made.sum()))) for rollout in found]
        np.testing.assert_array_equal(parts[1].rows, parts[0].rows)


def test_a_network_plays_the_same_episodes_compiled_and_in_torch():
    trainer = Trainer(slipstream.load("edge/medium"), with_network(TINY, COMPILED))
    trainer.update()
    network, compiled = trainer.network, trainer.policy()
    assert network.not_compilable is None
    played = TorchPolicy("torch", "edge", network.module, network.scales())
    rewards = [slipstream.evaluate("edge/medium", policy, 2).of("reward") for policy in (compiled, played)]
    np.testing.assert_array_equal(*rewards)
    simulator = slipstream.Simulator(slipstream.load("edge/medium"))
    simulator.reset(0)
    assert played.choose(*simulator.observe()) == played.action(simulator) == compiled.action(simulator)


# What can be compiled


def test_operations_of_compiled_code_are_found_in_a_module():
    operations = own("Pooled").operations()
    kinds = [operation.kind for operation in operations]
    assert kinds.count("linear") == 10
    assert {"normalise", "mean", "max", "attend", "relu", "tanh", "add"} <= set(kinds)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Products", "'sigmoid' is not among the operations that can be compiled"),
        ("Summed", "'segment_sum' is not among the operations"),
    ],
)
def test_what_cannot_be_compiled_is_named(name, reason):
    network = own(name)
    assert reason in network.not_compilable
    with pytest.raises(PolicyError, match="cannot be compiled"):
        network.operations()


def test_a_graph_network_is_played_by_torch():
    assert own("GraphSums", "dag").not_compilable == "it reads graphs"


# Trainings

KINDS = {
    "ppo": with_network(TINY, TORCH),
    "reinforce": with_network(TINY, TORCH, algo="reinforce", episode_choices=32),
    "varied": with_network(TINY, TORCH, start_load=0.5),
    "compiled": with_network(TINY, COMPILED),
    "autograd": TINY.with_changes({"backend": "torch"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_goes_on_from_its_state_does_what_it_would_have_done(kind):
    check_that_it_goes_on("edge/medium", KINDS[kind], 4, updates=2)


@pytest.mark.thorough
@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_a_graph_network_goes_on_from_its_state(algo):
    settings = with_network(TINY, GRAPH, algo=algo, episode_choices=32, warm_start="fair")
    check_that_it_goes_on("dag/small", settings, 4, updates=2)


def test_hindsight_trains_an_own_network_that_is_compiled():
    changes = {"hindsight.rounds": 1, "hindsight.gradient_steps": 1, "backend": "torch"}
    trainer = Trainer(slipstream.load("edge/tiny"), with_network(TINY, COMPILED, **changes))
    phases = []
    for _ in range(5):
        phases.append(trainer.phase)
        trainer.update()
    assert phases == ["imitation"] * 3 + ["hindsight", "ppo"]


def test_an_own_network_learns_to_imitate_its_expert():
    settings = TrainSettings(
        steps=10 * 32 * 64,
        n_envs=32,
        n_steps=64,
        warm_start="edf",
        imitation=ImitationSettings(rollouts=10),
        evaluate_every=10,
        evaluation_episodes=2,
    )
    result = train("edge/heavy", settings, network=own_networks.Products)
    edf, start = (slipstream.evaluate("edge/heavy", name, 2, split="eval").mean("reward") for name in ("edf", "random"))
    assert result.reward > start + 0.7 * (edf - start)


def test_weights_and_buffers_of_an_own_network_are_all_in_its_policy():
    trainer = Trainer(slipstream.load("edge/tiny"), with_network(TINY, TORCH))
    for _ in range(4):
        trainer.update()
    tensors = trainer.policy().tensors
    same(tensors, trainer.network.arrays())
    assert tensors["module.number"] == 3
    assert tensors["module.frozen"] == 1.0


# Folders


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a training whose network torch plays."""
    folder = tmp_path_factory.mktemp("own") / "run"
    train("edge/tiny", TINY, folder, network=f"{FILE}:Products")
    return folder


def test_a_folder_is_played_only_where_its_code_is_named(trained):
    best = trained / "best"
    with pytest.raises(
        PolicyError, match=re.escape(f"its network is code, '{FILE}:Products': expected {best}@FILE.py")
    ):
        find(str(best), "edge")
    text = f"{best}@{FILE}:Products"
    policy = find(text, "edge")
    assert policy.name == text
    by_class = load_torch_policy(best, own_networks.Products)
    assert slipstream.evaluate("edge/tiny", policy, 2).mean("reward") == pytest.approx(
        slipstream.evaluate("edge/tiny", by_class, 2).mean("reward")
    )
    assert policy.description == "Trained on edge/tiny by PPO from lookahead."
    comparison = slipstream.compare("edge/tiny", f"edf,{text}", 1)
    assert [one.policy for one in comparison.evaluations] == ["edf", text]


def test_loading_a_folder_runs_no_code_of_it(trained, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(f"raise SystemExit('ran')\n{FILE.read_text()}")
    card = json.loads((trained / "best" / "policy.json").read_text())
    folder = tmp_path / "policy"
    folder.mkdir()
    for path in (trained / "best").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "policy.json").write_text(json.dumps({**card, "module": f"{code}:Products"}))
    with pytest.raises(PolicyError, match="its network is code"):
        find(str(folder), "edge")
    # What the folder names is not what runs.
    assert len(slipstream.evaluate("edge/tiny", f"{folder}@{FILE}:Products", 1).of("reward")) == 1


def test_weights_of_another_network_are_refused(trained):
    with pytest.raises(PolicyError, match="weights: are not those of"):
        find(f"{trained / 'best'}@{FILE}:Pooled", "edge")
    with pytest.raises(PolicyError, match=r"mine\.py: no such file"):
        find(f"{trained / 'best'}@mine.py:Net", "edge")


def test_a_training_is_resumed_only_where_its_code_is_named(trained):
    with pytest.raises(InputError, match=r"its network is code, .*: expected --network"):
        train("edge/tiny", out=trained, resume=True)
    result = train("edge/tiny", {"steps": TINY.steps + 500}, trained, resume=True, network=f"{FILE}:Products")
    assert result.steps > TINY.steps


def test_a_folder_goes_on_after_a_stop_as_if_there_had_been_none(tmp_path):
    network = own_networks.Products
    whole = train("edge/tiny", TINY, tmp_path / "whole", network=network)

    class StopHereError(Exception):
        pass

    def stop(report):
        if report.steps == 5 * 16 * 16:
            raise StopHereError

    with pytest.raises(StopHereError):
        train("edge/tiny", TINY, tmp_path / "cut", report=stop, network=network)
    resumed = train("edge/tiny", out=tmp_path / "cut", resume=True, network=network)
    last = [load_torch_policy(tmp_path / name / "last", network).tensors for name in ("whole", "cut")]
    same(*last)
    assert [line["reward"] for line in resumed.history] == [line["reward"] for line in whole.history]


def test_a_compiled_own_network_is_a_policy_without_code(tmp_path):
    train("edge/tiny", TINY, tmp_path / "run", network=own_networks.Pooled)
    best = tmp_path / "run" / "best"
    assert len(slipstream.evaluate("edge/tiny", str(best), 1).of("reward")) == 1
    with pytest.raises(PolicyError, match="needs no code"):
        find(f"{best}@{FILE}:Pooled", "edge")


# Refusals


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("mine", "'mine': expected FILE.py:CLASS or package.module:CLASS"),
        ("mine.py:Net", "mine.py: no such file"),
        ("no_such_package:Net", "No module named 'no_such_package'"),
        (f"{FILE}:Nothing", "expected a torch.nn.Module of .*: Pooled, Products, GraphSums"),
        (
            f"{FILE}:Faulty",
            r"Net\(columns\) raised ZeroDivisionError: .* \(.*own_networks.py, line \d+\)",
        ),
        (f"{FILE}:Wide", r"returns logits of shape \(7, 1\): expected \(N,\), one per row"),
        (f"{FILE}:Mixed", "the logits of a choice depend on other choices of the batch"),
        (f"{FILE}:GraphSums", "reads graphs, and the family has none"),
        (torch.nn.Linear(1, 1), "expected a class, or its path"),
    ],
)
def test_networks_that_do_not_fit_are_refused(network, message):
    with pytest.raises(InputError, match=message):
        train("edge/tiny", TINY, network=network)


def test_what_needs_a_compiled_network_is_refused_with_the_reason():
    settings = with_network(TINY, TORCH, **{"hindsight.rounds": 2})
    with pytest.raises(InputError, match=r"played by torch .*cannot learn from hindsight: expected hindsight.rounds=0"):
        Trainer(slipstream.load("edge/tiny"), settings)
    with pytest.raises(InputError, match=r"network.kind is 'decima' beside network.module"):
        NetworkSettings(kind="decima", module=TORCH)
    with pytest.raises(InputError, match="backend is 'jax'"):
        TrainSettings().with_changes({"backend": "jax"})


def test_default_settings_leave_out_hindsight_where_torch_plays():
    notes = []
    result = slipstream.train(
        "edge/tiny", {"steps": 2000, "evaluation_episodes": 2}, network=own_networks.Products, tell=notes.append
    )
    assert result.settings.hindsight.rounds == 0
    assert any("played by torch: 'sigmoid' is not among" in note for note in notes)


def test_the_network_of_a_scorer_is_built_from_settings():
    assert isinstance(build_network(FAMILIES["edge"], NetworkSettings(module=TORCH)), OwnNetwork)


@pytest.mark.thorough
def test_the_command_trains_compares_and_resumes_an_own_network(tmp_path):
    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "slipstream", *words], cwd=tmp_path, env=os.environ, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    (tmp_path / "mine.py").write_text(FILE.read_text())
    common = ("train", "edge/tiny", "--out", "run", "--network", "mine.py:Products")
    code, shown = run(*common, "--steps", "2000", "--set", "n_envs=16", "--set", "n_steps=16")
    assert code == 0, shown
    assert "network: mine.py:Products, played by torch" in shown
    policy = "run/best@mine.py:Products"
    assert f"--policies all,{policy}" in shown
    assert run("compare", "edge/tiny", "--policies", f"edf,{policy}", "--episodes", "1")[0] == 0
    code, shown = run("train", "edge/tiny", "--out", "run", "--resume")
    assert (code, "expected --network" in shown) == (2, True)
    code, shown = run("compare", "edge/tiny", "--policies", "run/best")
    assert (code, "Traceback" in shown) == (2, False)
