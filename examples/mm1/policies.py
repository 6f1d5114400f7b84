"""Heuristics of the queue."""

import numpy as np

from mm1.features import ENERGY, SERVICE, WAITING
from slipstream.policies.base import chooser, rule


@rule("mm1")
def slow(row: np.ndarray) -> float:
    """Serve every job with the least energy."""
    return -row[ENERGY]


@rule("mm1")
def fast(row: np.ndarray) -> float:
    """Serve every job in the least time."""
    return -row[SERVICE]


@chooser("mm1")
def hurry(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Serve fast while three jobs or more wait, else slowly."""
    return 1 if globals_row[WAITING] >= 3 else 0
