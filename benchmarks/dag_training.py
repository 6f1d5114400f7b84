"""How fast PPO trains on job graphs, with a network that looks at the graph (`decima`) and with one that looks at rows.

For each scenario and kind of network: decisions_per_s, the complete loop (collection and updates of 4 epochs, the whole
rollout each); inference_per_s, decisions of the network in the loop, with the simulation between them; the same per
second of processor time, which a busy machine changes less; and how large a choice was on average. Whole episodes are
covered: a rollout is begun at the start of episodes, and measured again and again as they go on.

times_public_inference is decisions_per_s of the complete loop over the 61 decisions per second that the public
implementation (spark-sched-sim) reaches with its inference alone, at best; it was measured on a loaded machine of the
same kind, on TPC-H jobs of the same number and rate.

    python benchmarks/dag_training.py --json
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

import slipstream
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer

SCENARIOS = ("dag/stream-10x50", "dag/stream-50x200")
KINDS = ("decima", "rows")
PUBLIC_INFERENCE_PER_S = (36.0, 61.0)
CHANGES = {"n_envs": 64, "n_steps": 128, "ppo.n_epochs": 4, "ppo.target_kl": 0.0}


def measure_training(scenario: str, kind: str, updates: int) -> dict[str, float]:
    """Return the figures of some updates of one training."""
    trainer = Trainer(slipstream.load(scenario), TrainSettings().with_changes({**CHANGES, "network.kind": kind}))
    trainer.update()
    # The first update compiles and leaves lanes in the middle of their episodes: begin again.
    trainer.pool.start(np.arange(CHANGES["n_envs"]))
    choices, rows, nodes = 0, 0, 0
    collecting, learning = np.zeros(2), np.zeros(2)
    for update in range(updates):
        before = np.array([perf_counter(), process_time()])
        rollout = trainer.collect()
        between = np.array([perf_counter(), process_time()])
        trainer.algorithm.update(rollout, 0.0, np.random.default_rng(update))
        trainer.update_number += 1
        learning += np.array([perf_counter(), process_time()]) - between
        collecting += between - before
        made = rollout.made
        choices += int(made.sum())
        rows += int(rollout.count[made].sum())
        nodes += int(rollout.places["nodes"][made].sum()) if kind == "decima" else 0
    both = choices / (collecting + learning)
    return {
        "decisions_per_s": both[0],
        "decisions_per_cpu_s": both[1],
        "inference_per_s": choices / collecting[0],
        "inference_per_cpu_s": choices / collecting[1],
        "times_public_inference": both[0] / PUBLIC_INFERENCE_PER_S[1],
        "candidates": rows / choices,
        "nodes": nodes / choices,
        "choices": choices,
    }


def measure(updates: int) -> dict[str, Any]:
    """Return every figure."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        f"{scenario} {kind}": measure_training(scenario, kind, updates) for scenario in SCENARIOS for kind in KINDS
    }
    return {**found, "public_inference_per_s": PUBLIC_INFERENCE_PER_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--updates", type=int, default=8, help="rollouts that are measured, of 8,192 choices each")
    options = parser.parse_args()
    figures = measure(options.updates)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, figure in figures.items():
        print(name)
        for key, value in figure.items() if isinstance(figure, dict) else ():
            print(f"    {key:24} {value:,.1f}")


if __name__ == "__main__":
    main()
