"""How fast the edge simulator is, next to the plain-Python reference and Gymnasium's SyncVectorEnv, in one run.

Keys: events_per_s (whole compiled episodes under a row-scoring rule, one core), reference_ratio (against the
plain-Python reference on the same episodes), vector_steps_per_s (native vector env, full observations, one thread),
syncvector_ratio (against SyncVectorEnv over the single env), single_steps_per_s, cold_start_s and warm_start_s (a new
process, to the end of its first episode, with an empty and a filled cache), growth ([jobs, seconds, peak MB]). Rates
are those of the best of many short rounds, ours and the peers' alike.

    python benchmarks/edge_speed.py --json
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from options import print_figures, speed_options

sys.path.insert(0, str(Path(__file__).parents[1]))

SCENARIO, RULE = "edge/heavy", "edf"
GROWTH_JOBS = (10**3, 10**4, 10**5, 10**6, 10**7)

FIRST_EPISODE = f"""
from slipstream import evaluate
evaluate({SCENARIO!r}, {RULE!r}, episodes=1)
"""

GROW = """
import json, re, sys, tempfile
from pathlib import Path
from time import perf_counter
import slipstream
from slipstream.sim.eventlog import ARRIVAL, LogWriter
from slipstream.sim.simulator import Simulator
from slipstream.policies import find
from slipstream.scenario import dump

jobs, scenario = int(sys.argv[1]), json.loads(dump(slipstream.load(sys.argv[2])))
per_ms = sum(1 / (t["arrival"].get("period_ms") or t["arrival"]["mean_gap_ms"]) for t in scenario["tasks"])
scenario["horizon_ms"] = jobs / per_ms
simulator, policy = Simulator(slipstream.load(scenario)), find(sys.argv[3], "edge")
simulator.play(policy, 0, sink=lambda events: None) if jobs <= 10**4 else None
released = 0
with tempfile.TemporaryDirectory() as folder:
    writer = LogWriter(Path(folder) / "log.parquet", {})

    def keep(events):
        global released
        released += int((events["kind"] == ARRIVAL).sum())
        writer.write(events)

    began = perf_counter()
    simulator.play(policy, 0, sink=keep)
    seconds = perf_counter() - began
    writer.close()
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([released, seconds, peak_kb / 1024]))
"""


def python(code: str, *arguments: str, cache: str | None = None) -> tuple[str, float]:
    """Run code in a fresh process; return what it printed and how long it took."""
    environment = dict(os.environ, **({"SLIPSTREAM_CACHE_DIR": cache} if cache else {}))
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, perf_counter() - began


def reference_events_per_second(scenario: Any, seconds: float) -> float:
    """Play the same rule in the plain-Python reference; it is asked for rows as the compiled rule is."""
    from tests.reference.edge import ReferenceEdge

    from slipstream.envs.speed import best_rate, timed
    from slipstream.sim.eventlog import DROP, END, START

    seeds = itertools.count()

    def episode() -> int:
        lane = ReferenceEdge(scenario, next(seeds))
        while not lane.over:
            mask, rows = lane.mask(), lane.rows()
            legal = [index for index, allowed in enumerate(mask) if allowed and rows[index]["dispatch"]]
            lane.step(min(legal, key=lambda index: rows[index]["slack"]))
        return sum(row[1] not in (START, DROP, END) for row in lane.log) + 1

    return best_rate(timed(episode), seconds)


def sync_steps_per_second(lanes: int, seconds: float) -> float:
    """Step Gymnasium's SyncVectorEnv over the same single env with the same actions."""
    import gymnasium

    from slipstream.envs.speed import vector_steps_per_second

    env = gymnasium.make_vec("slipstream/Edge-v0", lanes, vectorization_mode="sync", scenario=SCENARIO)
    rate = vector_steps_per_second(env, seconds)
    env.close()
    return rate


def measure(seconds: float, lanes: int, growth_jobs: tuple[int, ...]) -> dict[str, Any]:
    """Return every figure."""
    import slipstream
    from slipstream.envs import speed
    from slipstream.policies import find

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        figures["cold_start_s"] = python(FIRST_EPISODE, cache=cache)[1]
        figures["warm_start_s"] = python(FIRST_EPISODE, cache=cache)[1]
    scenario, policy = slipstream.load(SCENARIO), find(RULE, "edge")
    figures["events_per_s"] = speed.events_per_second(scenario, policy, seconds)
    figures["reference_ratio"] = figures["events_per_s"] / reference_events_per_second(scenario, seconds)
    figures["vector_steps_per_s"] = speed.native_steps_per_second(scenario, lanes, seconds=seconds)
    figures["syncvector_ratio"] = figures["vector_steps_per_s"] / sync_steps_per_second(lanes, seconds)
    figures["single_steps_per_s"] = speed.single_steps_per_second(scenario, seconds)
    figures["growth"] = [json.loads(python(GROW, str(jobs), SCENARIO, RULE)[0]) for jobs in growth_jobs]
    return figures


def main() -> None:
    parser = speed_options(__doc__, seconds=5.0, lanes=1024)
    parser.add_argument("--jobs", type=int, default=GROWTH_JOBS[-1], help="largest run of the growth series")
    arguments = parser.parse_args()
    jobs = tuple(count for count in GROWTH_JOBS if count <= arguments.jobs)
    figures = measure(arguments.seconds, arguments.lanes, jobs)
    print_figures(figures, arguments.json)


if __name__ == "__main__":
    main()
