"""Regret of policies on workloads, over common episodes.

Regret is the difference of the best known reward of an episode and the reward reached, relative to the best. For a cost
such as a makespan it is `makespan / best - 1`. The best is over the oracle, if it was run, all heuristics and every
version that ran the episode; a better reward found later raises the regret of all policies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import InputError, LibraryError
from slipstream.evaluation import bootstrap_interval, evaluate
from slipstream.families.contract import Scenario, ScenarioLike, family_of
from slipstream.files.inputs import json_object
from slipstream.library.storage.records import KnownScenario, Version
from slipstream.library.storage.store import Store
from slipstream.library.traits import traits_of
from slipstream.policies.base import find, names
from slipstream.policies.learned import LearnedPolicy, load_policy
from slipstream.scenario import digest, dump, load

GATE_SEED, RACE_SEED, RECENT_SEED = 1_000_000, 2_000_000, 3_000_000
"""First seeds of the episodes of gates, of races and of recent runs, in the evaluation split.

Training selects its best policy on the first seeds of that split, so these are unseen.
"""
EVAL_SPLIT = "eval"
GATE_EPISODES = 20
"""Episodes on which an update, a merge or a split is judged."""

Player = Version | str
"""A version of the library, or the name of a heuristic."""


@dataclass(frozen=True)
class Episodes:
    """A range of consecutive seeds of a split."""

    first: int = GATE_SEED
    count: int = GATE_EPISODES
    split: str = EVAL_SPLIT

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.count)


def shares_lost(best: np.ndarray, earned: np.ndarray) -> np.ndarray:
    """Return the regret of every episode, relative to the mean of `best`.

    A common scale avoids a division by zero in episodes whose best reward is 0.
    """
    lost: np.ndarray = (best - earned) / (float(np.abs(best).mean()) or 1.0)
    return lost


@dataclass(frozen=True)
class Shift:
    """Change of regret on a scenario from one policy to another, over the same episodes."""

    scenario: str
    role: str
    """`target`, `anchor`, `owned`, `held-out` or `elsewhere`."""
    before: float
    after: float
    low: float
    high: float
    """The bootstrap 95% interval of the mean paired difference."""
    reference: str
    """Description of the best known reward."""

    @property
    def mean(self) -> float:
        """The mean paired difference; negative where the second policy is better."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """Return the shift as JSON-ready data."""
        return {**vars(self), "difference": self.mean}


class Judge:
    """Evaluates policies on workloads and caches their rewards in the store."""

    def __init__(
        self,
        store: Store,
        gate_episodes: int = GATE_EPISODES,
        oracle_seconds: float = 0.0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """With `oracle_seconds`, the oracle bounds the best reward of every episode with about that time limit."""
        from slipstream import __version__
        from slipstream.jit.cache_folder import code_digest

        self.store, self.gate_episodes = store, gate_episodes
        self.oracle_seconds, self.progress = oracle_seconds, progress
        # Rewards of another version of the simulator are not comparable.
        self.code = f"{__version__}+{code_digest()[:12]}"
        self._loaded: dict[str, Scenario] = {}
        self._policies: dict[str, LearnedPolicy] = {}

    def remember(self, source: ScenarioLike) -> str:
        """Store the scenario of `source` in the library; return its digest, called its signature."""
        scenario = load(source)
        signature = digest(scenario)
        if signature not in self._loaded and signature not in self.store.scenarios():
            folder = str(Path(scenario._folder).resolve())
            about = (signature, scenario.family, f"{scenario.family}/{scenario.name}", dump(scenario), folder)
            self.store.remember(KnownScenario(*about, traits_of(scenario)))
        self._loaded[signature] = scenario
        return signature

    def scenario(self, signature: str) -> Scenario:
        """Return the stored scenario with the digest `signature`."""
        if signature not in self._loaded:
            known = self.store.scenario(signature)
            data = json_object(known.text, f"{self.store.path}: scenario {signature[:12]}", LibraryError)
            try:
                self._loaded[signature] = load(data, Path(known.folder))
            except InputError as error:
                raise LibraryError(f"{self.store.path}: scenario {signature[:12]}: {error}") from None
        return self._loaded[signature]

    def name(self, signature: str) -> str:
        """Return family and name of a scenario."""
        scenario = self.scenario(signature)
        return f"{scenario.family}/{scenario.name}"

    def policy(self, version: Version) -> LearnedPolicy:
        """Return the policy of `version` after a check of its files against the published hash."""
        if version.sha256 not in self._policies:
            self._policies[version.sha256] = load_policy(self.store.verified_folder(version), version.label)
        return self._policies[version.sha256]

    def rewards(self, who: Player, signature: str, episodes: Episodes) -> np.ndarray:
        """Return the rewards of `who` in `episodes`; only missing ones are computed."""
        key = who.sha256 if isinstance(who, Version) else f"heuristic {who}"
        query = (key, signature, episodes.split, self.code)
        known = self.store.rewards(*query)
        missing = [seed for seed in episodes.seeds if seed not in known]
        if missing:
            scenario = self.scenario(signature)
            if self.progress is not None:
                label = who.label if isinstance(who, Version) else who
                self.progress(f"{label} on {self.name(signature)}")
            policy = self.policy(who) if isinstance(who, Version) else find(who, scenario.family)
            first, count = missing[0], missing[-1] - missing[0] + 1
            earned = evaluate(scenario, policy, count, first, episodes.split).of("reward")
            found = dict(zip(range(first, first + count), earned.tolist(), strict=True))
            self.store.keep_rewards(*query, found)
            known |= found
        return np.array([known[seed] for seed in episodes.seeds])

    def reference(self, signature: str, episodes: Episodes) -> tuple[np.ndarray, str]:
        """Return the best known reward of every episode and its description, after running every heuristic."""
        for name in names(self.scenario(signature).family):
            self.rewards(name, signature, episodes)
        solved = self._solved(signature, episodes)
        best = self.store.best_rewards(signature, episodes.split, self.code)
        if any(seed not in best for seed in episodes.seeds):
            raise LibraryError(f"{self.store.path}: damaged: rewards of scenario {signature[:12]} cannot be read back")
        tried = min(best[seed][1] for seed in episodes.seeds)
        words = f"best of {tried} policies"
        if all(seed in solved for seed in episodes.seeds):
            exact = all(solved[seed][2] for seed in episodes.seeds)
            words = "optimum" if exact else f"best of {tried} policies and the oracle"
        return self.best_of(signature, episodes), words

    def best_of(self, signature: str, episodes: Episodes) -> np.ndarray:
        """Return the best known reward of every episode; at least one policy must have run each."""
        query = (signature, episodes.split, self.code)
        best, solved = self.store.best_rewards(*query), self.store.optimum_bounds(*query)
        return np.array([max(best[seed][0], solved.get(seed, (-np.inf,))[0]) for seed in episodes.seeds])

    def _solved(self, signature: str, episodes: Episodes) -> dict[int, tuple[float, float, bool]]:
        """Return the oracle's results by seed; compute missing ones if it has a time limit."""
        query = (signature, episodes.split, self.code)
        known = self.store.optimum_bounds(*query)
        missing = [seed for seed in episodes.seeds if seed not in known] if self.oracle_seconds > 0.0 else []
        scenario = self.scenario(signature)
        for seed in missing:
            if self.progress is not None:
                self.progress(f"oracle on {self.name(signature)}, seed {seed}")
            found = family_of(scenario).oracle(scenario, seed, episodes.split, self.oracle_seconds)
            known[seed] = (found.best_known, found.bound, found.exact)
        if missing:
            self.store.keep_optimum_bounds(*query, {seed: known[seed] for seed in missing})
        return known

    def regrets(self, players: Sequence[Player], signature: str, episodes: Episodes) -> tuple[list[np.ndarray], str]:
        """Return the regret of every player in every episode, and the description of the best known reward."""
        earned = [self.rewards(who, signature, episodes) for who in players]
        best, words = self.reference(signature, episodes)
        return [shares_lost(best, rewards) for rewards in earned], words

    def regret(self, who: Player, signature: str, episodes: Episodes) -> float:
        """Return the mean regret of `who` over `episodes`."""
        return float(self.regrets([who], signature, episodes)[0][0].mean())

    def shift(self, before: Player, after: Player, signature: str, role: str, episodes: Episodes) -> Shift:
        """Return the paired change of regret from `before` to `after`."""
        (old, new), words = self.regrets([before, after], signature, episodes)
        low, high = bootstrap_interval(new - old)
        return Shift(self.name(signature), role, float(old.mean()), float(new.mean()), low, high, words)
