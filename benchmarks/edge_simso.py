"""How fast the edge simulator is next to SimSo 0.8.5, both playing global preemptive EDF on the same periodic tasks.

Keys: simso_ratio (jobs per second of ours against SimSo's), jobs_per_s, simso_jobs_per_s, and compared and different:
jobs whose end was compared with SimSo's, and those that end at another time. Both keep a record of what happened:
ours its event log, SimSo its own. Each rate is that of the best round of many, in the same run.

    python benchmarks/edge_simso.py --json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers import simso

TASKS, STREAMS, UTILISATION, HORIZON_MS = 10, 2, 0.7, 5000


def measure(rounds: int) -> dict[str, Any]:
    """Return every figure."""
    from slipstream import load
    from slipstream.core.eventlog import ARRIVAL, FINISH
    from slipstream.core.simulator import Simulator
    from slipstream.policies import find

    policy, rng = find("edf-preempt", "edge"), np.random.default_rng(0)
    ours = theirs = 0.0
    compared = different = 0
    for _ in range(rounds):
        one = simso.draw(rng, TASKS, STREAMS, UTILISATION, HORIZON_MS)
        answer = simso.run([one])[0]
        simulator = Simulator(load(one.scenario()))
        events = simulator.play(policy, seed=0)
        jobs = int((events["kind"] == ARRIVAL).sum())
        theirs = max(theirs, jobs / answer["seconds"])
        for _ in range(30):
            began = perf_counter()
            simulator.play(policy, seed=0)
            ours = max(ours, jobs / (perf_counter() - began))
        for event in events[events["kind"] == FINISH]:
            compared += 1
            different += event["time"] != answer["ends"][event["task"]][event["job"]]
    return {
        "simso_ratio": ours / theirs,
        "jobs_per_s": ours,
        "simso_jobs_per_s": theirs,
        "compared": compared,
        "different": int(different),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=8, help="task sets, each played by both")
    arguments = parser.parse_args()
    if not simso.available():
        sys.exit("SimSo 0.8.5 is not installed, or this Python has no module `imp`: expected Python 3.11 and simso")
    figures = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:18s} {value}")


if __name__ == "__main__":
    main()
