"""Slipstream-Bench: nothing in it drifts unnoticed, scores mean what they say, and results can be recomputed."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from slipstream.errors import InputError, PolicyError, SuiteError
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import applicable
from slipstream.policies.learned import shipped
from slipstream.scale.executor import InProcess
from slipstream.suite import catalogue, load_suite, measure, players_of, results, verify
from slipstream.suite.catalogue import Entry, Reference, Seeds, Suite
from slipstream.suite.playing import scores_on
from slipstream.suite.scoring import best_rule, ceiling, gain, normalised, score, stored_scores
from slipstream.suite.submission import baselines, differences, fresh_scores, read_submission

DIGEST = "ef13075b8080c0f528c2574a4670e8b45268e14510e5597e9a07e9e3a5ca1e7b"
"""Of version 1, for ever: a suite that differs in a scenario or a seed is another version."""
NAMES = ["small", "medium", "large", "light", "heavy", "bursty"]
NAMES += ["shifted-rates", "shifted-work", "shifted-hardware", "shifted-profiles"]


@pytest.fixture(scope="module")
def suite():
    return load_suite()


def piece(suite, entry_id, episodes=2):
    """Return a suite of one scenario and few episodes."""
    entry = next(one for one in suite.entries if one.id == entry_id)
    seeds = [Seeds(one.split, one.first, episodes) for one in (suite.test, suite.practice)]
    return Suite(suite.version, (entry,), *seeds)


# Frozen


def test_the_suite_is_the_one_that_was_frozen(suite):
    assert suite.digest == DIGEST
    assert suite.families == ["edge", "dag", "taskgraph", "serving", "cluster"]
    # Families that came later enter with the next version.
    assert set(suite.families) == set(FAMILIES) - {"llm", "elastic"}
    for family in suite.families:
        assert [entry.name for entry in suite.of(family)] == NAMES


def test_every_scenario_has_the_digest_that_the_list_says(suite):
    for entry in suite.entries:
        assert entry.scenario.family == entry.family


def test_a_scenario_that_drifted_is_refused(suite):
    first = suite.entries[0]
    moved = Entry(first.suite, first.family, first.name, first.kind, "0" * 64)
    with pytest.raises(SuiteError, match=r"suite v2: edge/small: its digest is \w+: expected 0+"):
        _ = moved.scenario
    with pytest.raises(SuiteError, match="nothing is known of its episodes"):
        _ = moved.reference


def test_seeds_of_training_practice_and_test_lie_apart(suite):
    assert (suite.test.split, suite.practice.split) == ("test", "eval")
    assert suite.test.episodes * len(NAMES) >= 100


def test_everything_is_known_of_every_episode(suite):
    for entry in suite.entries:
        reference = entry.reference
        assert set(reference.rules) >= set(applicable(entry.scenario)), entry.id
        for values in (reference.best, reference.bound, *reference.rules.values()):
            assert len(values) == suite.test.episodes
        tolerance = 1e-6 * np.abs(reference.bound) + 1e-9
        for name, values in reference.rules.items():
            assert np.all(values <= reference.bound + tolerance), (entry.id, name)
            assert np.all(values <= reference.best)
        assert reference.scale > 0.0


@pytest.mark.parametrize("family", load_suite().families)
def test_rules_reach_what_is_stored(suite, family):
    """Two scenarios, two rules each: the whole would take minutes."""
    for name in ("small", "shifted-profiles"):
        entry = next(one for one in suite.of(family) if one.name == name)
        for rule in ("random", best_rule(suite.of(family))):
            part = Suite(suite.version, (entry,), suite.test, suite.practice)
            played = measure(part, players_of([rule], part)[0])
            np.testing.assert_allclose(played[0].rewards, entry.reference.rules[rule], rtol=1e-9)


# Scores


def made_up(best, bound, **rules):
    entry = Entry("v2", "edge", "made-up", "size", "")
    reference = Reference(np.array(best), np.array(bound), {name: np.array(one) for name, one in rules.items()}, {})
    entry.__dict__["reference"] = reference
    return entry


def test_random_scores_0_the_best_known_100_and_the_bound_the_ceiling():
    entry = made_up([10.0, 30.0], [15.0, 35.0], random=[0.0, 20.0], other=[5.0, 25.0])
    assert score([normalised(entry, entry.reference.floor)]).mean == 0.0
    assert score([normalised(entry, entry.reference.best)]).mean == 100.0
    assert score([normalised(entry, entry.reference.rules["other"])]).mean == 50.0
    assert ceiling([entry]) == 150.0


def test_a_family_is_the_mean_of_its_scenarios_whatever_their_scale():
    one = made_up([10.0, 10.0], [10.0, 10.0], random=[0.0, 0.0])
    other = made_up([-1000.0, -1000.0], [-900.0, -900.0], random=[-3000.0, -3000.0])
    found = score([normalised(one, np.array([10.0, 10.0])), normalised(other, np.array([-3000.0, -2000.0]))])
    assert found.mean == pytest.approx((100.0 + 25.0) / 2)
    assert found.low <= found.mean <= found.high
    assert found.high - found.low == pytest.approx(25.0)  # of the second scenario alone, at half its weight


def test_a_gain_is_paired_so_that_what_episodes_have_in_common_drops_out():
    entry = made_up([100.0, 900.0], [100.0, 900.0], random=[0.0, 0.0], rule=[50.0, 850.0])
    found = gain([entry], {"made-up": np.array([60.0, 860.0])}, "rule")
    assert found.low == pytest.approx(found.high) == pytest.approx(2.0)


def test_scores_of_trained_policies_count_only_while_their_files_are_the_same():
    entry = made_up([10.0], [10.0], random=[0.0], rule=[5.0])
    entry.reference.learned["mine"] = ("hash", np.array([8.0]))
    assert list(stored_scores([entry], {"mine": "hash"})) == ["mine", "rule", "random"]
    assert list(stored_scores([entry], {"mine": "other"})) == ["rule", "random"]
    assert best_rule([entry]) == "rule"


def test_stored_scores_put_random_at_0_and_nobody_above_the_ceiling(suite):
    for family in suite.families:
        found = baselines(suite, family)
        assert found["random"].mean == pytest.approx(0.0)
        assert all(one.mean <= ceiling(suite.of(family)) for one in found.values())


# Playing


def test_what_was_played_is_kept_and_not_played_again(suite, tmp_path, monkeypatch):
    part, checkpoint = suite.only(["cluster"]), tmp_path / "out.json.unfinished"
    part = Suite(part.version, part.entries[:2], Seeds("test", 20_000, 1), part.practice)
    players, _ = players_of(["sjf"], part)
    first = measure(part, players, checkpoint=checkpoint)
    checkpoint.write_text(checkpoint.read_text()[:-9])  # stopped while it wrote the second
    moves = []
    again = measure(part, players, progress=lambda *at: moves.append(at), checkpoint=checkpoint)
    assert moves == [(0, 2), (1, 2), (2, 2)]
    assert [one.rewards.tolist() for one in again] == [one.rewards.tolist() for one in first]
    monkeypatch.setattr("slipstream.suite.playing.rewards_of", None)  # nothing is left to play
    third = measure(part, players, checkpoint=checkpoint)
    assert [one.rewards.tolist() for one in third] == [one.rewards.tolist() for one in first]


def test_episodes_are_played_where_the_farm_is_and_come_out_the_same(suite):
    class Counting(InProcess):
        pieces = 0

        def map(self, work, items):
            self.pieces += len(items)
            return super().map(work, items)

    part, executor = piece(suite, "edge/small", 3), Counting()
    players, _ = players_of(["edf"], part)
    (elsewhere,), (here,) = measure(part, players, executor=executor), measure(part, players)
    assert elsewhere.rewards.tolist() == here.rewards.tolist()
    assert executor.pieces == 3


def test_what_another_policy_left_is_not_taken_for_this_one(suite, tmp_path):
    part, checkpoint = piece(suite, "cluster/small", 1), tmp_path / "kept"
    measure(part, players_of(["sjf"], part)[0], checkpoint=checkpoint)
    (other,) = measure(part, players_of(["fifo"], part)[0], checkpoint=checkpoint)
    assert other.policy == "fifo"
    assert other.rewards[0] == pytest.approx(part.entries[0].reference.rules["fifo"][0], rel=1e-9)


def test_learned_is_chosen_by_practice_and_says_where_there_is_none(suite):
    players, nobody = players_of(["learned"], suite)
    assert list(players) == [family for family in suite.families if shipped(family)]
    assert nobody == [
        f"{name}: learned: no trained policy comes with it" for name in suite.families if not shipped(name)
    ]
    part = piece(suite, "edge/small", 1)
    (played,) = measure(part, players_of(["learned"], part)[0])
    assert played.policy in shipped("edge")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["nobody-knows-it"], "unknown policy 'nobody-knows-it'"),
        (["edf", "fifo"], "'edf' plays edge too: expected one for a family"),
        (["no-such-file.py:policy"], "no file .*no-such-file.py: expected one"),
        (["mine.py:not a name"], "such as mine.py:policy"),
        (["no.such.module:policy"], "no module 'no.such.module'"),
    ],
)
def test_bad_policies_are_refused_in_one_line(suite, sources, message):
    with pytest.raises(InputError, match=message):
        players_of(sources, suite)
    with pytest.raises(SuiteError, match="unknown family 'sea': expected one of edge, dag"):
        suite.only(["sea"])
    with pytest.raises(SuiteError, match="suite 'v0' is not known"):
        load_suite("v0")


# Code that was handed in

SPY = """
import gc, os, sys
from pathlib import Path

