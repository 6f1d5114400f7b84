"""What a start would mean for the job and for those that run, compiled: expected ends beside each other.

The crew is a copy of the streams with the work that each job is expected to have left; a look ahead lets it run out.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.edge import features as f
from slipstream.families.edge.kernel.memory import loading_time
from slipstream.families.edge.kernel.rates import join_crew, share_out
from slipstream.families.edge.kernel.state import NO_INTERFERENCE, NO_PREEMPTION
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.observation import put


@inlined
def expected_left(spec, state, lane, stream):
    """Return the work that the stream's job is expected to have left, its set-up included."""
    running = state.streams[lane, stream]
    now = state.lanes[lane].now
    if spec.device[0].simple or state.courses[lane, stream].runs:
        return max(0.0, running.expected - (now - running.updated) * running.rate)
    return (state.courses[lane, stream].began - now) + running.expected


@kernel
def note_crew(spec, state, lane):
    """Note on every stream whom a start would meet there, if a look ahead may need it."""
    if not spec.device[0].simple or state.lanes[lane].busy > 1:
        for stream in range(spec.device[0].streams):
            note_stream(spec, state, lane, stream)


@inlined
def note_stream(spec, state, lane, stream):
    """Note the stream's job and the work that it is expected to have left."""
    join_crew(spec, state.crew[lane, stream], state.streams[lane, stream].task, state.streams[lane, stream].variant)
    if state.streams[lane, stream].task >= 0:
        state.crew[lane, stream].expected = expected_left(spec, state, lane, stream)


@inlined
def slack_of(spec, state, lane, stream):
    """Return the time left to the deadline of the stream's job."""
    running = state.streams[lane, stream]
    return running.release + spec.tasks[running.task].deadline - state.lanes[lane].now


@inlined
def expected_work(spec, state, lane, task, variant):
    """Return the work that the task's oldest waiting job is expected to have before it in a variant."""
    if spec.device[0].preemption != NO_PREEMPTION:
        kept = state.kept[lane, state.tasks[lane, task].head, task]
        if kept.variant == variant:
            return kept.expected
    return float(spec.variants[task, variant].latency)


@inlined
def put_due(row, slack, next_arrival):
    """Write when a task's oldest waiting job is due and its next one expected, as these are shown."""
    row[f.SLACK] = slack
    row[f.NEXT_ARRIVAL] = next_arrival


@inlined
def put_outlook(spec, state, lane, task, slack, next_arrival, rows, image):
    """Write into the row of each variant when the job is due and what starting it now, and nothing else, would mean."""
    device = spec.device[0]
    co_runners = state.lanes[lane].busy
    if device.simple and (device.interference == NO_INTERFERENCE or co_runners == 0):
        put_undisturbed(spec, state, lane, task, slack, next_arrival, rows, image)
    elif device.simple and co_runners == 1:
        put_pairs(spec, state, lane, task, slack, next_arrival, rows, image)
    else:
        put_on_asked(spec, state, lane, task, slack, next_arrival, rows, image)


@inlined
def clear_outlook(row):
    """Write that nothing can start in the row."""
    row[f.CORUN_LATENCY] = 0.0
    row[f.CORUN_MARGIN] = 0.0


@inlined
def put_undisturbed(spec, state, lane, task, slack, next_arrival, rows, image):
    """Beside nobody, or nobody who matters: every job runs at rate 1."""
    margin = least_margin(spec, state, lane, np.int64(-1))
    for variant in range(spec.tasks[task].variants):
        row = rows[task * spec.variants.shape[1] + variant]
        put_due(row, slack, next_arrival)
        put(row, image, f.CORUN_LATENCY, spec.variants[task, variant].latency)
        put(row, image, f.CORUN_MARGIN, margin)


@inlined
def least_margin(spec, state, lane, but):
    """Return the least slack of the jobs, but for one stream's, if all run at rate 1, 0 if nobody is left."""
    margin = math.inf
    for stream in range(spec.device[0].streams):
        if stream != but and state.streams[lane, stream].task >= 0:
            left = np.ceil(expected_left(spec, state, lane, stream))
            margin = min(margin, slack_of(spec, state, lane, stream) - left)
    return margin if margin < math.inf else 0.0


