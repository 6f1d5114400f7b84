"""Regret of every decision of a run against the hindsight optimum.

V_k is the best total reward of an episode after its first k decisions, with the whole future known. The regret of
decision k is V_k-1 - V_k >= 0; their sum is the gap of the run to the optimum. V never rises, so if two values are
equal, so are all between them: few have to be computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from typing_extensions import TypeVar

from slipstream.families.contract import Scenario, family_of
from slipstream.policies.base import Heuristic, ModelBased, Policy, WholeEpisodes, applicable, find
from slipstream.sim.simulator import Simulator, check_action

LEAST_GAIN = 1e-9
"""Relative difference below which rewards count as equal, because sums of the same terms differ by rounding."""


@dataclass(frozen=True)
class ValueBounds:
    """Bounds of the best total reward of an episode from a state on: it lies between `best` and `bound`."""

    best: float
    """A reward that some continuation reaches."""
    bound: float
    """A reward that no continuation exceeds."""
    action: int = -1
    """First action of the best continuation; -1 if that is the one known before."""
    source: str = "run"
    """What found the best continuation."""
    method: str = "none"
    """What proved the bound."""

    @property
    def exact(self) -> bool:
        """Whether the two are equal up to rounding."""
        return same(self.best, self.bound)


S_contra = TypeVar("S_contra", bound=Scenario, contravariant=True, default=Scenario)
"""Class of the scenarios that a solver takes."""


class Hindsight(Protocol[S_contra]):
    """A solver or estimator of the remaining reward of one episode whose future it knows."""

    def value_bounds(self, simulator: Simulator[S_contra], earned: float, known: ValueBounds) -> ValueBounds:
        """Return bounds of the best total reward from the simulator's state, which is left unchanged.

        `earned` is the reward up to now. `known` are bounds that are known already: a reward that can be reached from
        this state, and one that cannot be exceeded.
        """

    @property
    def refusal(self) -> str:
        """Why the episode cannot be solved and all values are estimates; empty if it can."""


def heuristics(scenario: Scenario) -> list[Policy]:
    """Return the heuristics that apply to `scenario`, prepared for it."""
    found = [find(name, scenario.family) for name in applicable(scenario)]
    for policy in found:
        _prepare(policy, scenario)
    return found


def _prepare(policy: Policy, scenario: Scenario) -> None:
    if isinstance(policy, Heuristic):
        policy.prepare_for(scenario)


class Rollouts:
    """Estimates the remaining reward by rollouts of all heuristics."""

    def __init__(self, scenario: Scenario, refusal: str) -> None:
        self.refusal = refusal
        self.policies = heuristics(scenario)

    def value_bounds(self, simulator: Simulator, earned: float, known: ValueBounds) -> ValueBounds:
        """Return the best total reward over rollouts of the heuristics; its `bound` stays that of `known`."""
        if not simulator.asking:
            return ValueBounds(earned, earned, method="end")
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


def hindsight_of(scenario: Scenario, seed: int, split: str, seconds: float) -> Hindsight:
    """Return the family's solver of the rest of an episode, or rollouts of heuristics if it has none."""
    family = family_of(scenario)
    found = family.hindsight(scenario, seed, split, seconds)
    if found is None:
        return Rollouts(scenario, f"oracle: episodes of the family '{family.name}' cannot be solved choice by choice")
    return found


