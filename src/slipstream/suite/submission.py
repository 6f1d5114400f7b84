"""Results that are handed in: a JSON file that says who played and what came of it, and that anybody can recompute.

Nothing in it comes from a clock, so the same policy gives the same file, to the digit.
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
from slipstream.suite.playing import Played, Progress, measure, scores_elsewhere
from slipstream.suite.scoring import Score, best_rule, ceiling, gain, normalised, score, stored_scores

FORMAT = 1


class ScoreData(StrictModel):
    """A score with its interval."""

    mean: float
    low: float
    high: float


class SuiteData(StrictModel):
    """Which suite was played."""

    version: str
    digest: str


class PlayerData(StrictModel):
    """Who played a family."""

    policy: str
    kind: Literal["rule", "folder", "entry", "learned"]
    source: str
    sha256: str


class ScenarioData(StrictModel):
    """What came of a scenario."""

    digest: str
    policy: str
    rewards: list[float] = Field(min_length=1)
    score: float


class FamilyData(StrictModel):
    """What came of a family."""

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
    """A place of a file that does not hold what it should."""

    place: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.place}: {self.found!r}: expected {self.expected!r}"


def results(suite: Suite, players: Mapping[str, Player], played: Sequence[Played], title: str = "") -> dict[str, Any]:
    """Return what was played as the data of a submission."""
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


def _family(played: Sequence[Played]) -> dict[str, Any]:
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
    """Return a file of results, once it has the shape of one.

    Raises:
        InputError: One line: the file, the place in it, what is wrong and what was expected.
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
    """Play what a file of results says that was played; return every place where it does not hold what comes of it.

    Policies are looked for beside the file, unless other places are given.
    """
    data = read_submission(path)
    suite = load_suite(data["suite"]["version"])
    if data["suite"]["digest"] != suite.digest:
        return [Finding("suite.digest", data["suite"]["digest"], suite.digest)]
    part = suite.only(list(data["families"]))
    players = _players_again(data, part, path, sources)
    told = [player.to_dict() for player in players.values()]
    keys = ("kind", "sha256") if sources else ("kind", "source", "policy", "sha256")
    wrong = [
        Finding(f"players.{family}.{key}", data["players"][family][key], one[key])
        for family, one in zip(players, told, strict=True)
        for key in keys
        if data["players"][family][key] != one[key]
    ]
    wrong = wrong or _disagreements(data, part, players)
    if wrong:
        return wrong  # nothing need be played to see that
    again = results(part, players, measure(part, players, progress=progress), data["title"])
    if sources:
        again["players"] = data["players"]
    return differences(data, again)


def _disagreements(data: dict[str, Any], part: Suite, players: Mapping[str, Player]) -> list[Finding]:
    """Return the places where a file contradicts itself or the suite: scenarios, and what follows from the rewards."""
    played = []
    for entry in part.entries:
        own = data["families"][entry.family]["scenarios"].get(entry.name)
        place = f"families.{entry.family}.scenarios.{entry.name}"
        if own is None:
            return [Finding(place, None, entry.digest)]
        if len(own["rewards"]) != part.test.episodes:
            return [Finding(f"{place}.rewards", f"{len(own['rewards'])} rewards", f"{part.test.episodes} rewards")]
        played.append(Played(entry, own["policy"], np.array(own["rewards"])))
    return differences(data, results(part, players, played, data["title"]) | {"players": data["players"]})


def _players_again(data: dict[str, Any], part: Suite, path: Path, sources: Sequence[str]) -> dict[str, Player]:
    listed = list(dict.fromkeys(one["source"] for one in data["players"].values()))
    players, _ = players_of(sources or listed, part, None if sources else path.resolve().parent)
    for family in data["families"]:
        if family not in players:
            raise SuiteError(f"{path}: players.{family}: nobody plays it: expected --policy with one who does")
    return {family: players[family] for family in data["families"]}


def differences(found: Any, expected: Any, place: str = "") -> list[Finding]:
    """Return the places where two pieces of JSON data differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = list(dict.fromkeys([*expected, *found]))
        return [
            one
            for key in keys
            for one in differences(found.get(key), expected.get(key), f"{place}.{key}" if place else str(key))
        ]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [one for index, (mine, other) in pairs for one in differences(mine, other, f"{place}[{index}]")]
    return [] if found == expected else [Finding(place, found, expected)]


def fresh_scores(
    path: Path, first: int, sources: Sequence[str] = (), progress: Progress | None = None
) -> dict[str, Any]:
    """Play episodes that nobody knew of before, from a seed on; return claimed and fresh scores by family.

    A policy that has the test episodes by heart is not caught by playing them again, but by others.
    """
    data = read_submission(path)
    part = load_suite(data["suite"]["version"]).only(list(data["families"]))
    seeds = Seeds(part.test.split, first, part.test.episodes)
    players = _players_again(data, part, path, sources)
    found = scores_elsewhere(measure(part, players, seeds, progress), seeds)
    return {
        family: {
            "claimed": data["families"][family]["score"],
            "fresh": fresh.to_dict(),
            "holds": fresh.high >= data["families"][family]["score"]["low"],
        }
        for family, fresh in found.items()
    }


def baselines(suite: Suite, family: str) -> dict[str, Score]:
    """Return the stored scores of the policies that come with the package, best first."""
    known = {name: folder_hash(folder) for name, folder in shipped(family).items()}
    return stored_scores(suite.of(family), known)
