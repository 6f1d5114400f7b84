"""A cluster reference that notes which of its rules came into play, so that the drawn scenarios leave none out."""

from __future__ import annotations

from collections import Counter

from slipstream.families.cluster.scenario import ClusterScenario
from tests.reference.cluster_rows import ReferenceCluster


class Watched(ReferenceCluster):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: ClusterScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def start(self, job, level, place):  # type: ignore[no-untyped-def]
        self.seen["a job passes the reserved one"] += self.reserved is not None
        self.seen["a cap"] += level > 0
        self.seen["several nodes"] += len(place) > 1
        self.seen["a job goes on"] += job.interrupted > 0
        self.seen["a node wakes"] += any(self.sleeps(node) for node, _ in place) and not self.flat
        self.seen["a GPU is shared"] += self.slices > 1 and job.gpus % self.slices > 0
        self.seen["the gradient decides"] += self.scenario.placement == "fgd"
        super().start(job, level, place)

    def run(self, job, level, place, since, setup):  # type: ignore[no-untyped-def]
        self.seen["a job runs at the beginning"] += job.began is not None
        super().run(job, level, place, since, setup)

    def is_safe(self, job, level, place):  # type: ignore[no-untyped-def]
        safe = super().is_safe(job, level, place)
        self.seen["safe" if safe else "not safe"] += 1
        return safe

    def may_be_chosen(self, job, level):  # type: ignore[no-untyped-def]
        allowed = super().may_be_chosen(job, level)
        self.seen["not allowed by quota or budget"] += not allowed
        return allowed

    def fitting_place(self, job, level):  # type: ignore[no-untyped-def]
        place = super().fitting_place(job, level)
        if place is None and self.place_for(job.gpus, self.running) is not None:
            self.seen["no power left"] += 1
        return place

    def give_slot(self, job, level):  # type: ignore[no-untyped-def]
        super().give_slot(job, level)
        self.seen["a slot in the future"] += self.slots[job.number][0] > self.now

    def backfill_compat(self):  # type: ignore[no-untyped-def]
        before = len(self.running)
        super().backfill_compat()
        self.seen["the published backfilling"] += len(self.running) > before

    def rows_of_choice(self):  # type: ignore[no-untyped-def]
        shown, behind = super().rows_of_choice()
        self.seen["a window"] += bool(behind)
        return shown, behind


LEAST_SHARES = {
    "a job passes the reserved one": 0.05,
    "a job runs at the beginning": 0.1,
    "a cap": 0.15,
    "several nodes": 0.1,
    "a job goes on": 0.04,
    "a node wakes": 0.03,
    "a GPU is shared": 0.05,
    "the gradient decides": 0.05,
    "safe": 0.04,
    "not safe": 0.03,
    "not allowed by quota or budget": 0.05,
    "no power left": 0.05,
    "a slot in the future": 0.02,
    "the published backfilling": 0.01,
    "a window": 0.1,
}
"""In what share of the scenarios each rule comes into play at the least."""
