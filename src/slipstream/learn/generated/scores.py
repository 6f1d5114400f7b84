"""Rules and networks on generated scenarios, compared by scores.

Rewards of different scenarios have different scales. The score of an episode is 0 for the mean reward of `random` on
its scenario, and 100 for that of the scenario's best rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slipstream.errors import InputError
from slipstream.learn.generated.scenarios import GeneratedScenarios
from slipstream.learn.outcome import OUTCOME_EPISODES, OUTCOME_SEED
from slipstream.learn.race import RANDOM, Race, Racer, Seconds, play_within
from slipstream.learn.reference import HELD_OUT_SEED, Reference
from slipstream.policies.base import Heuristic, Policy, applicable, find
from slipstream.sim.simulator import Simulator

EPISODES_EACH = 2
"""Episodes of a generated scenario, with consecutive seeds."""
RACE_SCENARIOS = 16
"""Scenarios of the race of the rules."""
CONTENDERS = 5
"""Best rules of the race, among which the best of each held-out scenario is looked for."""
EXPERTS = 4
"""Best rules of the race, the best of which is imitated on each scenario."""
FIRST_RACED = 2**31
"""Number of the first scenario of the race: lanes learn from scenarios with lower numbers."""
LEAST_SPREAD = 0.1
"""Least distance of `random` from the best rule, as a share of that rule's reward; less would only enlarge noise."""
LEAST_SCORE = -200.0
"""Lowest score of an episode: one disaster does not outweigh all other scenarios."""


@dataclass
class ScoredScenarios:
    """Rewards of rules in the episodes of some generated scenarios."""

    split: str
    first: int
    """Number of the first scenario."""
    scales: list[tuple[float, float]] = field(default_factory=list)
    """Mean rewards of `random` and of the best rule, by scenario."""

    def scores(self, rewards: np.ndarray, episode: int = 0) -> np.ndarray:
        """Return the scores of consecutive rewards, from number `episode` on."""
        scales = np.array(self.scales)[(episode + np.arange(len(rewards))) // EPISODES_EACH]
        random, best = scales[:, 0], scales[:, 1]
        spread = np.maximum(best - random, LEAST_SPREAD * np.abs(best))
        return np.asarray(np.maximum(LEAST_SCORE, 100.0 * (rewards - random) / np.where(spread > 0.0, spread, 1.0)))

    def play(
        self, generated: GeneratedScenarios, policy: str | Policy, episodes: range, end: float, clock: Seconds
    ) -> tuple[np.ndarray, int]:
        """Return the rewards in the episodes that are over when `clock` reaches `end`, at least one, and choices made.

        Episodes are counted from 0 at the first scenario.
        """
        rewards: list[float] = []
        choices, simulator, shown = 0, None, -1
        player = find(policy, generated.family.name)
        for episode in episodes:
            number = self.first + episode // EPISODES_EACH
            if simulator is None or number != shown:
                simulator, shown = Simulator(generated.scenario(self.split, number)), number
            split = "train" if self.split == "train" else "eval"
            reward = play_within(simulator, player, episode, split, end if rewards else np.inf, clock)
            if reward is None:
                break
            rewards.append(reward)
            choices += int(simulator.header["choices"])
        return np.array(rewards), choices


def rules_for(generated: GeneratedScenarios, split: str, first: int, count: int) -> list[str]:
    """Return the compiled rules that apply to all of `count` scenarios."""
    family = generated.family.name
    lists = [applicable(generated.scenario(split, first + number)) for number in range(count)]
    return [
        name for name in lists[0] if isinstance(find(name, family), Heuristic) and all(name in one for one in lists)
    ]


def rank_rules(
    generated: GeneratedScenarios,
    split: str,
    first: int,
    count: int,
    clock: Seconds,
    notify: Callable[[str], None],
    names: Sequence[str] | None = None,
) -> tuple[ScoredScenarios, list[Racer]]:
    """Return `count` scenarios with the scales of their rewards, and the rules with their scores there, best first."""
    family, scored = generated.family.name, ScoredScenarios(split, first)
    racers, played = [], []
    for name in names or rules_for(generated, split, first, count):
        notify(name)
        rewards, choices = scored.play(generated, name, range(count * EPISODES_EACH), np.inf, clock)
        racers.append(Racer(find(name, family), choices=choices))
        played.append(rewards)
    if RANDOM not in [racer.name for racer in racers]:
        raise InputError(f"{family}: '{RANDOM}' does not play all generated scenarios: expected it as the score 0")
    means = np.array(played).reshape(len(racers), count, EPISODES_EACH).mean(axis=2)
    random = [racer.name for racer in racers].index(RANDOM)
    scored.scales = list(zip(means[random].tolist(), means.max(axis=0).tolist(), strict=True))
    for racer, rewards in zip(racers, played, strict=True):
        racer.rewards = scored.scores(rewards).tolist()
    return scored, sorted(racers, key=lambda racer: -float(np.mean(racer.rewards)))


def race_rules(generated: GeneratedScenarios, clock: Seconds, notify: Callable[[str], None]) -> Race:
    """Return the ranking of the family's rules on generated scenarios of the training split."""
    _, racers = rank_rules(generated, "train", FIRST_RACED, RACE_SCENARIOS, clock, notify)
    return Race(tuple(racers), ())


def experts_of(found: Race, tell: Callable[[str], None] | None) -> str:
    """Return the warm start on generated scenarios: the best rules of the race; `tell` them in one sentence."""
    names = [racer.name for racer in found.ranking if racer.name != RANDOM][:EXPERTS]
    if tell is not None:
        tell(f"warm start: the best of {', '.join(names)} on each scenario, the best rules of a race")
    return ",".join(names)


def find_general_reference(
    generated: GeneratedScenarios, found: Race, episodes: int, clock: Seconds, notify: Callable[[str], None]
) -> Reference:
    """Return the best single rule in the `episodes` that select a network, with the scales of all scores.

    Of the outcome there are twice as many episodes, up to its usual number.
    """
    count = -(-episodes // EPISODES_EACH)
    last = min(OUTCOME_EPISODES, 2 * episodes) // EPISODES_EACH
    names = [*[racer.name for racer in found.ranking[:CONTENDERS] if racer.name != RANDOM], RANDOM]
    selection, racers = rank_rules(generated, "selection", 0, count, clock, notify, names)
    outcome, others = rank_rules(generated, "outcome", 0, last, clock, notify, names)
    best = racers[0]
    same = next(racer for racer in others if racer.name == best.name)
    race = {**found.to_dict(), "scales": {"selection": selection.scales, "outcome": outcome.scales}}
    return Reference(best.name, np.array(best.rewards), np.array(same.rewards), race)


def general_scores(
    generated: GeneratedScenarios, reference: Reference, policy: Policy, seeds: range, end: float, clock: Seconds
) -> np.ndarray:
    """Return the scores of a network in the held-out episodes `seeds` that are over when `clock` reaches `end`."""
    split, begin = ("outcome", OUTCOME_SEED) if seeds.start >= OUTCOME_SEED else ("selection", HELD_OUT_SEED)
    scored = ScoredScenarios(split, 0, [(low, high) for low, high in reference.race["scales"][split]])
    first = seeds.start - begin
    rewards, _ = scored.play(generated, policy, range(first, first + len(seeds)), end, clock)
    return scored.scores(rewards, first)
