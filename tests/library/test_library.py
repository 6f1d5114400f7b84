"""The library over real simulations, with policies made by hand: who is chosen, what is used, what is rolled back."""

from __future__ import annotations

import os

import numpy as np
import pytest

from slipstream.errors import InputError, LibraryError
from slipstream.files.lock import FolderLock
from slipstream.library import Library
from slipstream.library.judging import Episodes
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.store import Entry
from slipstream.library.updating import ACCEPTED, REJECTED, SPLIT, TOLERANCE, UPDATES, settle
from tests.library.policies import linear_policy

WISE = {"best_end": 10.0, "expected_end": -10.0, "rank": 0.01}
"""Takes a task only where it ends first, the longest path first: near the best rule."""
RASH = {"dispatch": 1.0, "rank": 0.01, "idle": 0.0}
"""Takes what it can get, wherever it is asked."""


def graph(name, n=4, gpus=2, cpus=2, kind="cholesky"):
    return {
        "family": "taskgraph",
        "name": name,
        "processors": [{"name": "gpu", "count": gpus}, {"name": "cpu", "count": cpus}],
        "noise": {"kind": "lognormal", "cv": 0.1},
        "graphs": [{"kind": kind, "n": n}],
    }


MIXED, LARGER, GPUS = graph("mixed"), graph("larger", n=5), graph("gpus", gpus=2, cpus=1)


@pytest.fixture
def library(tmp_path):
    opened = Library(tmp_path / "library", create=True, episodes=4)
    yield opened
    opened.store.close()


@pytest.fixture
def make(tmp_path):
    """Return a function that writes a policy made by hand, of a name that says which."""
    weights = {"wise": WISE, "rash": RASH}

    def write(name, shift=0.0):
        return linear_policy(tmp_path / f"{name}{shift}", "taskgraph", weights[name], shift=shift)

    return write


def update_by_hand(library, model, policy, target):
    """Publish a policy as if it had been fine-tuned on a scenario, and let the gate judge it."""
    parent, signature = library.store.version(model), library.judge.remember(target)
    entry = Entry(model, "taskgraph", "update", read_files(policy), "a test", (parent,))
    child = library.store.publish(entry)
    return settle(library.judge, parent, child, signature, TOLERANCE, library.gate)


def test_a_new_model_is_in_use_at_once_and_a_further_version_is_not(library, make):
    first = library.add("one", make("wise"), [MIXED])
    second = library.add("one", make("rash"))
    assert library.store.version("one") == first
    assert second.label == "one@v2"
    third = library.add("one", make("rash"), use=True)
    assert library.store.version("one").id == third.id
    assert library.policy("one@v1").tensors.keys() == library.policy("one@v2").tensors.keys()


def test_regret_is_measured_against_the_best_of_all_and_says_so(library, make):
    library.add("wise", make("wise"), [MIXED])
    library.add("rash", make("rash"), [MIXED])
    shown = {name: library.show(name)["regret"][f"{name}@v1"][0] for name in ("wise", "rash")}
    assert 0.0 <= shown["wise"]["regret"] < 0.2 < shown["rash"]["regret"]
    assert "best of" in shown["wise"]["reference"]


def test_with_an_oracle_regret_is_measured_against_what_it_found(tmp_path, make):
    library = Library(tmp_path / "library", create=True, episodes=2, oracle_seconds=1.0)
    # A chain of four tasks: its length is the optimum, proven at once.
    chain = {**graph("chain", n=2), "noise": {"kind": "none"}}
    library.add("wise", make("wise"), [chain])
    library.add("rash", make("rash"), [chain])
    regrets = {name: library.show(name)["regret"][f"{name}@v1"][0] for name in ("wise", "rash")}
    assert {one["reference"] for one in regrets.values()} == {"optimum"}
    assert regrets["wise"]["regret"] == 0.0
    library.store.close()


def test_what_was_made_for_a_workload_is_chosen_without_a_race(library, make):
    library.add("rash", make("rash"), [LARGER])
    library.add("wise", make("wise"), [MIXED])
    choice = library.choose(MIXED)
    assert choice.known
    assert [racer.policy for racer in choice.racers if racer.is_model] == ["wise@v1"]


