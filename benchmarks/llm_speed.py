"""Measure the speed of the machine of LLM engines in CPU time, next to DynoSim.

    python benchmarks/llm_speed.py --data ../shared/data --dynosim ENVIRONMENT/bin/python --json

Whole episodes under `fcfs`: the conversation trace of Mooncake, and 5,000 requests of Azure's code trace of
2023. DynoSim (PyPI: ai-dynamo 1.6.1 with ai-dynamo-runtime, installed without dependencies in an environment of its
own) replays the same requests with as many blocks, seats, and tokens per step, with a prefix cache; its step times are
another model's. Both take turns, and the fastest of three runs counts. What DynoSim takes to read the trace without
simulating is measured and taken off; ours includes the event log. Steps: the vector environment with observations, at
batches of some 25 and 240 sequences.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import slipstream
from slipstream.families.contract import FAMILIES
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


ROOMY = {"blocks": 16385, "block_tokens": 64, "seats": 256, "token_budget": 2048}
LIKEWISE = {"num_gpu_blocks": 16384, "block_size": 64, "max_num_seqs": 256, "max_num_batched_tokens": 2048}
"""The same engine for DynoSim."""
PIECE = 512
"""Tokens of a piece of a prompt in Mooncake's traces."""
REPEATS = 3
REPLAY = """
import json, sys, time
from dynamo.replay import run_trace_replay
engine = json.dumps({"engine": json.loads(sys.argv[2])})
def seconds(**limits):
    began = time.process_time()
    report = run_trace_replay(sys.argv[1], trace_block_size=int(sys.argv[3]), extra_engine_args=engine, **limits)
    return time.process_time() - began, report.summary
seconds(max_sim_time_ms=1.0)
reading, _ = seconds(max_sim_time_ms=1.0)
replaying, summary = seconds()
steps = summary["duration_ms"] / summary["mean_itl_ms"]
print(json.dumps({"reading_s": reading, "cpu_s": replaying, "requests": summary["completed_requests"], "steps": steps}))
"""
"""Replays a trace once. Steps are the simulated time by the mean time between tokens, an estimate."""


def trace(path: Path, layout: str, requests: int | None) -> Any:
    """Return the scenario of a trace on one engine."""
    source = {"kind": "trace", "path": str(path.resolve()), "format": layout, "requests": requests, "held_out": 0.0}
    return slipstream.load({"family": "llm", "engine": ROOMY, "step_time": STEP, "requests": source})


def write_window(scenario: Any, first: int, count: int, path: Path) -> None:
    """Write the requests of a window of a scenario's trace in Mooncake's layout; no two prompts begin alike."""
    lines, piece = [], 0
    rows = FAMILIES["llm"].spec_arrays(scenario)["listed"][first : first + count]
    for row in rows:
        prompt = int(row["prompt"])
        pieces = -(-prompt // PIECE)
        line = {
            "timestamp": round(int(row["time"] - rows[0]["time"]) / 1e6),
            "input_length": prompt,
            "output_length": int(row["output"]),
        }
        lines.append(json.dumps(line | {"hash_ids": list(range(piece, piece + pieces))}))
        piece += pieces
    path.write_text("\n".join(lines) + "\n")


def player(scenario: Any) -> Callable[[], dict[str, float]]:
    """Return a function that plays an episode under `fcfs` and returns its requests, steps and CPU-seconds."""
    simulator, policy = Simulator(scenario), find("fcfs", "llm")
    simulator.play(policy, 0)  # compiles

    def play() -> dict[str, float]:
        began = time.process_time()
        events = simulator.play(policy, 0)
        seconds = time.process_time() - began
        steps = int((events["kind"] == DONE).sum())
        return {"cpu_s": seconds, "requests": int(simulator.header["arrived"]), "steps": steps}

    return play


def replayed(python: Path, path: Path) -> dict[str, float]:
    """Return requests, steps and CPU-seconds of DynoSim, reading taken off."""
    command = [str(python), "-c", REPLAY, str(path), json.dumps(LIKEWISE), str(PIECE)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found | {"cpu_s": found["cpu_s"] - found["reading_s"]}


def episodes(scenario: Any, path: Path, dynosim: Path | None) -> dict[str, Any]:
    """Return the speed of whole episodes, and of DynoSim on the trace at `path`."""
    play = player(scenario)
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(play())
        if dynosim is not None:
            theirs.append(replayed(dynosim, path))
    found = {"slipstream": rates(ours)}
    if theirs:
        found["dynosim"] = rates(theirs)
        found["ratio"] = found["slipstream"]["requests_per_cpu_s"] / found["dynosim"]["requests_per_cpu_s"]
    return found


def rates(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the figures of the fastest run, per CPU-second too."""
    best = min(runs, key=lambda run: run["cpu_s"])
    return best | {f"{name}_per_cpu_s": best[name] / best["cpu_s"] for name in ("requests", "steps")}


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
    parser.add_argument("--dynosim", type=Path, help="Python of an environment with ai-dynamo; without, ours alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    conversation = arguments.data / MOONCAKE
    code = trace(arguments.data / AZURE, "azure", 5000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "azure.jsonl"
        # An episode is a window of the trace, which the seed chooses.
        simulator = Simulator(code)
        simulator.reset(0)
        write_window(code, int(simulator.header["first"]), 5000, path)
        found: dict[str, Any] = {
            "mooncake": episodes(trace(conversation, "mooncake", None), conversation, arguments.dynosim),
            "azure code, 5000 requests": episodes(code, path, arguments.dynosim),
        }
    found |= {f"vector environment, batch {batch}": stepped(batch) for batch in (25, 240)}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name, json.dumps(figures))


if __name__ == "__main__":
    main()
