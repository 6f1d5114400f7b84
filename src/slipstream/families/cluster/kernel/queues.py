"""Lists of jobs, compiled: the queue by score, the running jobs by expected end, and the heap of ends.

Loops work on a view of their lane: what is read through the struct is read again after every store.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER

# The queue: by score, then by number


@inlined
def comes_before(score, job, other):
    """Return whether `job` with `score` precedes `other` in the queue."""
    return score < other.score or (score == other.score and job < other.job)


@inlined
def copy_queued(target, source):
    """Copy a row of the queue from `source` to `target`."""
    target.score = source.score
    target.expected = source.expected
    target.job = source.job
    target.gpus = source.gpus


@kernel
def enqueue(state, lane, score, job, expected, gpus):
    """Insert `job` into the queue by its `score`."""
    header = state.lanes[lane]
    queue = state.queue[lane]
    index = header.waiting
    while index > 0 and comes_before(score, job, queue[index - 1]):
        copy_queued(queue[index], queue[index - 1])
        index -= 1
    row = queue[index]
    row.score = score
    row.job = job
    row.expected = expected
    row.gpus = gpus
    header.waiting += 1
    header.waiting_gpus += gpus


@kernel
def dequeue(state, lane, index):
    """Remove the job at `index` from the queue."""
    header = state.lanes[lane]
    queue = state.queue[lane]
    header.waiting -= 1
    header.waiting_gpus -= queue[index].gpus
    for other_index in range(index, header.waiting):
        copy_queued(queue[other_index], queue[other_index + 1])


@kernel
def queue_index(state, lane, job):
    """Return the index of `job` in the queue."""
    queue = state.queue[lane]
    index = 0
    while queue[index].job != job:
        index += 1
    return index


@kernel
def sort_queue(state, lane):
    """Sort the queue by score: by insertion, since it is nearly sorted as a rule."""
    queue = state.queue[lane]
    for index in range(1, state.lanes[lane].waiting):
        row = queue[index]
        score, expected, job, gpus = row.score, row.expected, row.job, row.gpus
        target = index
        while target > 0 and comes_before(score, job, queue[target - 1]):
            copy_queued(queue[target], queue[target - 1])
            target -= 1
        if target < index:
            row = queue[target]
            row.score = score
            row.expected = expected
            row.job = job
            row.gpus = gpus


# Running jobs by expected end, then by number


@kernel
def running_index(state, lane, job):
    """Return the index of `job` among the running jobs, or where it would be inserted."""
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
def add_running(state, lane, job):
    """Insert `job` into the running jobs and the heap of ends."""
    header = state.lanes[lane]
    running = state.running[lane]
    index = running_index(state, lane, job)
    for other_index in range(header.running, index, -1):
        running[other_index] = running[other_index - 1]
    running[index] = job
    sift_up(state, lane, header.running, job)
    header.running += 1


@kernel
def remove_running(state, lane, job):
    """Remove `job` from the running jobs and the heap of ends."""
    header = state.lanes[lane]
    running = state.running[lane]
    index = running_index(state, lane, job)
    header.running -= 1
    for other_index in range(index, header.running):
        running[other_index] = running[other_index + 1]
    other = state.ends[lane, header.running]
    if other != job:
        sift_up(state, lane, state.jobs[lane, job].heap_index, other)
        sift_down(state, lane, state.jobs[lane, other].heap_index, other, header.running)


# The heap of ends: by end, then by tie rank


@inlined
def ends_before(one, other):
    """Return whether a job ends before another; ties by tie rank."""
    return one.end < other.end or (one.end == other.end and one.tie_rank < other.tie_rank)


@kernel
def sift_up(state, lane, index, job):
    """Insert `job` into the heap at `index` and move it up to its position."""
    ends, jobs = state.ends[lane], state.jobs[lane]
    own = jobs[job]
    while index > 0:
        parent = (index - 1) // 2
        other = ends[parent]
        if not ends_before(own, jobs[other]):
            break
        ends[index] = other
        jobs[other].heap_index = index
        index = parent
    ends[index] = job
    own.heap_index = index


@kernel
def sift_down(state, lane, index, job, count):
    """Insert `job` into the heap of `count` jobs at `index` and move it down to its position."""
    ends, jobs = state.ends[lane], state.jobs[lane]
    own = jobs[job]
    while 2 * index + 1 < count:
        child = 2 * index + 1
        if child + 1 < count and ends_before(jobs[ends[child + 1]], jobs[ends[child]]):
            child += 1
        other = ends[child]
        if not ends_before(jobs[other], own):
            break
        ends[index] = other
        jobs[other].heap_index = index
        index = child
    ends[index] = job
    own.heap_index = index


@inlined
def next_end(state, lane):
    """Return the time at which the next job ends, NEVER if none runs."""
    if state.lanes[lane].running == 0:
        return NEVER
    return state.jobs[lane, state.ends[lane, 0]].end
