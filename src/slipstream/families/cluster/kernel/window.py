"""Order of the candidate rows, compiled: those in the observation window come first.

As a rule all rows are shown. Where more jobs wait than the window holds, half of it goes to the oldest, half to the
smallest by expected GPU-time; the other rows are listed after the window, for compiled policies.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.lifecycle import expected_left
from slipstream.jit.decorators import kernel


@kernel
def order_rows(spec, state, lane):
    """Copy the rows from the second half of `candidates` to the first, those shown before the others."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    raw = state.candidates.shape[1] // 2
    some = header.start_jobs > machine.window
    if some:
        mark_shown(spec, state, lane, raw)
    shown_stops = min(header.candidates - header.starts, machine.window_running)
    count = 0
    for index in range(header.starts):
        code = state.candidates[lane, raw + index]
        if not some or state.jobs[lane, code // machine.levels].shown:
            state.candidates[lane, count] = code
            count += 1
    header.shown_starts = count
    for index in range(shown_stops):
        state.candidates[lane, count] = state.candidates[lane, raw + header.starts + index]
        count += 1
    header.shown = count
    if some:
        for index in range(header.starts):
            code = state.candidates[lane, raw + index]
            if not state.jobs[lane, code // machine.levels].shown:
                state.candidates[lane, count] = code
                count += 1
    for index in range(header.starts + shown_stops, header.candidates):
        state.candidates[lane, count] = state.candidates[lane, raw + index]
        count += 1


@kernel
def mark_shown(spec, state, lane, raw):
    """Mark the jobs in the observation window: the oldest with rows and, of the others, the smallest."""
    machine = spec.machine[0]
    oldest, smallest = (machine.window + 1) // 2, machine.window // 2
    seen, kept, last = 0, 0, -1
    for index in range(state.lanes[lane].starts):
        job = state.candidates[lane, raw + index] // machine.levels
        if job == last:
            continue
        last = job
        seen += 1
        own = state.jobs[lane, job]
        own.shown = 1 if seen <= oldest else 0
        if seen > oldest:
            kept = insert_smallest(state, lane, job, float(own.gpus) * float(expected_left(own)), kept, smallest)
    for index in range(kept):
        state.jobs[lane, state.small[lane, index].job].shown = 1


@kernel
def insert_smallest(state, lane, job, area, kept, most):
    """Insert `job` into the `kept` smallest by `area`, at most `most`; return their number. Ties keep the older job."""
    if kept == most:
        if area >= state.small[lane, kept - 1].area:
            return kept
        kept -= 1
    index = kept
    while index > 0 and area < state.small[lane, index - 1].area:
        state.small[lane, index].area = state.small[lane, index - 1].area
        state.small[lane, index].job = state.small[lane, index - 1].job
        index -= 1
    state.small[lane, index].area = area
    state.small[lane, index].job = job
    return kept + 1
