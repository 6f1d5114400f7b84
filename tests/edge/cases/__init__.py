"""All cases worked out by hand, and what they are made of."""

from __future__ import annotations

from tests.edge.cases import batches, interference, memory, plain, power, preemption, profile
from tests.edge.cases.case import Case, check, scenario, share, task, trace

CASES = [
    *plain.CASES,
    *interference.CASES,
    *memory.CASES,
    *preemption.CASES,
    *power.CASES,
    *profile.CASES,
    *batches.CASES,
]

__all__ = ["CASES", "Case", "check", "scenario", "share", "task", "trace"]
