"""Policies of this package inside StarPU, beside StarPU's own schedulers on the same graphs and the same workers.

Every graph is a tiled algorithm with real kernels on StarPU's CPU workers, whose results are checked. The kernels are
timed first; policies and schedulers know these times. In each pair every side runs the graph once; the order of the
sides alternates.

Keys, by graph: tasks; plays, the rule or network of each policy (`auto` chooses one); makespan_ms by side (mean, low
and high of the bootstrap 95% interval, values); by policy and scheduler the mean difference of their makespans in pairs
(scheduler minus policy, as a share of the policy's mean) with its 95% interval; simulated_ms, what the simulator says
of each policy; residual, the largest error of a result; dispatch_us by policy: 50th and 99th percentile of the time
from when a worker asks to when all decisions of that moment are made; same: whether a lane outside of StarPU, given the
same ends, writes the same log. Further the share of the processor that other programs took.

    python benchmarks/starpu.py --json
"""

from __future__ import annotations

import argparse
from time import sleep
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.engine import decider
from slipstream.device.lane import DeviceLane
from slipstream.device.measurement.noise import others_share
from slipstream.device.starpu.machine import StarpuMachine
from slipstream.device.starpu.runtime import SCHEDULERS, StarpuRuntime
from slipstream.device.tasks.measuring import SWEEPS, with_kernel_times
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import Scenario
from slipstream.families.taskgraph.engine.tiles import KERNELS
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies import find
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import FINISH, digest
from slipstream.sim.simulator import Simulator

REST_S = 0.05
"""Rest before each run: Linux suspends programs of real-time priority that use more than 95% of the processors."""


def graph_scenario(kind: str, n: int, workers: int) -> Scenario:
    """Return a scenario of one graph on CPUs; its durations are measured later."""
    table = {kernel: {"cpu": 1.0} for kernel in KERNELS[kind]}
    return TaskgraphScenario.model_validate(
        {
            "family": "taskgraph",
            "name": f"{kind}-{n}",
            "processors": [{"name": "cpu", "count": workers}],
            "durations": {"kind": "table", "kernels_ms": table},
            "graphs": [{"kind": kind, "n": n}],
        }
    )


def same_outside(scenario: Scenario, events: np.ndarray, policy: Policy, seed: int) -> bool:
    """Return whether a lane that is given the ends of `events` one by one writes the same log."""
    lane = DeviceLane(scenario)
    lane.begin(seed, "test")
    ends = events[events["kind"] == FINISH]
    for resource, time in [(None, 1), *zip(ends["resource"].tolist(), ends["time"].tolist(), strict=True)]:
        if resource is not None:
            lane.end(resource, time)
            lane.follow(time)
        while lane.asking:
            lane.decide(policy)
    return lane.over and digest(lane.events()) == digest(events)


def summary(values: list[float]) -> dict[str, Any]:
    """Return mean and interval."""
    low, high = bootstrap_interval(np.array(values))
    return {"mean": float(np.mean(values)), "low": low, "high": high, "values": values}


def measure_graph(kind: str, n: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one graph."""
    bare = graph_scenario(kind, n, chosen.workers)
    names = chosen.policies.split(",")
    sides = [*names, *SCHEDULERS]
    makespans: dict[str, list[float]] = {side: [] for side in sides}
    dispatch: dict[str, list[int]] = {name: [] for name in names}
    residuals, same = [], True
    with StarpuMachine(bare, chosen.tile_side) as machine:
        scenario = with_kernel_times(bare, machine.kernel_times(SWEEPS))
        policies = {name: decider(find(name, "taskgraph"), scenario) for name in names}
        runtime = StarpuRuntime(scenario, machine)
        for pair in range(-1, chosen.pairs):
            for side in sides if pair % 2 == 0 else sides[::-1]:
                sleep(REST_S)
                if side in policies:
                    execution = runtime.play(policies[side], max(pair, 0))
                    residuals.append(execution.residual or 0.0)
                    record = runtime.record
                else:
                    record = runtime.reference(side)
                assert record is not None
                if pair < 0:
                    continue  # warms up
                makespans[side].append(record.makespan / 1e6)
                if side in policies:
                    dispatch[side] += execution.dispatch_ns
                    same = same and same_outside(scenario, execution.events, policies[side], pair)
    return {
        "tasks": len(machine.kernels),
        "plays": {name: policy.name for name, policy in policies.items()},
        "makespan_ms": {side: summary(values) for side, values in makespans.items()},
        "differences": {
            name: {
                scheduler: summary(list(np.subtract(makespans[scheduler], makespans[name]) / np.mean(makespans[name])))
                for scheduler in SCHEDULERS
            }
            for name in policies
        },
        "simulated_ms": {
            name: float(Simulator(scenario).play(policy, 0)["time"][-1]) / 1e6 for name, policy in policies.items()
        },
        "residual": max(residuals),
        "dispatch_us": {
            name: {f"p{percent}": float(np.percentile(times, percent)) / 1e3 for percent in (50, 99)}
            for name, times in dispatch.items()
        },
        "same": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--graphs", default="cholesky-8,lu-6,qr-6,gemm-6", help="kinds and sizes")
    parser.add_argument("--policies", default="auto,heft,fifo,learned-general", help="policies of this package")
    parser.add_argument("--pairs", type=int, default=10, help="runs of each side")
    parser.add_argument("--workers", type=int, default=2, help="CPU workers")
    parser.add_argument("--tile-side", type=int, default=256, help="rows and columns of a tile")
    chosen = parser.parse_args()
    others = [others_share()]
    graphs = [graph.rsplit("-", 1) for graph in chosen.graphs.split(",")]
    found: dict[str, Any] = {f"{kind}-{n}": measure_graph(kind, int(n), chosen) for kind, n in graphs}
    others.append(others_share())
    print_figures({"pairs": chosen.pairs, "graphs": found, "others": float(np.mean(others))}, chosen.json)


if __name__ == "__main__":
    main()
