"""Futures of a cluster, compiled: whole episodes from one present state, under several orders of the queue.

The workload holds the jobs of all futures: those of future f begin at index f * `machine.jobs`, first those of the
present, then those to come.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import find_shadow
from slipstream.families.cluster.kernel.events import advance_to_point, begin, set_order
from slipstream.families.cluster.kernel.fast_path import play_on, serve_queue
from slipstream.families.cluster.kernel.state import EASY, ENERGY
from slipstream.jit.decorators import entry, kernel
from slipstream.sim.kernel.rng import TEST

STARTED, WAITED, ENDED = range(3)
"""What is written of a job: when it started last, for how long it waited in all, and when it ended."""


@entry
def play_futures(spec, state, orders, jobs, instant, outcomes, energy):
    """Play every future in every queue order of `orders` to its end, or, if `instant`, through its first instant only.

    jobs (F): number of jobs in each future. Writes outcomes (F, P, 3, J) and energy (F, P) in kWh. After an instant the
    lane keeps the state in which the scheduling point left it: jobs, queue, reservation and its shadow time.
    """
    for future in range(jobs.shape[0]):
        for number in range(orders.shape[0]):
            begin_future(spec, state, future, jobs[future])
            if instant:
                play_instant(spec, state, orders[number])
            else:
                play_on(spec, state, 0, orders[number])
            write_outcomes(state, outcomes[future, number], jobs[future])
            energy[future, number] = total_energy(state)


@kernel
def play_instant(spec, state, order):
    """Play the first instant of the episode in lane 0 in the queue order `order`."""
    set_order(spec, state, 0, order)
    if advance_to_point(spec, state, 0):
        serve_queue(spec, state, 0)
    if state.lanes[0].reserved >= 0 and spec.machine[0].backfill == EASY:
        find_shadow(spec, state, 0)


@kernel
def begin_future(spec, state, future, jobs):
    """Start the episode of the future number `future`, in which `jobs` jobs arrive, in lane 0."""
    begin(spec, state, 0, 0, TEST)
    header = state.lanes[0]
    header.first = future * spec.machine[0].jobs
    header.origin = header.first
    header.jobs = jobs


@kernel
def write_outcomes(state, outcomes, jobs):
    """Write how the episode in lane 0 went for its `jobs` jobs."""
    for job in range(jobs):
        own = state.jobs[0, job]
        outcomes[STARTED, job] = own.start
        outcomes[WAITED, job] = own.waited
        outcomes[ENDED, job] = own.end


@kernel
def total_energy(state):
    """Return the energy of the episode in lane 0 in kWh, in which no step was taken."""
    return state.terms[0, ENERGY]
