"""The allocation of a round, compiled: candidates, choices, and the start of the round."""

from __future__ import annotations

from slipstream.families.elastic.kernel.compat import set_quota
from slipstream.families.elastic.kernel.lifecycle import (
    bring_up_to_date,
    configuration_of,
    preempt,
    round_slot,
    start,
)
from slipstream.families.elastic.kernel.state import NOWHERE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, schedule


@kernel
def begin_allocation(spec, state, lane):
    """Bring all jobs up to date, and make all GPUs free for the round that is to begin."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.due, header.planning, header.placed, header.free_gpus = 0, 1, 0, machine.gpus
    for kind in range(machine.kinds):
        state.free[lane, kind] = spec.kinds[kind].gpus
    for place in range(header.active):
        number = state.active[lane, place]
        state.jobs[lane, number].next = NOWHERE
        if state.jobs[lane, number].runs != NOWHERE:
            bring_up_to_date(spec, state, lane, number)


@kernel
def list_candidates(spec, state, lane):
    """List the unfinished jobs without GPUs in the round that begins, with every configuration that fits."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.candidates = 0
    for place in range(header.active):
        number = state.active[lane, place]
        job = state.jobs[lane, number]
        if job.next != NOWHERE:
            continue
        for index in range(spec.templates[job.template].configurations):
            own = configuration_of(spec, job, index)
            if own.gpus <= state.free[lane, own.kind]:
                state.candidates[lane, header.candidates] = number * machine.widest + index
                header.candidates += 1
    header.shown = min(header.candidates, machine.rows)


@kernel
def allocate(spec, state, lane, candidate):
    """Give the job of a candidate its GPUs in the round that begins."""
    machine, header = spec.machine[0], state.lanes[lane]
    chosen = state.candidates[lane, candidate]
    job = state.jobs[lane, chosen // machine.widest]
    job.next = chosen % machine.widest
    own = configuration_of(spec, job, job.next)
    state.free[lane, own.kind] -= own.gpus
    header.free_gpus -= own.gpus
    header.placed += 1


@inlined
def may_wait(header):
    """Return whether the round may begin: some job has GPUs, or others are to come."""
    return header.placed > 0 or header.arrived < header.jobs


@kernel
def begin_round(spec, state, lane):
    """Take GPUs from the jobs that do not keep theirs, then start the others, each in order of arrival."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.planning, header.candidates, header.shown = 0, 0, 0
    header.rounds += 1
    for place in range(header.active):
        job = state.jobs[lane, state.active[lane, place]]
        if job.runs != NOWHERE and job.runs != job.next:
            preempt(spec, state, lane, state.active[lane, place])
    longest = 0
    for place in range(header.active):
        number = state.active[lane, place]
        job = state.jobs[lane, number]
        if job.next != NOWHERE and job.runs == NOWHERE:
            start(spec, state, lane, number)
        if machine.compat and job.next != NOWHERE:
            time = set_quota(machine, job, configuration_of(spec, job, job.runs).rate)
            longest = max(longest, time)
            if job.quota == job.left:
                schedule(state.heap, lane, number, header.now + time)
    if machine.compat:
        schedule(state.heap, lane, round_slot(state), header.now + longest if longest > 0 else NEVER)
    elif machine.round_length > 0:
        schedule(state.heap, lane, round_slot(state), header.now + machine.round_length)
