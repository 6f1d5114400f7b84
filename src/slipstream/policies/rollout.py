"""Policies that simulate ahead: each candidate of a decision is played on in resampled futures by a base policy.

They are model-based: they know the scenario's laws, but of the episode only what has happened. So they decide from the
state of a lane, whose unknown part is redrawn from the policy's own seed before anything is simulated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES, RolloutDefaults
from slipstream.policies.base import Heuristic, PlanMaker, Policy, find, names
from slipstream.policies.compiled.network_policy import CompiledPolicy, network_action

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

NO_LIMIT = 2**61
"""Number of arrivals, or of ns, that no episode reaches."""
PATTERN = re.compile(r"rollout(?:\((.+)\))?")
"""Name of a policy that simulates ahead, with the names of its bases."""

FIRST_FUTURES = 2
"""Futures in which all candidates are tried; the number doubles until candidates or futures are used up."""
LEAST_FUTURES = 4
"""Futures after which a candidate may be given up."""
GIVEN_UP = 2.5
"""Standard errors by which a candidate is behind the leader if it is given up."""


@dataclass(frozen=True)
class Estimate:
    """What a policy that simulates ahead found out about the candidates of a decision."""

    actions: np.ndarray
    """Rows that were tried; the first is what the base policy would choose."""
    totals: np.ndarray
    """Reward of each action (columns) in each future (rows); no rows if there was but one action.

    NaN where an action had been given up.
    """
    simulated: int = 0
    """Decisions made in all futures of all actions, if each future is as long as the last one."""

    @property
    def means(self) -> np.ndarray:
        """Mean reward of each action over its futures."""
        return np.asarray(np.nanmean(self.totals, axis=0))

    @property
    def errors(self) -> np.ndarray:
        """Standard error of each action's lead over the first, paired over the futures."""
        return _errors(self.totals - self.totals[:, :1])

    @property
    def last(self) -> np.ndarray:
        """Positions of the actions that were not given up."""
        return np.flatnonzero(~np.isnan(self.totals[-1]))

    @property
    def best(self) -> int:
        """Position of the best action, but of the first unless that one leads it by more than a standard error."""
        if not len(self.totals):
            return 0
        best = int(self.last[self.means[self.last].argmax()])
        return best if self.means[best] - self.means[0] > self.errors[best] else 0

    @property
    def action(self) -> int:
        """The action to take."""
        return int(self.actions[self.best])

    def candidates_left(self) -> np.ndarray:
        """Return the positions of the actions worth more futures: those that are not surely behind the leader.

        The first is one of them: a lead over it must stand in all futures.
        """
        if len(self.totals) < LEAST_FUTURES:
            return self.last
        last = self.last
        totals = self.totals[:, last]
        leader = int(totals.mean(axis=0).argmax())
        behind = totals[:, leader : leader + 1] - totals
        left = behind.mean(axis=0) < GIVEN_UP * _errors(behind)
        left[[0, leader]] = True
        return np.asarray(last[left])


def _best_base(totals: np.ndarray) -> np.ndarray:
    """Return the totals of each action (last axis) by the base (first axis) that plays on best after it."""
    best = np.nansum(totals, axis=1).argmax(axis=0)
    return np.asarray(np.take_along_axis(totals, best[None, None, :], axis=0)[0])