def test_an_unseen_workload_is_raced_by_the_nearest_models_and_every_rule(library, make):
    library.add("rash", make("rash"), [LARGER])
    library.add("wise", make("wise"), [MIXED])
    choice = library.choose(graph("unseen", n=6), episodes=2)
    assert not choice.known
    models = [racer for racer in choice.racers if racer.is_model]
    assert {racer.policy for racer in models} == {"rash@v1", "wise@v1"}
    assert all(racer.distance is not None and racer.distance > 0.0 for racer in models)
    ranks = [(-racer.episodes, -racer.reward) for racer in choice.racers]
    assert ranks == sorted(ranks)
    assert {racer.episodes for racer in choice.racers} >= {2}
    assert all(racer.regret >= 0.0 for racer in choice.racers)
    assert len(library.choose(graph("unseen", n=6), nearest=1, episodes=2).racers) == len(choice.racers) - 1


def test_where_no_model_wins_the_rule_is_used_and_that_is_said(library, make):
    library.add("rash", make("rash"), [MIXED])
    choice = library.choose(LARGER, episodes=2)
    assert choice.version is None
    assert choice.policy in ("mct", "heft", "peft", "cpop")
    assert "no model wins" in choice.reason
    assert "which is used" in choice.reason


@pytest.mark.parametrize("scenario", ["edge/tiny", "serving/tiny"])
def test_a_family_without_models_is_served_by_its_best_rule(library, make, scenario):
    """That of serving is a planner in plain Python: its choices are looked at one by one."""
    library.add("wise", make("wise"), [MIXED])
    choice = library.choose(scenario, episodes=2)
    assert choice.version is None
    assert "no model of this family" in choice.reason


def test_a_workload_is_nearer_to_one_of_its_kind_than_to_one_on_another_machine(library, make):
    library.add("tight", make("wise", 1.0), ["taskgraph/tight-memory"])
    library.add("chol", make("wise"), [MIXED])
    choice = library.choose(graph("larger", n=6), episodes=1)
    apart = {racer.policy: racer.distance for racer in choice.racers if racer.is_model}
    assert apart["chol@v1"] < apart["tight@v1"]


def test_an_update_that_gains_is_used_and_one_that_does_not_is_kept_only(library, make):
    library.add("one", make("rash"), [MIXED])
    better = update_by_hand(library, "one", make("wise"), MIXED)
    assert better.verdict == ACCEPTED
    assert better.shifts[0].high < 0.0
    assert library.store.version("one").label == "one@v2"
    worse = update_by_hand(library, "one", make("rash", 1.0), MIXED)
    assert worse.verdict == REJECTED
    assert library.store.version("one").label == "one@v2"
    assert [event.operation for event in library.store.events("one")][-1] == "update rejected"
    assert len(library.store.versions("one")) == 3


def test_a_model_is_updated_by_one_process_at_a_time(library, make):
    library.add("one", make("rash"), [MIXED])
    library.add("two", make("wise"), [MIXED])
    with FolderLock(library.store.folder / UPDATES / "one", "updating model 'one'"):
        with pytest.raises(InputError, match=rf"process {os.getpid()} is updating model 'one' there"):
            library.update("one", MIXED, {"steps": 64})
        with pytest.raises(InputError, match="expected one of"):  # no lock, but a setting that does not exist
            library.update("two", MIXED, {"zzz": 64})
    assert [version.label for version in library.store.versions("one")] == ["one@v1"]


def test_an_accepted_update_owns_its_target_from_then_on(library, make):
    library.add("one", make("rash"), [MIXED])
    update_by_hand(library, "one", make("wise"), LARGER)
    assert len(library.store.owned()["one"]) == 2


@pytest.fixture
def torn(library, tmp_path):
    """Return an outcome that gains on its target and breaks an anchor: edge tasks, fast or accurate."""
    accurate = linear_policy(tmp_path / "accurate", "edge", {"dispatch": 5.0, "accuracy": 5.0, "latency": -4.0})
    fast = linear_policy(tmp_path / "fast", "edge", {"dispatch": 5.0, "latency": -5.0})
    library.add("one", accurate, ["edge/light"])
    parent, signature = library.store.version("one"), library.judge.remember("edge/overload")
    child = library.store.publish(Entry("one", "edge", "update", read_files(fast), "a test", (parent,)))
    return settle(library.judge, parent, child, signature, TOLERANCE, Episodes(count=3))


def test_a_version_that_gains_and_breaks_an_anchor_becomes_a_model_of_its_own(library, torn):
    assert torn.verdict == SPLIT
    assert library.store.version("one").label == "one@v1"
    outcome = library.split("one@v2", "two")
    assert outcome.verdict == ACCEPTED
    assert library.store.version("two").parents == ("one@v2",)
    owned = {name: [library.judge.name(one) for one in own] for name, own in library.store.owned().items()}
    assert owned == {"one": ["edge/light"], "two": ["edge/overload"]}
    assert library.verify() == []


