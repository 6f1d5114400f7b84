"""Compiled redraw of what a policy cannot know: releases to come, and how long jobs run.

Known are profiled latencies, the laws of releases and run times, and the work that each job has done. Actual latencies
that differ from the profiled ones are not: futures are simulated with a specification that has the profiled ones.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.edge.kernel.queues import draw_gap, next_bursty, schedule_release
from slipstream.families.edge.kernel.slots import arrival_slot
from slipstream.families.edge.kernel.state import (
    BURSTY,
    CLOSED,
    EXPONENTIAL,
    LOGNORMAL,
    NO_PREEMPTION,
    PERIODIC,
    POISSON,
    STAGE,
    TRACE,
)
from slipstream.families.edge.kernel.streams import LONGEST_RUN, latency_factor, work_at_boundary
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, pending, schedule
from slipstream.sim.kernel.rng import exponential, normal_above, stream_key, uniform

RUNS, CHECKPOINTS, SPELLS = 2**40, 2**40 + 1, 2**40 + 2
"""Streams of the run times of jobs on streams, of preempted jobs, and of the states of bursty tasks."""
OVERRUN = 0.1
"""Work left of a job that has done more than it should, as a share of its profiled latency."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: releases to come and the run times of all jobs that have not ended."""
    header = state.lanes[lane]
    header.seed = 0
    header.key = key
    for stream in range(spec.device[0].streams):
        if state.streams[lane, stream].task >= 0:
            redraw_run(spec, state, lane, stream, stream_key(key, RUNS))
    for task in range(spec.tasks.shape[0]):
        if spec.device[0].preemption != NO_PREEMPTION:
            redraw_checkpoints(spec, state, lane, task, stream_key(key, CHECKPOINTS))
        counts = state.tasks[lane, task]
        counts.arrival_key = stream_key(key, 1 + 2 * task)
        counts.latency_key = stream_key(key, 2 + 2 * task)
        counts.draws = 0
        redraw_release(spec, state, lane, task, uniform(stream_key(key, SPELLS), task))


# Releases


@kernel
def redraw_release(spec, state, lane, task, draw):
    """Redraw the next release of a task; `draw` is a uniform random number for the state of a bursty one."""
    source, counts = spec.tasks[task], state.tasks[lane, task]
    now = state.lanes[lane].now
    if source.arrival == CLOSED or (source.arrival == PERIODIC and source.jitter == 0):
        return
    if source.arrival == TRACE and source.trace_start + counts.released >= source.trace_end:
        return
    if pending(state.heap, lane, arrival_slot(spec, task)) == NEVER:
        state.lanes[lane].exhausted -= 1
    if source.arrival == PERIODIC:
        nominal = source.phase + counts.released * source.period
        passed = min(max(0, now - nominal), source.jitter)
        time = max(now, nominal + passed) + int((source.jitter - passed) * uniform(counts.arrival_key, counts.draws))
        counts.draws += 1
    elif source.arrival == POISSON:
        time = now + draw_gap(counts, source.calm_gap)
    elif source.arrival == BURSTY:
        counts.burst = 1 if draw < burst_probability(source, now - counts.last_release, counts.released) else 0
        counts.spell_end = now + draw_gap(counts, source.burst_spell if counts.burst else source.calm_spell)
        time = next_bursty(source, counts, now, spec.device[0].horizon)
    else:
        # From now on the gaps of a trace are exponential, with its mean gap.
        counts.burst = -1
        time = now + draw_gap(counts, source.period)
    schedule_release(spec, state, lane, task, time)


