"""Lists of jobs, compiled: the queue in its order, the running ones by expected end, and the heap of ends.

Loops work on a view of their lane: what is read through the struct is read again after every store.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER

# The queue: by score, then by number


@inlined
def comes_before(score, job, other):
    """Return whether a job with a score stands before another in the queue."""
    return score < other.score or (score == other.score and job < other.job)


@inlined
def copy_queued(target, source):
    """Copy a row of the queue."""
    target.score = source.score
    target.expected = source.expected
    target.job = source.job
    target.gpus = source.gpus


@kernel
def enqueue(state, lane, score, job, expected, gpus):
    """Let a job wait."""
    header = state.lanes[lane]
    queue = state.queue[lane]
    place = header.waiting
    while place > 0 and comes_before(score, job, queue[place - 1]):
        copy_queued(queue[place], queue[place - 1])
        place -= 1
    row = queue[place]
    row.score = score
    row.job = job
    row.expected = expected
    row.gpus = gpus
    header.waiting += 1
    header.waiting_gpus += gpus


@kernel
def dequeue(state, lane, place):
    """Let the job at a place of the queue wait no longer."""
    header = state.lanes[lane]
    queue = state.queue[lane]
    header.waiting -= 1
    header.waiting_gpus -= queue[place].gpus
    for later in range(place, header.waiting):
        copy_queued(queue[later], queue[later + 1])


@kernel
def place_of(state, lane, job):
    """Return where a job stands in the queue."""
    queue = state.queue[lane]
    place = 0
    while queue[place].job != job:
        place += 1
    return place


@kernel
def sort_queue(state, lane):
    """Put the queue into the order of its scores, which hardly changes it as a rule."""
    queue = state.queue[lane]
    for place in range(1, state.lanes[lane].waiting):
        row = queue[place]
        score, expected, job, gpus = row.score, row.expected, row.job, row.gpus
        target = place
        while target > 0 and comes_before(score, job, queue[target - 1]):
            copy_queued(queue[target], queue[target - 1])
            target -= 1
        if target < place:
            row = queue[target]
            row.score = score
            row.expected = expected
            row.job = job
            row.gpus = gpus


# Running jobs by expected end, then by number


@kernel
def place_in_running(state, lane, job):
    """Return where a job stands among the running ones, or would."""
    running, jobs = state.running[lane], state.jobs[lane]
    end = jobs[job].expected_end
    low, high = 0, state.lanes[lane].running
    while low < high:
        middle = (low + high) // 2
        other = running[middle]
        other_end = jobs[other].expected_end
        if end < other_end or (end == other_end and job <= other):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def join_running(state, lane, job):
    """Let a job be one of the running ones."""
    header = state.lanes[lane]
    running = state.running[lane]
    place = place_in_running(state, lane, job)
    for later in range(header.running, place, -1):
        running[later] = running[later - 1]
    running[place] = job
    rise(state, lane, header.running, job)
    header.running += 1


@kernel
def leave_running(state, lane, job):
    """Let a job run no longer."""
    header = state.lanes[lane]
    running = state.running[lane]
    place = place_in_running(state, lane, job)
    header.running -= 1
    for later in range(place, header.running):
        running[later] = running[later + 1]
    other = state.ends[lane, header.running]
    if other != job:
        rise(state, lane, state.jobs[lane, job].place, other)
        sink(state, lane, state.jobs[lane, other].place, other, header.running)


# The heap of ends: by end, then by turn


@inlined
def ends_before(one, other):
    """Return whether a job ends before another."""
    return one.end < other.end or (one.end == other.end and one.turn < other.turn)


@kernel
def rise(state, lane, place, job):
    """Put a job at a place of the heap, or as far above it as it belongs."""
    ends, jobs = state.ends[lane], state.jobs[lane]
    own = jobs[job]
    while place > 0:
        parent = (place - 1) // 2
        other = ends[parent]
        if not ends_before(own, jobs[other]):
            break
        ends[place] = other
        jobs[other].place = place
        place = parent
    ends[place] = job
    own.place = place


@kernel
def sink(state, lane, place, job, count):
    """Put a job at a place of the heap of so many, or as far below it as it belongs."""
    ends, jobs = state.ends[lane], state.jobs[lane]
    own = jobs[job]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and ends_before(jobs[ends[child + 1]], jobs[ends[child]]):
            child += 1
        other = ends[child]
        if not ends_before(jobs[other], own):
            break
        ends[place] = other
        jobs[other].place = place
        place = child
    ends[place] = job
    own.place = place


@inlined
def next_end(state, lane):
    """Return when the next job ends, NEVER if none runs."""
    if state.lanes[lane].running == 0:
        return NEVER
    return state.jobs[lane, state.ends[lane, 0]].end
