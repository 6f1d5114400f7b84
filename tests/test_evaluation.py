"""Evaluations repeat, are paired, and their intervals mean what they say."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import slipstream
from slipstream import chooser, rule
from slipstream.errors import InputError, PolicyError
from slipstream.evaluation import bootstrap_interval, what_if
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.features import DISPATCH, SLACK
from slipstream.policies import base, names
from slipstream.scenario import load
from slipstream.sim.eventlog import EVENT


@pytest.fixture(autouse=True)
def _forget_the_policies_of_a_test(monkeypatch):
    names("edge")
    monkeypatch.setitem(base._REGISTRY, "edge", dict(base._REGISTRY["edge"]))


DIGEST = """
from slipstream import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator
from slipstream.policies import find
print(digest(Simulator(load("edge/overload")).play(find("edf-fit", "edge"), 42)))
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_an_empty_log_has_the_metrics_of_every_episode(family):
    scenario = load(f"{family}/tiny")
    known = FAMILIES[family].metrics(scenario, np.empty(0, EVENT))
    assert list(known) == list(slipstream.evaluate(scenario, base.default_for(scenario), 1).values)


def test_two_processes_write_the_same_event_log():
    runs = [subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True) for _ in "ab"]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.strip()) == 64


def test_every_policy_sees_the_same_arrivals():
    comparison = slipstream.compare("edge/overload", ["edf", "random", "edf-fit"], episodes=3, seed=5)
    released = [evaluation.values["released"].tolist() for evaluation in comparison.evaluations]
    assert released[0] == released[1] == released[2]
    assert len(set(released[0])) > 1


def test_an_evaluation_does_not_depend_on_what_ran_before():
    alone = slipstream.evaluate("edge/heavy", "edf-fit", episodes=2, seed=8)
    after = slipstream.compare("edge/heavy", ["random", "edf-fit"], episodes=2, seed=8).evaluations[1]
    assert all(np.array_equal(alone.values[name], after.values[name]) for name in alone.values)


def test_episode_k_uses_seed_plus_k():
    whole = slipstream.evaluate("edge/heavy", "edf", episodes=3, seed=8)
    last = slipstream.evaluate("edge/heavy", "edf", episodes=1, seed=10)
    assert whole.values["reward"][2] == last.values["reward"][0]


def test_the_comparison_has_the_documented_shape():
    data = slipstream.compare("edge/tiny", ["edf", "stf"], episodes=4, seed=10_000).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["scenario"] == "edge/tiny"
    assert data["oracle"] is None
    assert [entry["policy"] for entry in data["policies"]] == ["edf", "stf"]
    for entry in data["policies"]:
        for figure in entry["metrics"].values():
            assert set(figure) == {"mean", "low", "high", "values"}
            assert len(figure["values"]) == 4
            assert figure["low"] <= figure["mean"] <= figure["high"]


def test_bootstrap_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.exponential(size=100))
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 200 <= 0.98


def test_paired_difference_of_a_policy_with_itself_is_zero():
    comparison = slipstream.compare("edge/heavy", ["edf", "edf-degrade"], episodes=5)
    assert comparison.difference("edf", "edf", "reward") == (0.0, 0.0, 0.0)
    mean, low, high = comparison.difference("edf-degrade", "edf", "effective_accuracy")
    assert low <= mean <= high


def test_a_rule_of_ones_own_is_compared_under_its_name():
    @rule("edge")
    def my_latest_deadline(row):
        return row[SLACK]

    comparison = slipstream.compare("edge/heavy", ["edf", my_latest_deadline], episodes=1)
    assert comparison.evaluations[1].policy == "my-latest-deadline"


def test_a_plain_python_policy_plays_like_its_compiled_twin():
    class SlowEdf:
        name = "slow-edf"

        def choose(self, global_row, rows, mask):
            dispatch = [index for index in np.flatnonzero(mask) if rows[index, DISPATCH] == 1.0]
            return min(dispatch, key=lambda index: rows[index, SLACK])

    comparison = slipstream.compare("edge/tiny", ["edf", SlowEdf()], episodes=1)
    assert comparison.evaluations[0].values["reward"] == comparison.evaluations[1].values["reward"]


def test_what_cannot_be_compiled_is_worded():
    @chooser("edge")
    def reads_a_file(globals_row, rows, mask):
        with open("x") as file:  # noqa: PTH123
            return len(file.read())

    with pytest.raises(PolicyError, match="policy 'reads-a-file' cannot be compiled"):
        slipstream.evaluate("edge/tiny", reads_a_file, episodes=1)


