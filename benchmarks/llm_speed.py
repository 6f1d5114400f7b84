"""Measure the speed of the machine of LLM engines in CPU time.

    python benchmarks/llm_speed.py --data ../shared/data --json

Whole episodes: the conversation trace of Mooncake, and 5,000 requests of Azure's code trace of 2023. Steps: the vector
environment with observations, at batches of some 25 and 240 sequences.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import slipstream
from slipstream.policies.base import find
from slipstream.sim.eventlog import DONE
from slipstream.sim.simulator import Simulator

STEP = {
    "kind": "closed",
    "dense": [{"at": 0, "us": 10000.0}, {"at": 256, "us": 13900.0}, {"at": 2048, "us": 76700.0}],
    "attention_us": 370.0,
    "sequence_us": 3.6,
    "context_us": 0.0914,
    "mixed_context_us": 0.165,
    "prefill_us": 0.00257,
}
AZURE = "serving/azure_llm_ccby/AzureLLMInferenceTrace_code.csv"
MOONCAKE = "llm/mooncake/conversation_trace.jsonl"


def trace(path: Path, layout: str, requests: int | None, engine: dict[str, Any]) -> Any:
    """Return the scenario of a trace on one engine."""
    source = {"kind": "trace", "path": str(path.resolve()), "format": layout, "requests": requests, "held_out": 0.0}
    return slipstream.load({"family": "llm", "engine": engine, "step_time": STEP, "requests": source})


def episode(scenario: Any) -> dict[str, float]:
    """Return requests and steps per CPU-second of an episode under `fcfs`, log and metrics left out."""
    simulator, policy = Simulator(scenario), find("fcfs", "llm")
    events = simulator.play(policy, 0)  # compiles
    steps, requests = int((events["kind"] == DONE).sum()), int(simulator.header["arrived"])
    fastest = np.inf
    for _ in range(3):
        began = time.process_time()
        simulator.play(policy, 0)
        fastest = min(fastest, time.process_time() - began)
    return {
        "requests": requests,
        "steps": steps,
        "cpu_s": fastest,
        "requests_per_cpu_s": requests / fastest,
        "steps_per_cpu_s": steps / fastest,
    }


def crowded(batch: int) -> Any:
    """Return a scenario whose batch is always full: all requests arrive within moments."""
    requests = {
        "kind": "drawn",
        "requests": 8 * batch,
        "rate_hz": 10000.0,
        "lengths": {
            "kind": "independent",
            "prompt": {"kind": "uniform", "least": 100, "most": 900},
            "output": {"kind": "uniform", "least": 50, "most": 350},
        },
    }
    engine = {"blocks": 200 * batch, "seats": batch, "prefix_cache": False}
    return slipstream.load({"family": "llm", "engine": engine, "step_time": STEP, "requests": requests})


def stepped(batch: int, lanes: int = 16) -> dict[str, float]:
    """Return decisions and engine steps per CPU-second of the vector environment, which observes every decision.

    Every decision takes the first row, so each lane plays what `fcfs` plays: its steps are counted in that log.
    """
    scenario = crowded(batch)
    simulator = Simulator(scenario)
    events = simulator.play(find("fcfs", "llm"), 0)
    per_decision = int((events["kind"] == DONE).sum()) / int(simulator.header["choices"])
    env: Any = gymnasium.make_vec("slipstream/Llm-v0", lanes, "vector_entry_point", scenario=scenario)
    env.reset(seed=0)
    actions, decisions = np.zeros(lanes, np.int64), 4 * int(simulator.header["choices"])
    env.step(actions)  # compiles
    began = time.process_time()
    for _ in range(decisions):
        env.step(actions)
    rate = lanes * decisions / (time.process_time() - began)
    env.close()
    return {"batch": batch, "decisions_per_cpu_s": rate, "steps_per_cpu_s": rate * per_decision}


def main() -> None:
    """Print the speeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with llm/ and serving/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    roomy = {"blocks": 65537, "seats": 256}
    found = {
        "mooncake": episode(trace(arguments.data / MOONCAKE, "mooncake", None, roomy)),
        "azure code, 5000 requests": episode(trace(arguments.data / AZURE, "azure", 5000, roomy)),
        **{f"vector environment, batch {batch}": stepped(batch) for batch in (25, 240)},
    }
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for name, figures in found.items():
            print(name, *(f"{key} {value:,.0f}" for key, value in figures.items()), sep=", ")


if __name__ == "__main__":
    main()
