"""How jobs that run side by side slow each other down, compiled: `share_out` gives each its rate.

A crew has one record per stream (`state.CREW`): the jobs as they run now, or as a look ahead sees them.
"""

from __future__ import annotations

from slipstream.families.edge.kernel.state import NO_INTERFERENCE, ROOFLINE, SHARE
from slipstream.jit.decorators import kernel

LEAST_RATE = 0.01
"""What a job gets at least on a level below the highest, so that it comes to an end."""


@kernel
def join_crew(spec, member, task, variant):
    """Let a job of a variant stand on a stream, or nobody (-1)."""
    member.task = task
    if task >= 0:
        chosen = spec.variants[task, variant]
        member.variant = variant
        member.demand = chosen.demand
        member.compute = chosen.compute
        member.bandwidth = chosen.bandwidth


@kernel
def share_out(spec, crew):
    """Write the rate that each job of a crew gets beside the others that run."""
    device = spec.device[0]
    running = 0
    for stream in range(device.streams):
        running += crew[stream].runs
        crew[stream].rate = 1.0
    if running < 2 or device.interference == NO_INTERFERENCE:
        return
    if device.interference == SHARE:
        share_throughput(spec, crew)
    elif device.interference == ROOFLINE:
        share_rooflines(spec, crew)
    else:
        multiply_slowdowns(spec, crew)


@kernel
def share_throughput(spec, crew):
    """Share the total throughput in proportion to demand, level by level."""
    device = spec.device[0]
    left = device.throughput
    for level in range(device.levels):
        total, taken = 0.0, 0.0
        for stream in range(device.streams):
            if crew[stream].runs and spec.streams[stream].level == level:
                total += crew[stream].demand
        least = LEAST_RATE if level > 0 else 0.0
        for stream in range(device.streams):
            if crew[stream].runs and spec.streams[stream].level == level:
                crew[stream].rate = max(least, min(1.0, left * crew[stream].demand / total))
                taken += crew[stream].rate
        left = max(0.0, left - taken)


@kernel
def share_rooflines(spec, crew):
    """Slow the jobs of a level down together, so far that neither arithmetic nor bandwidth is overdrawn."""
    device = spec.device[0]
    compute_left, bandwidth_left = 1.0, 1.0
    for level in range(device.levels):
        compute, bandwidth = 0.0, 0.0
        for stream in range(device.streams):
            if crew[stream].runs and spec.streams[stream].level == level:
                compute += crew[stream].compute
                bandwidth += crew[stream].bandwidth
        rate = 1.0
        if compute > 0.0:
            rate = min(rate, compute_left / compute)
        if bandwidth > 0.0:
            rate = min(rate, bandwidth_left / bandwidth)
        if level > 0:
            rate = max(LEAST_RATE, rate)
        for stream in range(device.streams):
            if crew[stream].runs and spec.streams[stream].level == level:
                crew[stream].rate = rate
        compute_left = max(0.0, compute_left - rate * compute)
        bandwidth_left = max(0.0, bandwidth_left - rate * bandwidth)


@kernel
def multiply_slowdowns(spec, crew):
    """Divide each rate by the measured slowdown beside every co-runner."""
    variants = spec.variants.shape[1]
    for stream in range(spec.device[0].streams):
        if crew[stream].runs:
            row = crew[stream].task * variants + crew[stream].variant
            rate = 1.0
            for other in range(spec.device[0].streams):
                if other != stream and crew[other].runs:
                    rate /= spec.slowdowns[row, crew[other].task * variants + crew[other].variant]
            crew[stream].rate = rate
