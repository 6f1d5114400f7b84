"""Co-run estimates, compiled: expected latency of a start beside the running jobs, and the margin it leaves them.

`state.corunners` holds a copy of the streams with the expected remaining work of each job; the lookahead runs the copy
to completion.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.edge import features as f
from slipstream.families.edge.kernel.memory import loading_time
from slipstream.families.edge.kernel.queues import continues
from slipstream.families.edge.kernel.rates import allocate_rates, set_corunner
from slipstream.families.edge.kernel.state import NO_INTERFERENCE, NO_PREEMPTION
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.observation import put


@inlined
def expected_remaining(spec, state, lane, stream):
    """Return the expected remaining work of the stream's job, its setup included."""
    running = state.streams[lane, stream]
    now = state.lanes[lane].now
    if spec.device[0].simple or state.runs[lane, stream].active:
        return max(0.0, running.expected - (now - running.updated) * running.rate)
    return (state.runs[lane, stream].began - now) + running.expected


@kernel
def load_corunners(spec, state, lane):
    """Copy the running jobs to `state.corunners`, unless every estimate has a closed form."""
    if not spec.device[0].simple or state.lanes[lane].busy > 1:
        for stream in range(spec.device[0].streams):
            load_corunner(spec, state, lane, stream)


@inlined
def load_corunner(spec, state, lane, stream):
    """Copy the stream's job and its expected remaining work to `state.corunners`."""
    set_corunner(
        spec, state.corunners[lane, stream], state.streams[lane, stream].task, state.streams[lane, stream].variant
    )
    if state.streams[lane, stream].task >= 0:
        state.corunners[lane, stream].expected = expected_remaining(spec, state, lane, stream)


@inlined
def slack_of(spec, state, lane, stream):
    """Return the time left to the deadline of the stream's job."""
    running = state.streams[lane, stream]
    return running.release + spec.tasks[running.task].deadline - state.lanes[lane].now


@inlined
def expected_work(spec, state, lane, task, variant):
    """Return the expected work of the task's oldest waiting jobs in `variant`, less what their checkpoint saves."""
    if spec.device[0].preemption != NO_PREEMPTION and continues(spec, state, lane, task, variant):
        return state.checkpoints[lane, state.tasks[lane, task].head, task].expected
    return float(spec.variants[task, variant].latency)


@inlined
def put_timing(row, slack, next_arrival):
    """Write the slack of the head job and the time to the next arrival, both already scaled."""
    row[f.SLACK] = slack
    row[f.NEXT_ARRIVAL] = next_arrival


@inlined
def put_corun_estimates(spec, state, lane, task, slack, next_arrival, rows, image):
    """Write slack, next arrival and co-run estimates of a start now into the row of each variant of `task`."""
    device = spec.device[0]
    co_runners = state.lanes[lane].busy
    if device.simple and (device.interference == NO_INTERFERENCE or co_runners == 0):
        put_without_interference(spec, state, lane, task, slack, next_arrival, rows, image)
    elif device.simple and co_runners == 1:
        put_beside_one(spec, state, lane, task, slack, next_arrival, rows, image)
    else:
        put_on_asked_stream(spec, state, lane, task, slack, next_arrival, rows, image)


@inlined
def clear_corun_estimates(row):
    """Reset the co-run estimates of a row that cannot start."""
    row[f.CORUN_LATENCY] = 0.0
    row[f.CORUN_MARGIN] = 0.0


@inlined
def put_without_interference(spec, state, lane, task, slack, next_arrival, rows, image):
    """Write the rows of `task` for the case that every job runs at rate 1."""
    margin = least_margin(spec, state, lane, np.int64(-1))
    for variant in range(spec.tasks[task].variants):
        row = rows[task * spec.variants.shape[1] + variant]
        put_timing(row, slack, next_arrival)
        put(row, image, f.CORUN_LATENCY, spec.variants[task, variant].latency)
        put(row, image, f.CORUN_MARGIN, margin)


@inlined
def least_margin(spec, state, lane, excluded):
    """Return the least slack at completion of the running jobs at rate 1, without stream `excluded`; 0 if none runs."""
    margin = math.inf
    for stream in range(spec.device[0].streams):
        if stream != excluded and state.streams[lane, stream].task >= 0:
            left = np.ceil(expected_remaining(spec, state, lane, stream))
            margin = min(margin, slack_of(spec, state, lane, stream) - left)
    return margin if margin < math.inf else 0.0


