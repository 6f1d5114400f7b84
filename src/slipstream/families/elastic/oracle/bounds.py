"""Bound of the reward: no policy, not even one that knows all arrivals, has jobs spend less time.

A job alone takes its set-up and its work where it is fastest. And a kind does at most its own time of work in a second:
the least part of a kind's time that a job needs on any of its configurations is work for one server as fast as all
kinds, on which the shortest remaining work first, with preemption, has the least total time (Schrage, 1968).
"""

from __future__ import annotations

import numpy as np

from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.metrics import jobs_of
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.search import heuristic_bounds, least_flow


def bound(scenario: ElasticScenario, events: np.ndarray, _seed: int, _split: str) -> float:
    """Return an upper bound of the reward of any policy, given the jobs of an episode."""
    spec, jobs = compiled_scenario(scenario).spec, jobs_of(events)
    kinds, templates = spec["kinds"]["gpus"].astype(float), spec["templates"]
    needs = np.zeros(len(templates))
    for index, template in enumerate(templates):
        own = spec["configurations"][template["first"] : template["first"] + template["configurations"]]
        part = own["gpus"] / kinds[own["kind"]] / own["rate"]
        needs[index] = float(template["work"] * part.min()) * 1e9 / len(kinds)
    alone = templates["start"] + templates["work"] / templates["best"] * 1e9
    shared = least_flow(jobs.arrival, needs[jobs.template])
    return -scenario.reward.time * max(float(alone[jobs.template].sum()), shared) / 1e9


optimum_bounds = heuristic_bounds(bound, "fastest configurations and remaining work")
"""Return bounds of the best reward of an episode; every policy plays it, however long that takes."""