def _errors(differences: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean of each column of `differences`, where it is not NaN."""
    counts = (~np.isnan(differences)).sum(axis=0)
    return np.asarray(np.nanstd(differences, axis=0, ddof=1) / np.sqrt(counts))


class Rollout:
    """Policy that takes the candidate whose mean reward over resampled futures is best."""

    def __init__(
        self,
        family: str,
        bases: Sequence[Policy],
        seed: int = 0,
        futures: int | None = None,
        candidates: int | None = None,
        peeks: bool = False,
    ) -> None:
        self.family = family
        self.bases = tuple(bases)
        self.seed = seed
        self.defaults: RolloutDefaults = FAMILIES[family].rollout
        self.futures = self.defaults.futures if futures is None else futures
        self.candidates = self.defaults.candidates if candidates is None else candidates
        self.peeks = peeks
        """Whether it plays the true future: no policy may, but a test and a table show what that would gain."""
        self._check()
        self._scratch: WeakKeyDictionary[Simulator, Scratch] = WeakKeyDictionary()

    def _check(self) -> None:
        if FAMILIES[self.family].members.kernel.resample is None:
            raise PolicyError(f"policy '{self.name}': futures of family '{self.family}' cannot be redrawn")
        self._check_bases()
        if self.futures < 2 or self.candidates < 2:
            raise PolicyError(f"policy '{self.name}': expected at least 2 futures and 2 candidates")

    def _check_bases(self) -> None:
        for base in self.bases:
            if not isinstance(base, Heuristic | CompiledPolicy):
                raise PolicyError(f"policy '{self.name}': '{base.name}' cannot play on: expected a rule or a network")

    @property
    def name(self) -> str:
        """Name of the policy in tables."""
        return f"rollout({','.join(base.name for base in self.bases)})"

    @property
    def description(self) -> str:
        """What it does, in one sentence."""
        names = ", ".join(base.name for base in self.bases)
        return f"Simulates {self.futures} futures of each candidate, played on by {names}."

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_scratch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _scratch=WeakKeyDictionary())

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Refuse: rows do not say enough to simulate ahead."""
        raise PolicyError(f"policy '{self.name}' simulates ahead: expected a simulator to decide in, not rows")

    def decide(self, simulator: Simulator) -> int:
        """Return the row to take at the decision that is due in the simulator's lane."""
        return self.estimate(simulator).action

    def estimate(self, simulator: Simulator) -> Estimate:
        """Return the rewards of the candidates of the decision that is due, over all futures."""
        scratch = self._scratch_of(simulator)
        with scratch.lane_unchanged():
            actions = scratch.candidates()
            return Estimate(actions, *self._totals(scratch, actions))

    def _scratch_of(self, simulator: Simulator) -> Scratch:
        scratch = self._scratch.get(simulator)
        if scratch is None:
            scratch = self._scratch[simulator] = self._new_scratch(simulator)
        return scratch

    def _new_scratch(self, simulator: Simulator) -> Scratch:
        return Scratch(self, simulator)

    def _totals(self, scratch: Scratch, candidates: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the reward of each candidate in each future, NaN where it had been given up, and all decisions."""
        every = np.full((scratch.players, self.futures, len(candidates)), np.nan)
        played, simulated, found = 0, 0, every[0, :0]
        left = np.arange(len(candidates))
        while len(left) > 1 and played < self.futures:
            more = min(max(FIRST_FUTURES, played), self.futures - played)
            for base, totals in enumerate(every):
                totals[played : played + more, left] = scratch.play(base, candidates[left], played, more)
            played += more
            simulated += scratch.players * more * len(left) * scratch.played
            found = _best_base(every[:, :played])
            left = Estimate(candidates, found).candidates_left()
        return found, simulated

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status."""
        return partial(self.run, simulator)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        return play_decisions(simulator, self.decide, choices)


class Scratch:
    """Lanes, buffers and compiled arguments for the futures of one simulator."""

    def __init__(self, policy: Rollout, simulator: Simulator) -> None:
        from slipstream.sim.kernel.rollout import PLAYED, SCRATCH_LANES
        from slipstream.sim.kernel.snapshot import lane_bytes

        self.policy, self.scenario = policy, simulator.scenario
        self.players = len(policy.bases)
        """Number of ways in which candidates are played on."""
        for base in policy.bases:
            refusal = FAMILIES[policy.family].policy_refusal(self.scenario, base.name)
            if refusal:
                raise PolicyError(f"policy '{policy.name}': '{base.name}' does not apply: {refusal}")
        # The arrays, not the simulator: a reference to it would keep it, and its entry in the policy, for ever.
        self.spec, self.state, self.buffer = simulator.spec, simulator.state, simulator.buffer
        self.header, self.raw = simulator.header, simulator.raw
        family = simulator.family
        arrays = family.state_arrays(self.scenario, SCRATCH_LANES, 0)
        self.lanes, self._played = family.make_state(arrays), arrays["lanes"][PLAYED]
        self.known = family.known_spec(self.scenario)
        self.decided, self.rows = lane_bytes(simulator.arrays), lane_bytes(arrays)
        self.span = NO_LIMIT
        if policy.defaults.spans is not None:
            self.span = round(policy.defaults.spans * family.timescale(self.scenario))
        self.networks = {
            index: base._arguments(simulator)[3:]
            for index, base in enumerate(policy.bases)
            if isinstance(base, CompiledPolicy)
        }
        self.rules: list[Heuristic] = [base for base in policy.bases if isinstance(base, Heuristic)]
        if not policy.defaults.all_rows:
            known = (find(name, policy.family) for name in names(policy.family) if name != "random")
            self.rules += [rule for rule in known if isinstance(rule, Heuristic) and rule not in self.rules]
        for rule in self.rules:
            rule.prepare_for(self.scenario)

    @property
    def played(self) -> int:
        """Number of decisions of the last future that was played."""
        return max(0, int(self._played["choices"]) - int(self.header["choices"]) + 1)

    @contextmanager
    def lane_unchanged(self) -> Iterator[None]:
        """Restore the parameter in the deciding lane, which every rule sets to its own."""
        named = "parameter" in self.header.dtype.names
        before = self.header["parameter"] if named else 0.0
        yield
        if named:
            self.header["parameter"] = before

    def candidates(self) -> np.ndarray:
        """Return the distinct rows to try: what the bases choose first, then what rules do, or the legal rows."""
        from slipstream.sim.kernel import lanes

        found: dict[int, None] = {}
        action = np.zeros(1, np.int64)
        for index, base in enumerate(self.policy.bases):
            if index in self.networks:
                found[int(network_action(self.spec, self.state, 0, *self.networks[index]))] = None
            else:
                assert isinstance(base, Heuristic)
                found[self._proposal(base, action)] = None
        if self.policy.defaults.all_rows:
            lanes.observe_lane(self.spec, self.state, 0, self.buffer, 0)
            found.update(dict.fromkeys(np.flatnonzero(self.raw["mask"][0]).tolist()))
        else:
            for rule in self.rules:
                if len(found) >= self.policy.candidates:
                    break
                found[self._proposal(rule, action)] = None
        return np.array(list(found)[: self.policy.candidates], np.int64)

    def _proposal(self, rule: Heuristic, action: np.ndarray) -> int:
        from slipstream.sim.kernel import lanes

        if rule.parameter is not None:
            self.header["parameter"] = rule.parameter
        lanes.choose_lanes(self.spec, self.state, self.buffer, rule.form, rule.address, action)
        return int(action[0])

    def play(self, number: int, actions: np.ndarray, first: int, futures: int) -> np.ndarray:
        """Return the reward of each action in `futures` futures from number `first` on, played on by a base."""
        from slipstream.sim.kernel.rollout import roll_out

        policy, base = self.policy, self.policy.bases[number]
        totals = np.zeros((futures, len(actions)))
        arrivals = NO_LIMIT if policy.defaults.arrivals is None else policy.defaults.arrivals
        rest = (actions, np.uint64(policy.seed), first, arrivals, self.span, policy.peeks, totals)
        if isinstance(base, CompiledPolicy):
            from slipstream.policies.compiled.network_rollout import roll_out_network

            roll_out_network(self.known, self.decided, self.lanes, self.rows, *self.networks[number], *rest)
            return totals
        assert isinstance(base, Heuristic)
        if base.parameter is not None:
            self.header["parameter"] = base.parameter
        how = (self.buffer, base.form, base.address)
        roll_out(self.known, self.decided, self.lanes, self.rows, *how, *rest)
        return totals


def play_decisions(simulator: Simulator, decide: Callable[[Simulator], int], choices: int) -> int:
    """Play at most `choices` decisions of `decide` in the simulator's lane; return its status."""
    from slipstream.sim.kernel import lanes

    if simulator.header["status"] == lanes.LOG_FULL:
        lanes.resume_lane(simulator.spec, simulator.state, 0)
    while choices > 0 and simulator.asking:
        lanes.step_lane(simulator.spec, simulator.state, 0, decide(simulator))
        choices -= 1
    return int(simulator.header["status"])


def is_rollout(name: str) -> bool:
    """Return whether `name` is that of a policy that simulates ahead."""
    return PATTERN.fullmatch(name) is not None


def make_rollout(name: str, family: str) -> Rollout:
    """Return the policy `rollout(base, ...)`."""
    return rollout_over(family, [find(base, family) for base in base_names(name, family)])


def base_names(name: str, family: str) -> list[str]:
    """Return the bases in `name`, that of a policy that simulates ahead; by default the family's default policy."""
    found = PATTERN.fullmatch(name)
    assert found is not None
    return _split(found[1]) if found[1] else [FAMILIES[family].default_policy]


def rollout_over(family: str, bases: Sequence[Policy]) -> Rollout:
    """Return the policy that simulates ahead with these bases: plans, if the first of them is a planner."""
    if isinstance(bases[0], PlanMaker):
        from slipstream.policies.plan_rollout import PlanRollout

        return PlanRollout(family, bases)
    return Rollout(family, bases)


def _split(text: str) -> list[str]:
    """Return the names that commas outside parentheses separate."""
    return [part.strip() for part in re.findall(r"(?:[^,(]|\([^)]*\))+", text)]
