"""Compiled task durations: samples measured with about as many executors as are at the job.

Every draw belongs to a task: it depends on the job, the stage and the number of its tasks started before. So a policy
can change the list of samples that is drawn from, but not the quantile.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.dag.kernel.compat import takes_higher_level
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM
from slipstream.sim.kernel.rng import stream_key, uniform

STREAMS_PER_JOB = 3
"""Random streams of each job: durations, stragglers and failures."""
DURATIONS, STRAGGLERS, FAILURES = range(3)
STAGE_STRIDE = 2**32
"""Offset between the counters of successive stages."""


@kernel
def job_stream(header, number, kind):
    """Return the key of the stream `kind` of the job `number`."""
    return stream_key(header.key, FIRST_JOB_STREAM + STREAMS_PER_JOB * number + kind)


@inlined
def draw_duration(spec, state, lane, job, stage, executor, wave):
    """Return the duration in ns of the next task of a stage on an executor."""
    owner = state.jobs[lane, job]
    counter = np.int64(stage) * STAGE_STRIDE + state.stages[lane, job, stage].started
    between = spec.parallelism_of[owner.local]
    index = between.low
    if between.gap > 0.0:
        lower_is_drawn = uniform(owner.key, 2 * counter) * between.gap >= between.offset
        if takes_higher_level(spec, lower_is_drawn):
            index = between.high
    source = spec.waves[owner.first_stage + stage, 3 * index + wave]
    offset = int(uniform(owner.key, 2 * counter + 1) * source.samples)
    duration = spec.samples[source.first_sample + offset] + source.delay
    if spec.machine[0].plain:
        return duration
    return disturbed_duration(spec, state, lane, job, counter, executor, duration)


@kernel
def disturbed_duration(spec, state, lane, job, counter, executor, duration):
    """Return `duration` divided by the executor's speed, times the straggler factor if the task straggles."""
    machine = spec.machine[0]
    straggles = False
    if machine.straggler_share > 0.0:
        key = job_stream(state.lanes[lane], state.jobs[lane, job].number, STRAGGLERS)
        straggles = uniform(key, counter) < machine.straggler_share
    return scaled_duration(spec, executor, duration, straggles)


@inlined
def scaled_duration(spec, executor, duration, straggles):
    """Return `duration` divided by the executor's speed, times the straggler factor if `straggles`."""
    time = np.float64(duration)
    if straggles:
        time *= spec.machine[0].straggler_factor
    return np.int64(math.ceil(time / spec.executors[executor].speed))


@kernel
def stage_fails(spec, state, lane, job, stage):
    """Return whether a stage whose last task has finished fails."""
    machine = spec.machine[0]
    failures = state.stages[lane, job, stage].failures
    if machine.failure_share == 0.0 or failures >= machine.most_failures:
        return False
    key = job_stream(state.lanes[lane], state.jobs[lane, job].number, FAILURES)
    return uniform(key, np.int64(stage) * STAGE_STRIDE + failures) < machine.failure_share
