"""Constraints on trained policies: metrics that a policy may not pay for its reward with (`Family.constraints`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.families.contract import Constraint


@dataclass(frozen=True)
class ConstraintCheck:
    """A metric of a trained policy beside its limit, as means over the same episodes."""

    metric: str
    value: float
    """Mean of the trained policy."""
    heuristic_value: float
    """Mean of the best heuristic."""
    limit: float

    @property
    def excess(self) -> float:
        """Share of the limit by which the value is above it; 0 if the constraint is kept."""
        return max(0.0, self.value / self.limit - 1.0) if self.limit > 0.0 else max(0.0, self.value)

    @property
    def kept(self) -> bool:
        """Whether the value is within its limit."""
        return self.excess == 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON-ready data."""
        return {**asdict(self), "kept": self.kept}

    def words(self, heuristic: str) -> str:
        """Return the check in words."""
        return (
            f"{self.metric} {self.value:,.1f} against {self.heuristic_value:,.1f} of {heuristic}, "
            f"expected at most {self.limit:,.1f}"
        )


def check_constraints(
    constraints: Iterable[Constraint], trained: Mapping[str, np.ndarray], heuristic: Mapping[str, np.ndarray]
) -> tuple[ConstraintCheck, ...]:
    """Return the checks of `constraints` from the metrics of the policy and of the best heuristic, by episode."""
    checks = []
    for constraint in constraints:
        own, theirs = trained[constraint.metric], heuristic[constraint.metric]
        episodes = min(len(own), len(theirs))
        reference = float(theirs[:episodes].mean())
        value = float(own[:episodes].mean())
        checks.append(ConstraintCheck(constraint.metric, value, reference, constraint.limit(reference)))
    return tuple(checks)


def greatest_excess(checks: Iterable[ConstraintCheck]) -> float:
    """Return the greatest excess over a limit, 0 if all constraints are kept."""
    return max((check.excess for check in checks), default=0.0)
