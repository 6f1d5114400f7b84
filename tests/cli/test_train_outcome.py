"""What `slipstream train` does without being told more than the scenario: warm start, limits, outcome, folder."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipstream.cli.train import command_of_use
from slipstream.families.contract import FAMILIES
from slipstream.files.lock import LOCK
from slipstream.learn.race import Race
from slipstream.learn.trainer import Trainer
from slipstream.policies.learned import load_policy
from slipstream.suite.catalogue import load_suite

QUICK = ["--steps", 2000, "--set", "evaluation_episodes=2"]


def test_a_training_starts_from_the_winner_of_a_race_and_says_how_it_ended(slipstream):
    code, output, told = slipstream("train", "edge/tiny", *QUICK, "-o", "run", "-s", 1)
    assert code == 0
    (line,) = [line for line in told.splitlines() if line.startswith("warm start")]
    name = re.fullmatch(r"warm start: (\S+), the best of 12 policies in a race on training episodes", line)[1]
    about = json.loads(Path("run/run.json").read_text())
    assert about["settings"]["warm_start"] == name == about["reference"]["race"]["ranking"][0]["policy"]
    assert about["reference"]["race"]["split"] == "train"
    outcome = about["outcome"]
    assert outcome["verdict"] in ("ahead", "level", "behind")
    assert outcome["split"] == "eval"
    assert outcome["difference"] == pytest.approx(outcome["reward"] - outcome["heuristic_reward"])
    assert output.splitlines()[1].lower().startswith(outcome["verdict"])
    assert [line.split(":")[0] for line in told.splitlines() if ":" in line][:1] == [
        "racing heuristics on training episodes"
    ]
    assert "imitation: " in told


def test_a_training_that_loses_says_so_by_how_much_and_what_to_try(slipstream):
    words = ["--steps", 64, "--set", "n_envs=8", "--warm-start", "none", "--set", "evaluation_episodes=2"]
    code, output, _ = slipstream("train", "edge/heavy", *words, "--out", "run")
    assert code == 0
    behind, tries = output.splitlines()[1:3]
    assert re.match(r"Behind: reward \S+ against \S+ of \S+, the best heuristic, worse by \S+ \(95% interval", behind)
    assert tries.startswith("Try: more steps; a warm start (--warm-start auto, or the name of a heuristic); ")
    assert "slipstream compare edge/heavy --policies all,learned" in tries


def test_the_json_has_the_outcome_and_the_folder_that_was_chosen(slipstream):
    for folder in ("runs/edge-tiny", "runs/edge-tiny-2"):
        code, output, _ = slipstream("train", "edge/tiny", *QUICK, "--json")
        figures = json.loads(output)
        assert (code, figures["out"], figures["policy"]) == (0, folder, f"{folder}/best")
        assert figures["outcome"] == json.loads(Path(folder, "run.json").read_text())["outcome"]
        assert load_policy(Path(folder, "best")).family == "edge"


def test_the_best_policy_is_the_imitation_if_what_follows_is_worse(slipstream, monkeypatch):
    rewards = iter([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    from slipstream.learn import training_run

    played = training_run.rewards_within

    def falling(*arguments):
        found = played(*arguments)
        return found * 0.0 + next(rewards, -1.0)

    monkeypatch.setattr(training_run, "rewards_within", falling)
    words = ["--steps", 4000, "--set", "imitation.rollouts=4", "--set", "hindsight.rounds=0", "--warm-start", "auto"]
    code, output, _ = slipstream("train", "edge/tiny", *words, "--set", "evaluate_every=10", "--out", "run", "--json")
    assert code == 0
    history = json.loads(output)["history"]
    assert (history[0]["phase"], history[0]["update"]) == ("imitation", 4)
    assert len(history) > 1
    card = json.loads(Path("run/best/policy.json").read_text())
    assert card["steps"] == history[0]["steps"]


def test_a_warm_start_that_cannot_be_imitated_is_replaced_by_what_can_in_one_line(slipstream, monkeypatch):
    monkeypatch.setattr(Race, "warm_start", None)
    code, output, told = slipstream("train", "edge/tiny", *QUICK, "--out", "run", "--json")
    assert code == 0
    (line,) = [line for line in told.splitlines() if line.startswith("warm start")]
    assert line.startswith("warm start: none (random weights): ")
    assert line.endswith("cannot be imitated yet")
    assert json.loads(output)["warm_start"] is None


def test_a_policy_to_go_on_from_needs_no_warm_start(slipstream):
    slipstream("train", "edge/tiny", *QUICK, "--out", "first")
    words = ["--set", "start_from=first/best", "--out", "second", "--json"]
    code, output, _ = slipstream("train", "edge/tiny", *QUICK, *words)
    assert code == 0
    assert json.loads(output)["warm_start"] is None
    assert {line["phase"] for line in json.loads(output)["history"]} == {"ppo"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "scenario", ["serving/tiny", "serving/route", "dag/small", "taskgraph/tiny", "cluster/tiny", "llm/tiny"]
)
def test_a_short_time_limit_leaves_a_policy_and_an_outcome_in_every_family(slipstream, scenario):
    code, output, _ = slipstream("train", scenario, "--minutes", 0.1, "--out", "run", "--json")
    assert code == 0
    found = json.loads(output)
    assert found["outcome"]["episodes"] >= 1
    assert load_policy(Path("run/best")).family == scenario.partition("/")[0]
    code, output, _ = slipstream("run", scenario, "--policy", "run/best", "--json")
    assert code == 0


def test_updates_stop_before_the_time_that_evaluation_and_outcome_need(slipstream, monkeypatch):
    times = []
    update = Trainer.update

    def noted(self):
        figures = update(self)
        times.append(self)
        return figures

    monkeypatch.setattr(Trainer, "update", noted)
    code, output, _ = slipstream("train", "edge/tiny", "--minutes", 0.05, "--out", "run", "--json")
    assert code == 0
    assert len(times) > 3
    about = json.loads(Path("run/run.json").read_text())
    assert about["limits"] == {"steps": None, "minutes": 0.05}
    history = json.loads(output)["history"]
    assert history[-1]["update"] == times[-1].update_number


# One process at a time


@contextmanager
def held(folder):
    """Hold the lock of a folder as a process that trains there does."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Path(folder, LOCK).open("w") as file:
        file.write("4711\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(
    ("words", "activity"),
    [
        (["train", "edge/tiny", "--out", "run"], "training"),
        (["train", "edge/tiny", "--out", "run", "--resume"], "training"),
        (["sweep", "edge/tiny", "--out", "run", "--steps", 64], "running a sweep"),
    ],
)
def test_a_folder_in_which_another_process_trains_is_refused_in_one_line(slipstream, words, activity):
    with held("run"):
        code, _, told = slipstream(*words)
        assert code == 2
        expected = f"run: process 4711 is {activity} there: expected another folder, or that one to end"
        assert told.splitlines() == [f"error: {expected}"]
        assert [path.name for path in Path("run").iterdir()] == [LOCK]


