"""Lower bound of the time that requests spend: no policy, not even one that knows all arrivals, does better.

A request gets one token per step, so it takes at least as many of the shortest steps as it has tokens. And an engine
takes at least `constant + rate * tokens` for a step: shared out among its tokens and, by seats, among its sequences,
that is work of each request, which engines together do no faster than one server as fast as all. On one server the
shortest remaining work first, with preemption, has the least total time (Schrage, 1968).
"""

from __future__ import annotations

import numpy as np

from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.metrics import RequestTimes, requests_of
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.search import heuristic_bounds, least_flow
from slipstream.sim.simulator import Simulator


def bound(scenario: LlmScenario, events: np.ndarray, seed: int, split: str) -> float:
    """Return an upper bound of the reward of any policy, given the requests of an episode."""
    requests = requests_of(events)
    served = ~requests.rejected
    alone = float((requests.output[served] * shortest_step(scenario)).sum())
    fresh = requests.prompt - shared_tokens(scenario, requests, seed, split)
    shared = 0.0
    for constant, rate in support_lines(scenario):
        work = rate * (fresh + requests.output - 1) + constant / scenario.engine.seats * requests.output
        shared = max(shared, least_flow(requests.arrival[served], work[served] / scenario.engines))
    least_s = max(alone, shared) / 1e9
    return -(scenario.reward.time * least_s + scenario.reward.violations * float(requests.rejected.sum()))


optimum_bounds = heuristic_bounds(bound, "shortest steps and remaining work")
"""Return bounds of the best reward of an episode; every heuristic plays it, however long that takes."""


def _least_beside(scenario: LlmScenario) -> float:
    """Return the least time of a step beside its linear layers."""
    spec = compiled_scenario(scenario).spec
    machine = spec["machine"][0]
    seats = _beyond(spec["head_at"], spec["head"], float(scenario.engine.seats))
    attention = float(spec["attention"].min()) if machine["tables"] else float(machine["attention"])
    return float(machine["step"]) + min(float(spec["head"].min()), seats) + max(0.0, attention)


def _beyond(points: np.ndarray, values: np.ndarray, at: float) -> float:
    """Return the height of the lines through the points at `at`; the last one goes on."""
    if len(points) == 1 or at <= points[-1]:
        return float(np.interp(at, points, values))
    rate = (values[-1] - values[-2]) / (points[-1] - points[-2])
    return float(values[-1] + rate * (at - points[-1]))


def _corners(scenario: LlmScenario) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the time of the linear layers, from one token to the largest budget."""
    spec = compiled_scenario(scenario).spec
    most = float(max([scenario.engine.token_budget, *spec["levels"]["budget"].tolist()]))
    inner = spec["dense_at"][(spec["dense_at"] > 1.0) & (spec["dense_at"] < most)]
    at = np.unique(np.concatenate(([1.0], inner, [most])))
    return at, np.array([_beyond(spec["dense_at"], spec["dense"], point) for point in at.tolist()])


def shortest_step(scenario: LlmScenario) -> float:
    """Return a time in ns that no step falls short of."""
    return max(1.0, float(_corners(scenario)[1].min()) + _least_beside(scenario))


def support_lines(scenario: LlmScenario) -> list[tuple[float, float]]:
    """Return lines `constant + rate * tokens` below the time of every step, neither of them negative."""
    at, height = _corners(scenario)
    height = height + _least_beside(scenario)
    lines = []
    for low in range(len(at)):
        for high in range(low + 1, len(at)):
            rate = (height[high] - height[low]) / (at[high] - at[low])
            constant = height[low] - rate * at[low]
            if rate >= 0.0 and constant >= 0.0 and bool((constant + rate * at <= height * (1.0 + 1e-12)).all()):
                lines.append((float(constant), float(rate)))
    return lines or [(float(height.min()), 0.0)]


def shared_tokens(scenario: LlmScenario, requests: RequestTimes, seed: int, split: str) -> np.ndarray:
    """Return the tokens of each prompt that the cache may have from other requests."""
    spec = compiled_scenario(scenario).spec
    machine = spec["machine"][0]
    if not machine["prefix"]:
        return np.zeros(len(requests.prompt), np.int64)
    if not machine["listed"]:
        return np.asarray(np.minimum(requests.prompt, int(machine["prefix_tokens"])))
    simulator = Simulator(scenario)
    simulator.reset(seed, split)
    first = int(simulator.header["first"])
    pieces = spec["listed"]["hashes"][first : first + len(requests.prompt)]
    return np.asarray(np.minimum(requests.prompt, pieces * int(machine["hash_tokens"])))
