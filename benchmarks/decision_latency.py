"""How long one decision among 40 legal candidates takes: heuristics, a compiled network, the same network in torch.

Keys: compiled_p50_us, compiled_p99_us, torch_p50_us, heuristic_p50_us (of `edf-fit`, which looks at every row), and
lookahead_p50_us. Every decision is timed by itself, called from Python as a device would: candidates and globals in,
the row out. For comparison: the RL policies of the project that this one grew from took 1 to 11 ms, against deadlines
of 8 ms.

    python benchmarks/decision_latency.py --json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch
from options import print_figures

from slipstream.jit.decorators import entry
from slipstream.jit.funcptr import call_choice
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy, decide

LEGAL, DECISIONS = 40, 20_000


@entry
def choose(address, global_row, rows, mask):
    """Return the row that a compiled heuristic takes."""
    return call_choice(address, global_row, rows, mask)


def percentiles(decision: Callable[[], Any], count: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of single decisions, in microseconds."""
    for _ in range(100):
        decision()
    spent = np.empty(count)
    for index in range(count):
        began = perf_counter_ns()
        decision()
        spent[index] = perf_counter_ns() - began
    return float(np.percentile(spent, 50) / 1e3), float(np.percentile(spent, 99) / 1e3)


def heuristic_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the raw globals, rows and mask of a choice of `edge/heavy` with every task waiting."""
    from slipstream import load
    from slipstream.sim.simulator import Simulator

    simulator = Simulator(load("edge/heavy"))
    simulator.reset(0)
    most: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    while simulator.asking:
        seen = simulator.observe()
        if most is None or seen[2].sum() > most[2].sum():
            most = (seen[0].copy(), seen[1].copy(), seen[2].copy())
        simulator.step(len(seen[2]) - 1)
    assert most is not None
    return most


def measure(width: int) -> dict[str, float]:
    """Return every figure."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = CandidateScorer(32, 16, NetworkSettings(width))
    policy = CompiledPolicy("net", "edge", network.operations(), network.arrays())
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(LEGAL, 32)).astype(np.float32)
    global_row = rng.normal(size=16).astype(np.float32)
    legal = np.arange(LEGAL, dtype=np.int32)
    compiled = policy.network(LEGAL)
    p50, p99 = percentiles(lambda: decide(compiled, rows, legal, LEGAL, global_row), DECISIONS)
    counts = torch.tensor([LEGAL])

    def in_torch() -> int:
        with torch.inference_mode():
            logits, _ = network(torch.from_numpy(rows), torch.from_numpy(global_row)[None], counts)
            return int(logits.argmax())

    torch_p50, torch_p99 = percentiles(in_torch, DECISIONS // 10)
    seen = heuristic_rows()
    heuristics = {}
    for name in ("edf-fit", "lookahead"):
        address = find(name, "edge").address  # type: ignore[union-attr]
        heuristics[name] = percentiles(lambda address=address: choose(address, *seen), DECISIONS)[0]
    return {
        "compiled_p50_us": p50,
        "compiled_p99_us": p99,
        "torch_p50_us": torch_p50,
        "torch_p99_us": torch_p99,
        "heuristic_p50_us": heuristics["edf-fit"],
        "lookahead_p50_us": heuristics["lookahead"],
        "width": width,
        "legal_rows": LEGAL,
        "heuristic_legal_rows": int(seen[2].sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--width", type=int, default=64, help="width of the network")
    arguments = parser.parse_args()
    figures = measure(arguments.width)
    print_figures(figures, arguments.json)


if __name__ == "__main__":
    main()
