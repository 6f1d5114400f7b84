"""How fast the serving simulator and its planner are on one core, next to the plain-Python reference, in one run.

requests_per_s: whole compiled episodes without planning and without a log, on 8, 40 and 160 accelerators at 70% load
(40 is the headline). reference_ratio: against the plain-Python reference on the same episode. day: a day of a million
requests on 40 accelerators with a plan every ten minutes, its seconds, and by how much memory grew meanwhile.
plan_seconds, plan_gap: the worst of several plans by the default planner on 40, 160 and 640 accelerators, at loads from
light to heavy, rehearsals included, and the gap that was proven for the program. registered: choices per second with 50
active models among 50 and among 10,000 registered ones. Rates are those of the best of many short rounds.

    python benchmarks/serving_speed.py --json
"""

from __future__ import annotations

import argparse
import itertools
import logging
import resource
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from options import print_figures

sys.path.insert(0, str(Path(__file__).parents[1]))

LATENCY_MS = [10.0, 12.0, 16.0, 24.0]
LOAD = 0.7
FLEETS = {8: 2, 40: 8, 160: 16}
"""Accelerators, and models on them."""
PLANNED = {40: (9, 5), 160: (17, 27), 640: (17, 27)}
"""Accelerators, models, and variants of each model."""
PLAN_LOADS = (0.3, 0.6, 0.9)


def fleet(accelerators: int, models: int, requests: int) -> Any:
    """Return a scenario in which every model has its accelerators from the beginning."""
    import slipstream

    rate = LOAD * accelerators * 8 / (LATENCY_MS[-1] / 1e3)
    return slipstream.load(
        {
            "family": "serving",
            "accelerators": [{"name": "gpu", "count": accelerators}],
            "models": [
                {
                    "name": f"m{number}",
                    "slo_ms": 200.0,
                    "variants": [{"name": f"v{number}", "accuracy": 90.0, "latency_ms": {"gpu": LATENCY_MS}}],
                    "arrivals": {"kind": "poisson", "rate_hz": rate / models},
                }
                for number in range(models)
            ],
            "initial": [
                {"variant": f"v{number}", "accelerator": "gpu", "count": accelerators // models}
                for number in range(models)
            ],
            "duration_s": requests / rate,
            "planning": {"interval_s": 1e6},
        }
    )


def requests_per_second(scenario: Any, seconds: float) -> float:
    """Return requests per second of whole compiled episodes; nothing is moved."""
    from slipstream.envs.speed import best_rate, timed
    from slipstream.policies import find
    from slipstream.sim.simulator import Simulator

    simulator, policy, seeds = Simulator(scenario, log_rows=0), find("eft", "serving"), itertools.count()

    def episode() -> int:
        simulator.play(policy, next(seeds))
        return int(simulator.arrays["models"]["arrived"].sum())

    return best_rate(timed(episode), seconds)


def reference_requests_per_second(scenario: Any) -> float:
    """Play the same episode in the plain-Python reference, once."""
    from tests.reference.serving_rows import ReferenceServing

    began = perf_counter()
    lane = ReferenceServing(scenario, 0)
    while not lane.over:
        lane.step(len(lane.mask()) - 1)
    return sum(model.arrived for model in lane.models) / (perf_counter() - began)


def a_day(requests: int) -> dict[str, float]:
    """Return how long a day takes, under a planner, and by how many MB memory grows in its course."""
    import slipstream
    from slipstream.policies import find
    from slipstream.sim.simulator import Simulator

    scenario: Any = slipstream.load("serving/fleet-40")
    data = scenario.model_dump(mode="json")
    rate = requests / 86_400.0
    for number, model in enumerate(data["models"]):
        share = 1.0 / (number + 1) / sum(1.0 / k for k in range(1, 10))
        model["arrivals"] = {"kind": "diurnal", "low_hz": 0.4 * rate * share, "peak_hz": 1.6 * rate * share}
    data |= {"duration_s": 86_400.0, "planning": {"interval_s": 600.0}, "forecast": {"kind": "ewma", "sample_s": 60.0}}
    simulator, policy = Simulator(slipstream.load(data), log_rows=0), find("milp-thorough", "serving")
    simulator.reset(0)
    simulator.step(policy.choose(*simulator.observe()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, planning = perf_counter(), 0.0
    simulator.reset(0)
    while simulator.asking:
        asked = perf_counter()
        move = policy.choose(*simulator.observe())
        planning += perf_counter() - asked
        simulator.step(move)
    models = simulator.arrays["models"][0]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    return {
        "requests": float(models["arrived"].sum()),
        "seconds": perf_counter() - began,
        "planning_seconds": planning,
        "memory_growth_mb": grown,
        "on_time_share": float(models["on_time"].sum() / models["arrived"].sum()),
    }


def plans(accelerators: int, models: int, variants: int) -> dict[str, float]:
    """Return the longest time and the largest gap of plans for random models, from light to heavy load."""
    from slipstream.families.serving.workload.generator import Settings, generate
    from slipstream.policies import find
    from slipstream.sim.simulator import Simulator

    planner, gaps = find("milp-thorough", "serving"), Gaps()
    seconds = []
    logging.getLogger("slipstream.families.serving.policies").addHandler(gaps)
    logging.getLogger("slipstream.families.serving.policies").setLevel(logging.INFO)
    for seed, load in enumerate(PLAN_LOADS):
        settings = Settings(models=models, variants=variants, kinds=4, accelerators=accelerators, load=load)
        simulator = Simulator(generate(settings, seed), log_rows=0)
        simulator.reset(0)
        seen = simulator.observe()
        began = perf_counter()
        planner.choose(*seen)
        seconds.append(perf_counter() - began)
    logging.getLogger("slipstream.families.serving.policies").removeHandler(gaps)
    return {"seconds": max(seconds), "gap": max(gaps.found)}


class Gaps(logging.Handler):
    """Keeps the gaps that planners log."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple)
        self.found.append(float(str(record.args[0])))


def choices_per_second(registered: int, seconds: float) -> float:
    """Return choices per second of the native vector env with 50 active models among some that are registered."""
    from slipstream.envs.speed import native_steps_per_second
    from slipstream.families.serving.workload.generator import Settings, generate

    settings = Settings(models=registered, active=50, variants=2, accelerators=60, duration_s=20.0)
    return native_steps_per_second(generate(settings, 0), lanes=8, seconds=seconds)


def measure(seconds: float) -> dict[str, Any]:
    """Return every figure."""
    rates = {count: requests_per_second(fleet(count, models, 500_000), seconds) for count, models in FLEETS.items()}
    small = fleet(40, 8, 4_000)
    planned = {count: plans(count, *sizes) for count, sizes in PLANNED.items()}
    return {
        "requests_per_s": rates[40],
        "requests_per_s_by_accelerators": rates,
        "reference_ratio": rates[40] / reference_requests_per_second(small),
        "day": a_day(1_000_000),
        "plan_seconds": {count: figures["seconds"] for count, figures in planned.items()},
        "plan_gap": {count: figures["gap"] for count, figures in planned.items()},
        "registered": {count: choices_per_second(count, seconds / 2) for count in (50, 10_000)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per measurement")
    options = parser.parse_args()
    np.seterr(over="ignore")
    figures = measure(options.seconds)
    print_figures(figures, options.json)


if __name__ == "__main__":
    main()
