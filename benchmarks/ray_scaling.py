"""What a Ray cluster costs and how far it carries: the same comparison in this process and on one worker of Ray.

Keys: overhead (seconds on a Ray cluster of one CPU against seconds in this process, less 1: the same episodes of the
same policies, rounds in turns, median of the rounds), training_overhead (the same of a short training with one thread),
episode_s (one episode in this process), task_s (a piece of work that does nothing, from sending to its result, with as
many under way as a cluster would keep busy), message_bytes (what a piece of 1 episode sends back), nodes_served (nodes
of 2 CPUs that one driver keeps busy with pieces of `piece_s` seconds, if it handles a piece in `task_s`). The last is
an estimate from these figures, not a measurement: no cluster of that size was at hand.

    python benchmarks/ray_scaling.py --json
"""

from __future__ import annotations

import argparse
import pickle
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

from options import print_figures

import slipstream
from slipstream.learn.settings import TrainSettings
from slipstream.learn.training import train
from slipstream.scale.executor import Executor, InProcess

CPUS_PER_NODE = 2
PIECE_S = 1.0
"""Length of a piece that a long comparison would be cut into."""
TRAINING = {"steps": 200_000, "threads": 1, "n_envs": 128, "groups": 4, "evaluate_every": 3, "evaluation_episodes": 8}


def nothing(item: int) -> int:
    return item


def seconds(action: Callable[[], Any]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began


def in_turns(action: Callable[[Executor], Any], executor: Executor, rounds: int) -> tuple[float, float]:
    """Return the median seconds of an action in this process and on an executor; the first round warms up both."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds + 1):
        for here in (True, False) if number % 2 else (False, True):
            own: Executor = InProcess() if here else executor
            spent = seconds(lambda own=own: action(own))  # type: ignore[misc]
            if number:
                taken[here].append(spent)
    return statistics.median(taken[True]), statistics.median(taken[False])


def measure(scenario: str, policies: str, episodes: int, rounds: int) -> dict[str, Any]:
    """Return every figure."""
    from slipstream.scale.ray_executor import RayExecutor

    ray_executor = RayExecutor("local", cpus=1)
    try:
        here, there = in_turns(
            lambda executor: slipstream.compare(scenario, policies, episodes, executor=executor), ray_executor, rounds
        )
        settings = TrainSettings().with_changes(TRAINING)
        learned = in_turns(
            lambda executor: train(scenario, settings, executor=executor), ray_executor, max(1, rounds // 2)
        )
        tasks = 2000
        list(ray_executor.map(nothing, range(100)))
        task = seconds(lambda: list(ray_executor.map(nothing, range(tasks)))) / tasks
    finally:
        ray_executor.close()
    row = slipstream.evaluate(scenario, policies.split(",")[0], episodes=1)
    played = episodes * len(policies.split(","))
    return {
        "overhead": there / here - 1.0,
        "training_overhead": learned[1] / learned[0] - 1.0,
        "seconds": {"in_process": here, "ray": there},
        "training_seconds": {"in_process": learned[0], "ray": learned[1]},
        "episode_s": here / played,
        "task_s": task,
        "message_bytes": len(pickle.dumps([{name: float(value[0]) for name, value in row.values.items()}])),
        "piece_s": PIECE_S,
        "nodes_served": PIECE_S / task / CPUS_PER_NODE,
        "scenario": scenario,
        "policies": policies,
        "episodes": episodes,
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--scenario", default="edge/heavy", help="what is played")
    parser.add_argument("--policies", default="edf,lookahead", help="who plays")
    parser.add_argument("--episodes", type=int, default=1000, help="of each policy")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured")
    chosen = parser.parse_args()
    figures = measure(chosen.scenario, chosen.policies, chosen.episodes, chosen.rounds)
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
