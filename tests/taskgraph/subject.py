"""The taskgraph family as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph import features
from slipstream.families.taskgraph.family import FAMILY
from slipstream.families.taskgraph.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from tests.reference.taskgraph_rows import ReferenceTaskgraph
from tests.subjects import Effort, Subject
from tests.taskgraph.strategies import taskgraph_scenarios

EVERYTHING = {
    "family": "taskgraph",
    "processors": [{"name": "gpu", "count": 2, "device": True, "memory_mb": 20.0}, {"name": "cpu", "count": 1}],
    "links": {"to_device": {"bandwidth_mb_s": 2000.0}, "to_host": {"bandwidth_mb_s": 2000.0, "latency_us": 9.0}},
    "noise": {"kind": "lognormal", "cv": 0.3},
    "graphs": [{"kind": "cholesky", "n": 4}, {"kind": "qr", "n": 3}],
    "arrivals": {"kind": "poisson", "jobs": 4, "mean_gap_ms": 30.0},
    "visibility": {"kind": "window", "tasks": 12},
    "mode": "push",
    "pipeline": 2,
    "prefetch": 2,
    "eviction": "luf",
}


def longest_first(row: np.ndarray) -> float:
    """Score tasks by their rank, and waiting in between."""
    return row[features.RANK] * (1.0 - row[features.WAIT]) + 4e6 * row[features.WAIT]


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceTaskgraph,
    scenarios=taskgraph_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="taskgraph/cholesky-4-2g2c",
    busy="taskgraph/unrolled",
    shown=("taskgraph/wait-for-reuse", "taskgraph/cholesky-4-2g2c", "taskgraph/tight-memory", "taskgraph/unrolled"),
    everything=EVERYTHING,
    played=("dmda", "random", "heft"),
    own_policies=(
        Heuristic("longest-first", "taskgraph", longest_first, is_rule=True, scores_all_rows=True),
        Heuristic("first", "taskgraph", lambda row: row[features.DISPATCH], is_rule=True),
    ),
    killing_policies=(
        find("peft", "taskgraph"),
        Heuristic("longest-first", "taskgraph", longest_first, is_rule=True, scores_all_rows=True),
    ),
    effort=Effort(observe_every=2, killing_observed_choices=25),
)