def test_a_finished_training_is_not_overwritten_and_a_stale_lock_does_not_matter(slipstream):
    assert slipstream("train", "edge/tiny", *QUICK, "--out", "run")[0] == 0
    code, _, told = slipstream("train", "edge/tiny", *QUICK, "--out", "run")
    assert (code, told) == (2, "error: run: holds a training already: expected a new folder, or --resume\n")
    Path("run", LOCK).write_text("4711\n")
    assert slipstream("train", "edge/tiny", "--resume", "--out", "run")[0] == 0


def test_a_lock_that_is_a_link_is_refused(slipstream, tmp_path):
    Path("run").mkdir()
    Path("run", LOCK).symlink_to(tmp_path / "elsewhere")
    code, _, told = slipstream("train", "edge/tiny", *QUICK, "--out", "run")
    assert code == 2
    assert told == "error: run/.lock: is a link: expected a file of this folder\n"
    assert not Path("elsewhere").exists()


def test_an_interrupted_race_leaves_no_folder(slipstream, monkeypatch):
    from slipstream.learn import training

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "race", interrupt)
    assert slipstream("train", "edge/tiny", *QUICK, "--out", "new/run")[0] == 130
    assert not Path("new").exists()


def test_the_lock_ends_with_its_process(tmp_path):
    code = (
        "import sys, os; from pathlib import Path; from slipstream.files.lock import FolderLock;"
        "lock = FolderLock(Path(sys.argv[1]), 'training'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "run"], check=True)
    from slipstream.files.lock import FolderLock

    with FolderLock(tmp_path / "run", "training"):
        assert (tmp_path / "run" / LOCK).read_text() == f"{os.getpid()}\n"


def test_the_command_that_a_training_names_plays_its_policy():
    assert command_of_use("edge/tiny", "out/best", False) == "slipstream compare edge/tiny --policies all,out/best"
    for family in FAMILIES:
        command = command_of_use(family, "out/best", True)
        if family in load_suite().families:
            assert command == "slipstream bench suite --policy out/best --practice"
        else:  # the suite has no scenario for it
            assert command == f"slipstream compare {FAMILIES[family].default_scenario} --policies all,out/best"
