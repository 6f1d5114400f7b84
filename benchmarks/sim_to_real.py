"""How true the simulation is, family by family: what it says beforehand beside what was measured.

One row per family: `edge` profiles `edge/cpu-mini` and runs its networks, `cluster` runs 30 jobs on local Slurm
clusters, `dag` and `serving` run stand-ins on worker processes, and `taskgraph` Cholesky factorisations by BLAS
kernels, whose times are those of a run with other arrivals, as `validate --fit` takes them. Keys of a row: p50 and p99
(of the response of a request, the completion time of a job or graph), missed (share of missed deadlines; where there
are none, makespan) and throughput (per second), each simulated and measured with the deviation of the runs; error (of
the p50, |simulated − measured| / measured), run_to_run (deviation of the p50, as a share), tolerance (max(10%, twice
that)) and passes; noise: others (share of the processors that other programs used around the runs) and machine_spread
(of a fixed piece of arithmetic, 10th to 90th percentile); the time of a decision with its dispatch, p50 and p99; and
the causes of the difference, largest first. On a machine on which others use more than 5% the errors are printed all
the same, and say little: quiet is false then.

Every row is a run of its own. With `--rows FILE`, rows are kept there, and families that are in it are not measured
again: so the table can be made in short quiet moments.

    python benchmarks/sim_to_real.py --json
    python benchmarks/sim_to_real.py --family dag --rows rows.json
    python benchmarks/sim_to_real.py --family dag --scenario dag/tiny --policy fair --json
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from options import print_figures
from slurm_trial import MEAN_GAP_S, MEAN_RUN_S, SETTINGS, scenario_of

from slipstream.device.backends.registry import open_streams
from slipstream.device.engine import Execution
from slipstream.device.measurement.noise import MOST_OTHERS, others_share, spread_of, time_reference_kernel
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.measurement.trial import run_trial, side_by_side
from slipstream.device.slurm.trial import run_trial as run_slurm_trial
from slipstream.device.tasks.measuring import measured
from slipstream.device.tasks.runtime import TaskRuntime, open_processes, processes_of
from slipstream.device.tasks.trial import run_task_trial, usual_scale
from slipstream.device.workload import workload_of
from slipstream.families.contract import family_of
from slipstream.policies import find
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, DONE

LARGEST_ERROR = 0.10
GRAPHS: dict[str, Any] = {
    "family": "taskgraph",
    "name": "cholesky-stream",
    "processors": [{"name": "cpu", "count": 2}],
    "durations": {"kind": "table", "kernels_ms": {name: {"cpu": 1.0} for name in ("POTRF", "TRSM", "SYRK", "GEMM")}},
    "graphs": [{"kind": "cholesky", "n": 5}],
    "arrivals": {"kind": "poisson", "jobs": 12, "mean_gap_ms": 350.0},
}
USUAL: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "edge": ("edge/cpu-mini", "lookahead", {}),
    "cluster": (scenario_of(53, 30, 10, MEAN_RUN_S, MEAN_GAP_S), "sjf", {}),
    "dag": ("dag/small", "fair", {"time_scale": 0.02}),
    "taskgraph": (GRAPHS, "heft", {"tile_side": 512}),
    "serving": ("serving/tiny", "infaas", {}),
}
"""Scenario, policy and options where none are named, by family."""
COLUMNS = {
    "edge": ("response_p50_ms", "response_p99_ms", "miss_rate", "throughput_hz"),
    "cluster": ("jct_p50_s", "jct_p99_s", "makespan_s", "throughput_hz"),
    "dag": ("jct_p50_s", "jct_p99_s", "makespan_s", "throughput_hz"),
    "taskgraph": ("job_p50_ms", "job_p99_ms", "makespan_ms", "throughput_hz"),
    "serving": ("p50_ms", "p99_ms", "violation_ratio", "throughput_hz"),
}
"""Metrics of p50, p99, deadlines or makespan, and throughput, by family."""


def figures_of(scenario: Any, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode under the names of `COLUMNS`, throughput per second."""
    found = dict(family_of(scenario).metrics(scenario, events))
    seconds = int(events["time"][-1]) / 1e9
    if scenario.family == "taskgraph":
        arrival, done = (events[events["kind"] == kind] for kind in (ARRIVAL, DONE))
        began = dict(zip(arrival["job"].tolist(), arrival["time"].tolist(), strict=True))
        times = [
            (time - began[job]) / 1e6 for job, time in zip(done["job"].tolist(), done["time"].tolist(), strict=True)
        ]
        found |= {f"job_p{percent}_ms": float(np.percentile(times, percent)) for percent in (50, 99)}
    if "jobs_done" in found:
        found["throughput_hz"] = found["jobs_done"] / seconds
    return {name: found[name] for name in COLUMNS[scenario.family]}


