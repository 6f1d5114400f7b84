"""How long tasks take, compiled: drawn from what was measured with about as many executors at the job.

Every draw belongs to a task: it depends on the job, the stage and how many of its tasks were started before, so that a
policy can change which list is drawn from, but not the place in it.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM
from slipstream.sim.kernel.rng import stream_key, uniform

STREAMS_PER_JOB = 3
"""Streams of random numbers of each job: durations, stragglers and failures."""
DURATIONS, STRAGGLERS, FAILURES = range(3)
STAGE_STRIDE = 2**32
"""Counters of one stage are those of the stage before it plus this."""


@kernel
def job_stream(header, number, kind):
    """Return the key of one of the streams of a job."""
    return stream_key(header.key, FIRST_JOB_STREAM + STREAMS_PER_JOB * number + kind)


@inlined
def draw_duration(spec, state, lane, job, stage, executor, wave):
    """Return the time of the next task of a stage on an executor."""
    owner = state.jobs[lane, job]
    counter = np.int64(stage) * STAGE_STRIDE + state.stages[lane, job, stage].started
    between = spec.level_of[owner.local]
    level = between.low
    if between.gap > 0.0:
        nearer_low = uniform(owner.key, 2 * counter) * between.gap >= between.offset
        # The published simulators have it the wrong way round: the nearer a level, the less it counts.
        if nearer_low == (spec.machine[0].compat != 0):
            level = between.high
    source = spec.waves[owner.first_stage + stage, 3 * level + wave]
    place = int(uniform(owner.key, 2 * counter + 1) * source.samples)
    duration = spec.samples[source.first_sample + place] + source.delay
    if spec.machine[0].plain:
        return duration
    return disturbed(spec, state, lane, job, counter, executor, duration)


@kernel
def disturbed(spec, state, lane, job, counter, executor, duration):
    """Return a duration on an executor of some speed, longer if the task straggles."""
    machine = spec.machine[0]
    time = np.float64(duration)
    if machine.straggler_share > 0.0:
        key = job_stream(state.lanes[lane], state.jobs[lane, job].number, STRAGGLERS)
        if uniform(key, counter) < machine.straggler_share:
            time *= machine.straggler_factor
    return np.int64(math.ceil(time / spec.executors[executor].speed))


@kernel
def stage_fails(spec, state, lane, job, stage):
    """Return whether a stage whose last task ended has failed."""
    machine = spec.machine[0]
    failures = state.stages[lane, job, stage].failures
    if machine.failure_share == 0.0 or failures >= machine.most_failures:
        return False
    key = job_stream(state.lanes[lane], state.jobs[lane, job].number, FAILURES)
    return uniform(key, np.int64(stage) * STAGE_STRIDE + failures) < machine.failure_share
