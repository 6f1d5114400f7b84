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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.contract import Scenario
from slipstream.families.shared.digest import digest
from slipstream.files.atomic import replace_file
from slipstream.policies.base import (
    Heuristic,
    ModelBased,
    PlanMaker,
    Policy,
    WholeEpisodes,
    applicable,
    default_for,
    find,
)
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import CARD, shipped
from slipstream.policies.rollout import Rollout, play_decisions, rollout_over

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
PROBES = 8
"""Decisions of a training episode at which the work of simulating ahead is measured."""
NETWORK_WORK = 4
"""Work of a simulated decision of a network; that of a rule is 1."""
PLANNER_WORK = 100
"""Work of a decision of a policy that is not compiled, such as a planner."""
NO_LIMIT = 2**61
"""Number of decisions that no episode reaches."""

Progress = Callable[[int, int], None]
"""Called with (policies that have raced, policies in all)."""


@dataclass(frozen=True)
class Effort:
    """How long a race may take, in numbers that do not depend on the machine."""

    decisions: int
    """Work of deciding, per training episode, beyond which nothing races: the family's default heuristic is played."""
    work: int
    """Work of simulating ahead, per training episode, beyond which a policy does not race; 0: none simulates."""


FULL = Effort(decisions=NO_LIMIT, work=6_000_000)
"""Effort of `auto` where it is named, and in the suite: up to about a minute per episode that is simulated ahead."""
QUICK = Effort(decisions=6_000, work=100_000)
"""Effort where no policy is named: seconds, in which the user waits."""
ON_DEVICE = Effort(decisions=6_000, work=0)
"""Effort for a real device, whose decisions cannot wait for simulations."""


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

    def __init__(self, scenario: Scenario, progress: Progress | None = None) -> None:
        from slipstream.sim.simulator import Simulator

        self.scenario, self.progress = scenario, progress
        self.entrants = 0
        """Number of policies that race, as far as it is known."""
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
        if self.progress is not None:
            self.progress(len(self.rewards), max(self.entrants, len(self.rewards)))

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

    def is_longer_than(self, policy: Policy, decisions: int) -> bool:
        """Return whether the decisions of `policy` in the first training episode are more work than `decisions`."""
        simulator = self._first_episode()
        if decisions < NO_LIMIT and isinstance(policy, WholeEpisodes):
            policy.run(simulator, decisions)
            return simulator.asking
        while simulator.asking and PLANNER_WORK * int(simulator.header["choices"]) <= decisions < NO_LIMIT:
            simulator.step(policy.choose(*simulator.observe()))
        return simulator.asking and decisions < NO_LIMIT

    def work(self, rollout: Rollout, base: Heuristic | CompiledPolicy | PlanMaker) -> int:
        """Return the work of simulating ahead in the first training episode, which `base` plays.

        It counts simulated decisions, or of plans those of all planners, so it is the same on every machine.
        """
        simulator = self._first_episode()
        if isinstance(base, PlanMaker):
            simulator.play(base, FIRST_SEED, "train")
            return PLANNER_WORK * rollout.candidates * int(simulator.header["choices"])
        base.run(simulator, NO_LIMIT)
        decisions = int(simulator.header["choices"])
        simulator = self._first_episode()
        base.run(simulator, decisions // (2 * PROBES))
        found: list[int] = []
        while simulator.asking and len(found) < PROBES:
            found.append(rollout.estimate(simulator).simulated)
            base.run(simulator, max(1, decisions // PROBES))
        weight = NETWORK_WORK if isinstance(base, CompiledPolicy) else 1
        return round(weight * decisions * float(np.mean(found))) if found else 0

    def _first_episode(self) -> Simulator:
        from slipstream.sim.simulator import Simulator

        simulator = Simulator(self.scenario, log_rows=0)
        simulator.reset(FIRST_SEED, "train")
        return simulator


def choose_policy(scenario: Scenario, progress: Progress | None = None, effort: Effort = FULL) -> Choice:
    """Return the policy to play on `scenario`, found by a race on its training episodes."""
    race = Race(scenario, progress)
    family = race.family.name
    rules = [name for name in applicable(scenario) if name != "random"]
    if not rules:
        raise PolicyError(f"policy '{NAME}': family '{family}' has no rules to choose from")
    usual = default_for(scenario)
    if race.is_longer_than(find(usual, family), effort.decisions):
        return Choice(usual, "it is the default heuristic, and a race on episodes this long takes '--policy auto'")
    simulates = effort.work > 0 and race.family.members.kernel.resample is not None
    race.entrants = len(rules) + len(shipped(family)) + (min(len(shipped(family)), 1) + 1 if simulates else 0)
    chosen = race.best(find(name, family) for name in rules)
    assert chosen is not None
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
    left_out = []
    for base in bases if simulates else ():
        player = race.policies[base]
        if isinstance(player, Heuristic | CompiledPolicy | PlanMaker):
            rollout = rollout_over(family, [player])
            if race.work(rollout, player) > effort.work:
                left_out.append(rollout.name)
            elif race.beats(rollout, chosen):
                reason = _reason(race, rollout.name, chosen)
                chosen = rollout.name
    if left_out:
        reason += f"; not raced, since it simulates too much: {', '.join(left_out)}"
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


def _stored_in(scenario: Scenario, effort: Effort = FULL) -> Path:
    """Return the file of the choice for a scenario: named by the effort and digests of scenario, code and networks."""
    from slipstream.jit.cache_folder import code_digest

    content = hashlib.sha256(f"{digest(scenario)} {code_digest()} {effort}".encode())
    for name, folder in shipped(scenario.family).items():
        content.update(name.encode() + (folder / CARD).read_bytes())
    return _folder() / f"{content.hexdigest()[:24]}.json"


def choice_for(scenario: Scenario, race: Callable[[Scenario], Choice] = choose_policy, effort: Effort = FULL) -> Choice:
    """Return the choice for `scenario`: the stored one, or that of a race, which is stored.

    Where policies from outside of the package race, nothing is stored: the names do not say what they do.
    """
    if not all(_is_packaged(find(name, scenario.family)) for name in applicable(scenario)):
        return race(scenario)
    path = _stored_in(scenario, effort)
    with suppress(OSError, ValueError, TypeError):
        return Choice(**json.loads(path.read_bytes()))
    choice = race(scenario)
    with suppress(OSError):  # a cache that cannot be written costs the next race only
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(choice)).encode())
    return choice


def _is_packaged(policy: Policy) -> bool:
    return str(getattr(policy, "function", type(policy)).__module__).startswith("slipstream.")


class Auto:
    """Policy that plays whatever is best on training episodes of the scenario."""

    name = NAME
    description = "The rule, network or rollout that is best on training episodes of the scenario."

    def __init__(self, family: str, effort: Effort = FULL) -> None:
        self.family = family
        self.effort = effort
        self._chosen: tuple[Scenario, Choice, Policy] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"family": self.family, "effort": self.effort, "chosen": self._chosen and self._chosen[:2]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.family, self.effort, self._chosen = state["family"], state["effort"], None
        if state["chosen"] is not None:
            self._chosen = (*state["chosen"], find(state["chosen"][1].policy, self.family))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Auto) and (other.family, other.effort) == (self.family, self.effort)

    def __hash__(self) -> int:
        return hash((NAME, self.family, self.effort))

    def choice(self, scenario: Scenario, progress: Progress | None = None) -> Choice:
        """Return what it plays on `scenario` and why; it races, unless it has before or the choice is stored."""
        if self._chosen is not None and self._chosen[0] is not scenario and self._chosen[0] == scenario:
            self._chosen = (scenario, *self._chosen[1:])
        if self._chosen is None or self._chosen[0] is not scenario:
            race = partial(choose_policy, progress=progress, effort=self.effort)
            choice = choice_for(scenario, race, self.effort)
            self._chosen = (scenario, choice, find(choice.policy, self.family))
        return self._chosen[1]

    def policy_for(self, scenario: Scenario) -> Policy:
        """Return the policy that it plays on `scenario`."""
        self.choice(scenario)
        assert self._chosen is not None
        return self._chosen[2]

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
        return policy.player(simulator) if isinstance(policy, WholeEpisodes) else partial(self.run, simulator)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        policy = self.policy_for(simulator.scenario)
        if isinstance(policy, WholeEpisodes):
            return policy.run(simulator, choices)
        return play_decisions(simulator, self.decide, choices)
