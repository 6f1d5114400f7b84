"""What every decision of a run cost, against hindsight.

V_k is the best reward that an episode can still bring once its first k decisions are made, all that is to come known.
Decision k costs V_k-1 - V_k, never less than nothing; all together they cost what the run fell short of the optimum.
V never rises, so where two of them are equal, so are all between: few have to be worked out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from slipstream.families.contract import family_of
from slipstream.policies.base import Heuristic, Policy, WholeEpisodes, find, names
from slipstream.sim.simulator import Simulator, check_action

LEAST_GAIN = 1e-9
"""Rewards closer than this, by their size, count as equal: sums of the same terms differ by rounding."""


@dataclass(frozen=True)
class Rest:
    """What can still become of an episode from some point on: its whole reward lies from `best` to `bound`."""

    best: float
    """A reward that some way of going on reaches."""
    bound: float
    """A reward that no way of going on exceeds."""
    action: int = -1
    """The first choice of the best way; -1 where that is the way that was known before."""
    source: str = "run"
    """What found the best way."""
    method: str = "none"
    """What proved the bound."""

    @property
    def exact(self) -> bool:
        """Whether the two meet."""
        return same(self.best, self.bound)


class Hindsight(Protocol):
    """Whatever knows an episode and can say what is still possible in it."""

    def look(self, simulator: Simulator, earned: float, known: Rest) -> Rest:
        """Return what can become of the episode from where the simulator is, which stays there.

        `earned` is the reward up to here. `known` is what is known already: a reward that can be reached from here on,
        and one that cannot be exceeded.
        """

    def describe(self, simulator: Simulator, action: int) -> str:
        """Return in a few words what an action does where the simulator is."""

    @property
    def refusal(self) -> str:
        """Why the episode cannot be solved, so that all it gives are estimates; nothing where it can."""


def heuristics(scenario: Any) -> list[Policy]:
    """Return all heuristics of a scenario's family, with what they work out of it beforehand."""
    family = family_of(scenario).name
    found = [find(name, family) for name in names(family)]
    for policy in found:
        _prepare(policy, scenario)
    return found


def _prepare(policy: Policy, scenario: Any) -> None:
    if isinstance(policy, Heuristic):
        policy.prepare_for(scenario)


class Rollouts:
    """Estimates what can still become of an episode: the best that one of the heuristics makes of it."""

    def __init__(self, scenario: Any, refusal: str) -> None:
        self.refusal = refusal
        self.policies = heuristics(scenario)

    def look(self, simulator: Simulator, earned: float, known: Rest) -> Rest:
        """Return the best of the heuristics' rewards; that is no bound."""
        if not simulator.asking:
            return Rest(earned, earned, method="end")
        here, best = simulator.save(), known
        for policy in self.policies:
            action, total = check_action(policy.choose(*simulator.observe())), earned
            while simulator.asking:
                simulator.step(policy.choose(*simulator.observe()))
                total += float(simulator.header["reward"])
            simulator.restore(here)
            if total > best.best and not same(total, best.best):
                best = replace(known, best=total, action=action, source=policy.name)
        return best

    def describe(self, simulator: Simulator, action: int) -> str:
        """Return the number of the row, or that it waits."""
        return "wait" if action == len(simulator.observe()[2]) - 1 else f"row {action}"


def hindsight_of(scenario: Any, seed: int, split: str, seconds: float) -> Hindsight:
    """Return the family's solver of the rest of an episode; where it has none, heuristics play on: an estimate."""
    family = family_of(scenario)
    found = family.hindsight(scenario, seed, split, seconds)
    if found is None:
        return Rollouts(scenario, f"oracle: episodes of the family '{family.name}' cannot be solved choice by choice")
    return found