@inlined
def put_pairs(spec, state, lane, task, slack, next_arrival, rows, image):
    """Beside one co-runner: both run together until one of them ends, then the other alone."""
    throughput = spec.device[0].throughput
    other = 0
    while state.streams[lane, other].task < 0:
        other += 1
    their_slack = slack_of(spec, state, lane, other)
    work, their_demand = expected_left(spec, state, lane, other), state.streams[lane, other].demand
    demand, my_rate, their_rate, their_time = -1.0, 1.0, 1.0, 0.0
    for variant in range(spec.tasks[task].variants):
        chosen = spec.variants[task, variant]
        if chosen.demand != demand:
            # Most ladders have one demand for all, and divisions are dear.
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
        put_due(row, slack, next_arrival)
        put(row, image, f.CORUN_LATENCY, np.ceil(mine))
        put(row, image, f.CORUN_MARGIN, their_slack - np.ceil(theirs))


@kernel
def put_on_asked(spec, state, lane, task, slack, next_arrival, rows, image):
    """On the stream that is asked, beside any number of jobs; nothing can start there if no stream is."""
    asked = state.lanes[lane].asked
    for variant in range(spec.tasks[task].variants):
        row = rows[task * spec.variants.shape[1] + variant]
        put_due(row, slack, next_arrival)
        if 0 <= asked < spec.device[0].streams:
            put_group(spec, state, lane, task, variant, asked, 0, row, image)
        else:
            clear_outlook(row)


@inlined
def put_group(spec, state, lane, task, variant, stream, switch_cost, row, image):
    """Write what a start on a stream would mean, in place of the job there if one is."""
    work = expected_work(spec, state, lane, task, variant)
    setup = switch_cost
    if spec.device[0].loads:
        setup += loading_time(spec, state, lane, task, variant)
    others = state.lanes[lane].busy - (1 if state.streams[lane, stream].task >= 0 else 0)
    if others == 0 or spec.device[0].interference == NO_INTERFERENCE:
        put(row, image, f.CORUN_LATENCY, setup + np.ceil(work))
        put(row, image, f.CORUN_MARGIN, least_margin(spec, state, lane, stream))
        return
    crew = state.crew[lane]
    for other in range(spec.device[0].streams):
        crew[other].runs = 1 if crew[other].task >= 0 else 0
        crew[other].work = crew[other].expected
    join_crew(spec, crew[stream], task, variant)
    crew[stream].work = work
    crew[stream].runs = 1
    end, margin = run_out(spec, state, lane, stream, others)
    note_stream(spec, state, lane, stream)
    put(row, image, f.CORUN_LATENCY, setup + np.ceil(end))
    put(row, image, f.CORUN_MARGIN, margin)


@kernel
def run_out(spec, state, lane, stream, others):
    """Let the crew run until all others have left; return when the stream's job ends, and their least margin."""
    crew = state.crew[lane]
    mine = crew[stream]
    elapsed, end, margin = 0.0, -1.0, math.inf
    while others > 0:
        share_out(spec, crew)
        first, first_time = -1, math.inf
        for other in range(spec.device[0].streams):
            if other != stream and crew[other].runs and crew[other].work / crew[other].rate < first_time:
                first, first_time = other, crew[other].work / crew[other].rate
        my_turn = mine.runs == 1 and mine.work / mine.rate <= first_time
        if my_turn:
            first_time = mine.work / mine.rate
        elapsed += first_time
        mine.work -= first_time * mine.rate
        for other in range(spec.device[0].streams):
            if other != stream and crew[other].runs:
                crew[other].work = max(0.0, crew[other].work - first_time * crew[other].rate)
        if my_turn:
            end = elapsed
            mine.runs = 0
        else:
            margin = min(margin, slack_of(spec, state, lane, first) - np.ceil(elapsed))
            crew[first].runs = 0
            others -= 1
    if mine.runs == 1:
        end = elapsed + mine.work
    return end, margin
