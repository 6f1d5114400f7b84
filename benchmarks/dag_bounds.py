"""Lower bounds of the mean completion time of a batch of jobs: the table of docs/dag-results.md.

For `dag/batch-50x20`, on synthetic jobs and, with the published profile, on TPC-H, over the test episodes of
`dag_policies.py`: a proven lower bound, and an estimate that also counts the cost of parallelism.
For the estimate jobs are divisible: n executors do a job in work(n) / n, where work(n) is what its tasks take with n
executors at the job, on average; no job ends before its critical path, and by the end of the k-th job all executors
have had time for the first k. Each job's n is chosen so that the sum of the ends is least. It ignores moving
executors, precedence within a job and warm-up, so no policy reaches it.

    python benchmarks/dag_bounds.py --json --profile FOLDER
    python benchmarks/dag_bounds.py --write docs/dag-results.md --profile FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from dag_policies import SEED, on_profile
from tables import plain_table, publish

import slipstream
from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.oracle.bounds import least_job_seconds
from slipstream.families.dag.oracle.hindsight import jobs_of_episode
from slipstream.policies.base import find
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.simulator import Simulator

SHOWN = (1, 5, 10, 20, 50)
"""Numbers of executors at a job for which the table has its work."""
SWEEPS = 6
"""Rounds in which every job chooses its number of executors anew; after three nothing changes any more."""


def work_by_executors(scenario: Any) -> np.ndarray:
    """Return the expected work of every job that can arrive, in s, with 1, 2, ... executors at it."""
    spec = compiled_scenario(scenario).spec
    levels, stages = spec["level_of"][1:], spec["stages"]
    share = np.where(levels["gap"] > 0, levels["offset"] / np.maximum(levels["gap"], 1), 0.0)
    low, high = spec["expected"][:, levels["low"]], spec["expected"][:, levels["high"]]
    of_stages = stages["tasks"][:, None] * (low + share * (high - low)) / 1e9
    first = spec["templates"]["first_stage"]
    works: np.ndarray = np.add.reduceat(of_stages, first, axis=0)
    return works


def mean_end(works: np.ndarray, paths: np.ndarray, counts: np.ndarray) -> float:
    """Return the mean end of divisible jobs done in this order, job i by `counts[i]` executors."""
    chosen = works[np.arange(len(works)), counts - 1]
    ends = np.maximum(np.cumsum(chosen) / works.shape[1], np.maximum(chosen / counts, paths))
    return float(ends.mean())


def estimate(works: np.ndarray, paths: np.ndarray) -> float:
    """Return the least mean end of divisible jobs that begin together, by a search from all executors for each."""
    order = np.argsort(works[:, 0])
    works, paths = works[order], paths[order]
    counts = np.full(len(works), works.shape[1])
    for _ in range(SWEEPS):
        for job in range(len(works)):
            tried = [mean_end(works, paths, _with(counts, job, n)) for n in range(1, works.shape[1] + 1)]
            counts[job] = 1 + int(np.argmin(tried))
    return mean_end(works, paths, counts)


def _with(counts: np.ndarray, job: int, count: int) -> np.ndarray:
    changed = counts.copy()
    changed[job] = count
    return changed


def lower_bounds(scenario: Any, episodes: int) -> dict[str, float]:
    """Return the work of a job by the executors at it, and the least average completion times, all in s."""
    works = work_by_executors(scenario)
    paths = compiled_scenario(scenario).spec["templates"]["path"] / 1e9
    simulator, player = Simulator(scenario), find("fair", "dag")
    proven, estimated = [], []
    for seed in range(SEED, SEED + episodes):
        events = simulator.play(player, seed)
        jobs = jobs_of_episode(scenario, events, seed, "test")
        proven.append(least_job_seconds(scenario, jobs)[0] / len(jobs))
        drawn = events["task"][events["kind"] == ARRIVAL]
        estimated.append(estimate(works[drawn], paths[drawn]))
    row = {f"work of a job on {n}" if n == 1 else f"on {n}": float(works[:, n - 1].mean()) for n in SHOWN}
    return {**row, "proven bound": float(np.mean(proven)), "estimate": float(np.mean(estimated))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    parser.add_argument("--profile", type=Path, help="folder of the TPC-H profile; without it, synthetic jobs only")
    parser.add_argument("--episodes", type=int, default=30, help="test episodes")
    chosen = parser.parse_args()
    scenario: Any = slipstream.load("dag/batch-50x20")
    figures = {"synthetic": lower_bounds(scenario, chosen.episodes)}
    if chosen.profile is not None:
        figures["TPC-H"] = lower_bounds(on_profile(scenario, chosen.profile), chosen.episodes)
    publish(figures, {"batch-bounds": plain_table("s", figures)}, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