@dataclass(frozen=True)
class Decision:
    """One choice of a run, and what it cost."""

    number: int
    time: int
    """In ns."""
    options: int
    """How many actions were allowed."""
    chosen: int
    what: str
    """What was chosen, in words."""
    best: int
    """An action that costs nothing; the one that was chosen, if that does."""
    better: str
    """What that is, in words."""
    regret: float
    """In units of the reward."""
    exact: bool
    """Whether the regret is proven; otherwise it is an estimate from the best that was found on either side."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON-ready data."""
        return {"time_ns" if name == "time" else name: value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Regret:
    """What the decisions of a run cost."""

    decisions: tuple[Decision, ...]
    values: tuple[Rest, ...]
    """Before each decision, and after the last."""

    @property
    def reached(self) -> float:
        """The reward of the run."""
        return self.values[-1].best

    @property
    def best_known(self) -> float:
        """The best reward that was found."""
        return self.values[0].best

    @property
    def bound(self) -> float | None:
        """A reward that no policy can exceed; None where none was proven."""
        return self.values[0].bound if math.isfinite(self.values[0].bound) else None

    @property
    def exact(self) -> bool:
        """Whether every regret is proven."""
        return all(value.exact for value in self.values)

    @property
    def total(self) -> float:
        """What all decisions cost together: the best reward less the one of the run."""
        return self.best_known - self.reached

    def worst(self, count: int) -> list[Decision]:
        """Return the decisions that cost most, dearest first; none that cost nothing."""
        costly = [one for one in self.decisions if one.regret > 0.0]
        return sorted(costly, key=lambda one: (-one.regret, one.number))[:count]


def same(one: float, other: float) -> bool:
    """Return whether two rewards are equal but for rounding."""
    return abs(one - other) <= LEAST_GAIN * max(1.0, abs(one))


def regret_of(
    simulator: Simulator,
    actions: Sequence[int],
    seed: int,
    split: str,
    hindsight: Hindsight,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Regret:
    """Return what the actions of an episode cost; the simulator must keep no log."""
    looks = _Looks(simulator, actions, seed, split, hindsight, progress)
    values = looks.values()
    decisions = [looks.decision(number, values) for number in range(len(actions))]
    return Regret(tuple(decisions), tuple(values))


class _Looks:
    """The points of a run at which what can still come is looked at."""

    def __init__(
        self,
        simulator: Simulator,
        actions: Sequence[int],
        seed: int,
        split: str,
        hindsight: Hindsight,
        progress: Callable[[int, int], None],
    ) -> None:
        self.simulator, self.actions, self.hindsight, self.progress = simulator, list(actions), hindsight, progress
        self.states, self.earned = [], [0.0]
        simulator.reset(seed, split)
        for action in self.actions:
            self.states.append(simulator.save())
            simulator.step(action)
            self.earned.append(self.earned[-1] + float(simulator.header["reward"]))
        self.states.append(simulator.save())
        self.found: dict[int, Rest] = {}

    def values(self) -> list[Rest]:
        """Return what can become of the episode before each decision, and after the last."""
        last = len(self.actions)
        self._look(last, Rest(-math.inf, math.inf))
        self._look(0, Rest(self.found[last].best, math.inf))
        self._divide(0, last)
        values = [self.found[number] for number in range(last + 1)]
        for number in range(last - 1, -1, -1):
            # What can be reached later can be reached from here, by what was chosen.
            if values[number].best < values[number + 1].best:
                values[number] = replace(values[number], best=values[number + 1].best, action=-1)
        return values

    def _divide(self, first: int, last: int) -> None:
        one, other = self.found[first], self.found[last]
        if one.exact and other.exact and same(one.best, other.best):
            for number in range(first + 1, last):
                self.found[number] = replace(other, action=-1)
        elif last - first > 1:
            middle = (first + last) // 2
            self._look(middle, Rest(other.best, one.bound))
            self._divide(first, middle)
            self._divide(middle, last)
        self.progress(len(self.found), len(self.actions) + 1)

    def _look(self, number: int, known: Rest) -> None:
        if number in self.found:
            return
        self.simulator.restore(self.states[number])
        self.found[number] = self.hindsight.look(self.simulator, self.earned[number], known)

    def decision(self, number: int, values: list[Rest]) -> Decision:
        """Return what became of a choice."""
        before, after = values[number], values[number + 1]
        cost = 0.0 if same(before.best, after.best) else before.best - after.best
        chosen = self.actions[number]
        best = before.action if cost > 0.0 and before.action >= 0 else chosen
        self.simulator.restore(self.states[number])
        return Decision(
            number=number,
            time=int(self.simulator.header["now"]),
            options=int(self.simulator.observe()[2].sum()),
            chosen=chosen,
            what=self.hindsight.describe(self.simulator, chosen),
            best=best,
            better=self.hindsight.describe(self.simulator, best),
            regret=cost,
            exact=before.exact and after.exact,
        )


def choices_of(simulator: Simulator, policy: Policy, seed: int, split: str) -> list[int]:
    """Return what a policy chooses in an episode, choice by choice; the simulator must keep no log."""
    actions = []
    _prepare(policy, simulator.scenario)
    simulator.reset(seed, split)
    while simulator.asking:
        action = _choice(simulator, policy)
        actions.append(action)
        simulator.step(action)
    return actions


def _choice(simulator: Simulator, policy: Policy) -> int:
    """Return the action of a policy; of one that decides in compiled code only, the one that leads where it goes."""
    if not getattr(policy, "reads_graph", False):
        return check_action(policy.choose(*simulator.observe()))
    assert isinstance(policy, WholeEpisodes)
    here = simulator.save()
    policy.run(simulator, 1)
    there = simulator.save()
    simulator.restore(here)
    for action in np.flatnonzero(simulator.observe()[2]).tolist():
        simulator.step(action)
        found = simulator.save()
        simulator.restore(here)
        if all(np.array_equal(found[name], there[name]) for name in found):
            return int(action)
    raise AssertionError("a policy went where no action leads")