def test_a_split_is_refused_where_nothing_breaks_or_nothing_is_gained(library, make, torn):
    refused = library.split("one@v2", "two", ["edge/light"])
    assert refused.verdict == REJECTED
    assert "two" not in library.store.models()
    library.add("graphs", make("rash"), [MIXED])
    library.add("graphs", make("wise"))
    refused = library.split("graphs@v2", "more", [MIXED])
    assert refused.verdict == REJECTED
    assert "breaks nothing" in refused.reason
    for reference, name, message in (
        ("one@v1", "two", "is in use by its model"),
        ("one@v2", "graphs", "exists: expected a new name"),
        ("graphs@v2", "more", "was not made by an update"),
    ):
        with pytest.raises(LibraryError, match=message):
            library.split(reference, name)


def test_generality_is_the_gap_to_the_owners(library, make):
    library.add("wise", make("wise"), [MIXED])
    library.add("rash", make("rash"), [LARGER])
    found = library.generality("rash")
    own, theirs = (
        library.judge.regret(library.store.version(name), library.judge.remember(MIXED), library.gate)
        for name in ("rash", "wise")
    )
    assert found.gap == pytest.approx(own - theirs)
    assert found.gaps == {"taskgraph/mixed": pytest.approx(own - theirs)}
    # Better than the owner: the gap is negative.
    assert library.generality("wise").gap < 0.0


def test_a_model_alone_has_no_generality(library, make):
    library.add("wise", make("wise"), [MIXED])
    assert library.generality("wise").gap is None
    (row,) = library.models()
    assert row["generality"] is None
    assert row["regret"] >= 0.0


def test_a_bad_version_that_was_put_into_use_is_rolled_back_by_its_recent_runs(library, make):
    library.add("one", make("wise"), [MIXED])
    assert library.check("one", runs=3).after is None
    library.add("one", make("rash"), use=True, reason="injected")
    found = library.check("one", runs=3)
    assert (found.before, found.after) == ("one@v2", "one@v1")
    (drift,) = found.drifts
    assert drift.recent > drift.accepted + 0.05
    event = library.store.events("one")[-1]
    assert event.operation == "rollback"
    assert event.evidence["by"] == "check"
    assert event.evidence["regret"]["one@v1"] < event.evidence["regret"]["one@v2"]
    assert library.store.version("one").label == "one@v1"


def test_runs_from_elsewhere_count_and_are_only_given_up_for_something_better(library, make):
    library.add("one", make("wise"), [MIXED])
    assert library.check("one", play=False).reason == "no runs to judge by"
    best = library.judge.reference(library.judge.remember(MIXED), Episodes(77, 3))[0]
    library.record("one", MIXED, {77 + index: 2.0 * float(value) for index, value in enumerate(best)})
    found = library.check("one", play=False)
    assert found.after is None
    assert "no earlier version does better" in found.reason
    assert found.drifts[0].recent == pytest.approx(1.0)
    assert library.store.events("one")[-1].operation == "drift"


def test_generality_that_costs_too_much_accuracy_is_rolled_back(library, make, monkeypatch):
    """The new version is better elsewhere and worse at home, yet its recent runs stay near what was accepted."""
    library.add("owner", make("wise"), [LARGER])
    library.add("one", make("rash"), [MIXED])
    library.add("one", make("wise"), use=True)
    signature, wise, rash = library.judge.remember(MIXED), *(library.store.version(f"one@v{n}") for n in (2, 1))
    regret = library.judge.regret

    def dearer(who, where, episodes):
        """As if the wise version did worse at home than the rash one, by a little less than drift allows."""
        if where == signature and who in (wise, rash):
            return regret(rash, where, episodes) + (0.03 if who == wise else 0.0)
        return regret(who, where, episodes)

    monkeypatch.setattr(library.judge, "regret", dearer)
    found = library.check("one", runs=2, drift=10.0, price=0.02)
    assert found.after == "one@v1"
    assert "at the cost of 3.00%" in found.reason
    library.rollback("one", "v2")
    assert library.check("one", runs=2, drift=10.0, price=0.04).after is None


