"""Runs of the suite: the same episodes for every policy, with a checkpoint file to resume from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.errors import SuiteError
from slipstream.evaluation import evaluate
from slipstream.families.contract import Scenario
from slipstream.files.atomic import cannot_write, open_growing, replace_file
from slipstream.files.inputs import checked_json, read_text
from slipstream.policies.base import Policy, find
from slipstream.scale.executor import Executor
from slipstream.suite.catalogue import FLOOR, Entry, Seeds, Suite
from slipstream.suite.players import Player
from slipstream.suite.sandbox import SandboxedPolicy
from slipstream.suite.scoring import Score, normalised, score

Progress = Callable[[int, int], None]
"""Called with (scenarios done, scenarios in all)."""


@dataclass(frozen=True)
class ScenarioResult:
    """Rewards of a policy in a scenario."""

    entry: Entry
    policy: str
    rewards: np.ndarray
    """One per episode."""


def rewards_of(policy: Policy, scenario: Scenario, seeds: Seeds, executor: Executor | None = None) -> np.ndarray:
    """Return the rewards of `policy` in the episodes `seeds`; submitted code runs on this machine only."""
    if not isinstance(policy, SandboxedPolicy):
        return evaluate(scenario, policy, seeds.episodes, seeds.first, seeds.split, executor=executor).of("reward")
    found = []
    for episode in range(seeds.episodes):
        policy.begin()
        found.append(evaluate(scenario, policy, 1, seeds.first + episode, seeds.split).of("reward")[0])
        policy.finish()
    return np.array(found)


def measure(
    suite: Suite,
    players: Mapping[str, Player],
    seeds: Seeds | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    executor: Executor | None = None,
) -> list[ScenarioResult]:
    """Run every scenario of the families in `players` on `seeds`, by default the test episodes.

    `checkpoint` is a file that gets a line per finished scenario; scenarios it holds already are not run again.
    `executor` runs the episodes, by default this process; the results are the same.
    """
    wanted = seeds or suite.test
    entries = [entry for entry in suite.entries if entry.family in players]
    results = _Checkpoint(checkpoint, suite, players, wanted)
    found = []
    for done, entry in enumerate(entries):
        if progress is not None:
            progress(done, len(entries))
        if entry.id not in results.known:
            with players[entry.family].open_policy(entry, suite) as policy:
                results.add(entry.id, policy.name, rewards_of(policy, entry.scenario, wanted, executor))
        who, rewards = results.known[entry.id]
        found.append(ScenarioResult(entry, who, np.array(rewards)))
    if progress is not None:
        progress(len(entries), len(entries))
    return found


class _Checkpoint:
    """Results of finished scenarios, stored in a file if one is given."""

    def __init__(self, path: Path | None, suite: Suite, players: Mapping[str, Player], seeds: Seeds) -> None:
        from slipstream import __version__
        from slipstream.jit.cache_folder import code_digest

        self._path = path
        self.known: dict[str, tuple[str, list[float]]] = {}
        # Results of other code, policies or scenarios must not be reused.
        about = {
            "suite": suite.digest,
            "code": f"{__version__}+{code_digest()}",
            "players": {family: player.to_dict() for family, player in players.items()},
            "seeds": seeds.to_dict(),
        }
        if path is None:
            return
        self.known = _read_checkpoint(path, json.dumps(about)) if path.is_file() else {}
        try:
            lines = [json.dumps(about), *(json.dumps([key, *value]) for key, value in self.known.items())]
            replace_file(path, "".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise cannot_write(path, error) from None

    def add(self, identity: str, policy: str, rewards: np.ndarray) -> None:
        """Add the rewards of the scenario `identity`, and append them to the file."""
        self.known[identity] = (policy, rewards.tolist())
        if self._path is not None:
            with open_growing(self._path, append=True) as file:
                file.write((json.dumps([identity, policy, rewards.tolist()]) + "\n").encode())


def _read_checkpoint(path: Path, about: str) -> dict[str, tuple[str, list[float]]]:
    """Return the results in `path` by scenario; none if its first line is not `about`."""
    expected = "what `slipstream bench` keeps of a run that was stopped"
    first, *lines = read_text(path, expected, SuiteError).split("\n")
    found: dict[str, tuple[str, list[float]]] = {}
    for number, line in enumerate(lines[:-1] if first == about else [], 2):  # the last is empty, or not finished
        label = f"{path}: line {number}"
        row = checked_json(line.encode(), label, SuiteError)
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(one, str) for one in row[:2]):
            raise SuiteError(f"{label}: expected a scenario, a policy and rewards")
        if not isinstance(row[2], list) or not all(type(one) in (int, float) for one in row[2]):
            raise SuiteError(f"{label}: rewards: expected numbers")
        found[row[0]] = (row[1], row[2])
    return found


def scores_on(played: list[ScenarioResult], seeds: Seeds) -> dict[str, Score]:
    """Return a score per family for episodes other than those of the test, with `random` run on them too."""
    samples: dict[str, list[np.ndarray]] = {}
    for one in played:
        # An object is played even where its name does not apply to the scenario: a score needs a floor everywhere.
        random = find(FLOOR, one.entry.family)
        floor = evaluate(one.entry.scenario, random, seeds.episodes, seeds.first, seeds.split).of("reward")
        samples.setdefault(one.entry.family, []).append(normalised(one.entry, one.rewards, floor))
    return {family: score(own) for family, own in samples.items()}
