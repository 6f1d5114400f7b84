"""A reference of elastic jobs that notes which of its rules came into play, so that the drawn scenarios omit none."""

from __future__ import annotations

from collections import Counter

from slipstream.families.elastic.scenario import ElasticScenario
from tests.reference.elastic import ReferenceElastic


class Watched(ReferenceElastic):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: ElasticScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def write(self, kind, job, task, variant, resource):  # type: ignore[no-untyped-def]
        self.seen[f"log {kind}"] += 1
        super().write(kind, job, task, variant, resource)

    def begin_round(self):  # type: ignore[no-untyped-def]
        self.seen["a round without jobs"] += not any(job.next is not None for job in self.jobs)
        self.seen["a job keeps its GPUs"] += any(job.at is not None and job.at == job.next for job in self.jobs)
        self.seen["a set-up goes on"] += any(job.setting_up and job.at == job.next for job in self.jobs)
        self.seen["a set-up is interrupted"] += any(job.setting_up and job.at != job.next for job in self.jobs)
        self.seen["other GPUs"] += any(None not in (job.at, job.next) and job.at != job.next for job in self.jobs)
        self.seen["a job pauses"] += any(job.at is not None and job.next is None for job in self.jobs)
        super().begin_round()

    def start(self, job):  # type: ignore[no-untyped-def]
        self.seen["restart"] += job.started
        super().start(job)

    def ask(self):  # type: ignore[no-untyped-def]
        asks = super().ask()
        self.seen["waiting is not allowed"] += asks and not self.may_wait()
        self.seen["more rows than the window"] += asks and len(self.candidates()) > self.scenario.rows
        return asks


LEAST_SHARES = {
    "log 7": 0.2,
    "log 8": 0.3,
    "a round without jobs": 0.2,
    "a job keeps its GPUs": 0.3,
    "a set-up goes on": 0.01,
    "a set-up is interrupted": 0.01,
    "other GPUs": 0.15,
    "a job pauses": 0.1,
    "restart": 0.2,
    "waiting is not allowed": 0.5,
    "more rows than the window": 0.2,
}
"""In what share of the scenarios each rule comes into play at the least."""