@dataclass(frozen=True)
class Sides:
    """Both sides of a family: figures by metric, one entry per run on the measured side."""

    simulated: Mapping[str, float]
    measured: Sequence[Mapping[str, float]]
    dispatch_us: tuple[float, float]
    """Percentiles 50 and 99 of the time of a decision with its dispatch."""
    causes: list[dict[str, Any]]
    device: str


def of_executions(scenario: Any, executions: list[Execution], simulated: np.ndarray, result: dict[str, Any]) -> Sides:
    """Return the sides of a trial on the runtime of `device/`."""
    times = [time / 1e3 for execution in executions for time in execution.dispatch_ns]
    return Sides(
        figures_of(scenario, simulated),
        [figures_of(scenario, execution.events) for execution in executions],
        (float(np.percentile(times, 50)), float(np.percentile(times, 99))),
        result["causes"],
        result["device"],
    )


def edge_sides(chosen: argparse.Namespace) -> Sides:
    """Profile the device, then simulate and run the networks of an edge scenario."""
    loaded: Any = load(chosen.scenario)
    effort = Effort(chosen.solo_runs, chosen.pair_seconds, 60 * chosen.patience_minutes)
    workload = workload_of(loaded)
    policy = find(chosen.policy, loaded.family)
    with open_streams(chosen.device, workload, loaded.device.streams) as streams:
        profile = Profiler(loaded, workload, streams, chosen.device, effort).measure()
        trial = run_trial(loaded, profile, workload, streams, policy, chosen.seed, chosen.runs)
    if chosen.profile_out:
        Path(chosen.profile_out).write_text(profile.model_dump_json(indent=2) + "\n")
    return of_executions(trial.scenario, trial.executions, trial.simulated, trial.result)


def task_sides(chosen: argparse.Namespace) -> Sides:
    """Simulate and run a scenario whose tasks run on worker processes."""
    loaded: Any = load(chosen.scenario)
    policy = find(chosen.policy, loaded.family)
    with open_processes(loaded, tile_side=chosen.tile_side) as processes:
        timed = measured(loaded, processes)
        scale = chosen.time_scale or (1.0 if timed is not loaded else usual_scale(loaded, policy, chosen.seed))
        if chosen.tile_side is not None:
            # Alone, kernels are faster than side by side, and nothing is handed over between them.
            other = TaskRuntime(timed, processes, scale).play(policy, chosen.seed + 1)
            timed = processes_of(timed).fitted(timed, other.events)
        trial = run_task_trial(timed, processes, policy, chosen.seed, chosen.runs, scale)
    return of_executions(timed, trial.executions, trial.simulated, trial.result)


def cluster_run(scenario: Any, policy: str) -> dict[str, Any]:
    """Return both sides of one run of a scenario's jobs on a local Slurm cluster."""
    result = run_slurm_trial(load(scenario), [find(policy, "cluster")], SETTINGS, lambda _: None)
    ((_, side),) = result["sides"].items()
    for figures in (side["simulated"], side["real"]):
        figures["throughput_hz"] = result["jobs"] / figures["makespan_s"]
    return dict(side)


