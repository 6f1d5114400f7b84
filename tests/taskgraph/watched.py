"""A taskgraph reference that notes which of its rules came into play, so that the drawn scenarios leave none out."""

from __future__ import annotations

from collections import Counter

from slipstream.families.taskgraph.scenario import TaskgraphScenario
from tests.reference.taskgraph_rows import ReferenceTaskgraph


class Watched(ReferenceTaskgraph):
    """A reference that notes which of its rules came into play."""

    def __init__(self, scenario: TaskgraphScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(scenario, seed)

    def _free_memory(self, device, tile, k):  # type: ignore[no-untyped-def]
        fits = super()._free_memory(device, tile, k)
        self.seen["a write-back is needed"] += device.write_back is not None
        self.seen["no room for now"] += not fits
        return fits

    def _forget(self, tile, node):  # type: ignore[no-untyped-def]
        self.seen["a copy is lost"] += 1
        super()._forget(tile, node)

    def _carry(self, device, which, tile):  # type: ignore[no-untyped-def]
        self.seen[("load", "send", "peer")[which]] += 1
        super()._carry(device, which, tile)

    def rows_of_choice(self):  # type: ignore[no-untyped-def]
        shown, behind = super().rows_of_choice()
        self.seen[f"phase {self.phase}"] += 1
        self.seen["a window"] += bool(behind)
        return shown, behind


LEAST_SHARES = {
    "a write-back is needed": 0.05,
    "no room for now": 0.1,
    "a copy is lost": 0.3,
    "load": 0.3,
    "send": 0.1,
    "peer": 0.05,
    "phase 0": 0.5,
    "phase 1": 0.2,
    "phase 2": 0.05,
    "a window": 0.15,
}
"""In what share of the scenarios each rule comes into play at the least."""