class Spy:
    name, family = "spy", "edge"

    def __init__(self):
        self.choices = 0

    def choose(self, global_row, rows, mask):
        self.choices += 1
        if self.choices > 2:
            return self.vandalise(global_row, rows, mask)
        held = {type(one).__name__ for one in gc.get_objects()}
        assert not held & {"Simulator", "Suite", "Entry", "EdgeScenario", "Reference"}, held
        frame, known = sys._getframe(), set()
        while frame is not None:
            known |= set(frame.f_locals)
            frame = frame.f_back
        assert not known & {"seed", "seeds", "simulator", "scenario", "split", "entry", "suite"}, known
        told = " ".join([*sys.argv, *os.environ, *os.environ.values()])
        assert "20000" not in told and "20_000" not in told
        assert rows.base is None or rows.base.base is None
        with Path("seen.txt").open("a") as file:
            file.write(f"{os.getpid()} {self.choices}\\n")
        return self.vandalise(global_row, rows, mask)

    def vandalise(self, global_row, rows, mask):
        legal = [index for index in range(len(mask)) if mask[index]]
        rows[:], mask[:], global_row[:] = 1e9, 1, -1  # vandalism reaches nobody else
        return legal[0]
"""


def test_a_policy_that_looks_for_the_seed_or_the_future_finds_nothing(suite, tmp_path):
    (tmp_path / "spy.py").write_text(SPY)
    part = piece(suite, "edge/small")
    players, _ = players_of(["spy.py:Spy"], part, tmp_path)
    (played,) = measure(part, players)
    assert len(played.rewards) == 2
    seen = [tuple(map(int, line.split())) for line in (tmp_path / "seen.txt").read_text().splitlines()]
    episodes = list(dict.fromkeys(process for process, _ in seen))
    assert len(episodes) == 2  # each begins from the policy as it was loaded: nobody can count them
    assert os.getpid() not in episodes
    for episode in episodes:
        assert [count for process, count in seen if process == episode] == [1, 2]


def test_code_that_was_handed_in_reaches_what_the_same_rule_reaches_in_compiled_code(suite, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import slipstream.families.edge.policies\nfrom slipstream.policies import find\n"
    )
    with (tmp_path / "mine.py").open("a") as file:
        file.write("print('talk that is not for us')\npolicy = find('edf-degrade', 'edge')\n")
    part = piece(suite, "edge/small")
    (sandboxed,) = measure(part, players_of(["mine.py:policy"], part, tmp_path)[0])
    (compiled,) = measure(part, players_of(["edf-degrade"], part)[0])
    assert sandboxed.rewards.tolist() == compiled.rewards.tolist()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("policy = 3", "has no method 'choose'"),
        ("raise ValueError('no')", r"cannot be loaded \(ValueError: no\)"),
        ("other = 3", "cannot be loaded"),
        ("class policy:\n def choose(self, *_): return 0", "says nothing of its family"),
    ],
)
def test_code_that_is_no_policy_is_refused_in_one_line(suite, tmp_path, code, message):
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(InputError, match=message):
        players_of(["mine.py:policy"], suite, tmp_path)


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("raise KeyError(1)", "failed to choose"),
        ("return 1.5", "failed to choose .*: expected the index of a row"),
        ("import os; os._exit(0)", "has ended in the middle"),
    ],
)
def test_code_that_fails_in_the_middle_ends_with_one_line(suite, tmp_path, does, message):
    (tmp_path / "mine.py").write_text(f"class Bad:\n family = 'edge'\n def choose(self, *_):\n  {does}\n")
    part = piece(suite, "edge/small", 1)
    players, _ = players_of(["mine.py:Bad"], part, tmp_path)
    with pytest.raises(PolicyError, match=message):
        measure(part, players)


# Handing in


@pytest.fixture(scope="module")
def handed_in(suite, tmp_path_factory):
    """Return the file of a rule's results on one family, and its data."""
    part = suite.only(["cluster"])
    players, _ = players_of(["sjf"], part)
    data = results(part, players, measure(part, players), "shortest first")
    path = tmp_path_factory.mktemp("handed-in") / "sjf.json"
    path.write_text(json.dumps(data))
    return path, data


