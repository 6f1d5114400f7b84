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

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from options import speed_options

sys.path.insert(0, str(Path(__file__).parents[1]))

POLICY = "saf"
PLAYED = ("fifo", "sjf", "saf", "f1", "f4")
SCENARIOS = ("cluster/lublin-256", "cluster/heavy", "cluster/bursty")
LUBLIN, RICC = "swf/lublin_256.swf", "swf/RICC-2010-2.swf.gz"
RICC_PROCESSORS = 8192
WARM_UP_STEPS = 500
"""Steps before the clock starts, in which queues fill."""


def lublin(data: Path | None) -> dict[str, Any]:
    """Return the whole of Lublin-1 on 256 processors, or a generated workload like it."""
    jobs: dict[str, Any] = {"kind": "lublin", "jobs": 10_000, "seed": 1, "largest": 256, "load": 0.9}
    if data is not None and (data / LUBLIN).is_file():
        jobs = {"kind": "swf", "path": str((data / LUBLIN).resolve())}
    nodes = [{"name": "node", "count": 256, "gpus": 1}]
    return {"family": "cluster", "nodes": nodes, "jobs": jobs, "backfill": "easy", "hold": False}


def ricc(data: Path) -> dict[str, float]:
    """Return the seconds that RICC takes under `saf` with EASY, from the file to the last job, all compiled before."""
    import slipstream
    from slipstream.policies import find
    from slipstream.sim.simulator import Simulator

    nodes = [{"name": "node", "count": 1024, "gpus": RICC_PROCESSORS // 1024}]
    jobs = {"kind": "swf", "path": str((data / RICC).resolve())}
    began = perf_counter()
    scenario = slipstream.load({"family": "cluster", "nodes": nodes, "jobs": jobs, "hold": False})
    simulator = Simulator(scenario, log_rows=0)
    built = perf_counter()
    simulator.play(find("saf", "cluster"), 0)
    ended = perf_counter()
    return {"jobs": float(simulator.header["done"]), "play_s": ended - built, "end_to_end_s": ended - began}


def reference_jobs_per_second(scenario: Any) -> float:
    """Play the same policy in the plain-Python reference, once."""
    from tests.kernels import play_reference
    from tests.reference.cluster_rows import ReferenceCluster

    from slipstream.policies import find

    lane = ReferenceCluster(scenario, 0)
    began = perf_counter()
    play_reference(lane, find(POLICY, "cluster"))
    return len(lane.jobs) / (perf_counter() - began)


def measure(seconds: float, lanes: int, data: Path | None) -> dict[str, Any]:
    """Return every figure."""
    import slipstream
    from slipstream.envs.speed import counts_per_second, native_steps_per_second
    from slipstream.policies import find

    scenario, tiny, policy = slipstream.load(lublin(data)), slipstream.load("cluster/tiny"), find(POLICY, "cluster")
    rates = {name: counts_per_second(scenario, find(name, "cluster"), "done", seconds) for name in PLAYED}
    steps = {
        name: native_steps_per_second(slipstream.load(name), lanes, 1, seconds, policy, WARM_UP_STEPS)
        for name in SCENARIOS
    }
    figures: dict[str, Any] = {
        "workload": "Lublin-1" if scenario.jobs.kind == "swf" else "generated",
        "jobs_per_s_easy": min(rates.values()),
        "jobs_per_s_easy_by_policy": rates,
        "vector_steps_per_s": steps[SCENARIOS[0]],
        "vector_steps_per_s_by_scenario": steps,
        "reference_ratio": counts_per_second(tiny, policy, "done", seconds) / reference_jobs_per_second(tiny),
    }
    if data is not None and (data / RICC).is_file():
        found = ricc(data)
        figures["ricc_seconds"], figures["ricc"] = found["end_to_end_s"], found
    return figures


def main() -> None:
    parser = speed_options(__doc__, seconds=3.0, lanes=256)
    parser.add_argument("--data", type=Path, default=None, help="folder with swf/lublin_256.swf and RICC")
    options = parser.parse_args()
    print(json.dumps(measure(options.seconds, options.lanes, options.data), indent=2))


if __name__ == "__main__":
    main()
