"""Submissions: a JSON file of players and results that can be recomputed.

It holds no times, so the same policy gives the same file, to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from slipstream.errors import SuiteError
from slipstream.families.shared.schema import StrictModel
from slipstream.files.validation import read_model
from slipstream.policies.learned import shipped
from slipstream.suite.catalogue import Seeds, Suite, folder_hash, load_suite
from slipstream.suite.players import Player, players_of
from slipstream.suite.playing import Progress, ScenarioResult, measure, scores_on
from slipstream.suite.scoring import Score, best_rule, ceiling, gain, normalised, score, stored_scores

FORMAT = 1


class ScoreData(StrictModel):
    """A score with its interval."""

    mean: float
    low: float
    high: float


class SuiteData(StrictModel):
    """Version and digest of the suite."""

    version: str
    digest: str


class PlayerData(StrictModel):
    """The player of a family."""

    policy: str
    kind: Literal["rule", "folder", "entry", "learned", "model-based"]
    source: str
    sha256: str


class ScenarioData(StrictModel):
    """Results of a scenario."""

    digest: str
    policy: str
    rewards: list[float] = Field(min_length=1)
    score: float


class FamilyData(StrictModel):
    """Results of a family."""

    score: ScoreData
    ceiling: float
    best_rule: str
    gain: ScoreData
    scenarios: dict[str, ScenarioData]


class Submission(StrictModel):
    """A file of results."""

    format: Literal[1]
    title: str
    suite: SuiteData
    slipstream: str
    players: dict[str, PlayerData]
    families: dict[str, FamilyData]


@dataclass(frozen=True)
class Finding:
    """A value of a submission that differs from the recomputed one."""

    place: str
    """Path of keys."""
    found: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.place}: {self.found!r}: expected {self.expected!r}"


def results(
    suite: Suite, players: Mapping[str, Player], played: Sequence[ScenarioResult], title: str = ""
) -> dict[str, Any]:
    """Return the results `played` as the data of a submission."""
    from slipstream import __version__

    return {
        "format": FORMAT,
        "title": title or " + ".join(dict.fromkeys(player.label for player in players.values())),
        "suite": {"version": suite.version, "digest": load_suite(suite.version).digest},
        "slipstream": __version__,
        "players": {family: players[family].to_dict() for family in suite.families if family in players},
        "families": {
            family: _family([one for one in played if one.entry.family == family])
            for family in suite.families
            if family in players
        },
    }


def _family(played: Sequence[ScenarioResult]) -> dict[str, Any]:
    entries = [one.entry for one in played]
    rewards = {one.entry.name: one.rewards for one in played}
    samples = [normalised(one.entry, one.rewards) for one in played]
    rule = best_rule(entries)
    return {
        "score": score(samples).to_dict(),
        "ceiling": ceiling(entries),
        "best_rule": rule,
        "gain": gain(entries, rewards, rule).to_dict(),
        "scenarios": {
            one.entry.name: {
                "digest": one.entry.digest,
                "policy": one.policy,
                "rewards": one.rewards.tolist(),
                "score": float(values.mean()),
            }
            for one, values in zip(played, samples, strict=True)
        },
    }


def read_submission(path: Path) -> dict[str, Any]:
    """Return the validated data of the submission at `path`.

    Raises:
        InputError: One line: the file, the path of the value, what is wrong and what was expected.
    """
    data = read_model(path, Submission).model_dump(mode="json")
    if not data["families"] or list(data["families"]) != list(data["players"]):
        raise SuiteError(f"{path}: families: expected those of 'players', and at least one")
    suite = load_suite(data["suite"]["version"])
    for family in data["families"]:
        if family not in suite.families:
            raise SuiteError(f"{path}: families: '{family}': expected some of {', '.join(suite.families)}")
    return data


def verify(path: Path, sources: Sequence[str] = (), progress: Progress | None = None) -> list[Finding]:
    """Run the players of the submission at `path` again; return every value that differs.

    Policies are resolved relative to the file, unless `sources` are given.
    """
    data = read_submission(path)
    suite = load_suite(data["suite"]["version"])
    if data["suite"]["digest"] != suite.digest:
        return [Finding("suite.digest", data["suite"]["digest"], suite.digest)]
    part = suite.only(list(data["families"]))
    players = _players_again(data, part, path, sources)
    found = [player.to_dict() for player in players.values()]
    keys = ("kind", "sha256") if sources else ("kind", "source", "policy", "sha256")
    wrong = [
        Finding(f"players.{family}.{key}", data["players"][family][key], one[key])
        for family, one in zip(players, found, strict=True)
        for key in keys
        if data["players"][family][key] != one[key]
    ]
    wrong = wrong or _disagreements(data, part, players)
    if wrong:
        return wrong  # without running any episode
    again = results(part, players, measure(part, players, progress=progress), data["title"])
    if sources:
        again["players"] = data["players"]
    return differences(data, again)


def _disagreements(data: dict[str, Any], part: Suite, players: Mapping[str, Player]) -> list[Finding]:
    """Return values of `data` that contradict the suite or do not follow from its rewards."""
    played = []
    for entry in part.entries:
        own = data["families"][entry.family]["scenarios"].get(entry.name)
        path = f"families.{entry.family}.scenarios.{entry.name}"
        if own is None:
            return [Finding(path, None, entry.digest)]
        if len(own["rewards"]) != part.test.episodes:
            return [Finding(f"{path}.rewards", f"{len(own['rewards'])} rewards", f"{part.test.episodes} rewards")]
        played.append(ScenarioResult(entry, own["policy"], np.array(own["rewards"])))
    return differences(data, results(part, players, played, data["title"]) | {"players": data["players"]})


def _players_again(data: dict[str, Any], part: Suite, path: Path, sources: Sequence[str]) -> dict[str, Player]:
    listed = list(dict.fromkeys(one["source"] for one in data["players"].values()))
    players, _ = players_of(sources or listed, part, None if sources else path.resolve().parent)
    for family in data["families"]:
        if family not in players:
            raise SuiteError(f"{path}: players.{family}: no policy plays it: expected --policy with one that does")
    return {family: players[family] for family in data["families"]}


def differences(found: Any, expected: Any, path: str = "") -> list[Finding]:
    """Return the values at and below `path` in which two JSON values differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = list(dict.fromkeys([*expected, *found]))
        return [
            one
            for key in keys
            for one in differences(found.get(key), expected.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [one for index, (mine, other) in pairs for one in differences(mine, other, f"{path}[{index}]")]
    return [] if found == expected else [Finding(path, found, expected)]


def fresh_scores(
    path: Path, first: int, sources: Sequence[str] = (), progress: Progress | None = None
) -> dict[str, Any]:
    """Run episodes outside the suite from seed `first` on; return claimed and fresh scores by family.

    A policy that memorised the test episodes reproduces its score there, but not on fresh episodes.
    """
    data = read_submission(path)
    part = load_suite(data["suite"]["version"]).only(list(data["families"]))
    seeds = Seeds(part.test.split, first, part.test.episodes)
    players = _players_again(data, part, path, sources)
    found = scores_on(measure(part, players, seeds, progress), seeds)
    return {
        family: {
            "claimed": data["families"][family]["score"],
            "fresh": fresh.to_dict(),
            "holds": fresh.high >= data["families"][family]["score"]["low"],
        }
        for family, fresh in found.items()
    }


def baselines(suite: Suite, family: str) -> dict[str, Score]:
    """Return the stored scores of the package's policies for `family`, best first."""
    known = {name: folder_hash(folder) for name, folder in shipped(family).items()}
    return stored_scores(suite.of(family), known)
