"""Noise of the machine: the load of other programs, and the jitter of a reference computation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slipstream.families.edge.workload.measured import Noise

MOST_OTHERS, MOST_SPREAD = 0.05, 0.25
"""Fixed noise limits of a quiet machine: the share of processor time of other programs, and the relative spread of the
median variant's latencies."""
SAMPLE_S = 0.25
"""Duration of a sample of the load of other programs."""
SIDE, PRODUCTS = 64, 400
"""Reference computation: PRODUCTS products of SIDE x SIDE matrices, which fit the first-level cache; a few ms."""
REFERENCE_REPEATS = 10
"""Timed repetitions of the reference computation per core."""


def _ticks() -> tuple[int, int]:
    """Return the total and the idle processor time in ticks; time stolen by the host is not idle."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[3] + fields[4]


def others_share() -> float:
    """Sleep for a moment; return the share of processor time that other programs used meanwhile."""
    try:
        total, idle = _ticks()
    except (OSError, ValueError, IndexError):
        time.sleep(SAMPLE_S)
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    time.sleep(SAMPLE_S)
    total_after, idle_after = _ticks()
    spent = total_after - total
    return 1.0 - (idle_after - idle) / spent if spent > 0 else 0.0


def time_reference_kernel(cores: Iterable[int]) -> list[list[float]]:
    """Return the times of a reference computation in ms, by core and repetition.

    It uses only the first-level cache and no system calls, so that it varies only with the machine: its clock
    frequency, load on the core's other hardware thread, time stolen by the host.
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
    for _ in range(1 + REFERENCE_REPEATS):
        began = time.perf_counter_ns()
        for _ in range(PRODUCTS):
            np.matmul(matrix, matrix, product)
        times.append((time.perf_counter_ns() - began) / 1e6)
    return times[1:]  # the first one loads code and matrix into the cache


def spread_of(times: np.ndarray) -> float:
    """Return the spread of `times` from the 10th to the 90th percentile, relative to their median."""
    return float(np.subtract(*np.percentile(times, (90, 10))) / np.median(times))


def noise_of(others: list[float], latencies: list[np.ndarray], reference_times: list[list[list[float]]]) -> Noise:
    """Return the noise from samples of other programs' load, latencies of each variant, and reference times."""
    mean, spread = float(np.mean(others)), float(np.median([spread_of(one) for one in latencies]))
    quiet = mean <= MOST_OTHERS and spread <= MOST_SPREAD
    by_core = [np.concatenate(times) for times in zip(*reference_times, strict=True)]
    machine = float(np.median([spread_of(times) for times in by_core])) if by_core else None
    return Noise(others=mean, others_worst=float(max(others)), spread=spread, machine_spread=machine, quiet=quiet)
