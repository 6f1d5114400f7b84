"""How quiet the machine is: what other programs take of it while we take nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slipstream.families.edge.workload.measured import Noise

MOST_OTHERS, MOST_SPREAD = 0.05, 0.25
"""The noise gate, fixed beforehand: a machine is quiet if others take at most this share of it, and latencies of the
median variant spread by at most so much of themselves."""
WINDOW_S = 0.25
"""For how long we hold still to look at the others."""
SIDE, PRODUCTS = 64, 400
"""The yardstick: so many products of matrices so large, which stay in the innermost cache; a few milliseconds."""
YARDSTICKS = 10
"""Times that it is laid on each core at one look."""


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


def yardstick(cores: Iterable[int]) -> list[list[float]]:
    """Return how many ms a fixed piece of arithmetic took on each core, time after time.

    It touches no memory but the innermost cache and asks nothing of the system, so that it varies only as the machine
    does: by its clock, by a neighbour on the other thread of the core, by a host that takes the core away.
    """
    if sys.platform != "linux":
        return [_timed_products()]
    before = os.sched_getaffinity(0)
    try:
        found = []
        for core in cores:
            os.sched_setaffinity(0, [core])
            found.append(_timed_products())
        return found
    finally:
        os.sched_setaffinity(0, before)


def _timed_products() -> list[float]:
    matrix = np.full((SIDE, SIDE), 1 / SIDE, np.float32)
    product = np.empty_like(matrix)
    times = []
    for _ in range(1 + YARDSTICKS):
        began = time.perf_counter_ns()
        for _ in range(PRODUCTS):
            np.matmul(matrix, matrix, product)
        times.append((time.perf_counter_ns() - began) / 1e6)
    return times[1:]  # the first has to fetch code and matrix


def spread_of(times: np.ndarray) -> float:
    """Return by how much of their median times spread, from the 10th to the 90th percentile."""
    return float(np.subtract(*np.percentile(times, (90, 10))) / np.median(times))


def noise_of(others: list[float], latencies: list[np.ndarray], yardsticks: list[list[list[float]]]) -> Noise:
    """Return what was seen in some moments of rest, and in the latencies of each variant."""
    mean, spread = float(np.mean(others)), float(np.median([spread_of(one) for one in latencies]))
    quiet = mean <= MOST_OTHERS and spread <= MOST_SPREAD
    by_core = [np.concatenate(times) for times in zip(*yardsticks, strict=True)]
    machine = float(np.median([spread_of(times) for times in by_core])) if by_core else None
    return Noise(others=mean, others_worst=float(max(others)), spread=spread, machine_spread=machine, quiet=quiet)
