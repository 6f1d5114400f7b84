"""Policies against each other on worker processes, in pairs, and what the simulation says of the same episodes.

Keys: metric; by opponent the simulated and the measured mean difference (opponent minus policy, as a share of the
policy's mean), the bootstrap 95% interval of the measured one, and agrees: the signs are equal and, where the simulated
difference is above 5%, the interval does not contain zero. Further the time scale, dispatch_p50_us and dispatch_p99_us,
faults, and the share of the processor that other programs took. All runs of a pair have the same arrivals and drawn
times, from the test split; the order of the policies alternates. With `--tile-side` tasks run kernels, timed first.

    python benchmarks/real_policies.py dag/small learned-general fair,srpt --json
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.engine import Execution
from slipstream.device.measurement.noise import others_share
from slipstream.device.tasks.measuring import measured
from slipstream.device.tasks.processes import TaskProcesses
from slipstream.device.tasks.runtime import TaskRuntime, open_processes
from slipstream.device.tasks.trial import usual_scale
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import family_of
from slipstream.policies import find
from slipstream.policies.base import Policy
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

NOTABLE = 0.05
"""Simulated differences above this share must show on the machine."""


def play_pairs(
    scenario: Any, processes: TaskProcesses, sides: dict[str, Policy], chosen: argparse.Namespace, scale: float
) -> tuple[dict[str, dict[str, list[float]]], list[Execution]]:
    """Return the metric by side and policy, one entry per pair, and the executions."""
    family, metric = family_of(scenario), chosen.metric
    found: dict[str, dict[str, list[float]]] = {side: {name: [] for name in sides} for side in ("simulated", "real")}
    executions = []
    for pair in range(chosen.pairs):
        seed = chosen.seed + pair
        for name in list(sides) if pair % 2 == 0 else list(sides)[::-1]:
            executions.append(TaskRuntime(scenario, processes, scale).play(sides[name], seed))
            found["real"][name].append(family.metrics(scenario, executions[-1].events)[metric])
            simulated = Simulator(scenario).play(sides[name], seed)
            found["simulated"][name].append(family.metrics(scenario, simulated)[metric])
    return found, executions


def compared(found: dict[str, dict[str, list[float]]], policy: str, other: str) -> dict[str, Any]:
    """Return the differences of two policies on both sides."""
    gaps = {side: np.subtract(rows[other], rows[policy]) / np.mean(rows[policy]) for side, rows in found.items()}
    low, high = bootstrap_interval(gaps["real"])
    simulated, real = float(gaps["simulated"].mean()), float(gaps["real"].mean())
    clear = abs(simulated) <= NOTABLE or low > 0.0 or high < 0.0
    agrees = bool(np.sign(simulated) == np.sign(real) and clear)
    return {"simulated": simulated, "measured": real, "low": low, "high": high, "agrees": agrees}


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return every figure."""
    scenario: Any = load(chosen.scenario)
    family = family_of(scenario)
    chosen.metric = chosen.metric or family.headline[0]
    names = [chosen.policy, *chosen.others.split(",")]
    sides = {name: find(name, scenario.family) for name in names}
    others = [others_share()]
    with open_processes(scenario, tile_side=chosen.tile_side) as processes:
        timed = measured(scenario, processes)
        policy = sides[chosen.policy]
        scale = chosen.time_scale or (1.0 if timed is not scenario else usual_scale(scenario, policy, chosen.seed))
        scenario = timed
        found, executions = play_pairs(scenario, processes, sides, chosen, scale)
    others.append(others_share())
    times = [time for execution in executions for time in execution.dispatch_ns]
    return {
        "metric": chosen.metric,
        "pairs": chosen.pairs,
        "time_scale": scale,
        "means": {
            side: {name: float(np.mean(values)) for name, values in rows.items()} for side, rows in found.items()
        },
        "differences": {other: compared(found, chosen.policy, other) for other in names[1:]},
        "dispatch_p50_us": float(np.percentile(times, 50)) / 1e3,
        "dispatch_p99_us": float(np.percentile(times, 99)) / 1e3,
        "faults": sum(len(execution.faults) for execution in executions),
        "others": float(np.mean(others)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help="what is run")
    parser.add_argument("policy", help="the policy that is compared")
    parser.add_argument("others", help="the policies that it is compared with, separated by commas")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--metric", default="", help="what is compared; default: the first of the family")
    parser.add_argument("--pairs", type=int, default=10, help="episodes of each policy")
    parser.add_argument("--seed", type=int, default=20_000, help="of the first pair")
    parser.add_argument("--time-scale", type=float, default=None, help="seconds per second of a scenario of stand-ins")
    parser.add_argument("--tile-side", type=int, default=None, help="run kernels on tiles of this many rows")
    chosen = parser.parse_args()
    print_figures(measure(chosen), chosen.json)


if __name__ == "__main__":
    main()