def cluster_sides(chosen: argparse.Namespace) -> Sides:
    """Simulate the jobs of a cluster scenario, and run them on as many local clusters at a time as there are runs."""
    with ProcessPoolExecutor(chosen.runs, get_context("spawn")) as pool:
        sides = list(pool.map(cluster_run, [chosen.scenario] * chosen.runs, [chosen.policy] * chosen.runs))
    p50, p99 = (
        1e3 * float(np.mean([side["overhead"][f"dispatch_p{percent}_ms"] for side in sides])) for percent in (50, 99)
    )
    names = COLUMNS["cluster"]
    real = [{name: side["real"][name] for name in names} for side in sides]
    simulated = {name: sides[0]["simulated"][name] for name in names}
    return Sides(simulated, real, (p50, p99), [], f"{chosen.runs} local Slurm clusters side by side, sleeps")


MEASURES: dict[str, Callable[[argparse.Namespace], Sides]] = {
    "edge": edge_sides,
    "cluster": cluster_sides,
    "dag": task_sides,
    "taskgraph": task_sides,
    "serving": task_sides,
}


def row_of(chosen: argparse.Namespace, family: str) -> dict[str, Any]:
    """Return the row of one family."""
    scenario, policy, options = USUAL[family]
    asked = {name: value for name, value in vars(chosen).items() if value is not None}
    own = argparse.Namespace(**{"scenario": scenario, "policy": policy, "tile_side": None, "time_scale": None})
    vars(own).update({**options, **asked})
    cores = sorted(os.sched_getaffinity(0))
    others, reference = [others_share()], [time_reference_kernel(cores)]
    sides = MEASURES[family](own)
    others.append(others_share())
    reference.append(time_reference_kernel(cores))
    shown = ("p50", "p99", "makespan" if "makespan" in COLUMNS[family][2] else "missed", "throughput")
    table = side_by_side(COLUMNS[family], sides.measured, sides.simulated)
    p50 = table[COLUMNS[family][0]]
    error, deviation = abs(p50["simulated"] - p50["measured"]) / p50["measured"], p50["deviation"] / p50["measured"]
    tolerance = max(LARGEST_ERROR, 2 * deviation)
    return {
        "scenario": scenario if isinstance(scenario, str) else scenario.get("name", family),
        "policy": own.policy,
        "device": sides.device,
        "runs": len(sides.measured),
        **{name: {"metric": metric, **table[metric]} for name, metric in zip(shown, COLUMNS[family], strict=True)},
        "error": error,
        "run_to_run": deviation,
        "tolerance": tolerance,
        "passes": error <= tolerance,
        "others": float(np.mean(others)),
        "machine_spread": float(np.median([spread_of(np.array(times)) for part in reference for times in part])),
        "quiet": max(others) <= MOST_OTHERS,
        "dispatch_p50_us": sides.dispatch_us[0],
        "dispatch_p99_us": sides.dispatch_us[1],
        "causes": sides.causes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--family", choices=USUAL, action="append", help="only this kind of work")
    parser.add_argument("--rows", type=Path, help="file in which rows are kept, and looked up")
    parser.add_argument("--scenario", help="what is run, of one family")
    parser.add_argument("--policy", help="who decides")
    parser.add_argument("--device", default="cpu", help="cpu, onnxruntime or cuda")
    parser.add_argument("--runs", type=int, default=3, help="runs on the machine")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    parser.add_argument("--solo-runs", type=int, default=60, help="runs of each variant alone, for the profile")
    parser.add_argument("--pair-seconds", type=float, default=0.4, help="seconds per pair, for the profile")
    parser.add_argument("--patience-minutes", type=float, default=0.0, help="to wait for a quiet moment to profile in")
    parser.add_argument("--profile-out", default="", help="file for the profile that was measured")
    parser.add_argument("--time-scale", type=float, help="seconds per second of a scenario of stand-ins")
    parser.add_argument("--tile-side", type=int, help="run kernels on tiles of this many rows")
    chosen = parser.parse_args()
    rows = json.loads(chosen.rows.read_text()) if chosen.rows and chosen.rows.exists() else {}
    for family in chosen.family or USUAL:
        if family not in rows:
            rows[family] = row_of(chosen, family)
            if chosen.rows:
                chosen.rows.write_text(json.dumps(rows, indent=2) + "\n")
    print_figures({family: rows[family] for family in chosen.family or USUAL}, chosen.json)


if __name__ == "__main__":
    main()
