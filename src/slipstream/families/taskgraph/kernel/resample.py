"""Compiled redraw of what a policy cannot know: arrivals to come, and how long tasks take.

Known are the jobs that have arrived, with their graphs, the expected durations, and when running tasks began. Transfers
take as long as they are expected to.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.taskgraph.kernel.slots import arrival_slot
from slipstream.families.taskgraph.kernel.state import ADDITIVE, NO_NOISE
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM, limit_stream, resample_stream
from slipstream.sim.kernel.rng import normal_above, stream_key

RUNNING_TASKS = 2**40
"""Stream of the durations of running tasks."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: arrivals to come, and the durations of tasks that run or have not begun."""
    header = state.lanes[lane]
    schedule(state.heap, lane, arrival_slot(spec, state), resample_stream(spec, header, key))
    if spec.machine[0].noise == NO_NOISE or spec.machine[0].spread == 0.0:
        return
    for job in range(header.arrived):
        state.jobs[lane, job].key = stream_key(key, FIRST_JOB_STREAM + job)
    draws = stream_key(key, RUNNING_TASKS)
    for processor in range(spec.machine[0].processors):
        if state.processors[lane, processor].runs and spec.kinds[spec.processors[processor].kind].noisy:
            schedule(state.heap, lane, processor, redrawn_end(spec, state, lane, processor, draws))


@kernel
def limit_arrivals(spec, state, lane, count):
    """Limit the jobs to come to `count`."""
    if not limit_stream(state.lanes[lane], count):
        schedule(state.heap, lane, arrival_slot(spec, state), NEVER)


@kernel
def redrawn_end(spec, state, lane, processor, key):
    """Return the end of a processor's running task, redrawn given that it has not ended yet."""
    machine = spec.machine[0]
    worker = state.processors[lane, processor]
    task = state.tasks[lane, state.holds[lane, processor, 0]]
    expected = spec.durations[task.source, spec.processors[processor].kind]
    began = worker.expected_end - expected
    elapsed = state.lanes[lane].now - began
    if machine.noise == ADDITIVE:
        # Deviates below the floor all give the same duration, and cannot be distinguished.
        least = (elapsed - expected) / machine.spread if elapsed >= expected + machine.floor else -np.inf
        deviate = normal_above(key, processor, max(least, -40.0))
        time = expected + max(machine.spread * deviate, machine.floor)
    else:
        shift = machine.spread * machine.spread / 2.0
        least = (math.log(max(elapsed, 1) / expected) + shift) / machine.spread
        time = expected * math.exp(machine.spread * normal_above(key, processor, max(least, -40.0)) - shift)
    return began + max(elapsed, np.int64(1), np.int64(math.ceil(time)))
