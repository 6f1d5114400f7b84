"""With the rules of published simulators, the machine gives their published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.families.cluster.metrics import metrics
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.policies.base import find
from slipstream.sim.simulator import Simulator

pytestmark = pytest.mark.thorough

OFFSETS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
"""Where the ten sequences of RLScheduler begin, with its seed 1."""
SEQUENCE = 1024
# Zhang et al., "RLScheduler" (SC 2020), and its README; WFP3 and UNICEP with their waiting times mended.
RLSCHEDULER = {
    ("lublin_256.swf", "strict"): {"fifo": 7273.77, "sjf": 277.35, "f1": 258.37, "wfp3": 337.34, "unicep": 382.43},
    ("lublin_256.swf", "easy"): {"fifo": 235.82, "sjf": 73.31, "f1": 75.07, "saf": 54.00, "f4": 53.64},
    ("lublin_256_new2", "strict"): {"fifo": 7842.47, "sjf": 787.89, "f1": 698.34, "saf": 714.26},
    ("lublin_256_new2", "easy"): {"fifo": 247.61, "sjf": 91.99, "f1": 148.25, "wfp3": 135.12, "unicep": 104.50},
}
"""Mean bounded slowdown, without backfilling and with that of RLScheduler."""
FREE = {"cost_s": 0.0}
TIRESIAS = [
    ("fifo", {"backfill": "strict"}, 30855.179),
    ("fifo", {"backfill": "greedy"}, 14514.488),
    ("srtf", {"preemption": FREE}, 7493.565),
    ("srsf", {"preemption": FREE}, 6821.865),
    # Lucid's simulator (ASPLOS 2023), consolidated on 8 nodes.
    ("fifo", {"backfill": "strict", "placement": "consolidate"}, 48339.53),
]
"""Mean job completion times of the official simulators on 1,792 jobs of Philly and 64 GPUs."""


def scenario(jobs: dict[str, Any], nodes: int, gpus: int, **rules: Any) -> ClusterScenario:
    kind = {"name": "node", "count": nodes, "gpus": gpus}
    return ClusterScenario.model_validate({"family": "cluster", "nodes": [kind], "jobs": jobs, **rules})


@pytest.mark.parametrize(("file", "backfill"), RLSCHEDULER)
def test_slowdowns_are_those_of_rlscheduler_to_the_digit(shared_data: Path, file: str, backfill: str) -> None:
    found: dict[str, list[float]] = {}
    for offset in OFFSETS:
        path = str(shared_data / "cluster" / "swf" / file)
        jobs = {"kind": "swf", "path": path, "skip_jobs": offset, "most_jobs": SEQUENCE}
        sequence = scenario(jobs, 256, 1, compat="rlscheduler", backfill=backfill)
        simulator = Simulator(sequence)
        for policy in RLSCHEDULER[file, backfill]:
            figures = metrics(sequence, simulator.play(find(policy, "cluster"), 0))
            found.setdefault(policy, []).append(figures["slowdown_mean"])
    means = {policy: round(float(np.mean(values)), 2) for policy, values in found.items()}
    assert means == RLSCHEDULER[file, backfill]


@pytest.mark.parametrize(("policy", "rules", "expected"), TIRESIAS)
def test_completion_times_are_those_of_tiresias_and_lucid(
    shared_data: Path, policy: str, rules: dict[str, Any], expected: float
) -> None:
    jobs = {"kind": "helios", "path": str(shared_data / "cluster" / "philly" / "philly_slice.csv")}
    slice_of_philly = scenario(jobs, 8, 8, **rules)
    figures = metrics(slice_of_philly, Simulator(slice_of_philly).play(find(policy, "cluster"), 0))
    assert figures["jobs"] == 1792
    assert figures["jct_mean_s"] == pytest.approx(expected, abs=5e-3 if "placement" in rules else 1e-3)
