"""How fast the dag simulator is on one core, next to the plain-Python reference on the same work, in one run.

For 10 executors (`dag/stream-10x50`) and 50 (`dag/stream-50x200`): task_events_per_s (whole compiled episodes under
`fair`, no aggregation: every task is an event), reference_ratio (against the plain-Python reference on the same
episodes), vector_steps_per_s (native vector env with rows, mask and graph, one thread), single_steps_per_s. Rates are
those of the best of many short rounds.

    python benchmarks/dag_speed.py --json
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

SCENARIOS = {"10": "dag/stream-10x50", "50": "dag/stream-50x200"}
POLICY = "fair"
REFERENCE_EVENTS = 3000
"""Events after which the reference, which is slow, has shown how slow."""


def reference_events_per_second(scenario: Any) -> float:
    """Play the same policy in the plain-Python reference, for the beginning of an episode."""
    import numpy as np
    from tests.reference.dag_rows import ReferenceDag

    from slipstream.dag import features
    from slipstream.policies import find

    policy, lane = find(POLICY, "dag"), ReferenceDag(scenario, 0)
    began = perf_counter()
    while not lane.over and len(lane.log) < 2 * REFERENCE_EVENTS:
        whole = lane.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in lane.rows()])
        lane.step(policy.choose(global_row, rows, np.array(lane.mask(), np.int8)))
    # A task is two rows of the log and one event.
    return len(lane.log) / 2 / (perf_counter() - began)


def events_per_second(scenario: Any, seconds: float) -> float:
    """Return events per second of whole episodes; each begins with what is in the caches after the last."""
    from slipstream.core import speed
    from slipstream.policies import find

    return speed.events_per_second(scenario, find(POLICY, "dag"), seconds)


def vector_steps_per_second(scenario: Any, lanes: int, seconds: float) -> float:
    """Step the native vector env with the actions of the policy; choosing them is not counted."""
    from slipstream.core.speed import best_rate
    from slipstream.core.vector import SchedulingVectorEnv
    from slipstream.policies import find

    env, policy = SchedulingVectorEnv(lanes, "dag", scenario, copy=False), find(POLICY, "dag")
    rows = env.single_action_space.n
    env.reset(seed=0)

    def step() -> tuple[int, float]:
        actions = env.choose(policy)
        actions[actions >= rows] = rows - 1
        began = perf_counter()
        env.step(actions)
        return lanes, perf_counter() - began

    for _ in range(200):  # past the beginning, where all lanes are alike and empty
        step()
    return best_rate(step, seconds)


def single_steps_per_second(scenario: Any, seconds: float) -> float:
    """Step the single env with the actions of the policy, chosen beforehand."""
    from slipstream.core.env import SchedulingEnv
    from slipstream.core.simulator import Simulator
    from slipstream.core.speed import best_rate
    from slipstream.policies import find

    policy, lane = find(POLICY, "dag"), Simulator(scenario)
    env = SchedulingEnv("dag", scenario)
    rows = env.action_space.n
    seeds = itertools.count()

    def episode() -> tuple[int, float]:
        seed = next(seeds)
        lane.reset(seed, "train", lambda events: None)
        actions = []
        while lane.asking:
            action = policy.choose(*lane.observe())
            actions.append(action if action < rows else rows - 1)
            lane.step(action, lambda events: None)
        env.reset(seed=seed)
        began = perf_counter()
        for action in actions:
            env.step(action)
        return len(actions), perf_counter() - began

    return best_rate(episode, seconds)


def measure(seconds: float, lanes: int) -> dict[str, Any]:
    """Return every figure, by number of executors."""
    import slipstream

    figures: dict[str, Any] = {}
    for executors, name in SCENARIOS.items():
        scenario = slipstream.load(name)
        events = events_per_second(scenario, seconds)
        figures[executors] = {
            "scenario": name,
            "task_events_per_s": events,
            "reference_ratio": events / reference_events_per_second(scenario),
            "vector_steps_per_s": vector_steps_per_second(scenario, lanes, seconds),
            "single_steps_per_s": single_steps_per_second(scenario, seconds),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per measurement")
    parser.add_argument("--lanes", type=int, default=64, help="lanes of the vector env")
    options = parser.parse_args()
    figures = measure(options.seconds, options.lanes)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for executors, values in figures.items():
        for key, value in values.items():
            print(f"{executors:>3} executors  {key:20} {value if isinstance(value, str) else f'{value:,.0f}'}")


if __name__ == "__main__":
    main()
