"""Jobs that arrive one after the other, each of a template, compiled: for families whose jobs are graphs or batches.

The spec has `arrivals`, rows of a trace, and `templates`; its machine starts with `ARRIVAL_FIELDS`, and the record of a
lane has `STREAM_FIELDS`. When a job comes and what it is are drawn by its number, so no policy can change them.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import exponential_time, stream_key, uniform

BATCH, POISSON, TRACE = range(3)
"""How jobs arrive: all at once, with memoryless gaps, or when a trace says."""
ARRIVALS, TEMPLATES, FIRST_JOB_STREAM = 1, 2, 3
"""Streams of random numbers: gaps, templates, and from the last on what belongs to each job."""

ARRIVAL_FIELDS: list[tuple[str, str]] = [
    ("jobs", "i8"),  # jobs of an episode
    ("arrival", "i8"),
    ("mean_gap", "f8"),
    ("initial_jobs", "i8"),
]
STREAM_FIELDS: list[tuple[str, str]] = [
    ("arrived", "i8"),  # jobs that have
    ("arrival_key", "u8"),
    ("template_key", "u8"),
]
ARRIVAL_ROW = np.dtype([("time", "i8"), ("template", "i8")], align=True)
"""A row of a trace; a template below 0 is drawn."""


@inlined
def begin_stream(header):
    """Let no job have arrived yet; the lane has the key of its episode."""
    header.arrived = 0
    header.arrival_key = stream_key(header.key, ARRIVALS)
    header.template_key = stream_key(header.key, TEMPLATES)


@kernel
def next_arrival(spec, header):
    """Return when the next job arrives, NEVER if none is left."""
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
    """Return what the next job is."""
    if spec.arrivals.shape[0] > 0 and spec.arrivals[header.arrived].template >= 0:
        return spec.arrivals[header.arrived].template
    return int(uniform(header.template_key, header.arrived) * spec.templates.shape[0])