def changed(data, place, value):
    """Return a copy of the data with one place changed."""
    copy = json.loads(json.dumps(data))
    *way, last = place
    target = copy
    for step in way:
        target = target[step]
    target[last] = value
    return copy


def test_honest_results_are_accepted_and_reproduced_to_the_digit(handed_in):
    path, data = handed_in
    assert read_submission(path) == data
    assert verify(path) == []


HEAVY = ("families", "cluster", "scenarios", "heavy")


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ((*HEAVY, "rewards", 3), -1.0, "families.cluster.scenarios.heavy.score"),
        ((*HEAVY, "score"), 99.0, "families.cluster.scenarios.heavy.score"),
        ((*HEAVY, "digest"), "0" * 64, "families.cluster.scenarios.heavy.digest"),
        (("families", "cluster", "score", "mean"), 99.0, "families.cluster.score.mean"),
        (("families", "cluster", "gain", "low"), 1.0, "families.cluster.gain.low"),
        (("families", "cluster", "ceiling"), 500.0, "families.cluster.ceiling"),
        (("suite", "digest"), "0" * 64, "suite.digest"),
        (("players", "cluster", "sha256"), "0" * 64, "players.cluster.sha256"),
        ((*HEAVY, "rewards"), [1.0], "families.cluster.scenarios.heavy.rewards"),
    ],
)
def test_tampering_is_found_and_the_place_named(handed_in, tmp_path, place, value, named):
    path = tmp_path / "tampered.json"
    path.write_text(json.dumps(changed(handed_in[1], place, value)))
    findings = verify(path)
    assert named in [finding.place for finding in findings], findings
    assert all(finding.found != finding.expected for finding in findings)


