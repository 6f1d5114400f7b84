"""Rules of RLScheduler's simulator, apart from ours, compiled: what differs under `compat: "rlscheduler"`.

Jobs that end at the same time do so in the order in which they started, which `lifecycle.start` notes.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.lifecycle import start
from slipstream.families.cluster.kernel.state import EASY
from slipstream.jit.decorators import inlined, kernel


@inlined
def applies_events_singly(spec):
    """Return whether a scheduling point comes after each event of an instant, where submissions come first."""
    return spec.machine[0].compat


@inlined
def policy_backfills(machine):
    """Return whether a policy chooses the jobs that pass a reserved one; by the published rules they are given."""
    return machine.backfill == EASY and not machine.compat


@kernel
def reserve_and_backfill(spec, state, lane):
    """Compute the shadow time of the job that was just reserved, and start the jobs that may pass it."""
    find_shadow_time(state, lane)
    backfill_by_number(spec, state, lane)


@kernel
def find_shadow_time(state, lane):
    """Compute the shadow time by expected ends, those already past included."""
    header = state.lanes[lane]
    need = state.jobs[lane, header.reserved].gpus
    free = header.free
    header.shadow = header.now
    for index in range(header.running):
        job = state.running[lane, index]
        free += state.jobs[lane, job].gpus
        header.shadow = state.jobs[lane, job].expected_end
        if free >= need:
            break


@kernel
def backfill_by_number(spec, state, lane):
    """Start the jobs, by number, that end before the shadow time computed when the reserved job was chosen.

    The queue may be in any order. Each start leaves fewer GPUs free, so no job that was passed over can fit later.
    """
    header = state.lanes[lane]
    queue = state.queue[lane]
    last = -1
    while header.free > 0:
        best = -1
        for index in range(header.waiting):
            row = queue[index]
            in_time = row.gpus <= header.free and header.now + row.expected < header.shadow
            if in_time and row.job > last and (best < 0 or row.job < queue[best].job):
                best = index
        if best < 0:
            return
        last = queue[best].job
        start(spec, state, lane, best, 0, 1)
