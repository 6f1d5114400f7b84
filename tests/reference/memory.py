"""Which weights are on the device."""

from __future__ import annotations

Weights = tuple[int, int]
"""Task and variant: what the weights belong to."""


class Memory:
    """The weights on the device, from those used least recently to those used last.

    Weights that are being loaded are on the device too, but not ready before `ready_at`.
    """

    def __init__(self, limit_kb: int | None, sizes_kb: dict[Weights, int]) -> None:
        self.limit_kb = limit_kb
        self.sizes_kb = sizes_kb
        self.there: list[Weights] = []
        self.ready_at: dict[Weights, int] = {}

    def taken_kb(self, weights: list[Weights] | set[Weights]) -> int:
        """Return the size of all of these."""
        return sum(self.sizes_kb[one] for one in weights)

    def fits(self, weights: Weights, in_use: set[Weights]) -> bool:
        """Return whether a start could bring the weights here, with everything evicted that is not in use."""
        if self.limit_kb is None or weights in self.there:
            return True
        return self.sizes_kb[weights] + self.taken_kb(in_use) <= self.limit_kb

    def make_room(self, weights: Weights, in_use: set[Weights]) -> list[Weights]:
        """Evict until there is room for the weights, and return what had to go."""
        evicted: list[Weights] = []
        if self.limit_kb is None:
            return evicted
        while self.taken_kb(self.there) + self.sizes_kb[weights] > self.limit_kb:
            oldest = next(one for one in self.there if one not in in_use)
            self.there.remove(oldest)
            evicted.append(oldest)
        return evicted

    def bring(self, weights: Weights, ready_at: int) -> None:
        """Put weights there that were not."""
        self.there.append(weights)
        self.ready_at[weights] = ready_at

    def use(self, weights: Weights) -> None:
        """Make these the ones used last."""
        self.there.remove(weights)
        self.there.append(weights)

    def free_share(self) -> float:
        """Return what all weights there leave of the memory."""
        if self.limit_kb is None:
            return 1.0
        return (self.limit_kb - self.taken_kb(self.there)) / self.limit_kb
