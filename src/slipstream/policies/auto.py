"""`auto`: the policy that is best on training episodes of the scenario at hand.

Rules, networks that come with the package, and rollouts of the best of both race on the same training episodes, so that
differences are paired. A more complicated kind of policy is taken only where it is surely ahead. The result is kept in
the cache folder, by the digests of scenario and code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.contract import Scenario
from slipstream.families.shared.digest import digest
from slipstream.files.atomic import replace_file
from slipstream.policies.base import Heuristic, ModelBased, PlanMaker, Policy, WholeEpisodes, applicable, find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import CARD, shipped
from slipstream.policies.rollout import rollout_over

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

NAME = "auto"
FIRST_SEED = 1_000_000
"""Seed of the first training episode of a race."""
HEAT, FINAL = 4, 12
"""Episodes that all rules and networks play, and that the better ones play."""
BEHIND = 3.0
"""Standard errors by which a policy is behind the leader of the heat if it does not play on."""
SURE = 2.0
"""Standard errors by which a more complicated policy must be ahead."""


@dataclass(frozen=True)
class Choice:
    """The policy that won the race on a scenario, and what decided it."""

    policy: str
    reason: str
    """One sentence."""
    rewards: dict[str, list[float]] = field(default_factory=dict)
    """Rewards of every policy that raced on the training episodes it played."""


def lead(one: list[float], other: list[float]) -> tuple[float, float]:
    """Return the mean paired lead of `one` over `other` on their common episodes, and its standard error."""
    count = min(len(one), len(other))
    gaps = np.array(one[:count]) - np.array(other[:count])
    return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(count))


def signed_rank(one: list[float], other: list[float]) -> float:
    """Return Wilcoxon's signed-rank statistic of the paired leads of `one`, in standard deviations from no lead.

    Rewards of congested episodes have heavy tails; ranks tell a lead that a few large differences hide from the mean.
    """
    count = min(len(one), len(other))
    gaps = np.array(one[:count]) - np.array(other[:count])
    gaps = gaps[gaps != 0.0]
    ranks = np.abs(gaps).argsort().argsort() + 1.0
    size = len(gaps)
    spread = np.sqrt(size * (size + 1) * (2 * size + 1) / 24.0)
    return float((ranks[gaps > 0.0].sum() - size * (size + 1) / 4.0) / spread) if size else 0.0


class Race:
    """Plays policies on training episodes of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        from slipstream.sim.simulator import Simulator

        self.scenario = scenario
        self.simulator = Simulator(scenario)
        self.family = self.simulator.family
        self.rewards: dict[str, list[float]] = {}
        self.policies: dict[str, Policy] = {}

    def play(self, policy: Policy, episodes: int) -> None:
        """Play a policy on the first `episodes` training episodes, as far as it has not yet."""
        self.policies[policy.name] = policy
        own = self.rewards.setdefault(policy.name, [])
        while len(own) < episodes:
            events = self.simulator.play(policy, FIRST_SEED + len(own), "train")
            own.append(float(self.family.metrics(self.scenario, events)["reward"]))

    def best(self, policies: Iterable[Policy]) -> str | None:
        """Return the name of the best policy: all play a heat, and those not clearly behind its leader play on."""
        entered = []
        for policy in policies:
            self.play(policy, HEAT)
            entered.append(policy.name)
        if not entered:
            return None
        leader = self._leader(entered, HEAT)
        final = [name for name in entered if not self._is_behind(name, leader)]
        for name in final:
            self.play(self.policies[name], FINAL)
        return self._leader(final, FINAL)

    def heat_mean(self, name: str) -> float:
        """Return the mean reward of a policy in the heat."""
        return float(np.mean(self.rewards[name][:HEAT]))

    def _leader(self, entered: list[str], episodes: int) -> str:
        return max(entered, key=lambda name: float(np.mean(self.rewards[name][:episodes])))

    def _is_behind(self, name: str, leader: str) -> bool:
        mean, error = lead(self.rewards[name][:HEAT], self.rewards[leader][:HEAT])
        return mean < -BEHIND * error

    def is_ahead(self, name: str, other: str) -> bool:
        """Return whether a policy is surely ahead of another on the episodes that both played.

        Its mean lead is positive, and certain by its standard error or by the ranks of the leads.
        """
        mean, error = lead(self.rewards[name], self.rewards[other])
        ranks = signed_rank(self.rewards[name], self.rewards[other])
        return mean > 0.0 and (mean > SURE * error or ranks > SURE)

    def beats(self, policy: Policy, other: str) -> bool:
        """Return whether a policy is surely ahead of `other`: it plays on, a heat at a time, while that is open.

        Policies that simulate ahead take a thousand times longer than rules, so they stop as soon as they can.
        """
        for episodes in range(HEAT, FINAL + 1, HEAT):
            self.play(policy, episodes)
            if self.is_ahead(policy.name, other):
                return True
            if self.is_ahead(other, policy.name):
                break
        return False


