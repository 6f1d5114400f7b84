"""How fast the dag simulator is on one core, next to the plain-Python reference on the same work, in one run.

For 10 executors (`dag/stream-10x50`) and 50 (`dag/stream-50x200`): task_events_per_s (whole compiled episodes under
`fair`, no aggregation: every task is an event), reference_ratio (against the plain-Python reference on the same
episodes), vector_steps_per_s (native vector env with rows, mask and graph, one thread), single_steps_per_s. Rates are
those of the best of many short rounds.

    python benchmarks/dag_speed.py --json
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from options import speed_options

sys.path.insert(0, str(Path(__file__).parents[1]))

SCENARIOS = {"10": "dag/stream-10x50", "50": "dag/stream-50x200"}
POLICY = "fair"
REFERENCE_EVENTS = 3000
"""Events after which the reference, which is slow, has shown how slow."""


def reference_events_per_second(scenario: Any) -> float:
    """Play the same policy in the plain-Python reference, for the beginning of an episode."""
    from tests.kernels import play_reference
    from tests.reference.dag_rows import ReferenceDag

    from slipstream.policies import find

    began = perf_counter()
    log = play_reference(ReferenceDag(scenario, 0), find(POLICY, "dag"), 2 * REFERENCE_EVENTS)
    # A task is two rows of the log and one event.
    return len(log) / 2 / (perf_counter() - began)


def single_steps_per_second(scenario: Any, seconds: float) -> float:
    """Step the single env with the actions of the policy, chosen beforehand."""
    from slipstream.envs.env import SchedulingEnv
    from slipstream.envs.speed import best_rate
    from slipstream.policies import find
    from slipstream.sim.simulator import Simulator

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
    from slipstream.envs import speed
    from slipstream.policies import find

    policy = find(POLICY, "dag")
    figures: dict[str, Any] = {}
    for executors, name in SCENARIOS.items():
        scenario = slipstream.load(name)
        events = speed.events_per_second(scenario, policy, seconds)
        figures[executors] = {
            "scenario": name,
            "task_events_per_s": events,
            "reference_ratio": events / reference_events_per_second(scenario),
            "vector_steps_per_s": speed.native_steps_per_second(scenario, lanes, 1, seconds, policy, warm_up_steps=200),
            "single_steps_per_s": single_steps_per_second(scenario, seconds),
        }
    return figures


def main() -> None:
    options = speed_options(__doc__, seconds=5.0, lanes=64).parse_args()
    figures = measure(options.seconds, options.lanes)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for executors, values in figures.items():
        for key, value in values.items():
            print(f"{executors:>3} executors  {key:20} {value if isinstance(value, str) else f'{value:,.0f}'}")


if __name__ == "__main__":
    main()
