"""What the runtime costs: its throughput against a bare inference loop in the same workers, and the time of a dispatch.

Keys: throughput_loss (1 − runs per second under the runtime / runs per second of the bare loop, the same model on the
same two pinned workers, both streams always busy) with its bootstrap 95% interval over the turns, idle_share (of the
streams' time under the runtime, between the end of a run and the start of the next: the part of the loss that does not
depend on how fast the machine was just then), dispatch_p50_us and dispatch_p99_us (from the moment a choice is due,
with what has to be applied before it, to the moment its run is under way, with a heuristic that looks at every row),
compiled_dispatch_p99_us (the same with a trained network), others (share of the machine that other programs took around
it). The bare loop is the worker's own: it takes the next sample as soon as the last is done, without anybody asking.
Both count whole runs and the time up to the end of the last one, stream by stream. A shared machine changes its speed
by a third from one second to the next, so both are measured in many turns of a quarter of a second; which of them goes
first alternates.

    python benchmarks/runtime_overhead.py --json
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.backends.streams import RunRequest
from slipstream.device.measurement.noise import others_share
from slipstream.device.runtime import Runtime
from slipstream.device.workload import Workload, workload_of
from slipstream.evaluation import bootstrap_interval
from slipstream.policies import find
from slipstream.scenario import load
from slipstream.sim.eventlog import FINISH

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


@dataclass
class Turn:
    """What the two sides reached, one after the other."""

    bare: float
    """Runs per second."""
    managed: float
    busy: float
    """Share of the streams' time in which models ran under the runtime."""
    dispatch_ns: list[int]


def bare_per_second(streams: CpuStreams, seconds: float) -> float:
    """Return runs per second of workers that loop by themselves, both at once."""
    return sum(runs * 1e9 / spent for runs, spent in streams.loop(RunRequest(0, 0, 0), seconds))


def turn(runtime: Runtime, streams: CpuStreams, seconds: float, bare_first: bool) -> Turn:
    """Measure both sides once."""
    bare = bare_per_second(streams, seconds) if bare_first else 0.0
    found = runtime.play(find("edf-fit", "edge"), 0)
    if not bare_first:
        bare = bare_per_second(streams, seconds)
    ends = found.events[found.events["kind"] == FINISH]
    # Of each stream up to its last end: what it runs when the episode ends counts for nothing, so nor does its time.
    spent = [int(ends["time"][ends["resource"] == stream].max()) for stream in range(streams.count)]
    managed = sum(int((ends["resource"] == stream).sum()) * 1e9 / spent[stream] for stream in range(streams.count))
    busy = sum(service for _, _, service in found.service_ns) / sum(spent)
    return Turn(bare, managed, busy, found.dispatch_ns)


def measure(model: str, variant: int, turns: int, seconds: float) -> dict[str, Any]:
    """Return every figure."""
    scenario = scenario_of(model, variant, seconds)
    workload = workload_of(scenario)
    others = [others_share()]
    with CpuStreams(workload) as streams:
        runtime = Runtime(scenario, workload, streams)
        taken = [turn(runtime, streams, seconds, number % 2 == 0) for number in range(turns)]
        others.append(others_share())
    bare, managed = np.array([t.bare for t in taken]), np.array([t.managed for t in taken])
    mini, network = rich_choices(turns * seconds / 4, "edf-fit"), rich_choices(turns * seconds / 4, NETWORK)
    dispatch = [taken_ns for t in taken for taken_ns in t.dispatch_ns] + mini
    return {
        "throughput_loss": 1.0 - float(managed.mean() / bare.mean()),
        "throughput_loss_interval": list(bootstrap_interval(1.0 - managed / bare)),
        "idle_share": 1.0 - float(np.mean([t.busy for t in taken])),
        "dispatch_p50_us": float(np.percentile(dispatch, 50)) / 1e3,
        "dispatch_p99_us": float(np.percentile(dispatch, 99)) / 1e3,
        "compiled_dispatch_p99_us": float(np.percentile(network, 99)) / 1e3,
        "bare_runs_per_s": float(bare.mean()),
        "managed_runs_per_s": float(managed.mean()),
        "others": float(np.mean(others)),
        "dispatches": len(dispatch),
        "turns": turns,
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
    parser.add_argument("--turns", type=int, default=160, help="how often each of the two is measured")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a turn")
    chosen = parser.parse_args()
    figures = measure(chosen.model, chosen.variant, chosen.turns, chosen.seconds)
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
