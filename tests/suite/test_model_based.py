"""Model-based players of the suite: they know a scenario's laws, never its seed; others recompute their results."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from slipstream.errors import InputError
from slipstream.policies import auto
from slipstream.policies.base import ModelBased
from slipstream.policies.learned import shipped
from slipstream.reports.html.leaderboard import ranking
from slipstream.reports.terminal.suite import suite_table
from slipstream.sim.simulator import Simulator
from slipstream.suite import load_suite, measure, players_of, results, submission, verify
from slipstream.suite.catalogue import Seeds, Suite
from slipstream.suite.players import known_to, learned_hash
from slipstream.suite.submission import baselines, fresh_scores
from tests.resampling import altered

SIMULATED = ("edge", "dag", "taskgraph", "cluster")
"""Families whose futures can be redrawn."""


def piece(entry_id: str, episodes: int = 1) -> Suite:
    """Return a suite of one scenario and few episodes."""
    suite = load_suite()
    entry = next(one for one in suite.entries if one.id == entry_id)
    test, practice = (Seeds(one.split, one.first, episodes) for one in (suite.test, suite.practice))
    return Suite(suite.version, (entry,), test, practice)


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Suite:
    """Return a suite of one small scenario; choices are stored in a folder of the test's own."""
    monkeypatch.setattr(auto, "_folder", lambda: tmp_path / "auto")
    part = piece("taskgraph/small")
    monkeypatch.setattr(submission, "load_suite", lambda version="v2": part)
    return part


def test_a_model_based_policy_plays_every_family_that_can_simulate_it() -> None:
    suite = load_suite()
    everywhere, missing = players_of(["auto"], suite)
    assert (list(everywhere), missing) == (suite.families, [])
    assert {player.kind for player in everywhere.values()} == {"model-based"}
    assert [everywhere[name].sha256 for name in everywhere] == [learned_hash(name) for name in everywhere]
    assert set(SIMULATED) <= set(players_of(["rollout"], suite)[0])
    (only,) = players_of(["rollout(saf)"], suite)[0].values()
    assert (only.family, only.kind, only.label, only.sha256) == ("cluster", "model-based", "rollout(saf)", "")
    assert players_of(["milp"], suite)[0]["serving"].kind == "model-based"
    assert players_of(["sjf"], suite)[0]["cluster"].kind == "rule"


def test_a_rollout_is_identified_by_the_files_of_its_networks(tmp_path: Path) -> None:
    suite, name = load_suite().only(["edge"]), "learned-heavy"
    alone = players_of([name], suite)[0]["edge"]
    simulated = players_of([f"rollout({name})"], suite)[0]["edge"]
    assert simulated.sha256 == alone.sha256 != ""
    assert known_to(alone.to_dict()) == "trained"
    (tmp_path / "mine").symlink_to(shipped("edge")[name])
    with pytest.raises(InputError, match="expected a rule, or a network that comes with the package"):
        players_of([f"rollout({tmp_path / 'mine'})"], suite)
    with pytest.raises(InputError, match="unknown policy 'nobody'"):
        players_of(["rollout(nobody)"], suite)


@pytest.mark.parametrize("family", SIMULATED)
def test_neither_the_seed_nor_what_has_not_happened_reaches_a_decision(family: str) -> None:
    """The lane of an episode gets other keys and another future; a policy that the suite plays decides the same."""
    part = piece(f"{family}/small")
    (entry,) = part.entries
    compared = 0
    with players_of(["rollout"], part)[0][family].open_policy(entry, part) as player:
        assert isinstance(player, ModelBased)
        simulator = Simulator(entry.scenario, log_rows=0)
        simulator.reset(part.test.first, part.test.split)
        while simulator.asking and compared < 8:
            true, action = simulator.save(), player.decide(simulator)
            for number in range(2):
                simulator.restore(true)
                simulator.restore(altered(simulator, np.random.default_rng(number)))
                assert player.decide(simulator) == action
            compared += np.count_nonzero(simulator.observe()[2]) > 1
            simulator.restore(true)
            simulator.step(action)
    assert compared >= 5


def test_a_stored_choice_does_not_reach_the_suite(raced: Suite) -> None:
    (entry,) = raced.entries
    path = auto._stored_in(entry.scenario)
    path.parent.mkdir()
    path.write_text(json.dumps({"policy": "random", "reason": "planted"}))
    assert auto.choice_for(entry.scenario).policy == "random"
    players, _ = players_of(["auto"], raced)
    (played,) = measure(raced, players)
    assert played.policy == auto.choose_policy(entry.scenario).policy != "random"


def test_results_of_a_race_are_recomputed_and_another_choice_is_named(raced: Suite, tmp_path: Path) -> None:
    players, _ = players_of(["auto"], raced)
    data = results(raced, players, measure(raced, players))
    path = tmp_path / "auto.json"
    path.write_text(json.dumps(data))
    assert verify(path) == []
    assert fresh_scores(path, 500_000)["taskgraph"]["fresh"]["mean"] > 0.0
    own = data["families"]["taskgraph"]["scenarios"]["small"]
    chosen, own["policy"] = own["policy"], "fifo"
    path.write_text(json.dumps(data))
    (finding,) = verify(path)
    assert str(finding) == f"families.taskgraph.scenarios.small.policy: 'fifo': expected '{chosen}'"


def test_tables_name_the_kind_of_every_player(raced: Suite) -> None:
    players, _ = players_of(["rollout(mct)"], raced)
    data = results(raced, players, measure(raced, players))
    assert data["players"]["taskgraph"]["kind"] == "model-based"
    console = Console(file=StringIO(), width=200)
    console.print(suite_table(data))
    assert "taskgraph rollout(mct) model-based" in " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    stored = {"taskgraph": {name: one.to_dict() for name, one in baselines(load_suite(), "taskgraph").items()}}
    rows = ranking([{**data, "file": "mine.json"}], stored)["taskgraph"]
    found = {row["title"]: row["kind"] for row in rows}
    assert found["rollout(mct)"] == "model-based"
    assert found["heft"] == "heuristic"
    assert found["learned-plain"] == "trained"
