"""How fast the simulator is on this machine: the same measurements for the command line and the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.core.simulator import Simulator
from slipstream.policies.base import Policy


def _repeat(action: Callable[[int], int], seconds: float) -> float:
    """Return units per second of an action that reports how many it did; the first call only warms up."""
    action(0)
    units, calls, began = 0, 0, perf_counter()
    while perf_counter() - began < seconds:
        calls += 1
        units += action(calls)
    return units / (perf_counter() - began)


def events_per_second(scenario: Any, policy: Policy, seconds: float = 2.0) -> float:
    """Return simulated events per second of whole episodes under a compiled policy, without a log."""
    simulator = Simulator(scenario, log_rows=0)

    def episode(seed: int) -> int:
        simulator.play(policy, seed)
        return int(simulator.header["events"])

    return _repeat(episode, seconds)


def vector_steps_per_second(scenario: Any, lanes: int = 1024, threads: int = 1, seconds: float = 2.0) -> float:
    """Return environment steps per second of the native vector env with full observations, in place."""
    from slipstream.core.vector import SchedulingVectorEnv

    env = SchedulingVectorEnv(lanes, scenario.family, scenario, threads=threads, copy=False)
    _, info = env.reset(seed=0)
    actions = first_legal(env.step(first_legal(info["action_mask"]))[4]["action_mask"])
    count, spent, began = 0, 0.0, perf_counter()
    while perf_counter() - began < seconds:
        moment = perf_counter()
        info = env.step(actions)[4]
        spent += perf_counter() - moment
        actions = first_legal(info["action_mask"])
        count += lanes
    env.close()
    return count / spent


def single_steps_per_second(scenario: Any, seconds: float = 2.0) -> float:
    """Return steps per second of the single Gymnasium env."""
    from slipstream.core.env import SchedulingEnv

    env = SchedulingEnv(scenario.family, scenario)
    env.reset(seed=0)

    def steps(_: int) -> int:
        for _step in range(100):
            if any(env.step(int(np.argmax(env.action_masks())))[2:4]):
                env.reset()
        return 100

    return _repeat(steps, seconds)


def first_legal(masks: np.ndarray) -> np.ndarray:
    """Return the first legal action of every lane: cheap, and it keeps the machine busy."""
    return np.asarray(np.argmax(masks, axis=1))
