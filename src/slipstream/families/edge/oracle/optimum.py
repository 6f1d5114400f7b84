"""The hindsight optimum of one episode: all releases and run times known.

Short episodes are solved: by CP-SAT where runs take their solo time; where its plan does not reach its bound in the
simulator, or where runs slow each other down, by branch and bound over decisions. Otherwise the optimum is bracketed
between the best reward of any policy or plan and the best proven bound.
"""

from __future__ import annotations

from time import perf_counter

from slipstream.errors import InputError, InvariantError
from slipstream.families.edge.oracle.hindsight import Job, jobs_of, runs_at_solo_speed
from slipstream.families.edge.oracle.relaxation import relaxation
from slipstream.families.edge.oracle.schedule import Schedule, play
from slipstream.families.edge.oracle.search import search
from slipstream.families.edge.scenario import Closed, EdgeScenario
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.regret import Hindsight, Rollouts, ValueBounds
from slipstream.families.shared.search import best_policy
from slipstream.policies.base import find
from slipstream.sim.simulator import Simulator

SHORT = 60
"""Most jobs of an episode that is solved exactly; longer ones get only the relaxation's bound."""
TOLERANCE = 1e-5
"""Difference up to which reward and bound count as equal: solvers round, always in favour of the bound."""


def optimum_bounds(scenario: EdgeScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return lower and upper bounds of an episode's best reward; a short one is solved within about `seconds`."""
    _refuse_closed_loop(scenario)
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = best_policy(simulator, seed, split)
    jobs = jobs_of(scenario, events, seed, split)
    bound, method = relaxation(scenario, jobs), "relaxation"
    short = len(jobs) <= SHORT
    if short and runs_at_solo_speed(scenario):
        # The other half of the time is for the search.
        planned, plan = Schedule(scenario, jobs).solve(seconds / 2)
        if planned < bound:
            bound, method = planned, "schedule"
        # Played at the planned times, and with every start as early as possible: either may earn more.
        for start_times in (plan, [(0, job, variant) for _, job, variant in plan]):
            reached = play(simulator, start_times, seed, split)
            if reached > best:
                source, best = "schedule", reached
    if short and best < bound - TOLERANCE:
        fresh = Simulator(scenario, log_rows=0)
        fresh.reset(seed, split)
        found, searched, _ = search(fresh, jobs, best, bound, began + seconds)
        if found > best:
            source, best = "search", found
        if searched < bound:
            bound, method = searched, "search"
    if best > bound + TOLERANCE * max(1.0, abs(bound)):
        raise InvariantError(f"a reward of {best} was reached, but {bound} was proven by {method} to be the most")
    exact = best >= bound - TOLERANCE
    return OptimumBounds(best, best if exact else bound, exact, source, method, perf_counter() - began)


def hindsight(scenario: EdgeScenario, seed: int, split: str, seconds: float) -> Hindsight[EdgeScenario]:
    """Return the evaluator of the rest of an episode: exact if it is short, else by rollouts."""
    _refuse_closed_loop(scenario)
    events = Simulator(scenario).play(find("edf", "edge"), seed, split)
    jobs = jobs_of(scenario, events, seed, split)
    if len(jobs) > SHORT:
        long = f"oracle: an episode of {len(jobs)} jobs is not solved choice by choice: expected {SHORT} jobs at most"
        return Rollouts(scenario, long)
    return ExhaustiveHindsight(jobs, seconds)


class ExhaustiveHindsight:
    """Best and bound of the rest of a short episode, by branch and bound over decisions."""

    refusal = ""

    def __init__(self, jobs: list[Job], seconds: float) -> None:
        self.jobs, self.seconds = jobs, seconds

    def value_bounds(self, simulator: Simulator[EdgeScenario], earned: float, known: ValueBounds) -> ValueBounds:
        """Return best reward and bound of the episode from the simulator's state; the simulator must keep no log."""
        if not simulator.asking:
            return ValueBounds(earned, earned, method="end")
        snapshot = simulator.save()
        until = perf_counter() + self.seconds
        best, bound, action = search(simulator, self.jobs, known.best - earned, known.bound - earned, until)
        simulator.restore(snapshot)
        return ValueBounds(earned + best, earned + bound, action, "run" if action < 0 else "search", "search")


def _refuse_closed_loop(scenario: EdgeScenario) -> None:
    if any(isinstance(task.arrival, Closed) for task in scenario.tasks):
        raise InputError("oracle: closed-loop tasks release by what the policy does: expected other arrival kinds")
