"""Throughput of the simulator on this machine, measured alike for the command line and the benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.families.contract import Scenario
from slipstream.policies.base import Policy
from slipstream.sim.simulator import Simulator

ROUND_S = 0.2
"""Duration of one round of a measurement."""


def best_rate(action: Callable[[], tuple[int, float]], seconds: float) -> float:
    """Return units per second in the best round of `action`, which returns (units done, seconds taken).

    Other load on the machine only slows a round down, so the best of many rounds has the least variance.
    """
    action()
    best, ends = 0.0, perf_counter() + seconds
    while perf_counter() < ends:
        units, spent = 0, 0.0
        while spent < ROUND_S:
            done, took = action()
            units, spent = units + done, spent + took
        best = max(best, units / spent)
    return best


def timed(action: Callable[[], int]) -> Callable[[], tuple[int, float]]:
    """Return `action` wrapped to return its units and the seconds it took."""

    def run() -> tuple[int, float]:
        began = perf_counter()
        units = action()
        return units, perf_counter() - began

    return run


def events_per_second(scenario: Scenario, policy: Policy, seconds: float = 2.0) -> float:
    """Return simulated events per second of whole episodes under a compiled policy, without a log."""
    return counts_per_second(scenario, policy, "events", seconds)


def counts_per_second(scenario: Scenario, policy: Policy, field: str, seconds: float = 2.0) -> float:
    """Return the increase per second of `field` of the lane record in whole episodes under a compiled policy."""
    simulator = Simulator(scenario, log_rows=0)
    seeds = itertools.count()

    def episode() -> int:
        simulator.play(policy, next(seeds))
        return int(simulator.header[field])

    return best_rate(timed(episode), seconds)


def vector_steps_per_second(
    env: Any, seconds: float = 2.0, policy: Policy | None = None, warm_up_steps: int = 0
) -> float:
    """Return steps per second, summed over the lanes, of a vector environment; the time to choose actions is excluded.

    Actions are those of `policy`, or the first legal ones. `warm_up_steps` run untimed, past the beginning of the
    episodes, where all lanes are alike and empty.
    """
    _, info = env.reset(seed=0)

    def step() -> tuple[int, float]:
        nonlocal info
        actions = first_legal(info["action_mask"]) if policy is None else window_actions(env, policy)
        began = perf_counter()
        info = env.step(actions)[4]
        return env.num_envs, perf_counter() - began

    for _ in range(warm_up_steps):
        step()
    return best_rate(step, seconds)


def native_steps_per_second(
    scenario: Scenario,
    lanes: int = 1024,
    threads: int = 1,
    seconds: float = 2.0,
    policy: Policy | None = None,
    warm_up_steps: int = 0,
) -> float:
    """Return steps per second of the native vector env with full observations and without copies."""
    from slipstream.envs.vector import SchedulingVectorEnv

    env = SchedulingVectorEnv(lanes, scenario.family, scenario, threads=threads, copy=False)
    try:
        return vector_steps_per_second(env, seconds, policy, warm_up_steps)
    finally:
        env.close()


def single_steps_per_second(scenario: Scenario, seconds: float = 2.0) -> float:
    """Return steps per second of the single Gymnasium env."""
    from slipstream.envs.env import SchedulingEnv

    env = SchedulingEnv(scenario.family, scenario)
    env.reset(seed=0)

    def steps() -> int:
        for _ in range(100):
            if any(env.step(int(np.argmax(env.action_masks())))[2:4]):
                env.reset()
        return 100

    return best_rate(timed(steps), seconds)


def window_actions(env: Any, policy: Policy) -> np.ndarray:
    """Return the action of `policy` in every lane; wait where it takes a row outside the observation window."""
    return np.asarray(np.minimum(env.choose(policy), env.single_action_space.n - 1))


def first_legal(masks: np.ndarray) -> np.ndarray:
    """Return the first legal action of every lane: cheap to compute, and it dispatches whenever it can."""
    return np.asarray(np.argmax(masks, axis=1))
