"""Policies that simulate plans ahead: several decisions of one instant are a plan, and whole plans are compared.

Candidates are the plans of all planners of the family, made for the demand that a planner forecasts from the rows and
for that of resampled futures, in which the scenario's laws are known. Every plan is held in the same futures, and the
best one is carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slipstream.errors import PolicyError
from slipstream.policies.base import PlanMaker, applicable, find
from slipstream.policies.rollout import NO_LIMIT, Estimate, Rollout, Scratch

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

FORECASTS = 4
"""Futures whose demand is given to planners."""
KEYS = 2**32
"""Offset of the keys of these futures from the policy's seed."""


@dataclass(frozen=True, kw_only=True)
class PlanEstimate(Estimate):
    """What is known of the plans of a decision; `actions` are their first rows."""

    plans: np.ndarray
    """Rows of each plan, one after another; the last ones end the plan."""

    @property
    def plan(self) -> np.ndarray:
        """Rows of the plan to carry out."""
        return np.asarray(self.plans[self.best])


class PlanRollout(Rollout):
    """Policy that carries out the plan whose mean reward over resampled futures is best."""

    @property
    def description(self) -> str:
        """What it does, in one sentence."""
        names = ", ".join(base.name for base in self.bases)
        return f"Simulates {self.futures} futures of each planner's plan, that of {names} first."

    def _check_bases(self) -> None:
        for base in self.bases:
            if not isinstance(base, PlanMaker):
                raise PolicyError(f"policy '{self.name}': '{base.name}' makes no plans: expected planners only")

    def decide(self, simulator: Simulator) -> int:
        """Return the next row of the plan; at its first decision all plans are compared."""
        scratch = self._plan_scratch(simulator)
        if not scratch.goes_on():
            scratch.begin(self.estimate(simulator).plan)
        return scratch.next_row()

    def estimate(self, simulator: Simulator) -> PlanEstimate:
        """Return the rewards of the plans that could begin at the decision that is due, over all futures."""
        scratch = self._plan_scratch(simulator)
        plans = scratch.candidates()
        return PlanEstimate(plans[:, 0], *self._totals(scratch, plans), plans=plans)

    def _plan_scratch(self, simulator: Simulator) -> _PlanScratch:
        scratch = self._scratch_of(simulator)
        assert isinstance(scratch, _PlanScratch)
        return scratch

    def _new_scratch(self, simulator: Simulator) -> Scratch:
        return _PlanScratch(self, simulator)


class _PlanScratch(Scratch):
    """A simulator in which plans are made, the planners with their histories, and the plan that is carried out."""

    def __init__(self, policy: PlanRollout, simulator: Simulator) -> None:
        from slipstream.sim.simulator import Simulator

        super().__init__(policy, simulator)
        self.players = 1
        self.lane_arrays = {name: array for name, array in simulator.arrays.items() if name != "log"}
        self.model = Simulator(self.scenario, log_rows=0)
        self.wait = self.model.family.candidate_rows(self.scenario) - 1
        found = [*policy.bases, *(find(name, policy.family) for name in applicable(self.scenario) if name != "random")]
        first = {planner.name: found.index(planner) for planner in reversed(found)}
        distinct = (found[index] for index in sorted(first.values()))
        self.planners = [deepcopy(planner) for planner in distinct if isinstance(planner, PlanMaker)]
        self.before, self.made_at = deepcopy(self.planners), (-1, -1)
        self.plan, self.done, self.due = np.zeros(0, np.int64), 0, (-1, -1)

    @property
    def here(self) -> tuple[int, int]:
        """Time and number of the decision that is due."""
        return int(self.header["now"]), int(self.header["choices"])

    def goes_on(self) -> bool:
        """Return whether the decision that is due belongs to the plan that is carried out."""
        return self.here == self.due

    def begin(self, plan: np.ndarray) -> None:
        """Begin to carry out a plan."""
        self.plan, self.done = plan, 0

    def next_row(self) -> int:
        """Return the next row of the plan."""
        row = int(self.plan[self.done])
        self.done += 1
        now, choices = self.here
        self.due = (now, choices + 1) if row < self.wait and self.done < len(self.plan) else (-1, -1)
        return row

    def candidates(self) -> np.ndarray:
        """Return the distinct plans to try as rows of an array, those of the bases first."""
        # The same decision may be asked about again: planners learn from a plan once.
        if self.here != self.made_at:
            self.before, self.made_at = deepcopy(self.planners), self.here
        self.planners = deepcopy(self.before)
        found: dict[tuple[int, ...], None] = {}
        for planner in self._planners_by_demand():
            found[self._plan_of(planner)] = None
            if len(found) == self.policy.candidates:
                break
        # To stay as it is may be better than all plans.
        distinct = list(found | {(): None})[: self.policy.candidates]
        rows = np.full((len(distinct), 1 + max(map(len, distinct))), self.wait, np.int64)
        for number, plan in enumerate(distinct):
            rows[number, : len(plan)] = plan
        return rows

    def _planners_by_demand(self) -> Iterator[PlanMaker]:
        """Yield the planners as they are, and then with the demand of futures."""
        yield from self.planners
        for demand in self._expected_demands():
            yield from (planner.with_demand(demand) for planner in self.planners if planner.heeds_demand)

    def _expected_demands(self) -> list[np.ndarray]:
        """Return the mean demand until the next plan, that until the last one simulated, and the greatest between."""
        found: list[np.ndarray] = []
        for future in range(FORECASTS):
            self.model.restore(self.lane_arrays)
            self.model.header["clock"] = 0
            if not self.policy.peeks:
                self.model.resample(self.policy.seed + KEYS + future)
            until = self.model.header["now"] + self.span
            demands = []
            while self.model.asking and self.model.header["now"] < until:
                self.model.step(self.wait)
                demands.append(self.planners[0].demand_before(self.model))
            found += [np.stack((demands[0], np.mean(demands, axis=0), np.max(demands, axis=0)))]
        return list(np.mean(found, axis=0))

    def _plan_of(self, planner: PlanMaker) -> tuple[int, ...]:
        """Return the rows that a planner takes before the one that ends its plan."""
        self.model.restore(self.lane_arrays)
        rows: list[int] = []
        now = self.model.header["now"]
        while self.model.asking and self.model.header["now"] == now:
            row = int(planner.choose(*self.model.observe()))
            if row == self.wait:
                break
            rows.append(row)
            self.model.step(row)
        return tuple(rows)

    def play(self, number: int, actions: np.ndarray, first: int, futures: int) -> np.ndarray:
        """Return the reward of each plan in `futures` futures from number `first` on; no other plan follows it."""
        from slipstream.sim.kernel.rollout import roll_out_plans

        policy = self.policy
        totals = np.zeros((futures, len(actions)))
        arrivals = NO_LIMIT if policy.defaults.arrivals is None else policy.defaults.arrivals
        rest = (np.uint64(policy.seed), first, arrivals, self.span, policy.peeks, totals)
        roll_out_plans(self.known, self.decided, self.lanes, self.rows, actions, *rest)
        return totals