def choose_policy(scenario: Scenario) -> Choice:
    """Return the policy to play on `scenario`, found by a race on its training episodes."""
    race = Race(scenario)
    family = race.family.name
    chosen = race.best(find(name, family) for name in applicable(scenario) if name != "random")
    if chosen is None:
        raise PolicyError(f"policy '{NAME}': family '{family}' has no rules to choose from")
    reason = f"'{chosen}' has the highest mean reward of {len(race.rewards)} rules on {FINAL} training episodes"
    least = min(race.heat_mean(name) for name in race.rewards)
    network = race.best(find(name, family) for name in shipped(family))
    bases = [chosen]
    if network is not None and race.heat_mean(network) >= least:
        # One that is worse than every rule was trained for decisions of another kind.
        bases.append(network)
    if network is not None and race.is_ahead(network, chosen):
        reason = _reason(race, network, chosen)
        chosen = network
    if race.family.members.kernel.resample is not None:
        for base in bases:
            player = race.policies[base]
            if isinstance(player, Heuristic | CompiledPolicy | PlanMaker):
                rollout = rollout_over(family, [player])
                if race.beats(rollout, chosen):
                    reason = _reason(race, rollout.name, chosen)
                    chosen = rollout.name
    return Choice(chosen, reason, race.rewards)


def _reason(race: Race, name: str, other: str) -> str:
    mean, error = lead(race.rewards[name], race.rewards[other])
    count = min(len(race.rewards[name]), len(race.rewards[other]))
    return f"'{name}' is ahead of '{other}' by {mean:.4g} ± {error:.2g} in reward on {count} training episodes"


# Stored choices


def _folder() -> Path:
    """Return the folder of stored choices, beside that of compiled code."""
    from slipstream.jit.cache_folder import cache_folder

    return cache_folder().parents[1] / NAME


def _stored_in(scenario: Scenario) -> Path:
    """Return the file of the choice for a scenario: named by the digests of scenario, code and shipped networks."""
    from slipstream.jit.cache_folder import code_digest

    content = hashlib.sha256(f"{digest(scenario)} {code_digest()}".encode())
    for name, folder in shipped(scenario.family).items():
        content.update(name.encode() + (folder / CARD).read_bytes())
    return _folder() / f"{content.hexdigest()[:24]}.json"


def choice_for(scenario: Scenario, race: Callable[[Scenario], Choice] = choose_policy) -> Choice:
    """Return the choice for `scenario`: the stored one, or that of a race, which is stored."""
    path = _stored_in(scenario)
    with suppress(OSError, ValueError, TypeError):
        return Choice(**json.loads(path.read_bytes()))
    choice = race(scenario)
    with suppress(OSError):  # a cache that cannot be written costs the next race only
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(choice)).encode())
    return choice


class Auto:
    """Policy that plays whatever is best on training episodes of the scenario."""

    name = NAME
    description = "The rule, network or rollout that is best on training episodes of the scenario."

    def __init__(self, family: str) -> None:
        self.family = family
        self._chosen: tuple[Scenario, Policy] | None = None

    def __getstate__(self) -> dict[str, str]:
        return {"family": self.family}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.family, self._chosen = state["family"], None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Auto) and other.family == self.family

    def __hash__(self) -> int:
        return hash((NAME, self.family))

    def policy_for(self, scenario: Scenario) -> Policy:
        """Return the policy that it plays on `scenario`."""
        if self._chosen is None or self._chosen[0] is not scenario:
            self._chosen = (scenario, find(choice_for(scenario).policy, self.family))
        return self._chosen[1]

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Refuse: rows do not name the scenario."""
        raise PolicyError(f"policy '{NAME}' chooses by the scenario: expected a simulator to decide in, not rows")

    def decide(self, simulator: Simulator) -> int:
        """Return the row to take at the decision that is due in the simulator's lane."""
        policy = self.policy_for(simulator.scenario)
        if isinstance(policy, ModelBased):
            return policy.decide(simulator)
        if isinstance(policy, CompiledPolicy):
            return policy.action(simulator)
        return int(policy.choose(*simulator.observe()))

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status."""
        policy = self.policy_for(simulator.scenario)
        assert isinstance(policy, WholeEpisodes)
        return policy.player(simulator)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        policy = self.policy_for(simulator.scenario)
        assert isinstance(policy, WholeEpisodes)
        return policy.run(simulator, choices)
