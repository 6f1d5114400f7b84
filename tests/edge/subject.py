"""The edge family as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.edge import features
from slipstream.families.edge.family import FAMILY
from slipstream.families.edge.invariants import check
from slipstream.policies.base import Heuristic, find
from slipstream.sim.eventlog import MOVE
from slipstream.sim.kernel import rng
from tests.edge.cases import scenario, share, task, trace
from tests.reference import edge as reference
from tests.strategies import edge_scenarios
from tests.subjects import Effort, Subject

EVERYTHING = scenario(
    200,
    [
        task({"kind": "periodic", "period_ms": 9, "phase_ms": 1, "jitter_ms": 3}, [2, 5], 12, demand=0.7),
        task({"kind": "poisson", "mean_gap_ms": 11}, [3, 4], 20),
        task(
            {"kind": "bursty", "calm_gap_ms": 15, "burst_gap_ms": 3, "calm_ms": 30, "burst_ms": 10}, [2], 9, demand=2.0
        ),
        task({"kind": "closed", "think_ms": 4}, [1, 6], 30),
        task(trace(3, 3, 50), [4], 25),
    ],
    streams=2,
    interference=share(1.25),
    latency={"kind": "lognormal", "cv": 0.3},
    decision_time_ms=0.05,
)


def by_urge(row: np.ndarray) -> float:
    """Score drop and wait rows too: drop what is about to be late, and wait where something comes soon."""
    return (
        row[features.DISPATCH] * (row[features.SLACK] - row[features.CORUN_LATENCY])
        + row[features.DROP] * (row[features.FASTEST_LATENCY] - row[features.SLACK])
        + row[features.WAIT] * (2e6 - row[features.NEXT_ARRIVAL])
    )


def never_moved(row: np.ndarray) -> float:
    """Score all rows alike: the tie goes to the lowest legal row."""
    return 1.0 + 0.0 * row[features.WAIT]


def quickest(row: np.ndarray) -> float:
    """Score dispatch rows by a column that is written on demand."""
    return row[features.RUNNING] * 1e6 - row[features.CORUN_LATENCY]


def soonest(row: np.ndarray) -> float:
    """Score all rows, drop and wait included."""
    return row[features.NEXT_ARRIVAL] - row[features.SLACK]


def compare_numbers() -> None:
    """Assert that keys and seeds are those of the reference."""
    for number in range(5):
        word = np.uint64(reference.bits(1, number))
        assert int(rng.next_seed(number)) == reference.next_seed(number)
        assert int(rng.bits(word, number)) == reference.bits(int(word), number)


SUBJECT = Subject(
    family=FAMILY,
    reference=reference.ReferenceEdge,
    scenarios=edge_scenarios,
    check_laws=check,
    logged=range(MOVE),
    small="edge/tiny",
    busy="edge/overload",
    shown=("edge/heavy", "edge/overload", "edge/drone"),
    everything=EVERYTHING,
    played=("edf-fit", "random", "fifo"),
    own_policies=(
        Heuristic("by-urge", "edge", by_urge, is_rule=True, scores_all_rows=True),
        Heuristic("never-moved", "edge", never_moved, is_rule=True, scores_all_rows=True),
    ),
    killing_policies=(
        find("edf-fit", "edge"),
        find("edf", "edge"),
        Heuristic("quickest", "edge", quickest, is_rule=True),
        Heuristic("soonest", "edge", soonest, is_rule=True, scores_all_rows=True),
    ),
    compare_more=compare_numbers,
    effort=Effort(
        thorough=2000,
        brief=100,
        per_policy=100,
        observed=200,
        observed_choices=200,
        built_in_choices=500,
        killing=(150, 30),
        killing_choices=80,
        killing_observed_choices=80,
        killing_observe_every=4,
    ),
)
