"""With Gavel's rules and traces the figures are those of Gavel's simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipstream.families.elastic.metrics import metrics
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "cluster" / "gavel"
if not DATA.is_dir():
    DATA = ROOT.parents[1] / "shared" / "data" / "cluster" / "gavel"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the traces of Gavel are not here: ../shared/data/cluster/gavel"
)

KINDS = [{"name": "v100", "gpus": 8}, {"name": "p100", "gpus": 16}, {"name": "k80", "gpus": 24}]


def played(trace: str, policy: str) -> dict[str, float]:
    scenario: Any = load(
        {
            "family": "elastic",
            "kinds": KINDS,
            "jobs": {
                "kind": "gavel",
                "path": str(DATA / "physical_cluster" / trace),
                "throughputs": {"path": str(DATA / "simulation_throughputs.json")},
            },
            "round_s": 360.0,
            "compat": "gavel",
        }
    )
    return metrics(scenario, Simulator(scenario).play(find(policy, "elastic"), 0))


def test_first_come_first_served_takes_as_long_as_published() -> None:
    found = played("max_min_fairness.trace", "gavel-fifo")
    assert found["jct_mean_s"] == pytest.approx(35_905, rel=0.001)
    assert found["makespan_s"] == pytest.approx(196_524, abs=1.0)


@pytest.mark.parametrize(
    ("policy", "jct", "makespan"),
    [("max-min", 14_623, 63_945), ("water-filling", 14_378, 64_592), ("finish-time-fair", 15_010, None)],
)
def test_linear_programs_come_within_a_hundredth(policy: str, jct: float, makespan: float | None) -> None:
    found = played("max_min_fairness.trace", policy)
    assert found["jct_mean_s"] == pytest.approx(jct, rel=0.01)
    assert makespan is None or found["makespan_s"] == pytest.approx(makespan, rel=0.01)


def test_the_makespan_program_ends_as_early_within_a_hundredth() -> None:
    assert played("max_min_fairness.trace", "min-makespan")["makespan_s"] == pytest.approx(61_513, rel=0.01)
