"""A reference of LLM engines that notes which of its rules came into play, so that the drawn scenarios omit none."""

from __future__ import annotations

from collections import Counter

from slipstream.families.llm.scenario import LlmScenario
from tests.reference.llm_rows import ReferenceLlm


class Watched(ReferenceLlm):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: LlmScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def write(self, kind, task, job, variant, resource):  # type: ignore[no-untyped-def]
        self.seen[f"log {kind}"] += 1
        super().write(kind, task, job, variant, resource)

    def ask(self, kind, engine):  # type: ignore[no-untyped-def]
        self.seen[f"asks {kind}"] += 1
        super().ask(kind, engine)

    def preempt(self, engine, request):  # type: ignore[no-untyped-def]
        self.seen["a request is preempted that is scheduled"] += request.scheduled > 0
        self.seen["a request is preempted with a token under way"] += request.under_way > 0
        super().preempt(engine, request)

    def admit(self, engine, request):  # type: ignore[no-untyped-def]
        hits = self.found(engine, request)
        admitted = super().admit(engine, request)
        self.seen["does not fit"] += not admitted
        self.seen["found in the cache"] += admitted and bool(hits)
        self.seen["found, and in use"] += admitted and any(one.users > 1 for one in hits)
        self.seen["resumes"] += admitted and request.preemptions > 0
        return admitted

    def finish(self, engine, request):  # type: ignore[no-untyped-def]
        self.seen["finishes while it waits"] += request in engine.waiting
        super().finish(engine, request)

    def end_step(self, engine):  # type: ignore[no-untyped-def]
        self.seen["a wasted token"] += any(one.done for one in engine.steps[0][4])
        super().end_step(engine)

    def launch(self, engine):  # type: ignore[no-untyped-def]
        self.seen["a step behind another"] += bool(engine.steps)
        super().launch(engine)


LEAST_SHARES = {
    "log 4": 0.05,
    "log 7": 0.1,
    "asks admit": 0.9,
    "asks level": 0.1,
    "asks evict": 0.03,
    "asks send": 0.05,
    "a request is preempted that is scheduled": 0.01,
    "a request is preempted with a token under way": 0.1,
    "does not fit": 0.15,
    "found in the cache": 0.2,
    "found, and in use": 0.1,
    "resumes": 0.1,
    "finishes while it waits": 0.005,
    "a wasted token": 0.1,
    "a step behind another": 0.4,
}
"""In what share of the scenarios each rule comes into play at the least."""
