"""A sweep turns one setting at a time, goes on where it was, and tells the same in every form."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from slipstream.cli.main import main
from slipstream.errors import InputError
from slipstream.learn.settings import TrainSettings
from slipstream.learn.study import sweep as module
from slipstream.learn.study.search_space import GRIDS, choose_knobs
from slipstream.learn.study.sweep import half_width, sweep
from slipstream.report.html.sweep import sweep_page, sweep_table

SMALL = {"groups": 1, "lanes": 4, "rollout": 16, "threads": 1, "evaluation_episodes": 1, "evaluate_every": 1}
BASE = TrainSettings().with_changes({**SMALL, "steps": 128, "ppo.minibatch": 64})
CLIPS = {"ppo.clip": ["0.1", "0.2"], "network.summary": ["attention"]}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a sweep of two knobs with two seeds, and its folder."""
    folder = tmp_path_factory.mktemp("sweep") / "out"
    knobs = choose_knobs(BASE, None, CLIPS)
    return sweep("edge/tiny", folder, knobs, BASE, seeds=2, episodes=2, command="a command"), folder


def counted(monkeypatch):
    """Return a list to which every training adds how many updates it made."""
    updates = []

    def train(*arguments, report, **options):
        made = []
        result = real(*arguments, report=lambda now: (made.append(now.steps), report(now)), **options)
        updates.append(len(made))
        return result

    real = module.train
    monkeypatch.setattr(module, "train", train)
    return updates


# Knobs


def test_the_usual_knobs_are_tried_at_four_or_five_values_of_which_one_is_the_default():
    knobs = choose_knobs(TrainSettings(), None, {})
    assert [knob.name for knob in knobs] == list(GRIDS)
    for knob in knobs:
        assert 4 <= len(knob.values) <= 5
        assert knob.default in knob.values
        assert list(knob.values) == sorted(set(knob.values))