@kernel
def burst_probability(source, passed, released):
    """Return the probability that a bursty task is in a burst, `passed` ns after its last release.

    At a release it is in proportion to the share and the rate of the state; after that, without a release, it follows
    the linear equation of a two-state Markov chain with the two rates, solved by its eigenvalues.
    """
    share = source.burst_spell / (source.calm_spell + source.burst_spell)
    if released > 0:
        burst, calm = share / source.burst_gap, (1.0 - share) / source.calm_gap
    else:
        burst, calm = share, 1.0 - share
    to_calm, to_burst = 1.0 / source.burst_spell, 1.0 / source.calm_spell
    a, d = -(1.0 / source.burst_gap + to_calm), -(1.0 / source.calm_gap + to_burst)
    middle, root = (a + d) / 2.0, math.sqrt((a - d) * (a - d) / 4.0 + to_calm * to_burst)
    # exp(Mt) = e^(middle t) (cosh(root t) I + sinh(root t) / root (M - middle I)); common factors cancel.
    ratio = math.tanh(root * passed) / root if root > 0.0 else float(passed)
    later_burst = burst + ratio * ((a - middle) * burst + to_burst * calm)
    later_calm = calm + ratio * (to_calm * burst + (d - middle) * calm)
    return later_burst / (later_burst + later_calm)


# Run times


@kernel
def redrawn_total(spec, latency, done, key, counter):
    """Return the work of a job of profiled `latency` in all, redrawn given that it is more than `done`."""
    device = spec.device[0]
    if device.latency_kind == LOGNORMAL and device.sigma > 0.0:
        least = -40.0
        if done > 0.0:
            least = max(least, (math.log(done / latency) + device.half_variance) / device.sigma)
        return latency * math.exp(device.sigma * normal_above(key, counter, least) - device.half_variance)
    if device.latency_kind == EXPONENTIAL:
        return done + latency * exponential(key, counter, 1.0)
    return latency if latency > done else done + OVERRUN * latency


@kernel
def work_done(spec, state, lane, task, variant, job, left):
    """Return the work that a job has done, in whole ns, from what was drawn for it and what is `left` of that."""
    total = spec.variants[task, variant].drawn * latency_factor(spec, state.tasks[lane, task], job)
    return math.floor(total - left + 0.5)


@kernel
def redraw_run(spec, state, lane, stream, key):
    """Redraw the work left of the job on a stream, and schedule its next event."""
    now = state.lanes[lane].now
    running, run = state.streams[lane, stream], state.runs[lane, stream]
    chosen = spec.variants[running.task, running.variant]
    simple, stages = spec.device[0].simple, spec.device[0].preemption == STAGE
    if not simple and stages and run.stage > 0:
        # A completed stage tells how long the others take.
        return
    done = work_done(spec, state, lane, running.task, running.variant, running.job, running.work)
    begun = simple or run.active == 1
    passed = (now - running.updated) * running.rate if begun else 0.0
    parts = chosen.stages if stages else 1
    total = redrawn_total(spec, np.float64(chosen.latency), parts * (done + passed), key, stream)
    running.work = total - done
    boundary = 0.0
    if not simple:
        run.total = total
        if stages:
            run.boundary_work = work_at_boundary(run, chosen.stages)
            boundary = run.boundary_work
    if begun:
        left = max(0.0, running.work - passed - boundary)
        schedule(state.heap, lane, stream, now + int(min(np.ceil(left / running.rate), LONGEST_RUN)))


@kernel
def redraw_checkpoints(spec, state, lane, task, key):
    """Redraw the work left of the preempted jobs that wait in a task's queue."""
    queue = state.tasks[lane, task]
    ring = state.queue.shape[1]
    for offset in range(queue.length):
        position = (queue.head + offset) % ring
        checkpoint = state.checkpoints[lane, position, task]
        job = state.queue[lane, position, task].index
        if checkpoint.variant >= 0 and checkpoint.stage == 0 and checkpoint.lead == job:
            done = work_done(spec, state, lane, task, checkpoint.variant, job, checkpoint.work)
            latency = np.float64(spec.variants[task, checkpoint.variant].latency)
            checkpoint.work = redrawn_total(spec, latency, done, key, position * spec.tasks.shape[0] + task) - done
