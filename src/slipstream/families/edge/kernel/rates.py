"""Interference, compiled: `allocate_rates` computes the rates of jobs that run at the same time.

`corunners` has one record per stream (`state.CORUNNER`): the jobs that run now, or those of a lookahead.
"""

from __future__ import annotations

from slipstream.families.edge.kernel.state import NO_INTERFERENCE, ROOFLINE, SHARE
from slipstream.jit.decorators import kernel

LEAST_RATE = 0.01
"""Least rate of a job below the highest priority, so that it finishes."""


@kernel
def set_corunner(spec, corunner, task, variant):
    """Set the record of a stream to a job of `variant` of `task`, or to idle (task -1)."""
    corunner.task = task
    if task >= 0:
        chosen = spec.variants[task, variant]
        corunner.variant = variant
        corunner.demand = chosen.demand
        corunner.compute = chosen.compute
        corunner.bandwidth = chosen.bandwidth


@kernel
def allocate_rates(spec, corunners):
    """Write the rate of each active co-runner."""
    device = spec.device[0]
    running = 0
    for stream in range(device.streams):
        running += corunners[stream].active
        corunners[stream].rate = 1.0
    if running < 2 or device.interference == NO_INTERFERENCE:
        return
    if device.interference == SHARE:
        share_throughput(spec, corunners)
    elif device.interference == ROOFLINE:
        share_rooflines(spec, corunners)
    else:
        multiply_slowdowns(spec, corunners)


@kernel
def share_throughput(spec, corunners):
    """Share the total throughput in proportion to demand, in order of priority rank."""
    device = spec.device[0]
    left = device.throughput
    for rank in range(device.priority_ranks):
        total, taken = 0.0, 0.0
        for stream in range(device.streams):
            if corunners[stream].active and spec.streams[stream].rank == rank:
                total += corunners[stream].demand
        least = LEAST_RATE if rank > 0 else 0.0
        for stream in range(device.streams):
            if corunners[stream].active and spec.streams[stream].rank == rank:
                corunners[stream].rate = max(least, min(1.0, left * corunners[stream].demand / total))
                taken += corunners[stream].rate
        left = max(0.0, left - taken)


@kernel
def share_rooflines(spec, corunners):
    """Slow the jobs of each priority rank down equally until neither arithmetic nor bandwidth exceeds its capacity."""
    device = spec.device[0]
    compute_left, bandwidth_left = 1.0, 1.0
    for rank in range(device.priority_ranks):
        compute, bandwidth = 0.0, 0.0
        for stream in range(device.streams):
            if corunners[stream].active and spec.streams[stream].rank == rank:
                compute += corunners[stream].compute
                bandwidth += corunners[stream].bandwidth
        rate = 1.0
        if compute > 0.0:
            rate = min(rate, compute_left / compute)
        if bandwidth > 0.0:
            rate = min(rate, bandwidth_left / bandwidth)
        if rank > 0:
            rate = max(LEAST_RATE, rate)
        for stream in range(device.streams):
            if corunners[stream].active and spec.streams[stream].rank == rank:
                corunners[stream].rate = rate
        compute_left = max(0.0, compute_left - rate * compute)
        bandwidth_left = max(0.0, bandwidth_left - rate * bandwidth)


@kernel
def multiply_slowdowns(spec, corunners):
    """Divide each rate by the measured slowdowns of all co-runners."""
    variants = spec.variants.shape[1]
    for stream in range(spec.device[0].streams):
        if corunners[stream].active:
            row = corunners[stream].task * variants + corunners[stream].variant
            rate = 1.0
            for other in range(spec.device[0].streams):
                if other != stream and corunners[other].active:
                    rate /= spec.slowdowns[row, corunners[other].task * variants + corunners[other].variant]
            corunners[stream].rate = rate