def test_unknown_policies_and_bad_counts_are_worded():
    with pytest.raises(PolicyError, match="unknown policy 'edf-fitt' of family 'edge': did you mean 'edf-fit'"):
        slipstream.evaluate("edge/tiny", "edf-fitt")
    with pytest.raises(InputError, match="episodes 0: expected at least 1"):
        slipstream.evaluate("edge/tiny", "edf", episodes=0)
    with pytest.raises(PolicyError, match="policy 'learned-noisy' is for 'taskgraph': expected one for 'edge'"):
        slipstream.evaluate("edge/tiny", "learned-noisy")
    with pytest.raises(PolicyError, match="no policy to play: expected at least one"):
        slipstream.compare("edge/tiny", [])
    with pytest.raises(PolicyError, match="exists in family 'edge'"):

        @rule("edge")
        def edf(row):
            return 0.0


def test_the_last_seed_can_be_played_and_no_further_one():
    last = 2**62 - 1
    assert slipstream.evaluate("edge/tiny", "edf", 1, last).values["reward"].size == 1
    with pytest.raises(InputError, match=f"seed {2**62}: expected a number"):
        slipstream.evaluate("edge/tiny", "edf", 2, last)


def test_choices_that_are_not_allowed_are_told():
    class Stubborn:
        name = "stubborn"

        def choose(self, global_row, rows, mask):
            return 9999

    with pytest.warns(UserWarning, match=r"policy 'stubborn' made \d+ choices that were not allowed"):
        slipstream.evaluate("edge/tiny", Stubborn(), episodes=1)


def test_a_failing_choice_is_told():
    @chooser("edge")
    def out_of_rows(globals_row, rows, mask):
        return mask.shape[0] + 1

    with pytest.warns(UserWarning, match="policy 'out-of-rows' made"):
        slipstream.evaluate("edge/tiny", out_of_rows, episodes=1)


def test_policies_may_be_one_string_and_are_played_once():
    comparison = slipstream.compare("edge/tiny", "edf, stf,edf", episodes=1)
    assert [evaluation.policy for evaluation in comparison.evaluations] == ["edf", "stf"]
    everyone = slipstream.compare("edge/tiny", "all,edf", episodes=1)
    assert [evaluation.policy for evaluation in everyone.evaluations] == base.applicable(load("edge/tiny"))


def test_unknown_names_in_results_are_worded():
    comparison = slipstream.compare("edge/tiny", "edf", episodes=1)
    with pytest.raises(InputError, match="policy 'stf' was not compared: expected one of edf"):
        comparison.difference("edf", "stf", "reward")
    with pytest.raises(InputError, match="unknown metric 'misses': expected one of reward, miss_rate"):
        comparison.of("edf").mean("misses")
    with pytest.raises(InputError, match="split 'tset'"):
        slipstream.evaluate("edge/tiny", "edf", episodes=1, split="tset")
    with pytest.raises(PolicyError, match="unknown family 'egde'"):
        rule("egde")(lambda row: 0.0)


def test_lookahead_beats_every_other_heuristic_on_the_loaded_built_ins():
    for name in ("edge/light", "edge/medium", "edge/heavy", "edge/overload", "edge/drone"):
        comparison = slipstream.compare(name, "all", episodes=20, seed=10_000)
        for other in base.applicable(load(name)):
            if other != "lookahead":
                assert comparison.difference("lookahead", other, "reward")[1] > 0.0, (name, other)


def test_what_if_plays_the_same_arrivals_with_a_key_changed():
    found = what_if("cluster/tiny", ["nodes.0.count=3", "backfill=strict"], "fifo", episodes=2)
    names = [one.policy for one in found.evaluations]
    assert names == ["fifo", "fifo @ nodes.0.count=3", "fifo @ backfill=strict"]
    assert found.of("fifo @ nodes.0.count=3").mean("wait_mean_s") < found.of("fifo").mean("wait_mean_s")
    assert found.of("fifo").mean("jobs") == 6.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("backfill", "expected a key and its value"),
        ("nodes.7.count=3", "no '7' there: expected an index from 0 to 0"),
        ("backfil=easy", "did you mean 'backfill'"),
        ("nodes.0.count=none", "count"),
    ],
)
def test_a_change_that_cannot_be_made_is_named(change, message):
    with pytest.raises(InputError, match=message):
        what_if("cluster/tiny", [change], "fifo", episodes=1)


def test_a_change_that_is_wrong_is_told_before_anything_is_played(monkeypatch):
    monkeypatch.setattr("slipstream.evaluation.compare", lambda *_, **__: pytest.fail("something was played"))
    with pytest.raises(InputError, match="count"):
        what_if("cluster/tiny", ["backfill=strict", "nodes.0.count=none"], "fifo", episodes=1)


def test_what_if_makes_one_variant_per_change_of_any_number_of_values():
    found = what_if("cluster/tiny", ["nodes.0.count=2,backfill=strict", "nodes.0.count=2"], "fifo", episodes=1)
    assert [one.policy for one in found.evaluations] == [
        "fifo",
        "fifo @ nodes.0.count=2,backfill=strict",
        "fifo @ nodes.0.count=2",
    ]
