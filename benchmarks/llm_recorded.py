"""Simulate recorded runs of vLLM 0.19 from kernel tables alone, and print how far each metric is off.

    python benchmarks/llm_recorded.py --data ../shared/data/llm --json

Nothing is fitted to a run: times come from the tables of LLMServingSim's profiler for the same model and accelerator,
and `skew` from the profiler's own fit where it has one. The times of links between two accelerators are those of its
configuration. `--blind FILE` also predicts the run of Qwen3-32B, whose recording is not public, request by request.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import slipstream
from slipstream.families.llm.metrics import requests_of
from slipstream.policies.base import find
from slipstream.sim.simulator import Simulator

SHAREGPT = "sharegpt-{}-300-sps10.jsonl"
LINK_US, LINK_TOKEN_US = 20.0, 0.64
"""Latency of a link, and time for the 10,240 bytes of a token's activations of Qwen3-32B at 16 GB/s."""


@dataclass(frozen=True)
class Recorded:
    """A recorded run, and what the engine was started with."""

    run: str
    tables: str
    workload: str
    engine: dict[str, Any]
    step_time: dict[str, Any]
    engines: int = 1


RUNS = {
    "RTX 4090, Llama 3.1 8B": Recorded(
        "RTX4090/Llama-3.1-8B",
        "RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1",
        SHAREGPT.format("llama-3.1-8b"),
        {"seats": 256, "blocks": 2588},
        {"layers": 32},
    ),
    "RTX PRO 6000, Llama 3.1 8B": Recorded(
        "RTXPRO6000/Llama-3.1-8B",
        "RTXPRO6000/meta-llama/Llama-3.1-8B/bf16/tp1",
        SHAREGPT.format("llama-3.1-8b"),
        {"seats": 128, "blocks": 30000},
        {"layers": 32, "skew": 0.0543},
    ),
    "RTX PRO 6000, Qwen3 30B-A3B, two ranks": Recorded(
        "RTXPRO6000/Qwen3-30B-A3B-Instruct-2507",
        "RTXPRO6000/Qwen/Qwen3-30B-A3B-Instruct-2507/bf16/tp1",
        SHAREGPT.format("qwen3-32b"),
        {"seats": 128, "blocks": 30000},
        {"layers": 48, "skew": 0.0645, "experts": 64},
        engines=2,
    ),
}
BLIND = Recorded(
    "RTXPRO6000/Qwen3-32B",
    "RTXPRO6000/Qwen/Qwen3-32B/bf16/tp2",
    SHAREGPT.format("qwen3-32b"),
    {"seats": 128, "blocks": 25000},
    {
        "layers": 64,
        "skew": 0.0649,
        "tensor_parallel": 2,
        "link_us": LINK_US,
        "link_token_us": LINK_TOKEN_US,
    },
)


def scenario_of(recorded: Recorded, data: Path) -> Any:
    """Return the scenario of a recorded run."""
    rules = {"version": "0.19", "token_budget": 2048, "longest_tokens": 32768, **recorded.engine}
    folder = (data / "llmservingsim").resolve()
    return slipstream.load(
        {
            "family": "llm",
            "name": "recorded",
            "engines": recorded.engines,
            "engine": rules,
            "step_time": {"kind": "tables", "path": str(folder / "perf" / recorded.tables), **recorded.step_time},
            "requests": {"kind": "trace", "path": str(folder / "workloads" / recorded.workload), "format": "jsonl"},
            "router": "least-load",
        }
    )


def simulated(recorded: Recorded, data: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return TTFT, TPOT and E2E of each request in seconds, and the lengths of the outputs."""
    scenario = scenario_of(recorded, data)
    requests = requests_of(Simulator(scenario).play(find("fcfs", "llm"), 0))
    return times_of(
        requests.arrival / 1e9, requests.first / 1e9, requests.finish / 1e9, requests.output
    ), requests.output


def times_of(arrival: np.ndarray, first: np.ndarray, last: np.ndarray, output: np.ndarray) -> dict[str, np.ndarray]:
    """Return TTFT, TPOT and E2E of each request."""
    return {"TTFT": first - arrival, "TPOT": (last - first) / np.maximum(1, output - 1), "E2E": last - arrival}


def measured(recorded: Recorded, data: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the recorded times of each request, and whether it was scheduled as soon as it was queued.

    Arrivals are on another clock than the engine's times; the request queued soonest after its arrival aligns them.
    """
    path = data / "llmservingsim" / "runs" / recorded.run / "requests.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows.sort(key=lambda row: int(row["request_id"].split("-")[1]))
    names = ("arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts", "output_toks")
    arrival, queued, scheduled, first, last, output = (np.array([row[name] for row in rows]) for name in names)
    arrival = arrival + (queued - arrival).min()
    return times_of(arrival, first, last, output), scheduled - queued < 0.05


def compared(recorded: Recorded, data: Path) -> dict[str, float]:
    """Return the errors of a run in percent."""
    (real, unqueued), (found, _) = measured(recorded, data), simulated(recorded, data)
    figures = {}
    for name, values in real.items():
        figures[f"{name} mean"] = 100.0 * (float(found[name].mean()) / float(values.mean()) - 1.0)
        figures[f"{name} median"] = 100.0 * (float(np.median(found[name])) / float(np.median(values)) - 1.0)
    errors = 100.0 * np.abs(found["E2E"] / real["E2E"] - 1.0)
    figures["E2E per request, median"] = float(np.median(errors))
    figures["E2E per request, p90"] = float(np.percentile(errors, 90))
    figures["unqueued requests"] = float(unqueued.sum())
    mean = float(real["TTFT"][unqueued].mean())
    figures["TTFT of unqueued requests"] = 100.0 * (float(found["TTFT"][unqueued].mean()) / mean - 1.0)
    return figures


def main() -> None:
    """Print the errors, and write the blind prediction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/llm"), help="folder of the recorded runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--blind", type=Path, help="CSV to write the prediction of the run of Qwen3-32B into")
    arguments = parser.parse_args()
    found = {name: compared(recorded, arguments.data) for name, recorded in RUNS.items()}
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print("| run | " + " | ".join(next(iter(found.values()))) + " |")
        for name, figures in found.items():
            print(f"| {name} | " + " | ".join(f"{value:+.2f}" for value in figures.values()) + " |")
    if arguments.blind is not None:
        times, output = simulated(BLIND, arguments.data)
        rows = [
            f"{index},{output[index]},{times['TTFT'][index]:.6f},{times['TPOT'][index]:.6f},{times['E2E'][index]:.6f}"
            for index in range(len(output))
        ]
        arguments.blind.write_text("\n".join(["request,output_tokens,ttft_s,tpot_s,e2e_s", *rows]) + "\n")


if __name__ == "__main__":
    main()