def test_a_default_that_is_not_in_the_grid_is_added():
    (knob,) = choose_knobs(TrainSettings().with_changes({"ppo.clip": 0.15}), ["ppo.clip"], {})
    assert knob.values == (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def test_own_values_are_read_as_the_setting_has_them():
    texts = {"rollout": ["64", "64"], "network.layer_norm": ["true"], "warm_start": ["edf"]}
    values = {knob.name: knob.values for knob in choose_knobs(TrainSettings(), None, texts)}
    assert values == {"rollout": (64, 128), "network.layer_norm": (False, True), "warm_start": (None, "edf")}


BAD = {
    "misspelt": ("ppo.clipp", "0.1", "did you mean 'ppo.clip'?"),
    "no setting": ("nothing", "0.1", "unknown knob 'nothing'"),
    "property": ("algorithm.clip", "0.1", "unknown knob"),
    "whole part": ("ppo", "0.1", "unknown knob 'ppo'"),
    "fixed": ("seed", "1", "unknown knob 'seed'"),
    "other algorithm": ("reinforce.entropy_weight", "0.1", "means nothing to ppo"),
    "no number": ("ppo.clip", "wide", "expected a number"),
    "not finite": ("ppo.clip", "inf", "expected a finite number"),
    "negative": ("ppo.clip", "-0.1", "expected more than 0"),
    "negative window": ("hindsight.window", "-0.1", "expected at least 0"),
    "no such option": ("network.summary", "sum", "expected one of pool, attention"),
    "only the default": ("ppo.clip", "0.2", "no value beside its default"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_knob_that_cannot_be_turned_is_refused_in_one_line(case):
    name, value, words = BAD[case]
    with pytest.raises(InputError) as refusal:
        choose_knobs(TrainSettings(), None, {name: [value]})
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


# Trainings


def test_the_default_is_trained_once_per_seed_for_all_knobs(study):
    result, folder = study
    trained = sorted(str(path.parent.relative_to(folder / "trainings")) for path in folder.rglob("run.json"))
    names = ("default", "network.summary=attention", "ppo.clip=0.1")
    assert trained == [f"{name}/seed-{seed}" for name in names for seed in (0, 1)]
    default = [row for knob in result["knobs"] for row in knob["values"] if row["default"]]
    assert default[0]["rewards"] == default[1]["rewards"]


def test_a_score_is_the_reward_of_the_best_policy_on_seeds_that_picked_nothing(study):
    from slipstream.evaluation import evaluate
    from slipstream.policies.learned import load_policy

    result, folder = study
    policy = load_policy(folder / "trainings" / "ppo.clip=0.1" / "seed-1" / "best")
    reward = evaluate("edge/tiny", policy, 2, module.SCORE_SEED, "eval").mean("reward")
    row = result["knobs"][0]["values"][0]
    assert row["value"] == 0.1
    assert row["rewards"][1] == reward
    assert row["to_heuristic"] == row["mean"] - result["heuristic"]["reward"]


def test_trainings_with_larger_updates_are_evaluated_after_as_many_choices():
    base = TrainSettings().with_changes({"rollout": 128, "evaluate_every": 20})
    (knob,) = choose_knobs(base, ["rollout"], {})
    for training in module._plan(base, [knob], 1):
        settings = training.settings
        assert settings.evaluate_every * settings.rollout == 20 * 128


def test_resume_reads_finished_trainings_and_trains_nothing_again(study, monkeypatch):
    result, folder = study
    updates = counted(monkeypatch)
    knobs = choose_knobs(BASE, None, CLIPS)
    again = sweep("edge/tiny", folder, knobs, BASE, seeds=2, episodes=2, resume=True, command="a command")
    assert again == result
    assert updates == []


def test_a_killed_sweep_goes_on_where_it_was_and_finds_the_same(study, tmp_path, monkeypatch):
    result, _ = study
    knobs = choose_knobs(BASE, None, CLIPS)

    def kill(now):
        if now.number == 3 and now.steps % BASE.steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep("edge/tiny", tmp_path, knobs, BASE, seeds=2, episodes=2, command="a command", report=kill)
    updates = counted(monkeypatch)
    again = sweep("edge/tiny", tmp_path, knobs, BASE, seeds=2, episodes=2, resume=True, command="a command")
    assert again == result
    assert updates == [1, 2, 2, 2]  # the first of the two updates of the third training was not lost


def test_a_sweep_never_mixes_with_another(study, tmp_path):
    _, folder = study
    knobs = choose_knobs(BASE, None, CLIPS)
    with pytest.raises(InputError, match="holds a sweep: expected a new folder, or --resume"):
        sweep("edge/tiny", folder, knobs, BASE)
    with pytest.raises(InputError, match="holds no sweep"):
        sweep("edge/tiny", tmp_path, knobs, BASE, resume=True)
    with pytest.raises(InputError, match="another scenario or with other settings"):
        sweep("edge/tiny", folder, knobs, BASE.with_changes({"steps": 256}), resume=True)
    with pytest.raises(InputError, match="another scenario or with other settings"):
        sweep("edge/light", folder, knobs, BASE, episodes=1, resume=True)


# What is told


def test_the_interval_is_students():
    assert half_width(module.np.array([1.0, 2.0, 3.0])) == pytest.approx(4.302652729911275 / 3**0.5)
    assert half_width(module.np.array([1.0])) is None


def test_table_json_and_page_tell_the_same(study):
    result, folder = study
    assert json.loads((folder / "sweep.json").read_text()) == json.loads(json.dumps(result))
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(sweep_table(result))
    table, page = console.export_text(), sweep_page(result)
    for knob in result["knobs"]:
        assert knob["knob"] in table
        assert f"<h3>{knob['knob']}</h3>" in page
        for row in knob["values"]:
            shown = f"{row['mean']:,.3f}±{row['half_width']:,.3f}"
            assert shown in table
            assert shown in page
    assert table.count("default") >= 2
    assert result["heuristic"]["policy"] in table


def test_a_knob_is_best_where_its_mean_is_highest(study):
    for knob in study[0]["knobs"]:
        means = [row["mean"] for row in knob["values"]]
        assert [row["best"] for row in knob["values"]] == [mean == max(means) for mean in means]
        assert [row["default"] for row in knob["values"]].count(True) == 1


# The command


@pytest.fixture
def slipstream(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slipstream", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsys.readouterr()
        return ending.value.code or 0, captured.out, captured.err

    return run


def test_the_command_prints_what_it_writes_and_draws_every_knob(slipstream, tmp_path):
    options = [f"--set={name}={value}" for name, value in {**SMALL, "ppo.minibatch": 64}.items()]
    options += ["--steps=64", "--seeds=1", "--episodes=1", "--out=out"]
    code, output, _ = slipstream("sweep", "edge/tiny", "--knob=ppo.trace=0.95", "--knobs=ppo.clip", *options, "--json")
    assert code == 0
    assert json.loads(output) == json.loads((tmp_path / "out" / "sweep.json").read_text())
    page = (tmp_path / "out" / "sweep.html").read_text()
    assert "<h3>ppo.clip</h3>" in page
    assert "<h3>ppo.trace</h3>" in page
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    code, output, _ = slipstream("sweep", "edge/tiny", "--knob=ppo.trace=0.95", *options, "--resume")
    assert code == 0
    assert "ppo.trace" in output
    assert "ppo.clip" not in output


REFUSED = {
    "unknown knob": ("--knobs=ppo.clipp", "did you mean 'ppo.clip'?"),
    "knob without values": ("--knobs=ppo.trace", "expected them, as in --knob ppo.trace=VALUE,VALUE"),
    "no values": ("--knob=ppo.trace", "--knob ppo.trace: expected a setting and its value"),
    "unknown expert": ("--warm-start=edff", "unknown policy 'edff'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_ends_with_one_line_and_exit_code_2(case, slipstream, tmp_path):
    option, words = REFUSED[case]
    code, output, error = slipstream("sweep", "edge/tiny", "--out=out", option)
    assert code == 2
    assert output == ""
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
