"""Hindsight optimum of one episode: best reward reached and an upper bound.

Long episodes get analytic bounds only. Small ones are also bounded by CP-SAT, with the least time of every task, and
solved by exhaustive search over the decisions, which proves the optimum if it completes.
"""

from __future__ import annotations

from time import perf_counter

from slipstream.errors import InputError, InvariantError
from slipstream.families.dag.oracle.bounds import least_job_seconds, least_makespan
from slipstream.families.dag.oracle.hindsight import jobs_of_episode
from slipstream.families.dag.oracle.schedule import least_cost
from slipstream.families.dag.scenario import DagScenario, NoHorizon
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.search import best_policy, search
from slipstream.sim.simulator import Simulator

MOST_TASKS = 40
"""Most tasks of an episode for CP-SAT and search."""
TOLERANCE = 1e-9
"""Relative difference up to which reward and bound count as equal."""


def optimum_bounds(scenario: DagScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return bounds of the best reward of an episode; small ones are solved within about `seconds`."""
    if not isinstance(scenario.horizon, NoHorizon) or scenario.reward.discount_per_s > 0.0:
        raise InputError("oracle: the episode is cut off or discounted: expected no horizon and no discount")
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = best_policy(simulator, seed, split)
    jobs = jobs_of_episode(scenario, events, seed, split)
    job_seconds, method = least_job_seconds(scenario, jobs)
    makespan, other = least_makespan(scenario, jobs)
    if scenario.reward.makespan > 0.0:
        method = f"{method}, {other}" if scenario.reward.job_seconds > 0.0 else other
    bound = -scenario.reward.job_seconds * job_seconds - scenario.reward.makespan * makespan
    tasks = sum(len(times) for job in jobs for attempts in job.attempts for times in attempts)
    if tasks <= MOST_TASKS:
        planned = least_cost(scenario, jobs, seconds / 2)
        if -planned < bound:
            bound, method = -planned, "schedule"
        found = search(simulator, seed, split, best, began + seconds)
        if found.reward > best:
            source, best = "search", found.reward
        if found.complete and best < bound:
            bound, method = best, "search"
    if best > bound + TOLERANCE * abs(bound):
        raise InvariantError(f"a reward of {best} was reached, but {bound} was proven by {method} to be the most")
    exact = best >= bound - TOLERANCE * abs(bound)
    return OptimumBounds(best, best if exact else bound, exact, source, method, perf_counter() - began)
