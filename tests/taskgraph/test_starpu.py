"""Schedulers of StarPU, simulated here and there: the same kernels, the same bus, the same order of merit.

Two things are not in this family's scenarios and are put in by hand. The devices share one bus, so that each link has
an equal part of its bandwidth. And an application tells StarPU how urgent its tasks are; here that is the longest path.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slipstream
from slipstream.families.taskgraph.build import compiled_scenario

POLICIES = ("dm", "dmda", "dmdar", "dmdas")
STARPU_MS = {
    (10, 2, 0): (186, 178, 175, 165),
    (10, 4, 0): (220, 164, 155, 150),
    (10, 2, 2): (152, 154, 153, 142),
    (10, 1, 3): (215, 216, 216, 205),
    (20, 1, 0): (1470, 1470, 1470, 1470),
}
"""Makespans that StarPU's own schedulers reach in SimGrid with these tables, by tiles in a row, GPUs and CPUs."""
TOLD_APART = 1.02
"""Makespans that differ by less say nothing about the order of two schedulers."""
MODELS = {name: f"chol_model_{name.lower()}" for name in ("POTRF", "TRSM", "SYRK", "GEMM")}


def sirocco(path: Path, n: int, gpus: int, cpus: int) -> dict[str, Any]:
    """Return a Cholesky on a part of the machine that StarPU measured; links are the mean of its devices' parts."""
    bus = json.loads(path.read_text())["bus"]["sirocco"]
    bandwidth, latency = np.array(bus["bandwidth"]), np.array(bus["latency"])
    devices = np.arange(1, 1 + gpus)
    others = ~np.eye(gpus, dtype=bool)

    def link(rows: Any, columns: Any, where: Any = True) -> dict[str, float]:
        part = np.ix_(np.atleast_1d(rows), np.atleast_1d(columns))
        return {
            "latency_us": float(latency[part][where].mean()),
            "bandwidth_mb_s": float(bandwidth[part][where].mean()) / gpus,
        }

    links = {"to_device": link(0, devices), "to_host": link(devices, 0)}
    if gpus > 1:
        links["peer"] = link(devices, devices, others)
    return {
        "family": "taskgraph",
        "processors": [
            {"name": "gpu", "count": gpus, "device": True},
            *([{"name": "cpu", "count": cpus}] if cpus else []),
        ],
        "links": links,
        "durations": {"kind": "profile", "path": str(path), "machine": "sirocco", "kernels": MODELS},
        "graphs": [{"kind": "cholesky", "n": n}],
        "mode": "push",
        "pipeline": 2,
        "prefetch": 2,
    }


@pytest.fixture
def tables(shared_data: Path) -> Path:
    path = shared_data / "taskgraph" / "starpu_perfmodels" / "starpu_perfmodels.json"
    if not path.is_file():
        pytest.skip("the measurements of StarPU are not among the shared data")
    return path


def take_priorities(scenario: Any, n: int) -> None:
    """Let tasks be as urgent as StarPU's own Cholesky says: by the step, and by how far from the diagonal they are."""
    urgencies = []
    for name in compiled_scenario(scenario).library.templates[0].task_names():
        *others, step = map(int, name.split()[1:])
        urgencies.append(3 * n - 2 * step - sum(others))
    compiled_scenario(scenario).spec["tasks"]["rank"] = urgencies


@pytest.mark.parametrize("case", STARPU_MS)
def test_makespans_are_those_of_starpu_and_so_is_their_order(tables: Path, case: tuple[int, int, int]) -> None:
    theirs = STARPU_MS[case]
    scenario = slipstream.load(sirocco(tables, *case))
    take_priorities(scenario, case[0])
    ours = [slipstream.evaluate(scenario, policy, 1, 0).mean("makespan_ms") for policy in POLICIES]
    assert np.allclose(ours, theirs, rtol=0.1)
    for one, other in itertools.permutations(range(len(POLICIES)), 2):
        if theirs[one] > TOLD_APART * theirs[other]:
            assert ours[one] > ours[other], (POLICIES[one], POLICIES[other])
