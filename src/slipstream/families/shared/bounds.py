"""How good a policy could have been: the place of the hindsight optimum, proven or bracketed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def share_of_bound(reward: float, bound: float) -> float:
    """Return how near a reward comes to a bound: 1 is as good as anybody could have been, also where both are costs."""
    if bound > 0.0:
        return reward / bound
    return bound / reward if reward < 0.0 else 0.0


@dataclass(frozen=True)
class OptimumBounds:
    """The best reward of one episode, all arrivals known: somewhere from `best_known` to `bound`."""

    best_known: float
    """A reward that was reached, by a schedule played in the simulator."""
    bound: float
    """A reward that no policy can exceed, proven."""
    exact: bool
    """Whether the two meet."""
    source: str
    """What reached `best_known`: the name of a policy, or what solved it, such as 'schedule' or 'search'."""
    method: str
    """What proved the bound, such as 'relaxation', 'schedule' or 'search'."""
    seconds: float
    """Time it took."""

    def place(self, reward: float) -> float:
        """Return how near a reward comes to the bound; 1 is as good as anybody could have been."""
        return share_of_bound(reward, self.bound)

    def to_dict(self) -> dict[str, Any]:
        """Return the bracket as JSON-ready data."""
        return {
            "best_known": self.best_known,
            "bound": self.bound,
            "exact": self.exact,
            "source": self.source,
            "method": self.method,
            "seconds": self.seconds,
        }
