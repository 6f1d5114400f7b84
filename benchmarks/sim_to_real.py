"""How true the simulation is: `edge/cpu-mini` profiled, simulated, and executed on the same arrivals.

Keys: response_p50_error (|simulated − measured| / measured), miss_rate_error_points, run_to_run (standard deviation of
the measured median response over the runs, as a share), tolerance (max(10%, twice that)), noise, quiet (whether the
machine passed the noise gate of `slipstream.device.measurement.noise`), and passes. The device is measured anew each
time; on a machine that is not quiet the errors are printed all the same, and say little. `machine_spread` under noise
is the spread of a fixed piece of arithmetic, timed in between: the part of the spread that is the machine's own.

    python benchmarks/sim_to_real.py --json
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
from slipstream.device.workload import workload_of
from slipstream.policies import find
from slipstream.scenario import load

LARGEST_ERROR, MOST_POINTS = 0.10, 3.0


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--scenario", default="edge/cpu-mini", help="what is run")
    parser.add_argument("--policy", default="lookahead", help="who decides")
    parser.add_argument("--device", default="cpu", help="cpu, onnxruntime or cuda")
    parser.add_argument("--runs", type=int, default=5, help="runs on the device")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    parser.add_argument("--solo-runs", type=int, default=60, help="runs of each variant alone, for the profile")
    parser.add_argument("--pair-seconds", type=float, default=0.4, help="seconds per pair, for the profile")
    parser.add_argument("--patience-minutes", type=float, default=0.0, help="to wait for a quiet moment to profile in")
    parser.add_argument("--profile-out", default="", help="file for the profile that was measured")
    figures = measure(chosen := parser.parse_args())
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
