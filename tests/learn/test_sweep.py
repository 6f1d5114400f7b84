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
from slipstream.learn.study.search_space import GRIDS, make_search_space
from slipstream.learn.study.sweep import half_width, sweep
from slipstream.reports.html.sweep import sweep_page, sweep_table

SMALL = {"groups": 1, "n_envs": 4, "n_steps": 16, "threads": 1, "evaluation_episodes": 1, "evaluate_every": 1}
BASE = TrainSettings().with_changes({**SMALL, "steps": 128, "ppo.batch_size": 64})
CLIPS = {"ppo.clip_range": ["0.1", "0.2"], "network.summary": ["attention"]}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a sweep of two settings with two seeds, and its folder."""
    folder = tmp_path_factory.mktemp("sweep") / "out"
    search_space = make_search_space(BASE, None, CLIPS)
    return sweep("edge/tiny", folder, search_space, BASE, seeds=2, episodes=2, command="a command"), folder


def counted(monkeypatch):
    """Return a list to which every training adds how many updates it made."""
    updates = []

    def train(*arguments, report, **options):
        made = []

        def follow(now):
            if now.figures:  # after an update
                made.append(now.steps)
            report(now)

        result = real(*arguments, report=follow, **options)
        updates.append(len(made))
        return result

    real = module.train
    monkeypatch.setattr(module, "train", train)
    return updates


# Knobs


def test_the_usual_settings_are_tried_at_four_or_five_values_of_which_one_is_the_default():
    search_space = make_search_space(TrainSettings(), None, {})
    assert [parameter.name for parameter in search_space] == list(GRIDS)
    for parameter in search_space:
        assert 4 <= len(parameter.values) <= 5
        assert parameter.default in parameter.values
        assert list(parameter.values) == sorted(set(parameter.values))


def test_a_default_that_is_not_in_the_grid_is_added():
    (parameter,) = make_search_space(TrainSettings().with_changes({"ppo.clip_range": 0.15}), ["ppo.clip_range"], {})
    assert parameter.values == (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def test_own_values_are_read_as_the_setting_has_them():
    texts = {"n_steps": ["64", "64"], "network.layer_norm": ["true"], "warm_start": ["edf"]}
    values = {parameter.name: parameter.values for parameter in make_search_space(TrainSettings(), None, texts)}
    assert values == {"n_steps": (64, 128), "network.layer_norm": (False, True), "warm_start": (None, "edf")}


BAD = {
    "misspelt": ("ppo.clip", "0.1", "did you mean 'ppo.clip_range'?"),
    "no setting": ("nothing", "0.1", "unknown setting 'nothing'"),
    "property": ("algorithm.clip_range", "0.1", "unknown setting"),
    "whole part": ("ppo", "0.1", "unknown setting 'ppo'"),
    "fixed": ("seed", "1", "unknown setting 'seed'"),
    "other algorithm": ("reinforce.ent_coef", "0.1", "means nothing to ppo"),
    "no number": ("ppo.clip_range", "wide", "expected a number"),
    "not finite": ("ppo.clip_range", "inf", "expected a finite number"),
    "negative": ("ppo.clip_range", "-0.1", "expected more than 0"),
    "negative window": ("hindsight.horizon", "-0.1", "expected at least 0"),
    "no such option": ("network.summary", "sum", "expected one of pool, attention"),
    "only the default": ("ppo.clip_range", "0.2", "no value beside its default"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_setting_that_cannot_be_searched_is_refused_in_one_line(case):
    name, value, words = BAD[case]
    with pytest.raises(InputError) as refusal:
        make_search_space(TrainSettings(), None, {name: [value]})
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


# Trainings


def test_the_default_is_trained_once_per_seed_for_all_settings(study):
    result, folder = study
    trained = sorted(str(path.parent.relative_to(folder / "trainings")) for path in folder.rglob("run.json"))
    names = ("default", "network.summary=attention", "ppo.clip_range=0.1")
    assert trained == [f"{name}/seed-{seed}" for name in names for seed in (0, 1)]
    default = [row for knob in result["knobs"] for row in knob["values"] if row["default"]]
    assert default[0]["rewards"] == default[1]["rewards"]


def test_a_score_is_the_reward_of_the_best_policy_on_seeds_that_picked_nothing(study):
    from slipstream.evaluation import evaluate
    from slipstream.policies.learned import load_policy

    result, folder = study
    policy = load_policy(folder / "trainings" / "ppo.clip_range=0.1" / "seed-1" / "best")
    reward = evaluate("edge/tiny", policy, 2, module.SCORE_SEED, "eval").mean("reward")
    row = result["knobs"][0]["values"][0]
    assert row["value"] == 0.1
    assert row["rewards"][1] == reward
    assert row["to_heuristic"] == row["mean"] - result["heuristic"]["reward"]


def test_trainings_with_larger_updates_are_evaluated_after_as_many_choices():
    base = TrainSettings().with_changes({"n_steps": 128, "evaluate_every": 20})
    (parameter,) = make_search_space(base, ["n_steps"], {})
    for training in module._plan(base, [parameter], 1):
        settings = training.settings
        assert settings.evaluate_every * settings.n_steps == 20 * 128


def test_resume_reads_finished_trainings_and_trains_nothing_again(study, monkeypatch):
    result, folder = study
    updates = counted(monkeypatch)
    search_space = make_search_space(BASE, None, CLIPS)
    again = sweep("edge/tiny", folder, search_space, BASE, seeds=2, episodes=2, resume=True, command="a command")
    assert again == result
    assert updates == []


def test_a_killed_sweep_goes_on_where_it_was_and_finds_the_same(study, tmp_path, monkeypatch):
    result, _ = study
    search_space = make_search_space(BASE, None, CLIPS)

    def kill(now):
        if now.number == 3 and now.steps % BASE.steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep("edge/tiny", tmp_path, search_space, BASE, seeds=2, episodes=2, command="a command", report=kill)
    updates = counted(monkeypatch)
    again = sweep("edge/tiny", tmp_path, search_space, BASE, seeds=2, episodes=2, resume=True, command="a command")
    assert again == result
    assert updates == [1, 2, 2, 2]  # the first of the two updates of the third training was not lost


def test_a_sweep_never_mixes_with_another(study, tmp_path):
    _, folder = study
    search_space = make_search_space(BASE, None, CLIPS)
    with pytest.raises(InputError, match="holds a sweep: expected a new folder, or --resume"):
        sweep("edge/tiny", folder, search_space, BASE)
    with pytest.raises(InputError, match="holds no sweep"):
        sweep("edge/tiny", tmp_path, search_space, BASE, resume=True)
    with pytest.raises(InputError, match="another scenario or with other settings"):
        sweep("edge/tiny", folder, search_space, BASE.with_changes({"steps": 256}), resume=True)
    with pytest.raises(InputError, match="another scenario or with other settings"):
        sweep("edge/light", folder, search_space, BASE, episodes=1, resume=True)


# Reports


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


def test_a_value_is_best_where_its_mean_is_highest(study):
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


def test_the_command_prints_what_it_writes_and_draws_every_setting(slipstream, tmp_path):
    options = [f"--set={name}={value}" for name, value in {**SMALL, "ppo.batch_size": 64}.items()]
    options += ["--steps=64", "--seeds=1", "--episodes=1", "--out=out"]
    code, output, _ = slipstream(
        "sweep", "edge/tiny", "--knob=ppo.gae_lambda=0.95", "--knobs=ppo.clip_range", *options, "--json"
    )
    assert code == 0
    assert json.loads(output) == json.loads((tmp_path / "out" / "sweep.json").read_text())
    page = (tmp_path / "out" / "sweep.html").read_text()
    assert "<h3>ppo.clip_range</h3>" in page
    assert "<h3>ppo.gae_lambda</h3>" in page
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    code, output, _ = slipstream("sweep", "edge/tiny", "--knob=ppo.gae_lambda=0.95", *options, "--resume")
    assert code == 0
    assert "ppo.gae_lambda" in output
    assert "ppo.clip_range" not in output


REFUSED = {
    "unknown setting": ("--knobs=ppo.clip", "did you mean 'ppo.clip_range'?"),
    "setting without values": ("--knobs=ppo.gae_lambda", "expected them, as in --knob ppo.gae_lambda=VALUE,VALUE"),
    "no values": ("--knob=ppo.gae_lambda", "--knob ppo.gae_lambda: expected a setting and its value"),
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
