"""How fast the cluster simulator is on one core, next to the plain-Python reference on the same work, in one run.

jobs_per_s_easy: whole episodes under heuristics with EASY backfilling, on the 10,000 jobs of Lublin-1 if `--data` names
the folder that holds `swf/lublin_256.swf`, else on a generated workload of the same kind and size; the least and each.
vector_steps_per_s: native vector env with rows and mask, one thread, on `cluster/lublin-256`, `cluster/heavy` and
`cluster/bursty`, under `saf`. ricc_seconds: RICC's 447,794 jobs from the file to the last job, and of that the play
alone; absent without the data. reference_ratio: `saf` on `cluster/tiny` against the plain-Python reference. Rates are
those of the best of many short rounds.

    python benchmarks/cluster_speed.py --json --data ../shared/data/cluster
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

POLICIES = ("fifo", "sjf", "saf", "f1", "f4")
SCENARIOS = ("cluster/lublin-256", "cluster/heavy", "cluster/bursty")
LUBLIN, RICC = "swf/lublin_256.swf", "swf/RICC-2010-2.swf.gz"
RICC_PROCESSORS = 8192


def lublin(data: Path | None) -> dict[str, Any]:
    """Return the whole of Lublin-1 on 256 processors, or a generated workload like it."""
    jobs: dict[str, Any] = {"kind": "lublin", "jobs": 10_000, "seed": 1, "largest": 256, "load": 0.9}
    if data is not None and (data / LUBLIN).is_file():
        jobs = {"kind": "swf", "path": str((data / LUBLIN).resolve())}
    nodes = [{"name": "node", "count": 256, "gpus": 1}]
    return {"family": "cluster", "nodes": nodes, "jobs": jobs, "backfill": "easy", "hold": False}


def jobs_per_second(scenario: Any, policy: str, seconds: float) -> float:
    """Return jobs per second of whole episodes, without a log."""
    from slipstream.core.simulator import Simulator
    from slipstream.core.speed import best_rate, timed
    from slipstream.policies import find

    simulator, player = Simulator(scenario, log_rows=0), find(policy, "cluster")

    def episode() -> int:
        simulator.play(player, 0)
        return int(simulator.header["done"])

    return best_rate(timed(episode), seconds)


def vector_steps_per_second(scenario: Any, lanes: int, seconds: float) -> float:
    """Step the native vector env with the actions of the policy; choosing them is not counted."""
    from slipstream.core.speed import best_rate
    from slipstream.core.vector import SchedulingVectorEnv
    from slipstream.policies import find

    env, policy = SchedulingVectorEnv(lanes, "cluster", scenario, copy=False), find("saf", "cluster")
    rows = env.single_action_space.n
    env.reset(seed=0)

    def step() -> tuple[int, float]:
        actions = env.choose(policy)
        actions[actions >= rows] = rows - 1
        began = perf_counter()
        env.step(actions)
        return lanes, perf_counter() - began

    try:
        return best_rate(step, seconds)
    finally:
        env.close()


def ricc(data: Path) -> dict[str, float]:
    """Return the seconds that RICC takes under `saf` with EASY, from the file to the last job, all compiled before."""
    import slipstream
    from slipstream.core.simulator import Simulator
    from slipstream.policies import find

    nodes = [{"name": "node", "count": 1024, "gpus": RICC_PROCESSORS // 1024}]
    jobs = {"kind": "swf", "path": str((data / RICC).resolve())}
    began = perf_counter()
    scenario = slipstream.load({"family": "cluster", "nodes": nodes, "jobs": jobs, "hold": False})
    simulator = Simulator(scenario, log_rows=0)
    built = perf_counter()
    simulator.play(find("saf", "cluster"), 0)
    ended = perf_counter()
    return {"jobs": float(simulator.header["done"]), "play_s": ended - built, "end_to_end_s": ended - began}


def reference_ratio() -> float:
    """Return how much faster whole episodes of `cluster/tiny` are than in the plain-Python reference."""
    import numpy as np
    from tests.reference.cluster_rows import ReferenceCluster

    import slipstream
    from slipstream.cluster import features
    from slipstream.policies import find

    scenario, policy = slipstream.load("cluster/tiny"), find("saf", "cluster")
    began = perf_counter()
    lane = ReferenceCluster(scenario, 0)
    while not lane.over:
        whole = lane.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in lane.rows()])
        lane.step(policy.choose(global_row, rows, np.array(lane.mask(), np.int8)))
    took = perf_counter() - began
    return jobs_per_second(scenario, "saf", 0.5) / (len(lane.jobs) / took)


def measure(seconds: float, lanes: int, data: Path | None) -> dict[str, Any]:
    """Return every figure."""
    import slipstream

    scenario = slipstream.load(lublin(data))
    rates = {policy: jobs_per_second(scenario, policy, seconds) for policy in POLICIES}
    steps = {name: vector_steps_per_second(slipstream.load(name), lanes, seconds) for name in SCENARIOS}
    figures: dict[str, Any] = {
        "workload": "Lublin-1" if scenario.jobs.kind == "swf" else "generated",
        "jobs_per_s_easy": min(rates.values()),
        "jobs_per_s_easy_by_policy": rates,
        "vector_steps_per_s": steps[SCENARIOS[0]],
        "vector_steps_per_s_by_scenario": steps,
        "reference_ratio": reference_ratio(),
    }
    if data is not None and (data / RICC).is_file():
        found = ricc(data)
        figures["ricc_seconds"], figures["ricc"] = found["end_to_end_s"], found
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per measurement")
    parser.add_argument("--lanes", type=int, default=64, help="lanes of the vector env")
    parser.add_argument("--data", type=Path, default=None, help="folder with swf/lublin_256.swf and RICC")
    options = parser.parse_args()
    figures = measure(options.seconds, options.lanes, options.data)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        print(f"{name:28} {values}")


if __name__ == "__main__":
    main()