@inlined
def put_beside_one(spec, state, lane, task, slack, next_arrival, rows, image):
    """Write the rows of `task` beside one co-runner: both share until one ends, then the other runs alone."""
    throughput = spec.device[0].throughput
    other = 0
    while state.streams[lane, other].task < 0:
        other += 1
    their_slack = slack_of(spec, state, lane, other)
    work, their_demand = expected_remaining(spec, state, lane, other), state.streams[lane, other].demand
    demand, my_rate, their_rate, their_time = -1.0, 1.0, 1.0, 0.0
    for variant in range(spec.tasks[task].variants):
        chosen = spec.variants[task, variant]
        if chosen.demand != demand:
            # Most tasks have one demand for all variants, and divisions are expensive.
            demand = chosen.demand
            total = demand + their_demand
            my_rate = min(1.0, throughput * demand / total)
            their_rate = min(1.0, throughput * their_demand / total)
            their_time = work / their_rate
        mine, theirs = chosen.latency / my_rate, their_time
        if mine <= theirs:
            theirs = mine + max(0.0, work - mine * their_rate)
        else:
            mine = theirs + (chosen.latency - theirs * my_rate)
        row = rows[task * spec.variants.shape[1] + variant]
        put_timing(row, slack, next_arrival)
        put(row, image, f.CORUN_LATENCY, np.ceil(mine))
        put(row, image, f.CORUN_MARGIN, their_slack - np.ceil(theirs))


@kernel
def put_on_asked_stream(spec, state, lane, task, slack, next_arrival, rows, image):
    """Write the rows of `task` for a start on the stream at its decision point, beside any number of jobs."""
    asked = state.lanes[lane].asked
    for variant in range(spec.tasks[task].variants):
        row = rows[task * spec.variants.shape[1] + variant]
        put_timing(row, slack, next_arrival)
        if 0 <= asked < spec.device[0].streams:
            put_beside_many(spec, state, lane, task, variant, asked, 0, row, image)
        else:
            clear_corun_estimates(row)


@inlined
def put_beside_many(spec, state, lane, task, variant, stream, switch_cost, row, image):
    """Write the co-run estimates of a start on `stream`, in place of the job there if it runs one."""
    work = expected_work(spec, state, lane, task, variant)
    setup = switch_cost
    if spec.device[0].loads:
        setup += loading_time(spec, state, lane, task, variant)
    others = state.lanes[lane].busy - (1 if state.streams[lane, stream].task >= 0 else 0)
    if others == 0 or spec.device[0].interference == NO_INTERFERENCE:
        put(row, image, f.CORUN_LATENCY, setup + np.ceil(work))
        put(row, image, f.CORUN_MARGIN, least_margin(spec, state, lane, stream))
        return
    corunners = state.corunners[lane]
    for other in range(spec.device[0].streams):
        corunners[other].active = 1 if corunners[other].task >= 0 else 0
        corunners[other].work = corunners[other].expected
    set_corunner(spec, corunners[stream], task, variant)
    corunners[stream].work = work
    corunners[stream].active = 1
    end, margin = run_to_completion(spec, state, lane, stream, others)
    load_corunner(spec, state, lane, stream)
    put(row, image, f.CORUN_LATENCY, setup + np.ceil(end))
    put(row, image, f.CORUN_MARGIN, margin)


@kernel
def run_to_completion(spec, state, lane, stream, others):
    """Run the co-runners to completion; return when the job on `stream` ends, and the least margin of the others."""
    corunners = state.corunners[lane]
    mine = corunners[stream]
    elapsed, end, margin = 0.0, -1.0, math.inf
    while others > 0:
        allocate_rates(spec, corunners)
        first, first_time = -1, math.inf
        for other in range(spec.device[0].streams):
            if (
                other != stream
                and corunners[other].active
                and corunners[other].work / corunners[other].rate < first_time
            ):
                first, first_time = other, corunners[other].work / corunners[other].rate
        my_turn = mine.active == 1 and mine.work / mine.rate <= first_time
        if my_turn:
            first_time = mine.work / mine.rate
        elapsed += first_time
        mine.work -= first_time * mine.rate
        for other in range(spec.device[0].streams):
            if other != stream and corunners[other].active:
                corunners[other].work = max(0.0, corunners[other].work - first_time * corunners[other].rate)
        if my_turn:
            end = elapsed
            mine.active = 0
        else:
            margin = min(margin, slack_of(spec, state, lane, first) - np.ceil(elapsed))
            corunners[first].active = 0
            others -= 1
    if mine.active == 1:
        end = elapsed + mine.work
    return end, margin
