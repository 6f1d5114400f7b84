"""How good a policy could have been: the place of the hindsight optimum, proven or bracketed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bracket:
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
        """Return a reward as a share of the bound's distance from 0; 1 is as good as anybody could have been."""
        return reward / self.bound if self.bound > 0 else 0.0

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
