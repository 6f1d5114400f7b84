"""The dag family as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.dag import features
from slipstream.families.dag.family import FAMILY
from slipstream.families.dag.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from tests.dag.strategies import dag_scenarios
from tests.reference.dag_rows import ReferenceDag
from tests.strategies import often_eager_action
from tests.subjects import Effort, Subject

EVERYTHING = {
    "family": "dag",
    "executors": 4,
    "classes": [{"name": "a", "count": 1, "speed": 2.0}, {"name": "b", "count": 3, "speed": 0.7}],
    "arrivals": {"kind": "poisson", "jobs": 6, "mean_gap_s": 20.0, "initial_jobs": 2},
    "jobs": {"kind": "ml-workflow", "templates": 2, "most_trials": 3},
    "stragglers": {"probability": 0.1},
    "failures": {"probability": 0.1},
    "reward": {"discount_per_s": 0.01},
}


def longest_first(row: np.ndarray) -> float:
    """Score stages by their path, numbers of executors by being small, and stopping in between."""
    return row[features.PATH] * (1.0 - row[features.WAIT]) - row[features.COUNT] + 3e9 * row[features.WAIT]


def soonest(row: np.ndarray) -> float:
    """Score stages by their path, and stopping at 2 s of it."""
    return row[features.PATH] - 2e9 * row[features.WAIT]


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceDag,
    scenarios=dag_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="dag/tiny",
    busy="dag/small",
    shown=("dag/tiny", "dag/ml-workflow"),
    everything=EVERYTHING,
    played=("fair", "random", "srpt(2)"),
    own_policies=(
        find("srpt(2)", "dag"),
        Heuristic("longest-first", "dag", longest_first, is_rule=True, scores_all_rows=True),
        Heuristic("first", "dag", lambda row: row[features.DISPATCH], is_rule=True),
    ),
    killing_policies=(
        find("fair", "dag"),
        Heuristic("soonest", "dag", soonest, is_rule=True, scores_all_rows=True),
    ),
    act=often_eager_action,
    effort=Effort(brief=60, per_policy=60, observed=200, observed_choices=200, many=10_000, watched=600),
)
