"""Measure the CPU time of the linear programs of elastic jobs, and how far from the optimum they may be.

    python benchmarks/elastic_programs.py --jobs 1000 --gpus 256 --json

Jobs have throughputs on three kinds as scattered as those of Gavel's models, and accept one, two or four GPUs.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from slipstream.families.elastic import programs
from slipstream.families.elastic.programs import Columns


def crowd(jobs: int, gpus: int, seed: int) -> Columns:
    """Return unfinished jobs on three kinds, of which the fastest has a quarter of the GPUs."""
    rng = np.random.default_rng(seed)
    speed = np.array([1.0, 0.55, 0.2]) ** rng.uniform(0.4, 1.3, (jobs, 1)) * rng.uniform(0.5, 50.0, (jobs, 1))
    capacity = np.array([gpus // 4, gpus // 4, gpus - 2 * (gpus // 4)], float)
    size = rng.choice([1, 2, 4], jobs, p=[0.7, 0.15, 0.15])
    return Columns(
        job=np.repeat(np.arange(jobs), 3),
        kind=np.tile(np.arange(3), jobs),
        gpus=np.repeat(size, 3),
        rate=(speed * size[:, None] ** 0.9).ravel(),
        capacity=capacity,
        weight=np.ones(jobs),
        left=rng.uniform(1e3, 1e6, jobs),
        age=rng.uniform(0.0, 1e5, jobs),
        alone=rng.uniform(0.0, 1e5, jobs),
    )


def timed(call: Any, *arguments: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call and what it returns."""
    began = time.process_time()
    found = call(*arguments)
    return time.process_time() - began, found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="unfinished jobs")
    parser.add_argument("--gpus", type=int, default=256, help="GPUs of all kinds")
    parser.add_argument("--instances", type=int, default=5, help="how many are solved")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    named = {
        "max-min": programs.max_min,
        "min-makespan": programs.min_makespan,
        "finish-time-fair": programs.finish_time_fair,
        "water-filling": programs.water_filling,
    }
    found: dict[str, Any] = {name: {"seconds": []} for name in named}
    gaps = []
    for seed in range(arguments.instances):
        columns = crowd(arguments.jobs, arguments.gpus, seed)
        for name, program in named.items():
            found[name]["seconds"].append(timed(program, columns)[0])
        gain = columns.proportional() * columns.weight / columns.size
        shares = programs.solve(columns, gain, np.zeros(columns.jobs), gain)
        assert shares is not None
        reached = float((columns.throughput(shares.x) / gain).min())
        gaps.append((shares.bound - reached) / shares.bound)
    for own in found.values():
        own["mean_s"], own["worst_s"] = float(np.mean(own["seconds"])), float(np.max(own["seconds"]))
    found["max-min"]["worst_gap"] = max(gaps)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for name, own in found.items():
            gap = f", gap at most {own['worst_gap']:.1e}" if "worst_gap" in own else ""
            print(f"{name}: mean {own['mean_s']:.2f} s, worst {own['worst_s']:.2f} s{gap}")


if __name__ == "__main__":
    main()
