"""How fast the edge simulator is next to SimSo 0.8.5, both playing global preemptive EDF on the same periodic tasks.

Keys: simso_ratio (jobs per second of ours against SimSo's), jobs_per_s, simso_jobs_per_s, ratios (of every set), and
compared and different: jobs whose end was compared with SimSo's, and those that end at another time. Both keep a
record of what happened: ours its event log, SimSo its own. Of every task set each plays the same number of rounds, in
turns, and its best one counts; the ratio is the median over the sets, the rates are those of the set with that ratio.

    python benchmarks/edge_simso.py --json
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from options import print_figures

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers import simso

TASKS, STREAMS, UTILISATION, HORIZON_MS = 10, 2, 0.7, 5000
ROUNDS = 8
"""How often each plays a task set."""


def measure(sets: int) -> dict[str, Any]:
    """Return every figure."""
    from slipstream import load
    from slipstream.policies import find
    from slipstream.sim.eventlog import ARRIVAL, FINISH
    from slipstream.sim.simulator import Simulator

    policy, rng = find("edf-preempt", "edge"), np.random.default_rng(0)
    rates: list[tuple[float, float, float]] = []
    compared = different = 0
    for _ in range(sets):
        one = simso.draw(rng, TASKS, STREAMS, UTILISATION, HORIZON_MS)
        simulator = Simulator(load(one.scenario()))
        events = simulator.play(policy, seed=0)
        ours = theirs = math.inf
        for _ in range(ROUNDS):
            answer = simso.run([one])[0]
            theirs = min(theirs, answer["seconds"])
            began = perf_counter()
            simulator.play(policy, seed=0)
            ours = min(ours, perf_counter() - began)
        jobs = int((events["kind"] == ARRIVAL).sum())
        rates.append((theirs / ours, jobs / ours, jobs / theirs))
        for event in events[events["kind"] == FINISH]:
            compared += 1
            different += event["time"] != answer["ends"][event["task"]][event["job"]]
    ratio, ours_per_s, theirs_per_s = sorted(rates)[len(rates) // 2]
    return {
        "simso_ratio": ratio,
        "jobs_per_s": ours_per_s,
        "simso_jobs_per_s": theirs_per_s,
        "ratios": [round(one[0], 1) for one in rates],
        "compared": compared,
        "different": int(different),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sets", type=int, default=7, help="task sets that both play")
    arguments = parser.parse_args()
    if not simso.available():
        sys.exit("SimSo 0.8.5 is not installed, or this Python has no module `imp`: expected Python 3.11 and simso")
    figures = measure(arguments.sets)
    print_figures(figures, arguments.json)


if __name__ == "__main__":
    main()
