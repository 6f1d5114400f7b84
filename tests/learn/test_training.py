"""Whole trainings: they repeat, they go on where they were, and they survive being killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.errors import InputError
from slipstream.families.shared.variation import Variation
from slipstream.learn.algorithms.imitation import ImitationSettings
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.learn.training import train
from slipstream.policies.learned import load_policy
from tests.learn.trainings import SMALL, check_that_it_goes_on, same

ROOT = Path(__file__).parents[2]

KINDS = {
    "ppo": SMALL,
    "reinforce": SMALL.with_changes(
        {"algo": "reinforce", "n_envs": 32, "episode_choices": 64, "reinforce.n_epochs": 2}
    ),
    "hindsight": SMALL.with_changes(
        {"hindsight.rounds": 3, "hindsight.buffer_rounds": 2, "hindsight.gradient_steps": 2, "hindsight.own_rounds": 1}
    ),
    "varied": SMALL.with_changes({"start_load": 0.5}).with_changes({"variation.profile_error": 0.2}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_trains_the_same_policy(kind):
    runs = [train("edge/tiny", KINDS[kind]) for _ in range(2)]
    same(runs[0].policy.tensors, runs[1].policy.tensors)
    other = train("edge/tiny", KINDS[kind].with_changes({"seed": 1}))
    assert any((other.policy.tensors[name] != tensor).any() for name, tensor in runs[0].policy.tensors.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [2, 5])
def test_a_training_that_goes_on_from_its_state_does_what_it_would_have_done(kind, stop):
    check_that_it_goes_on("edge/medium", KINDS[kind], stop)


def test_a_folder_goes_on_after_a_stop_as_if_there_had_been_none(tmp_path):
    whole = train("edge/medium", SMALL, tmp_path / "whole")

    class StopHereError(Exception):
        pass

    def stop(report):
        if report.steps == 5 * 16 * 32:
            raise StopHereError

    with pytest.raises(StopHereError):
        train("edge/medium", SMALL, tmp_path / "cut", report=stop)
    resumed = train("edge/medium", out=tmp_path / "cut", resume=True)
    same(load_policy(tmp_path / "whole" / "last").tensors, load_policy(tmp_path / "cut" / "last").tensors)
    assert [line["reward"] for line in resumed.history] == [line["reward"] for line in whole.history]
    assert resumed.steps == whole.steps == SMALL.steps


@pytest.mark.thorough
def test_a_training_killed_at_any_moment_leaves_policies_that_load_and_goes_on(tmp_path):
    out = tmp_path / "run"
    code = (
        "from slipstream.learn.training import train; from tests.learn.test_training import SMALL;"
        f"train('edge/tiny', SMALL.with_changes({{'steps': 10**9, 'evaluate_every': 1}}), {str(out)!r})"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    rng = np.random.default_rng(0)
    deadline = time.monotonic() + 300
    for _ in range(4):
        while not (out / "state" / "state.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(float(rng.uniform(0.0, 0.3)))
        child.send_signal(signal.SIGKILL)
        child.wait()
        for which in ("best", "last"):
            load_policy(out / which)
        resume = code.replace("SMALL.with", "None and SMALL.with").replace(
            f"{str(out)!r})", f"{str(out)!r}, resume=True)"
        )
        child = subprocess.Popen([sys.executable, "-c", resume], cwd=ROOT)
        time.sleep(1.0)
    child.kill()
    child.wait()
    steps = [json.loads(line)["steps"] for line in (out / "history.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))


def test_training_reaches_the_known_optimum_of_the_tiny_scenario():
    settings = TrainSettings(steps=150_000, n_envs=64, n_steps=32, evaluate_every=10, evaluation_episodes=4)
    result = train(
        "edge/tiny",
        settings.with_changes(
            {"ppo.batch_size": 512, "ppo.ent_coef": 0.05, "ppo.discount_horizon": 10, "ppo.gae_lambda": 0.95}
        ),
    )
    assert slipstream.evaluate("edge/tiny", result.policy, 5).mean("reward") == pytest.approx(5.0)


def test_imitation_alone_comes_close_to_its_expert():
    settings = TrainSettings(
        steps=14 * 64 * 128,
        n_envs=64,
        warm_start="edf",
        imitation=ImitationSettings(rollouts=14),
        evaluate_every=14,
        evaluation_episodes=4,
    )
    result = train("edge/heavy", settings)
    edf, start = (slipstream.evaluate("edge/heavy", name, 4, split="eval").mean("reward") for name in ("edf", "random"))
    assert result.reward > start + 0.9 * (edf - start)


def test_a_folder_that_holds_a_training_is_not_overwritten(tmp_path):
    train("edge/tiny", SMALL, tmp_path / "run")
    with pytest.raises(InputError, match="holds a training already"):
        train("edge/tiny", SMALL, tmp_path / "run")
    with pytest.raises(InputError, match="holds no training"):
        train("edge/tiny", SMALL, tmp_path / "nothing", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ppo.clap": 1}, "unknown setting 'ppo.clap'"),
        ({"n_envs": "many"}, "n_envs is 'many': expected a whole number"),
        ({"n_envs": "2.5"}, "n_envs is '2.5': expected a whole number"),
        ({"ppo.learning_rate": "inf"}, "ppo.learning_rate is inf: expected a finite number"),
        ({"evaluation_episodes": 0}, "evaluation_episodes is 0: expected at least 1"),
        ({"hindsight.batch_size": 0, "warm_start": "edf"}, "hindsight.batch_size is 0: expected at least 1"),
        ({"n_envs": 0}, "n_envs is 0"),
        ({"algo": "dqn"}, "algo is 'dqn'"),
        ({"algo": "reinforce", "n_envs": 1}, "compares lanes with the same arrivals: expected at least 2"),
        ({"variation.rate": 2}, "rate is 2"),
        ({"ppo.n_epochs": 0}, "ppo.n_epochs is 0: expected at least 1"),
        (
            {"ppo.clip": 0.1},
            r"unknown setting 'ppo.clip': did you mean 'ppo.clip_range'\? Known: learning_rate, n_epochs, batch_size",
        ),
        ({"lanes": 64}, r"unknown setting 'lanes': did you mean 'n_envs'\? Known: algo, steps, seed, n_envs"),
        ({"reinforce.learning_rate": 0}, "reinforce.learning_rate is 0.0: expected more than 0"),
        ({"ppo.clip_range": "-1"}, "ppo.clip_range is -1.0: expected more than 0"),
        ({"ppo.ent_coef": "nan"}, "ppo.ent_coef is nan: expected at least 0"),
        ({"ppo.gae_lambda": 1.5}, "ppo.gae_lambda is 1.5: expected a number from 0 to 1"),
        ({"network.layer_norm": "maybe"}, "expected true or false"),
        ({"variation": "x"}, "expected one of its settings"),
        ({"algorithm.clip_range": 1}, "unknown setting 'algorithm'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        TrainSettings().with_changes(changes)


@pytest.mark.parametrize("lanes", [2, 4, 13, 16, 100])
@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_any_number_of_lanes_trains(algo, lanes):
    settings = SMALL.with_changes({"algo": algo, "n_envs": lanes, "groups": 8, "episode_choices": 64, "steps": 500})
    trainer = Trainer(slipstream.load("edge/tiny"), settings)
    bounds = settings.group_bounds
    assert (bounds[0], bounds[-1]) == (0, lanes)
    assert [(group.first_lane, group.count) for group in trainer.pool.groups] == [
        (first, end - first) for first, end in pairwise(bounds)
    ]
    if algo == "reinforce":
        assert all(bound % settings.reinforce.same_arrivals == 0 for bound in bounds[:-1])
    for _ in range(4):
        trainer.update()
    assert trainer.steps >= 4 * lanes


def test_whole_numbers_may_be_written_in_thousands():
    assert TrainSettings().with_changes({"steps": "1e6"}).steps == 1_000_000


def test_a_setting_of_several_names_is_a_text_with_commas() -> None:
    settings = TrainSettings().with_changes({"hidden": "time, remaining"})
    assert settings.hidden == ("time", "remaining")
    assert TrainSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert TrainSettings().with_changes({"hidden": ""}).hidden == ()


def test_settings_come_back_from_a_file_as_they_were():
    settings = KINDS["varied"].with_changes({"network.width": 8, "ppo.clip_range": 0.1})
    assert TrainSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert settings.variation == Variation(profile_error=0.2)
    with pytest.raises(InputError, match="unknown keys shoe_size"):
        TrainSettings.from_dict({"shoe_size": 1})


def test_a_curriculum_begins_with_less_load_and_ends_with_all_of_it():
    settings = TrainSettings(start_load=0.4)
    loads = [settings.load_at(progress) for progress in (0.0, 0.1, 1 / 3, 0.5, 1.0)]
    assert loads[0] == 0.4
    assert loads == sorted(loads)
    assert loads[2:] == pytest.approx([1.0, 1.0, 1.0])


def test_a_curriculum_begins_with_short_episodes_and_ends_with_whole_ones():
    settings = TrainSettings(start_length=2.0)
    assert settings.varies
    lengths = [settings.length_at(progress) for progress in (0.0, 0.1, 0.33, 1 / 3, 1.0)]
    assert lengths == pytest.approx([2.0, 7.4, 19.82, 0.0, 0.0])
    trainer = Trainer(slipstream.load("dag/small"), settings.with_changes({"n_envs": 16, "steps": 4000}))
    means = [group.scenario.horizon.mean_s for group in trainer.pool.groups]
    assert means == pytest.approx([2.0 * trainer.family.timescale(trainer.scenario) / 1e9] * len(means))


def test_an_expert_that_is_no_heuristic_is_refused(tmp_path):
    train("edge/tiny", SMALL, tmp_path / "run")
    with pytest.raises(InputError, match="is no heuristic"):
        Trainer(slipstream.load("edge/tiny"), SMALL.with_changes({"warm_start": str(tmp_path / "run" / "best")}))
