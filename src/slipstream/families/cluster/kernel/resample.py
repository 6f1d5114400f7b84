"""Compiled redraw of what a policy cannot know: the jobs to come, and how long jobs in the system run.

Both come from the *known part* of the workload: the jobs of training episodes, without those that this episode has not
seen yet, or, where there are none, the jobs of this episode that have ended. Jobs to come are a block of it, in its
order. A run time is the job's requested time multiplied by the ratio of the two in a known job with a similar one,
given that the job has not ended yet.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.cluster.kernel.lifecycle import PER_S, done_since_start
from slipstream.families.cluster.kernel.placement import run_time
from slipstream.families.cluster.kernel.queues import sift_up
from slipstream.families.cluster.kernel.state import BOUND_S, ENDED
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.rng import stream_key, uniform

BLOCKS, RUN_TIMES = 2**40, 2**40 + 1
"""Streams of random numbers: the block of jobs to come, and the run times of jobs in the system."""
TRIES = 64
"""Most draws of a rejection."""
SIMILAR = 2.0
"""Greatest ratio of two requested times that are similar."""
DAY, NEAR = 86_400 * 10**9, 3600 * 10**9
"""A block begins at about the time of day that it is now, if the known part has one."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: the jobs to come and the run times of jobs in the system."""
    header = state.lanes[lane]
    header.seed = 0
    header.key = key
    ended = oldest_unended(state, lane)
    redraw_run_times(spec, state, lane, ended, stream_key(key, RUN_TIMES))
    redraw_jobs(spec, state, lane, ended, stream_key(key, BLOCKS))


@kernel
def limit_arrivals(spec, state, lane, count):
    """Limit the jobs to come to `count`."""
    header = state.lanes[lane]
    header.jobs = min(header.jobs, header.arrived + count)


@kernel
def oldest_unended(state, lane):
    """Return the number of the oldest job that has not ended; all before it are known."""
    job = 0
    while job < state.lanes[lane].arrived and state.jobs[lane, job].status == ENDED:
        job += 1
    return job


# The known part of the workload


@inlined
def training_end(spec):
    """Return the end of the part of the workload that training episodes are cut from."""
    return spec.splits[0].high + spec.machine[0].jobs


@inlined
def is_known(spec, header, low, high, ended):
    """Return whether the jobs from `low` to before `high` are known, the first `ended` of the episode included."""
    return high <= header.origin + ended or low >= header.origin + spec.machine[0].jobs


@kernel
def known_job(spec, header, ended, key, first):
    """Return the index of a random known job, -1 if none is found in the draws from `first` on."""
    total = training_end(spec)
    for attempt in range(TRIES):
        index = int(uniform(key, first + attempt) * total)
        if is_known(spec, header, index, index + 1, ended):
            return index
    if ended > 0:
        return header.origin + int(uniform(key, first) * ended)
    return -1


# Jobs to come


@kernel
def redraw_jobs(spec, state, lane, ended, key):
    """Replace the jobs to come by a known block; none are expected where no block is known."""
    header = state.lanes[lane]
    header.jobs = spec.machine[0].jobs
    if header.arrived >= header.jobs:
        return
    last = np.int64(0)
    if header.arrived > 0:
        last = state.jobs[lane, header.arrived - 1].submit
    origin = spec.jobs[header.origin]
    needed = header.jobs - header.arrived
    begin = find_block(spec, header, needed, last, ended, key)
    if begin < 0:
        # A block of the jobs of this episode that have ended, at least half of them.
        needed = min(needed, ended // 2)
        begin = header.origin + 1 + int(uniform(key, 3 * TRIES) * (ended - needed))
    if needed < 1:
        header.jobs = header.arrived
        return
    gap = spec.jobs[begin].submit - spec.jobs[begin - 1].submit
    if last + gap <= header.now:
        last = header.now
    header.time_zero = spec.jobs[begin - 1].submit - last
    header.shift_s = origin.submitted_s + (last * PER_S - spec.jobs[begin - 1].submitted_s)
    header.first = begin - header.arrived
    header.jobs = header.arrived + needed


@kernel
def find_block(spec, header, needed, last, ended, key):
    """Return the first of `needed` known jobs in a row, -1 if none are found.

    The gap before it is longer than the time since the submission at `last`, and it was submitted at about the time of
    day at which it comes now; else one that only has such a gap, else any.
    """
    choices = training_end(spec) - needed
    best, quality = -1, 0
    if choices < 1:
        return best
    for attempt in range(TRIES):
        begin = 1 + int(uniform(key, attempt) * choices)
        if is_known(spec, header, begin - 1, begin + needed, ended):
            comes = last + spec.jobs[begin].submit - spec.jobs[begin - 1].submit
            distance = abs(spec.jobs[begin].submit - spec.jobs[header.origin].submit - comes) % DAY
            near = min(distance, DAY - distance) <= NEAR
            found = 1 + (2 if comes > header.now else 0) + (1 if near else 0)
            if found > quality:
                best, quality = begin, found
            if found == 4:
                break
    return best


# Run times


@kernel
def redraw_run_times(spec, state, lane, ended, key):
    """Redraw the run time of every job in the system, given the work it has done; rebuild what depends on it."""
    header = state.lanes[lane]
    header.rate = 0.0
    for index in range(header.waiting):
        own = state.jobs[lane, state.queue[lane, index].job]
        redraw_run_time(spec, header, own, own.run - own.left, ended, key, state.queue[lane, index].job)
        header.rate += 1.0 / own.bound
    for index in range(header.running):
        job = state.running[lane, index]
        own = state.jobs[lane, job]
        before = own.run - own.left
        redraw_run_time(spec, header, own, before + done_since_start(own, header.now), ended, key, job)
        own.left = own.run - before
        own.end = max(header.now, own.start + own.setup + run_time(own.left, own.factor))
    for index in range(header.running):
        sift_up(state, lane, index, state.running[lane, index])


@kernel
def redraw_run_time(spec, header, own, done, ended, key, job):
    """Redraw the run time of a job that has done the work `done`; set what is left of it and its bound."""
    first = np.int64(job) * (TRIES + 1) * TRIES
    run = np.int64(0)
    similar = False
    for attempt in range(TRIES):
        index = known_job(spec, header, ended, key, first + attempt * TRIES)
        if index < 0:
            break
        source = spec.jobs[index]
        ratio = source.requested / own.requested
        fits = 1.0 / SIMILAR <= ratio <= SIMILAR
        found = own.requested
        if source.run != source.requested:
            found = np.int64(own.requested * (source.run / source.requested))
        if found > done and (run == 0 or (fits and not similar)):
            run, similar = found, fits
        if similar:
            break
    if run == 0:
        # Users' estimates are all that is known, and those of jobs that ran longer were wrong.
        run = own.requested
        if run <= done:
            run = done + max(np.int64(1), np.int64(done * uniform(key, first + TRIES * TRIES)))
    own.run = run
    own.left = run - done
    own.bound = max(run * PER_S, BOUND_S)
