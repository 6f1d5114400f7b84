"""How quiet the machine is: what other programs take of it while we take nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from slipstream.edge.measured import Noise

MOST_OTHERS, MOST_SPREAD = 0.05, 0.25
"""The noise gate, fixed beforehand: a machine is quiet if others take at most this share of it, and latencies of the
median variant spread by at most so much of themselves."""
WINDOW_S = 0.25
"""For how long we hold still to look at the others."""


def _ticks() -> tuple[int, int]:
    """Return the processor time that was spent at all, and that was spent idle; steal by other machines is not idle."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[3] + fields[4]


def others_share() -> float:
    """Hold still for a moment; return the share of processor time that others took meanwhile."""
    try:
        total, idle = _ticks()
    except (OSError, ValueError, IndexError):
        time.sleep(WINDOW_S)
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    time.sleep(WINDOW_S)
    total_after, idle_after = _ticks()
    spent = total_after - total
    return 1.0 - (idle_after - idle) / spent if spent > 0 else 0.0


def noise_of(others: list[float], latencies: list[np.ndarray]) -> Noise:
    """Return what was seen in some moments of rest, and in the latencies of each variant."""
    spreads = [np.subtract(*np.percentile(one, (90, 10))) / np.median(one) for one in latencies]
    mean, spread = float(np.mean(others)), float(np.median(spreads))
    quiet = mean <= MOST_OTHERS and spread <= MOST_SPREAD
    return Noise(others=mean, others_worst=float(max(others)), spread=spread, quiet=quiet)