def test_rollback_by_hand_goes_to_the_version_before_or_the_one_named(library, make):
    library.add("one", make("wise"), [MIXED])
    for shift in (1.0, 2.0):
        library.add("one", make("wise", shift), use=True)
    assert library.rollback("one", reason="for a look").after == "one@v2"
    assert library.rollback("one").after == "one@v1"
    assert library.rollback("one", "v3").after == "one@v3"
    assert library.store.events("one")[-3].reason == "for a look"
    for to, message in (("v3", "is in use already"), ("v9", "expected one of v1 to v3")):
        with pytest.raises(LibraryError, match=message):
            library.rollback("one", to)
    library.add("two", make("rash"), [MIXED])
    with pytest.raises(LibraryError, match="never at an earlier version"):
        library.rollback("two")
    with pytest.raises(LibraryError, match="belongs to 'two'"):
        library.rollback("one", "two@v1")


def test_weights_are_averaged_only_among_updates_of_one_version(library, make):
    library.add("one", make("wise"), [MIXED])
    library.add("two", make("wise", 9.0), [LARGER])
    with pytest.raises(LibraryError, match="have no parent in common"):
        library.merge(["one", "two"], "both", average=True)
    for shift in (2.0, 4.0):
        update_by_hand(library, "one", make("wise", shift), MIXED)
    outcome = library.merge(["one@v2", "one@v3"], "soup", average=True)
    assert outcome.verdict == ACCEPTED
    assert library.policy("soup").tensors["value.bias"] == pytest.approx([3.0])
    assert library.policy("soup").card["averaged"] == ["one@v2", "one@v3"]
    assert library.store.version("soup").parents == ("one@v2", "one@v3")


def test_a_soup_leaves_out_what_would_spoil_it(library, make):
    library.add("one", make("wise"), [MIXED])
    for policy in (make("wise", 2.0), make("rash", 1.0)):
        update_by_hand(library, "one", policy, MIXED)
    outcome = library.merge(["one@v3", "one@v2"], "soup", average=True)
    assert library.policy("soup").card["averaged"][0] == "one@v2"
    assert outcome.shifts[0].after <= library.judge.regret(
        library.store.version("one@v2"), library.judge.remember(MIXED), library.gate
    )


def test_merging_asks_for_models_that_can_be_merged(library, make, tmp_path):
    library.add("one", make("wise"), [MIXED])
    library.add("edge", linear_policy(tmp_path / "fast", "edge", {"dispatch": 1.0}), ["edge/tiny"])
    for references, message in ((["one", "one"], "at least two"), (["one", "edge"], "of one family")):
        with pytest.raises(LibraryError, match=message):
            library.merge(references, "both")


def test_the_curve_falls_and_ends_where_everybody_is(library, make):
    library.add("wise", make("wise"), [MIXED], held_out=[GPUS])
    library.add("rash", make("rash"), [LARGER])
    library.add("rasher", make("rash", 1.0), [LARGER])
    curve = library.tradeoff("taskgraph")
    means = [point.mean for point in curve.points]
    assert [point.count for point in curve.points] == [1, 2, 3]
    assert means == sorted(means, reverse=True)
    assert curve.points[0].models == ("wise",)
    assert curve.enough == 1
    assert curve.held_out == ("taskgraph/gpus",)
    assert all(point.worst >= point.mean for point in curve.points)
    rewards = [
        np.mean([library.judge.regret(curve.heuristic, library.judge.remember(one), library.gate)])
        for one in (MIXED, LARGER)
    ]
    assert curve.heuristic_mean == pytest.approx(np.mean(rewards))


def test_a_tampered_version_is_refused_wherever_it_is_asked_for(library, make):
    version = library.add("one", make("wise"), [MIXED])
    card = library.store.verified_folder(version) / "policy.json"
    card.write_text(card.read_text().replace('"unnamed"', '"renamed"'))
    reopened = Library(library.store.folder)
    with pytest.raises(LibraryError, match="not those that were published"):
        reopened.policy("one")
    with pytest.raises(LibraryError, match="not those that were published"):
        reopened.choose(LARGER, episodes=2)
    reopened.store.close()


def test_bad_input_is_refused_in_one_line_and_leaves_nothing(library, make, tmp_path):
    with pytest.raises(InputError, match="expected the folder of a trained policy"):
        library.add("one", tmp_path / "nowhere", [MIXED])
    with pytest.raises(LibraryError, match="which is no built-in: expected --scenario"):
        library.add("one", make("wise"))
    with pytest.raises(LibraryError, match="expected a scenario of that family"):
        library.add("one", make("wise"), ["edge/tiny"])
    with pytest.raises(LibraryError, match="expected a name"):
        library.add("../one", make("wise"), [MIXED])
    assert library.store.versions() == []
