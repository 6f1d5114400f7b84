"""Compiled redraw of what a policy cannot know: arrivals to come, the horizon, and how long tasks and stages take.

Known are the jobs that have arrived with their stages, and of a running task its beginning and what its executor did
before it. So its duration is drawn again from the same samples, given that it is longer than the time passed.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.dag.kernel.compat import share_of_higher_level
from slipstream.families.dag.kernel.events import HORIZON_COUNTER
from slipstream.families.dag.kernel.slots import arrival_slot, horizon_slot
from slipstream.families.dag.kernel.state import MEMORYLESS, RUNNING
from slipstream.families.dag.kernel.waves import DURATIONS, job_stream, scaled_duration
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.job_stream import limit_stream, resample_stream
from slipstream.sim.kernel.rng import exponential_time, stream_key, uniform

RUNNING_TASKS = 2**40
"""Stream of the durations of running tasks."""
TRIES = 16
"""Draws of a duration before all that are long enough are counted."""
DRAWS = 64
"""Offset between the counters of successive executors."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: arrivals to come, a memoryless horizon, the durations and failures to come."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    schedule(state.heap, lane, arrival_slot(spec), resample_stream(spec, header, key))
    if machine.horizon_kind == MEMORYLESS:
        end = header.now + exponential_time(header.arrival_key, HORIZON_COUNTER, machine.horizon)
        schedule(state.heap, lane, horizon_slot(spec), end)
    for index in range(header.active):
        owner = state.jobs[lane, state.order[lane, index]]
        owner.key = job_stream(header, owner.number, DURATIONS)
    draws = stream_key(key, RUNNING_TASKS)
    for executor in range(machine.executors):
        if state.executors[lane, executor].activity == RUNNING:
            schedule(state.heap, lane, executor, redrawn_end(spec, state, lane, executor, draws))


@kernel
def limit_arrivals(spec, state, lane, count):
    """Limit the jobs to come to `count`."""
    if not limit_stream(state.lanes[lane], count):
        schedule(state.heap, lane, arrival_slot(spec), NEVER)


@inlined
def samples_of(spec, state, lane, executor, high):
    """Return the samples of the running task's duration at the `high` or low measured parallelism around its own."""
    worker = state.executors[lane, executor]
    between = spec.parallelism_of[worker.local]
    level = between.high if high else between.low
    return spec.waves[state.jobs[lane, worker.job].first_stage + worker.stage, 3 * level + worker.wave]


@inlined
def high_share(spec, state, lane, executor):
    """Return the probability that the running task's duration is one of the higher measured parallelism."""
    between = spec.parallelism_of[state.executors[lane, executor].local]
    return share_of_higher_level(spec, between.offset / between.gap) if between.gap > 0.0 else 0.0


@kernel
def redrawn_end(spec, state, lane, executor, key):
    """Return the end of an executor's running task, redrawn given that it has not ended yet."""
    now, worker = state.lanes[lane].now, state.executors[lane, executor]
    elapsed = now - worker.began
    share = high_share(spec, state, lane, executor)
    stragglers = spec.machine[0].straggler_share
    first = DRAWS * executor
    for attempt in range(TRIES):
        source = samples_of(spec, state, lane, executor, uniform(key, first + 3 * attempt) < share)
        sample = spec.samples[source.first_sample + int(uniform(key, first + 3 * attempt + 1) * source.samples)]
        straggles = uniform(key, first + 3 * attempt + 2) < stragglers
        duration = scaled_duration(spec, executor, sample + source.delay, straggles)
        if duration > elapsed:
            return worker.began + duration
    total = weigh_longer(spec, state, lane, executor, elapsed, np.inf)[0]
    if total == 0.0:
        # It ends at this instant: every duration that it can have has passed.
        return now
    return worker.began + weigh_longer(spec, state, lane, executor, elapsed, uniform(key, first + 63) * total)[1]


@kernel
def weigh_longer(spec, state, lane, executor, elapsed, until):
    """Return the probability of durations above `elapsed`, summed until it exceeds `until`, and the last of them."""
    share, stragglers = high_share(spec, state, lane, executor), spec.machine[0].straggler_share
    total, last = 0.0, np.int64(0)
    for case in range(4):
        high, straggles = case >= 2, case % 2 == 1
        weight = (share if high else 1.0 - share) * (stragglers if straggles else 1.0 - stragglers)
        if weight > 0.0:
            source = samples_of(spec, state, lane, executor, high)
            for offset in range(source.samples):
                sample = spec.samples[source.first_sample + offset] + source.delay
                duration = scaled_duration(spec, executor, sample, straggles)
                if duration > elapsed:
                    total += weight / source.samples
                    last = duration
                    if total > until:
                        return total, last
    return total, last
