"""A dag reference that notes which of its rules came into play, so that the drawn scenarios leave none out."""

from __future__ import annotations

from collections import Counter

from slipstream.families.dag.scenario import DagScenario
from tests.reference.dag_rows import ReferenceDag


class Watched(ReferenceDag):
    """A reference that notes which of its rules came into play."""

    seen: Counter[str]

    def __init__(self, scenario: DagScenario, seed: int) -> None:
        self.seen = Counter()
        super().__init__(scenario, seed)

    def _another_stage(self, executor):  # type: ignore[no-untyped-def]
        found = super()._another_stage(executor)
        kind = "none" if found is None else "own" if found[0] is executor.job else "other"
        self.seen[f"another stage: {kind}"] += 1
        return found

    def _begin_round(self, source):  # type: ignore[no-untyped-def]
        kind = "common" if source[0] is None else "job" if source[1] is None else "stage"
        forced = not self.something_is_coming()
        begun = super()._begin_round(source)
        self.seen[f"{'' if begun else 'no '}round at {kind}"] += 1
        self.seen["forced round"] += begun and forced
        return begun

    def _keep(self, executor, promise):  # type: ignore[no-untyped-def]
        self.seen["a promise kept later"] += not self.in_round and self.source is None
        self.seen["home"] += promise.job is None
        super()._keep(executor, promise)

    def rows_of_stages(self):  # type: ignore[no-untyped-def]
        self.seen["a window"] += len(self.shown()) < len(self.active)
        return super().rows_of_stages()


LEAST_SHARES = {
    "another stage: none": 0.05,
    "another stage: own": 0.02,
    "another stage: other": 0.02,
    "round at common": 0.5,
    "round at job": 0.2,
    "round at stage": 0.2,
    "no round at stage": 0.2,
    "forced round": 0.05,
    "home": 0.2,
    "a window": 0.05,
}
"""In what share of the scenarios each rule comes into play at the least."""
