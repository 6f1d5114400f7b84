"""The hindsight optimum of one episode: all releases and run times known.

Short episodes are solved: CP-SAT plans them where runs take their solo time, and where its plan does not earn as much
as its bound in the simulator, or where runs slow each other down, a search tries the choices themselves. Otherwise the
optimum is bracketed: from the best reward that any policy or plan reached, to the best bound that was proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

from slipstream.core.bracket import Bracket
from slipstream.core.search import best_policy
from slipstream.core.simulator import Simulator
from slipstream.edge.hindsight import jobs_of, plain
from slipstream.edge.relaxation import relaxation
from slipstream.edge.scenario import Closed, EdgeScenario
from slipstream.edge.schedule import Schedule, play
from slipstream.edge.search import search
from slipstream.errors import InputError, LawError
from slipstream.policies.base import find

SHORT = 60
"""Most jobs of an episode that is solved; beyond, only the relaxation is."""
TOLERANCE = 1e-5
"""The two ends of a bracket meet if they are this close: solvers round, always in favour of the bound."""


def bracket(scenario: EdgeScenario, seed: int, namespace: str = "test", seconds: float = 10.0) -> Bracket:
    """Return where the best reward of an episode lies; a short one is solved for about `seconds` at most."""
    _check_open(scenario)
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = best_policy(simulator, seed, namespace)
    jobs = jobs_of(scenario, events, seed, namespace)
    bound, method = relaxation(scenario, jobs), "relaxation"
    short = len(jobs) <= SHORT
    if short and plain(scenario):
        # Half of the time is left to the search.
        planned, plan = Schedule(scenario, jobs).solve(seconds / 2)
        if planned < bound:
            bound, method = planned, "schedule"
        # As planned, and with every start as early as it can be: what is best may be easier one way or the other.
        for start_times in (plan, [(0, job, variant) for _, job, variant in plan]):
            reached = play(simulator, start_times, seed, namespace)
            if reached > best:
                source, best = "schedule", reached
    if short and best < bound - TOLERANCE:
        fresh = Simulator(scenario, log_rows=0)
        fresh.reset(seed, namespace)
        found, searched = search(fresh, jobs, best, bound, began + seconds)
        if found > best:
            source, best = "search", found
        if searched < bound:
            bound, method = searched, "search"
    if best > bound + TOLERANCE * max(1.0, abs(bound)):
        raise LawError(f"a reward of {best} was reached, but {bound} was proven by {method} to be the most")
    exact = best >= bound - TOLERANCE
    return Bracket(best, best if exact else bound, exact, source, method, perf_counter() - began)


def still_to_earn(scenario: EdgeScenario, seed: int, namespace: str) -> Callable[[Simulator], float]:
    """Return what gives the most that can still be earned from where a simulator of this short episode is."""
    _check_open(scenario)
    events = Simulator(scenario).play(find("edf", "edge"), seed, namespace)
    jobs = jobs_of(scenario, events, seed, namespace)
    if len(jobs) > SHORT:
        raise InputError(
            f"oracle: an episode of {len(jobs)} jobs is not solved choice by choice: expected {SHORT} jobs at most"
        )

    def solve(simulator: Simulator) -> float:
        return search(simulator, jobs, -math.inf, math.inf, math.inf)[0] if simulator.asking else 0.0

    return solve


def _check_open(scenario: EdgeScenario) -> None:
    if any(isinstance(task.arrival, Closed) for task in scenario.tasks):
        raise InputError("oracle: closed-loop tasks release by what the policy does: expected other arrival kinds")
