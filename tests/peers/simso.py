"""SimSo (PyPI simso 0.8.5) as a peer: global preemptive EDF over periodic task sets, in a process of its own.

SimSo prints every decision it takes and imports `imp`, which Python 3.12 no longer has: both stay in the child.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

CYCLES_PER_MS = 1_000_000
"""One cycle of SimSo is a nanosecond."""

CHILD = """
import json, os, sys
from time import perf_counter

answer = os.fdopen(os.dup(1), "w")
sys.stdout = open(os.devnull, "w")
from simso.configuration import Configuration
from simso.core import Model

answers = []
half_a_cycle = 5e-7  # SimSo cuts off fractions of a cycle, also those that are only rounding errors
for asked in json.load(sys.stdin):
    configuration = Configuration()
    configuration.cycles_per_ms = asked["cycles_per_ms"]
    configuration.duration = asked["horizon_ms"] * asked["cycles_per_ms"]
    for number, (period, latency) in enumerate(zip(asked["periods_ms"], asked["latencies_ms"])):
        configuration.add_task(
            name=f"task {number}", identifier=number, activation_date=0, abort_on_miss=False, deadline=period,
            period=period + half_a_cycle, wcet=latency + half_a_cycle,
        )
    for stream in range(asked["streams"]):
        configuration.add_processor(name=f"stream {stream}", identifier=stream)
    configuration.scheduler_info.clas = "simso.schedulers.EDF"
    configuration.check_all()
    model = Model(configuration)
    began = perf_counter()
    model.run_model()
    seconds = perf_counter() - began
    ends = [[job.end_date for job in task.jobs] for task in model.results.tasks.values()]
    answers.append({"seconds": seconds, "ends": ends})
json.dump(answers, answer)
"""


@dataclass(frozen=True)
class TaskSet:
    """Periodic tasks with implicit deadlines, released together at time 0."""

    streams: int
    horizon_ms: int
    periods_ms: list[float]
    latencies_ms: list[float]

    def scenario(self) -> dict[str, Any]:
        """Return the same as an edge scenario: preemption that costs nothing, streams that do not interfere."""
        return {
            "family": "edge",
            "horizon_ms": self.horizon_ms,
            "device": {
                "streams": self.streams,
                "interference": {"kind": "none"},
                "latency": {"kind": "fixed"},
                "late": "run",
                "preemption": {"kind": "resume"},
            },
            "tasks": [
                {
                    "name": str(number),
                    "model": "builtin:resnet",
                    "dataset": "cifar10",
                    "num_variants": 1,
                    "arrival": {"kind": "periodic", "period_ms": period},
                    "variants": [{"latency_ms": latency, "accuracy": 1.0}],
                }
                for number, (period, latency) in enumerate(zip(self.periods_ms, self.latencies_ms, strict=True))
            ],
        }


def draw(rng: np.random.Generator, tasks: int, streams: int, utilisation: float, horizon_ms: int) -> TaskSet:
    """Draw periods between 10 and 100 ms, spread evenly on a log scale, and latencies that use so much of each stream.

    Times are whole nanoseconds, so that both simulators mean the same.
    """
    shares = rng.dirichlet(np.ones(tasks)) * utilisation * streams
    while shares.max() > 1.0:
        shares = rng.dirichlet(np.ones(tasks)) * utilisation * streams
    periods = np.round(np.exp(rng.uniform(np.log(10.0), np.log(100.0), tasks)), 6)
    latencies = np.maximum(np.round(shares * periods, 6), 1e-6)
    return TaskSet(streams, horizon_ms, periods.tolist(), latencies.tolist())


def available() -> bool:
    """Return whether SimSo can be run here."""
    return importlib.util.find_spec("simso") is not None and sys.version_info < (3, 12)


def run(sets: list[TaskSet]) -> list[dict[str, Any]]:
    """Return of each set the seconds that SimSo took and, per task, when each job ended, in ns (None if it did not)."""
    asked = json.dumps([{**asdict(one), "cycles_per_ms": CYCLES_PER_MS} for one in sets])
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))
