"""A trained policy against a heuristic on the real device: profile, train on the profile, then run both in pairs.

Keys: reward_difference (mean over the pairs of trained minus heuristic, with its bootstrap 95% interval), wins, pairs,
the reward and miss rate of each side, noise. Both runs of a pair have the same arrivals, from the test split; which
of the two goes first alternates. Training uses simulated episodes only, with errors of the profile and of the
interference among them, since a device is never quite what was measured.

    python benchmarks/learned_on_device.py --json --minutes 3
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.backends.registry import open_streams
from slipstream.device.measurement.noise import others_share
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.runtime import Runtime
from slipstream.device.workload import workload_of
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import family_of
from slipstream.families.edge.workload.measured import MeasuredProfile, read_profile, with_profile
from slipstream.learn.settings import TrainSettings
from slipstream.learn.training import train
from slipstream.policies import find
from slipstream.policies.base import Policy
from slipstream.scenario import load

SETTINGS = {
    "warm_start": "lookahead",
    "hindsight.rounds": "60",
    "variation.profile_error": "0.15",
    "variation.interference": "0.15",
}


def trained_on(scenario: Any, minutes: float, folder: Path) -> Policy:
    """Return a policy trained on the profiled scenario."""
    train(scenario, TrainSettings().with_changes(SETTINGS), folder, minutes)
    return find(str(folder / "best"), scenario.family)


def profile_of(scenario: Any, device: str, effort: Effort) -> MeasuredProfile:
    """Measure the device."""
    workload = workload_of(scenario)
    with open_streams(device, workload, scenario.device.streams) as streams:
        return Profiler(scenario, workload, streams, device, effort).measure()


def play_pairs(scenario: Any, device: str, sides: dict[str, Policy], pairs: int, seed: int) -> dict[str, Any]:
    """Return the figures of both sides, one entry per pair."""
    measure = family_of(scenario).metrics
    workload = workload_of(scenario)
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    others = []
    with open_streams(device, workload, scenario.device.streams) as streams:
        for pair in range(pairs):
            names = list(sides) if pair % 2 == 0 else list(sides)[::-1]
            for name in names:
                found = Runtime(scenario, workload, streams).play(sides[name], seed + pair)
                figures[name].append(measure(scenario, found.events))
            others.append(others_share())
    return {"figures": figures, "others": float(np.mean(others))}


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return every figure."""
    scenario: Any = load(chosen.scenario)
    effort = Effort(chosen.solo_runs, chosen.pair_seconds)
    profile = read_profile(chosen.profile) if chosen.profile else profile_of(scenario, chosen.device, effort)
    profiled = with_profile(scenario, profile)
    with tempfile.TemporaryDirectory() as folder:
        policy = find(chosen.policy, "edge") if chosen.policy else trained_on(profiled, chosen.minutes, Path(folder))
        sides = {"trained": policy, chosen.heuristic: find(chosen.heuristic, "edge")}
        played = play_pairs(profiled, chosen.device, sides, chosen.pairs, chosen.seed)
    rewards = {name: np.array([row["reward"] for row in rows]) for name, rows in played["figures"].items()}
    gap = rewards["trained"] - rewards[chosen.heuristic]
    low, high = bootstrap_interval(gap)
    return {
        "reward_difference": {"mean": float(gap.mean()), "low": low, "high": high, "values": gap.tolist()},
        "wins": int((gap > 0).sum()),
        "pairs": chosen.pairs,
        "reward": {name: float(values.mean()) for name, values in rewards.items()},
        "miss_rate": {
            name: float(np.mean([row["miss_rate"] for row in rows])) for name, rows in played["figures"].items()
        },
        "noise": {**profile.noise.model_dump(mode="json"), "others_between_runs": played["others"]},
        "device": profile.device,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--scenario", default="edge/cpu-mini", help="what is run")
    parser.add_argument("--device", default="cpu", help="cpu, onnxruntime or cuda")
    parser.add_argument("--heuristic", default="edf-fit", help="the heuristic to compare with")
    parser.add_argument("--policy", default="", help="folder of a trained policy; trained first if absent")
    parser.add_argument("--profile", type=Path, default=None, help="of the device; measured first if absent")
    parser.add_argument("--minutes", type=float, default=3.0, help="of training")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs")
    parser.add_argument("--seed", type=int, default=10_000, help="of the first pair")
    parser.add_argument("--solo-runs", type=int, default=60, help="runs of each variant alone, for the profile")
    parser.add_argument("--pair-seconds", type=float, default=0.4, help="seconds per pair, for the profile")
    chosen = parser.parse_args()
    figures = measure(chosen)
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
