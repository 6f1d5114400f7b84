"""How true the simulation is: `edge/cpu-mini` profiled, simulated, and executed on the same arrivals.

Keys: response_p50_error (|simulated − measured| / measured), miss_rate_error_points, run_to_run (standard deviation of
the measured median response over the runs, as a share), tolerance (max(10%, twice that)), noise, quiet (whether the
machine passed the noise gate of `slipstream.device.measurement.noise`), and passes. The device is measured anew each
time; on a machine that is not quiet the errors are printed all the same, and say little. `machine_spread` under noise
is the spread of a fixed piece of arithmetic, timed in between: the part of the spread that is the machine's own.

With `--family dag` or `taskgraph`, tasks run on worker processes, as stand-ins or, with `--tile-side`, as kernels whose
times are measured first. Keys then: headline (the family's first metric), its error, run_to_run, tolerance and passes,
every metric on both sides, dispatch_p50_us and dispatch_p99_us, and the causes of the difference.

    python benchmarks/sim_to_real.py --json
    python benchmarks/sim_to_real.py --family dag --scenario dag/tiny --policy fair --json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from options import print_figures

from slipstream.device.backends.registry import open_streams
from slipstream.device.measurement.noise import MOST_OTHERS
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.measurement.trial import run_trial
from slipstream.device.tasks.measuring import measured
from slipstream.device.tasks.runtime import open_processes
from slipstream.device.tasks.trial import run_task_trial, usual_scale
from slipstream.device.workload import workload_of
from slipstream.policies import find
from slipstream.scenario import load

LARGEST_ERROR, MOST_POINTS = 0.10, 3.0
USUAL = {
    "edge": ("edge/cpu-mini", "lookahead"),
    "dag": ("dag/small", "fair"),
    "taskgraph": ("taskgraph/cholesky-8-2g2c", "heft"),
    "serving": ("serving/tiny", "infaas"),
}
"""Scenario and policy where none are named, by family."""


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return every figure."""
    loaded: Any = load(chosen.scenario)
    effort = Effort(chosen.solo_runs, chosen.pair_seconds, 60 * chosen.patience_minutes)
    workload = workload_of(loaded)
    policy = find(chosen.policy, loaded.family)
    with open_streams(chosen.device, workload, loaded.device.streams) as streams:
        profile = Profiler(loaded, workload, streams, chosen.device, effort).measure()
        trial = run_trial(loaded, profile, workload, streams, policy, chosen.seed, chosen.runs)
    if chosen.profile_out:
        Path(chosen.profile_out).write_text(profile.model_dump_json(indent=2) + "\n")
    response, missed = trial.result["metrics"]["response_p50_ms"], trial.result["metrics"]["miss_rate"]
    error = abs(response["simulated"] - response["measured"]) / response["measured"]
    points = 100 * abs(missed["simulated"] - missed["measured"])
    deviation = response["deviation"] / response["measured"]
    tolerance = max(LARGEST_ERROR, 2 * deviation)
    noise = trial.result["noise"]
    quiet = noise["quiet"] and noise["others_around_runs"] <= MOST_OTHERS
    return {
        "response_p50_error": error,
        "miss_rate_error_points": points,
        "noise": noise,
        "quiet": quiet,
        "run_to_run": deviation,
        "tolerance": tolerance,
        "passes": quiet and error <= tolerance and points <= MOST_POINTS,
        "response_p50_ms": response,
        "miss_rate": missed,
        "causes": trial.result["causes"],
        "policy": policy.name,
        "runs": chosen.runs,
        "device": trial.result["device"],
    }


def measure_tasks(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return every figure of a family whose tasks run on worker processes."""
    loaded: Any = load(chosen.scenario)
    policy = find(chosen.policy, loaded.family)
    with open_processes(loaded, tile_side=chosen.tile_side) as processes:
        timed = measured(loaded, processes)
        scale = chosen.time_scale or (1.0 if timed is not loaded else usual_scale(loaded, policy, chosen.seed))
        loaded = timed
        trial = run_task_trial(loaded, processes, policy, chosen.seed, chosen.runs, scale)
    headline = trial.result["headline"]
    row = trial.result["metrics"][headline]
    error, deviation = (abs(row["simulated"] - row["measured"]) / row["measured"], row["deviation"] / row["measured"])
    tolerance = max(LARGEST_ERROR, 2 * deviation)
    figures = {"headline": headline, "error": error, "run_to_run": deviation, "tolerance": tolerance}
    return {**figures, "passes": error <= tolerance, **trial.result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--family", choices=USUAL, default="edge", help="what kind of work")
    parser.add_argument("--scenario", default="", help="what is run")
    parser.add_argument("--policy", default="", help="who decides")
    parser.add_argument("--device", default="cpu", help="cpu, onnxruntime or cuda")
    parser.add_argument("--runs", type=int, default=5, help="runs on the device")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    parser.add_argument("--solo-runs", type=int, default=60, help="runs of each variant alone, for the profile")
    parser.add_argument("--pair-seconds", type=float, default=0.4, help="seconds per pair, for the profile")
    parser.add_argument("--patience-minutes", type=float, default=0.0, help="to wait for a quiet moment to profile in")
    parser.add_argument("--profile-out", default="", help="file for the profile that was measured")
    parser.add_argument("--time-scale", type=float, default=None, help="seconds per second of a scenario of stand-ins")
    parser.add_argument("--tile-side", type=int, default=None, help="run kernels on tiles of this many rows")
    chosen = parser.parse_args()
    scenario, policy = USUAL[chosen.family]
    chosen.scenario, chosen.policy = chosen.scenario or scenario, chosen.policy or policy
    figures = measure(chosen) if chosen.family == "edge" else measure_tasks(chosen)
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