def test_rewards_that_agree_with_their_scores_but_were_not_reached_are_found_by_playing(suite, handed_in, tmp_path):
    data = changed(
        handed_in[1],
        (*HEAVY, "rewards", 3),
        handed_in[1]["families"]["cluster"]["scenarios"]["heavy"]["rewards"][3] + 1.0,
    )
    from slipstream.suite.playing import ScenarioResult

    part = suite.only(["cluster"])
    own = data["families"]["cluster"]["scenarios"]
    played = [ScenarioResult(entry, "sjf", np.array(own[entry.name]["rewards"])) for entry in part.entries]
    path = tmp_path / "consistent.json"
    path.write_text(json.dumps(results(part, players_of(["sjf"], part)[0], played, "shortest first")))
    places = [finding.place for finding in verify(path)]
    assert "families.cluster.scenarios.heavy.rewards[3]" in places
    assert "families.cluster.scenarios.light.rewards[3]" not in places


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), 2, "format"),
        (("players",), {}, "families: expected those of 'players'"),
        ((*HEAVY, "rewards"), ["much"], r"families.cluster.scenarios.heavy.rewards\[0\]: expected a number"),
        (("suite", "version"), "v9", "suite 'v9' is not known"),
    ],
)
def test_files_without_the_shape_of_results_are_refused_in_one_line(handed_in, tmp_path, place, value, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(handed_in[1], place, value)))
    with pytest.raises(InputError, match=message):
        read_submission(path)


def test_a_policy_that_has_the_test_by_heart_does_not_hold_on_fresh_episodes(handed_in, tmp_path, suite):
    """Claims of the oracle's rewards stand for one that replays the test episodes."""
    path, data = handed_in
    honest = fresh_scores(path, 500_000)["cluster"]
    assert honest["holds"]
    claimed = changed(data, ("families", "cluster", "score"), {"mean": 100.0, "low": 100.0, "high": 100.0})
    other = tmp_path / "by-heart.json"
    other.write_text(json.dumps(claimed))
    assert not fresh_scores(other, 500_000)["cluster"]["holds"]


def test_practice_scores_agree_with_the_test_where_the_episodes_are_the_same(suite):
    part = piece(suite, "cluster/small", suite.test.episodes)
    players, _ = players_of(["sjf"], part)
    played = measure(part, players)
    entry = part.entries[0]
    expected = score([normalised(entry, entry.reference.rules["sjf"])])
    assert scores_on(played, part.test)["cluster"].mean == pytest.approx(expected.mean)


def test_differences_name_the_place():
    found = differences({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 4}], "d": 5})
    assert [str(one) for one in found] == ["a[1].b: 2: expected 4", "d: None: expected 5", "c: 3: expected None"]


def test_the_hash_of_a_folder_changes_with_any_file(tmp_path):
    (tmp_path / "a").write_text("1")
    before = catalogue.folder_hash(tmp_path)
    (tmp_path / "a").write_text("2")
    assert catalogue.folder_hash(tmp_path) != before
