"""What the runtime costs: its throughput against a bare inference loop in the same workers, and the time of a dispatch.

Keys: throughput_loss (1 − runs per second under the runtime / runs per second of the bare loop, the same model on the
same two pinned workers, both streams always busy), dispatch_p50_us and dispatch_p99_us (from the moment a choice is due
to the moment its run is under way, with a heuristic that looks at every row), compiled_dispatch_p99_us (the same with a
trained network), others (share of the machine that other programs took around it). The bare loop is the worker's own:
it takes the next sample as soon as the last is done, without anybody asking. Both are measured in turns, a few seconds
each; the median of the turns counts.

    python benchmarks/runtime_overhead.py --json
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from slipstream.device.cpu import CpuStreams
from slipstream.device.noise import others_share
from slipstream.device.runtime import Execution, Runtime
from slipstream.device.streams import Order, now
from slipstream.device.workload import Workload, workload_of
from slipstream.policies import find
from slipstream.scenario import load

NETWORK = "learned-robust"
"""The trained policy that is timed: the one that was made for scenarios other than its own."""
LATENCY_MS = 7.5
"""About what the model takes; a policy only needs to know it roughly."""


def scenario_of(model: str, variant: int, seconds: float) -> Any:
    """Return a scenario that keeps two streams busy with one model: more closed loops than streams."""
    task = {
        "model": f"builtin:{model}?variant={variant}",
        "dataset": "synthetic:3x64x64",
        "num_variants": 1,
        "variants": [{"latency_ms": LATENCY_MS, "accuracy": 0.7}],
        "arrival": {"kind": "closed"},
        "deadline_ms": 1000,
    }
    tasks = [{"name": f"loop {number}", **task} for number in range(4)]
    return load({"family": "edge", "horizon_ms": seconds * 1000, "tasks": tasks})


def finished_per_second(found: Execution) -> float:
    """Return runs per second of an execution."""
    return len(found.service_ns) / (float(found.events["time"][-1]) / 1e9)


def bare_per_second(streams: CpuStreams, seconds: float) -> float:
    """Return runs per second of workers that loop by themselves, both at once."""
    began = now()
    counts = streams.loop(Order(0, 0, 0), seconds)
    return sum(counts) / ((now() - began) / 1e9)


def measure(model: str, variant: int, turns: int, seconds: float) -> dict[str, Any]:
    """Return every figure."""
    scenario = scenario_of(model, variant, seconds)
    workload = workload_of(scenario)
    bare, managed, dispatch, others = [], [], [], [others_share()]
    with CpuStreams(workload) as streams:
        runtime = Runtime(scenario, workload, streams)
        for _ in range(turns):
            bare.append(bare_per_second(streams, seconds))
            found = runtime.play(find("edf-fit", "edge"), 0)
            managed.append(finished_per_second(found))
            dispatch += found.dispatch_ns
            others.append(others_share())
    mini, network = rich_choices(seconds, "edf-fit"), rich_choices(seconds, NETWORK)
    return {
        "throughput_loss": 1.0 - float(np.median(managed)) / float(np.median(bare)),
        "dispatch_p50_us": float(np.percentile(dispatch + mini, 50)) / 1e3,
        "dispatch_p99_us": float(np.percentile(dispatch + mini, 99)) / 1e3,
        "compiled_dispatch_p99_us": float(np.percentile(network, 99)) / 1e3,
        "bare_runs_per_s": float(np.median(bare)),
        "managed_runs_per_s": float(np.median(managed)),
        "others": float(np.mean(others)),
        "dispatches": len(dispatch) + len(mini),
    }


def rich_choices(seconds: float, policy: str) -> list[int]:
    """Return the times of a policy's dispatches where there is much to choose from: `edge/cpu-mini`."""
    scenario: Any = load("edge/cpu-mini")
    shorter = scenario.model_copy(update={"horizon_ms": seconds * 1000})
    workload: Workload = workload_of(scenario)
    with CpuStreams(workload) as streams:
        return Runtime(shorter, workload, streams).play(find(policy, "edge"), 0).dispatch_ns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--model", default="resnet", help="a built-in family of pictures")
    parser.add_argument("--variant", type=int, default=3, help="0 to 4")
    parser.add_argument("--turns", type=int, default=5, help="how often each of the two is measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn")
    chosen = parser.parse_args()
    figures = measure(chosen.model, chosen.variant, chosen.turns, chosen.seconds)
    if chosen.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, figure in figures.items():
            print(f"{name:26} {figure:12.4f}")


if __name__ == "__main__":
    main()
