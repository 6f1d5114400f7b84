"""The rows of a choice, compiled: those that an observation has room for come first.

As a rule all are shown. Where too many jobs wait, half of the room goes to the oldest, half to the smallest by
expected GPU-time; the rest is listed behind, for compiled policies.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.lifecycle import expected_left
from slipstream.jit.decorators import kernel


@kernel
def arrange(spec, state, lane):
    """Copy the rows from the second half of the list to the first, what is shown before what is not."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    raw = state.candidates.shape[1] // 2
    some = header.start_jobs > machine.window
    if some:
        mark_shown(spec, state, lane, raw)
    shown_stops = min(header.candidates - header.starts, machine.window_running)
    count = 0
    for place in range(header.starts):
        code = state.candidates[lane, raw + place]
        if not some or state.jobs[lane, code // machine.levels].shown:
            state.candidates[lane, count] = code
            count += 1
    header.shown_starts = count
    for place in range(shown_stops):
        state.candidates[lane, count] = state.candidates[lane, raw + header.starts + place]
        count += 1
    header.shown = count
    if some:
        for place in range(header.starts):
            code = state.candidates[lane, raw + place]
            if not state.jobs[lane, code // machine.levels].shown:
                state.candidates[lane, count] = code
                count += 1
    for place in range(header.starts + shown_stops, header.candidates):
        state.candidates[lane, count] = state.candidates[lane, raw + place]
        count += 1


@kernel
def mark_shown(spec, state, lane, raw):
    """Mark the oldest jobs with rows and, of the others, the smallest."""
    machine = spec.machine[0]
    oldest, smallest = (machine.window + 1) // 2, machine.window // 2
    seen, kept, last = 0, 0, -1
    for place in range(state.lanes[lane].starts):
        job = state.candidates[lane, raw + place] // machine.levels
        if job == last:
            continue
        last = job
        seen += 1
        own = state.jobs[lane, job]
        own.shown = 1 if seen <= oldest else 0
        if seen > oldest:
            kept = keep_small(state, lane, job, float(own.gpus) * float(expected_left(own)), kept, smallest)
    for place in range(kept):
        state.jobs[lane, state.small[lane, place].job].shown = 1


@kernel
def keep_small(state, lane, job, area, kept, most):
    """Let a job be one of the smallest so far if it is; who came before stays before it on ties."""
    if kept == most:
        if area >= state.small[lane, kept - 1].area:
            return kept
        kept -= 1
    place = kept
    while place > 0 and area < state.small[lane, place - 1].area:
        state.small[lane, place].area = state.small[lane, place - 1].area
        state.small[lane, place].job = state.small[lane, place - 1].job
        place -= 1
    state.small[lane, place].area = area
    state.small[lane, place].job = job
    return kept + 1
