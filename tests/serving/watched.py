"""A serving reference that notes which of its rules came into play, so that the drawn scenarios leave none out."""

from __future__ import annotations

from collections import Counter

from slipstream.families.serving.scenario import ServingScenario
from tests.reference.serving_rows import ReferenceServing


class Watched(ReferenceServing):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: ServingScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def write(self, kind, task, job, variant, resource):  # type: ignore[no-untyped-def]
        self.seen[f"log {kind}"] += 1
        super().write(kind, task, job, variant, resource)

    def free(self, column):  # type: ignore[no-untyped-def]
        hosting = [a for a in self.accelerators if a.column is column]
        self.seen["requests move"] += bool(min(len(a.queue) for a in hosting))
        self.seen["a load is given up"] += any(a.must_load for a in hosting)
        super().free(column)

    def ring(self, a):  # type: ignore[no-untyped-def]
        self.seen["an alarm" if a.can_start else "an alarm while busy"] += 1
        super().ring(a)

    def start(self, a, requests, size):  # type: ignore[no-untyped-def]
        self.seen["a batch"] += requests > 1
        self.seen["a batch that is not full"] += requests < size
        super().start(a, requests, size)


LEAST_SHARES = {
    "log 4": 0.4,
    "log 5": 0.2,
    "log 8": 0.9,
    "log 9": 0.5,
    "requests move": 0.05,
    "a load is given up": 0.05,
    "an alarm": 0.05,
    "an alarm while busy": 0.03,
    "a batch": 0.3,
    "a batch that is not full": 0.01,
}
"""In what share of the scenarios each rule comes into play at the least."""
