"""Hindsight optimum of one episode, bracketed between the best reward reached and a bound that no policy exceeds.

Every policy plays the episode. Small episodes on a flat cluster whose reward has slowdowns only are then solved by
CP-SAT: that gives a bound, and a schedule, which is replayed in the simulator before it counts.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.metrics import end_of, jobs_of, reward_of, terms_of
from slipstream.families.cluster.oracle.bounds import best_case_of, best_terms
from slipstream.families.cluster.oracle.schedule import solve
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.search import best_policy
from slipstream.sim.simulator import Simulator

MOST_JOBS = 40
"""Most jobs of an episode that is solved."""
CLOSE = 1e-6
"""Relative difference of rewards that count as equal: the solver rounds weights to integers."""


def optimum_bounds(scenario: ClusterScenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return bounds of the best reward of an episode; a small one is solved for about `seconds` at most."""
    began = perf_counter()
    simulator = Simulator(scenario)
    source, best, events = best_policy(simulator, seed, split)
    jobs = jobs_of(scenario, events)
    terms = best_terms(scenario, jobs)
    bound, method = reward_of(scenario, terms), "relaxation"
    if _can_be_solved(scenario, len(jobs.submit)) and best < bound - CLOSE * abs(bound):
        least = best_case_of(scenario, jobs)
        solution = solve(least, scenario.gpus, end_of(events), seconds, jobs.first_start.tolist())
        if solution is not None:
            proven = reward_of(scenario, {**terms, "slowdown": max(terms["slowdown"], solution.bound)})
            if proven < bound:
                bound, method = proven, "schedule"
            reached = _replayed(simulator, solution.starts, seed, split)
            if reached > best:
                best, source = reached, "schedule"
    if best > bound + CLOSE * abs(bound):
        raise InvariantError(f"a reward of {best} was reached, but {bound} was proven by {method} to be the most")
    exact = best >= bound - CLOSE * abs(bound)
    return OptimumBounds(best, bound, exact, source, method, perf_counter() - began)


def _can_be_solved(scenario: ClusterScenario, jobs: int) -> bool:
    weights = scenario.reward.model_dump()
    only_slowdown = all(value == 0.0 for term, value in weights.items() if term not in ("slowdown", "throughput"))
    plain = scenario.placement == "flat" and scenario.preemption is None and scenario.power.budget_w is None
    alike = compiled_scenario(scenario).sizes.levels == 1 and not scenario.quotas and scenario.compat is None
    if scenario.backfill == "conservative" or scenario.begins_s is not None:
        return False
    return only_slowdown and plain and alike and jobs <= MOST_JOBS


def _replayed(simulator: Simulator[ClusterScenario], starts: list[int], seed: int, split: str) -> float:
    """Return the reward of a schedule replayed in the simulator: the jobs that are due and fit start, else it waits."""
    from slipstream.families.cluster.features import FITS, JOB, START

    simulator.reset(seed, split)
    while simulator.asking:
        _, rows, mask = simulator.observe()
        due = []
        for row in np.flatnonzero(mask[:-1]).tolist():
            job = int(rows[row, JOB])
            if rows[row, START] and rows[row, FITS] and starts[job] <= int(simulator.header["now"]):
                due.append((starts[job], job, row))
        simulator.step(min(due)[2] if due else len(mask) - 1)
    return reward_of(simulator.scenario, terms_of(simulator.scenario, simulator.log()))