@dataclass(frozen=True)
class Decision:
    """One decision of a run and its regret."""

    number: int
    time: int
    """In ns."""
    options: int
    """Number of legal actions."""
    chosen: int
    what: str
    """Description of the chosen action."""
    best: int
    """An action without regret: the chosen one if it has none."""
    better: str
    """Description of that action."""
    regret: float
    """In units of the reward."""
    exact: bool
    """Whether the regret is proven; else it is the difference of the best rewards found before and after."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON-ready data."""
        names = {"time": "time_ns", "what": "chosen_name", "better": "best_name"}
        return {names.get(name, name): value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Regret:
    """Regret of all decisions of a run."""

    decisions: tuple[Decision, ...]
    values: tuple[ValueBounds, ...]
    """Bounds before each decision and after the last."""

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
        """Sum over all decisions: the best reward minus that of the run."""
        return self.best_known - self.reached

    def worst(self, count: int) -> list[Decision]:
        """Return up to `count` decisions with the greatest positive regret, greatest first."""
        costly = [one for one in self.decisions if one.regret > 0.0]
        return sorted(costly, key=lambda one: (-one.regret, one.number))[:count]


def same(one: float, other: float) -> bool:
    """Return whether two rewards are equal up to rounding."""
    return abs(one - other) <= LEAST_GAIN * max(1.0, abs(one))


def regret_of(
    simulator: Simulator,
    actions: Sequence[int],
    seed: int,
    split: str,
    hindsight: Hindsight,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Regret:
    """Return the regret of the `actions` of an episode; the simulator must keep no log."""
    trajectory = _Trajectory(simulator, actions, seed, split, hindsight, progress)
    values = trajectory.values()
    decisions = [trajectory.decision(number, values) for number in range(len(actions))]
    return Regret(tuple(decisions), tuple(values))


class _Trajectory:
    """The states of a run before each decision, with the value bounds that were computed of them."""

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
        self.found: dict[int, ValueBounds] = {}

    def values(self) -> list[ValueBounds]:
        """Return value bounds before each decision and after the last."""
        last = len(self.actions)
        self._evaluate(last, ValueBounds(-math.inf, math.inf))
        self._evaluate(0, ValueBounds(self.found[last].best, math.inf))
        self._divide(0, last)
        values = [self.found[number] for number in range(last + 1)]
        for number in range(last - 1, -1, -1):
            # A reward reachable later is reachable from here by the chosen actions.
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
            self._evaluate(middle, ValueBounds(other.best, one.bound))
            self._divide(first, middle)
            self._divide(middle, last)
        self.progress(len(self.found), len(self.actions) + 1)

    def _evaluate(self, number: int, known: ValueBounds) -> None:
        if number in self.found:
            return
        self.simulator.restore(self.states[number])
        self.found[number] = self.hindsight.value_bounds(self.simulator, self.earned[number], known)

    def decision(self, number: int, values: list[ValueBounds]) -> Decision:
        """Return the regret of decision `number`, given the `values` of all states."""
        before, after = values[number], values[number + 1]
        cost = 0.0 if same(before.best, after.best) else before.best - after.best
        chosen = self.actions[number]
        best = before.action if cost > 0.0 and before.action >= 0 else chosen
        self.simulator.restore(self.states[number])
        _, _, mask = self.simulator.observe()
        return Decision(
            number=number,
            time=int(self.simulator.header["now"]),
            options=int(mask.sum()),
            chosen=chosen,
            what=self._row_name(chosen),
            best=best,
            better=self._row_name(best),
            regret=cost,
            exact=before.exact and after.exact,
        )

    def _row_name(self, row: int) -> str:
        """Return what taking a row of the last observation would do, or its number where the family has no words."""
        wait = len(self.simulator.raw["mask"][0]) - 1
        return self.simulator.family.row_name(self.simulator, row) or ("wait" if row == wait else f"row {row}")


def choices_of(simulator: Simulator, policy: Policy, seed: int, split: str) -> list[int]:
    """Return the actions of `policy` in an episode; the simulator must keep no log."""
    actions = []
    _prepare(policy, simulator.scenario)
    simulator.reset(seed, split)
    while simulator.asking:
        action = _choice(simulator, policy)
        actions.append(action)
        simulator.step(action)
    return actions


def _choice(simulator: Simulator, policy: Policy) -> int:
    """Return the action of `policy`; for one that only runs compiled, the action that leads to the same state."""
    if isinstance(policy, ModelBased):
        return policy.decide(simulator)
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
    raise AssertionError("a policy reached a state that no action leads to")
