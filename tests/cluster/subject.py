"""The cluster family as the tests of all families see it."""

from __future__ import annotations

import numpy as np

from slipstream.families.cluster import features
from slipstream.families.cluster.family import FAMILY
from slipstream.families.cluster.invariants import LOGGED, check
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.cluster.cases import CASES
from tests.cluster.strategies import cluster_scenarios
from tests.kernels import log_rows, play_reference
from tests.reference.cluster_rows import ReferenceCluster
from tests.strategies import often_eager_action
from tests.subjects import Effort, Subject

EVERYTHING = {
    "family": "cluster",
    "nodes": [
        {"name": "new", "count": 2, "gpus": 4, "speed": 1.5, "caps": "v100"},
        {"name": "old", "count": 3, "gpus": 2, "rack_size": 2, "caps": "a40"},
    ],
    "placement": "best-fit",
    "locality": {"nodes": 1.1, "racks": 1.3},
    "quotas": {"user 1": 9},
    "preemption": {"cost_s": 5.0, "round_s": 60.0},
    "power": {"budget_w": 2600.0},
    "jobs": {"kind": "synthetic", "jobs": 60, "mean_gap_s": 30.0, "mean_run_s": 200.0, "most_overestimate": 2.0},
    "episode": {"jobs": 25},
}


def smallest_rank(row: np.ndarray) -> float:
    """Score rows by their rank, and waiting in between."""
    return -row[features.RANK] - 1.5 * row[features.WAIT]


def compare_fast_path() -> None:
    """Assert that the cases worked out by hand go the same on the fast path as in the reference."""
    policy = find("fifo", "cluster")
    assert isinstance(policy, Heuristic)
    for case in CASES:
        made = load(case.scenario)
        assert log_rows(Simulator(made).play(policy, 7)) == play_reference(ReferenceCluster(made, 7), policy), case.name


SUBJECT = Subject(
    family=FAMILY,
    reference=ReferenceCluster,
    scenarios=cluster_scenarios,
    check_laws=check,
    logged=LOGGED,
    small="cluster/tiny",
    busy="cluster/bursty",
    shown=("cluster/tiny", "cluster/light"),
    everything=EVERYTHING,
    played=("saf", "srsf", "random"),
    own_policies=(Heuristic("smallest-rank", "cluster", smallest_rank, is_rule=True, scores_all_rows=True),),
    killing_policies=(find("saf", "cluster"), find("wfp3", "cluster"), find("fifo", "cluster")),
    act=often_eager_action,
    compare_more=compare_fast_path,
    effort=Effort(
        thorough=250,
        brief=20,
        per_policy=8,
        observed=40,
        observed_choices=40,
        built_in_choices=20,
        observe_every=2,
        watched=500,
        killing_observe_every=2,
    ),
)
