"""Rollouts, compiled: candidates of a decision, each played on in the same resampled futures.

Lane 0 of the scratch state holds a future, a copy of the deciding lane whose unknown rest was redrawn; lane 1 plays a
candidate in a copy of it. So all candidates meet the same arrivals and run times (common random numbers).
"""

from __future__ import annotations

from slipstream.jit.decorators import entry, kernel
from slipstream.sim.kernel.lanes import ASKING, act, choose, limit_arrivals, resample, resume
from slipstream.sim.kernel.rng import stream_key
from slipstream.sim.kernel.snapshot import copy_lane

FUTURE, PLAYED = 0, 1
"""Lanes of the scratch state."""
SCRATCH_LANES = 2


@kernel
def copy_between(sources, targets, lane):
    """Copy lane 0 of `sources` to `lane` of `targets`; both are the views of `snapshot.lane_bytes`."""
    for number in range(len(sources)):
        source, target = sources[number], targets[number]
        for offset in range(source.shape[1]):
            target[lane, offset] = source[0, offset]


@kernel
def begin_future(spec, decided, state, rows, key, future, arrivals, peeks):
    """Write the resampled future number `future` into lane FUTURE: at most `arrivals` jobs come in it.

    With `peeks` it is the true future, which no policy may know: for measuring what a leak would gain.
    """
    copy_between(decided, rows, FUTURE)
    header = state.lanes[FUTURE]
    # Futures are simulated, also those of a lane that follows a device.
    header.clock = 0
    if not peeks:
        resample(spec, state, FUTURE, stream_key(stream_key(stream_key(key, header.choices), header.now), future))
    limit_arrivals(spec, state, FUTURE, arrivals)


@entry
def roll_out_plans(spec, decided, state, rows, plans, key, first, arrivals, span, peeks, totals):
    """Write the reward of every plan into `totals`, a row for each future from number `first` on.

    plans (P, M): rows taken one after another; the last one, which waits, is taken at all later decisions too, until
    the episode ends or `span` ns have passed.
    """
    header = state.lanes[PLAYED]
    last = plans.shape[1] - 1
    for future in range(totals.shape[0]):
        begin_future(spec, decided, state, rows, key, first + future, arrivals, peeks)
        until = state.lanes[FUTURE].now + span
        for candidate in range(plans.shape[0]):
            copy_lane(rows, FUTURE, PLAYED)
            taken, total = 0, 0.0
            while True:
                act(spec, state, PLAYED, plans[candidate, min(taken, last)])
                resume(spec, state, PLAYED)
                total += header.reward
                taken += 1
                if header.status != ASKING or header.now >= until:
                    break
            totals[future, candidate] = total


@entry
def roll_out(spec, decided, state, rows, buffer, form, address, actions, key, first, arrivals, span, peeks, totals):
    """Write the reward of every candidate of `actions` into `totals`, a row for each future from number `first` on.

    The compiled policy at `address` plays on until the episode ends or `span` ns have passed.
    """
    header = state.lanes[PLAYED]
    for future in range(totals.shape[0]):
        begin_future(spec, decided, state, rows, key, first + future, arrivals, peeks)
        until = state.lanes[FUTURE].now + span
        for candidate in range(actions.shape[0]):
            copy_lane(rows, FUTURE, PLAYED)
            action, total = actions[candidate], 0.0
            while True:
                act(spec, state, PLAYED, action)
                resume(spec, state, PLAYED)
                total += header.reward
                if header.status != ASKING or header.now >= until:
                    break
                action = choose(spec, state, PLAYED, buffer, form, address)
            totals[future, candidate] = total
