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
    ("arrival_key", "u8"),
    ("template_key", "u8"),
]
ARRIVAL_ROW = np.dtype([("time", "i8"), ("template", "i8")], align=True)
"""A row of a trace; a template below 0 means that it is drawn at random."""


@inlined
def begin_stream(header):
    """Reset the count of arrived jobs and derive the keys of the arrival streams from the episode key."""
    header.arrived = 0
    header.arrival_key = stream_key(header.key, ARRIVALS)
    header.template_key = stream_key(header.key, TEMPLATES)


@kernel
def next_arrival(spec, header):
    """Return the arrival time of the next job in ns, NEVER if none is left."""
    machine = spec.machine[0]
    if header.arrived >= machine.jobs:
        return NEVER
    if machine.arrival == BATCH:
        return 0
    if machine.arrival == POISSON:
        if header.arrived < machine.initial_jobs:
            return 0
        return header.now + exponential_time(header.arrival_key, header.arrived, machine.mean_gap)
    return spec.arrivals[header.arrived].time


@kernel
def template_of(spec, header):
    """Return the template of the next job."""
    if spec.arrivals.shape[0] > 0 and spec.arrivals[header.arrived].template >= 0:
        return spec.arrivals[header.arrived].template
    return int(uniform(header.template_key, header.arrived) * spec.templates.shape[0])
