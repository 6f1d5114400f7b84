"""Counters of a driven engine: steps, decisions and the time they took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

KEPT_TIMES = 1 << 16
"""Decision times that are kept, the latest."""


@dataclass
class Counters:
    """What an engine has done under a policy."""

    steps: int = 0
    tokens: int = 0
    """Scheduled tokens of all steps."""
    preemptions: int = 0
    admissions: int = 0
    """Decisions about the next request to admit."""
    levels: int = 0
    """Decisions about token budget and free blocks."""
    evictions: int = 0
    """Decisions about the request to preempt."""
    waits: int = 0
    """Decisions to admit nothing more, or to leave the choice to the engine."""
    failures: int = 0
    """Errors, after which vLLM's own order applies."""
    _times: np.ndarray = field(default_factory=lambda: np.zeros(KEPT_TIMES, np.int64))

    @property
    def decisions(self) -> int:
        """All decisions."""
        return self.admissions + self.levels + self.evictions

    def count(self, duration_ns: int) -> None:
        """Keep the time of a decision."""
        self._times[self.decisions % KEPT_TIMES] = duration_ns

    def summary(self) -> dict[str, Any]:
        """Return all counters, and percentiles of the decision time in microseconds."""
        counts = {name: value for name, value in asdict(self).items() if not name.startswith("_")}
        known = self._times[self._times > 0]
        times = {
            f"decision_us_{name}": float(np.percentile(known, share)) / 1e3 if len(known) else 0.0
            for name, share in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100))
        }
        return counts | {"decisions": self.decisions} | times
