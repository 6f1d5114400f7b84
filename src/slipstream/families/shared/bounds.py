"""Lower and upper bounds of the hindsight optimum of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def share_of_bound(reward: float, bound: float) -> float:
    """Return the ratio of `reward` to `bound`, inverted where both are costs: 1 means that the bound is reached."""
    if bound > 0.0:
        return reward / bound
    return bound / reward if reward < 0.0 else 0.0


@dataclass(frozen=True)
class OptimumBounds:
    """The best reward of one episode with all arrivals known lies between `best_known` and `bound`."""

    best_known: float
    """A reward that was reached, by a schedule played in the simulator."""
    bound: float
    """A reward that no policy can exceed, proven."""
    exact: bool
    """Whether the two are equal."""
    source: str
    """What reached `best_known`: the name of a policy, or what solved it, such as 'schedule' or 'search'."""
    method: str
    """What proved the bound, such as 'relaxation', 'schedule' or 'search'."""
    seconds: float
    """Computing time."""

    def share_of_bound(self, reward: float) -> float:
        """Return the ratio of `reward` to the bound; 1 means that it is reached."""
        return share_of_bound(reward, self.bound)

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as JSON-ready data."""
        return {
            "best_known": self.best_known,
            "bound": self.bound,
            "exact": self.exact,
            "source": self.source,
            "method": self.method,
            "seconds": self.seconds,
        }
