"""Arrival process of jobs drawn from templates, compiled: for families whose jobs are graphs or batches.

The spec has `arrivals`, rows of a trace, and `templates`; its machine record begins with `ARRIVAL_FIELDS`, and the lane
record has `STREAM_FIELDS`. Arrival time and template of a job are drawn by its number, so no policy can change them.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import exponential_time, stream_key, uniform

BATCH, POISSON, TRACE = range(3)
"""Arrival processes: all jobs at once, exponential gaps, or the times of a trace."""
ARRIVALS, TEMPLATES, FIRST_JOB_STREAM = 1, 2, 3
"""Streams of random numbers: gaps, templates, and from the last on one stream per job."""

ARRIVAL_FIELDS: list[tuple[str, str]] = [
    ("jobs", "i8"),  # jobs of an episode
    ("arrival", "i8"),
    ("mean_gap", "f8"),
    ("initial_jobs", "i8"),
]
STREAM_FIELDS: list[tuple[str, str]] = [
    ("arrived", "i8"),  # jobs that have arrived
    ("jobs", "i8"),  # jobs that arrive in all
    ("arrival_key", "u8"),
    ("template_key", "u8"),
    ("redrawn", "i8"),  # 1 if the arrivals to come were redrawn, so that a trace does not hold any more
    ("seen", "i8"),  # jobs that had arrived when they were redrawn
    ("block", "i8"),  # arrival of the trace whose gap the first redrawn one has; 0: gaps are exponential
]
ARRIVAL_ROW = np.dtype([("time", "i8"), ("template", "i8")], align=True)
"""A row of a trace; a template below 0 means that it is drawn at random."""


REDRAWN_TEMPLATES, REDRAWN_BLOCKS = 2**41, 2**42
"""First counters in the arrival stream of what is drawn of a trace whose rest was redrawn."""
TRIES = 64
"""Most draws of a rejection that gives up."""


@inlined
def begin_stream(spec, header):
    """Reset the count of arrived jobs and derive the keys of the arrival streams from the episode key."""
    header.arrived = 0
    header.jobs = spec.machine[0].jobs
    header.redrawn = 0
    derive_keys(header)


@inlined
def derive_keys(header):
    """Derive the keys of the arrival streams from the episode key."""
    header.arrival_key = stream_key(header.key, ARRIVALS)
    header.template_key = stream_key(header.key, TEMPLATES)


@kernel
def next_arrival(spec, header):
    """Return the arrival time of the next job in ns, NEVER if none is left."""
    machine = spec.machine[0]
    if header.arrived >= header.jobs:
        return NEVER
    if machine.arrival == BATCH:
        return 0
    if machine.arrival == POISSON:
        if header.arrived < machine.initial_jobs:
            return 0
        return header.now + exponential_time(header.arrival_key, header.arrived, machine.mean_gap)
    if header.redrawn:
        return header.now + redrawn_gap(spec, header)
    return spec.arrivals[header.arrived].time


@kernel
def template_of(spec, header):
    """Return the template of the next job; where a trace was redrawn, that of one of its jobs seen before."""
    if spec.arrivals.shape[0] > 0:
        row = header.arrived
        if header.redrawn:
            row = int(uniform(header.arrival_key, REDRAWN_TEMPLATES + header.arrived) * header.seen)
        if spec.arrivals[row].template >= 0:
            return spec.arrivals[row].template
    return int(uniform(header.template_key, header.arrived) * spec.templates.shape[0])


# Redrawn arrivals


@inlined
def gap_before(spec, row):
    """Return the time between an arrival of the trace and the one before it."""
    return spec.arrivals[row].time - spec.arrivals[row - 1].time


@kernel
def redrawn_gap(spec, header):
    """Return the time from the arrival that happens now to the next: that of a block of gaps seen, or exponential."""
    if header.block == 0:
        return exponential_time(header.arrival_key, header.arrived, spec.machine[0].mean_gap)
    return gap_before(spec, 1 + (header.block - 1 + header.arrived - header.seen) % (header.seen - 1))


@kernel
def resample_stream(spec, header, key):
    """Redraw all arrivals to come, from `key`; return the time of the next one.

    Exponential gaps are memoryless. Gaps of a trace are a block of those seen before, in their order and repeated,
    beginning with one that is longer than the time since the last arrival. Where there is none, they are exponential.
    """
    header.seed = 0
    header.key = key
    derive_keys(header)
    header.redrawn = 1
    header.seen = header.arrived
    header.block = 0
    if spec.machine[0].arrival != TRACE or header.arrived >= header.jobs:
        return next_arrival(spec, header)
    if header.seen > 1:
        last = spec.arrivals[header.seen - 1].time
        for attempt in range(TRIES):
            row = 1 + int(uniform(header.arrival_key, REDRAWN_BLOCKS + attempt) * (header.seen - 1))
            if last + gap_before(spec, row) > header.now:
                header.block = row
                return last + gap_before(spec, row)
    return header.now + redrawn_gap(spec, header)


@inlined
def limit_stream(header, count):
    """Limit the jobs to come to `count`; return whether any is left."""
    header.jobs = min(header.jobs, header.arrived + count)
    return header.arrived < header.jobs
