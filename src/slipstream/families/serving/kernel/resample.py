"""Compiled redraw of what a policy cannot know: requests to come, and how long running batches take.

Rates that the scenario states by a law (steady, diurnal, bursty) are known, and so is the time for which requests
arrive at such rates. Of a recording, which is listed rates or a trace, only the past is known. The rest of it is a
block of the past: of segments of listed rates that have ended, or of requests that have arrived, with their gaps,
deadlines and accuracy floors. How many requests a trace still has is not known; it is assumed to go on for as long as
it has gone on, at the least for the time between two plans.
"""

from __future__ import annotations

import math

from slipstream.families.serving.kernel.demand import (
    PER_SECOND,
    derive_keys,
    gamma,
    next_redrawn,
    rate_in,
    request_after,
)
from slipstream.families.serving.kernel.slots import arrival_slot, plan_slot, sample_slot
from slipstream.families.serving.kernel.state import (
    EVEN,
    EXPONENTIAL,
    EXPONENTIAL_SERVICE,
    FIXED,
    SILENT,
    TRACE,
)
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.rng import exponential, normal_above, stream_key, uniform

BATCHES = 2**40
"""Stream of the service times of running batches."""
BLOCKS, RESIDUALS = 2**42, 2**43
"""First counters, in a model's stream of gaps, of the blocks of recordings and of the present gap."""
TRIES = 64
"""Most draws of a rejection."""
TAIL = 0.1
"""Time passed, in units of the scale of a gamma gap, from which its rest is drawn from the tail alone."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: requests to come, and the service times of batches that have not ended."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.seed = 0
    header.key = key
    header.streams = 0
    for model in range(machine.models):
        own = state.models[lane, model]
        derive_keys(spec, header, model, own)
        if spec.models[model].law != SILENT:
            time = redrawn_request(spec, model, own, header.now)
            schedule(state.heap, lane, arrival_slot(spec, model), time)
            if time != NEVER:
                header.streams += 1
    # Samples and plans end with the last request, so their slots would tell of it.
    going_on = header.streams > 0
    schedule(state.heap, lane, sample_slot(spec), machine.sample * (header.samples + 1) if going_on else NEVER)
    planned = going_on and not machine.route
    schedule(
        state.heap, lane, plan_slot(spec), (header.now // machine.interval + 1) * machine.interval if planned else NEVER
    )
    if machine.service != FIXED and (machine.service == EXPONENTIAL_SERVICE or machine.spread > 0.0):
        for accelerator in range(machine.accelerators):
            if state.accelerators[lane, accelerator].busy:
                end = redrawn_end(spec, state, lane, accelerator, stream_key(key, BATCHES))
                schedule(state.heap, lane, accelerator, end)


# Requests


@kernel
def redrawn_request(spec, model, own, now):
    """Return the redrawn arrival time of a model's next request, given how long there has been none."""
    source = spec.models[model]
    if source.law == TRACE:
        return redraw_trace(spec, model, own, now)
    if source.recorded:
        own.redrawn = 1
        own.seen = min(int(now / source.segment), source.segments)
        own.block = int(uniform(own.gap_key, BLOCKS) * own.seen)
    own.time = now
    own.segment = int(now / source.segment)
    if source.law == EXPONENTIAL:
        gap = exponential(own.gap_key, RESIDUALS, 1.0)
    else:
        passed = expected_requests(spec, model, own, own.last, now)
        if source.law == EVEN:
            gap = max(0.0, 1.0 - passed)
        else:
            gap = gamma_residual(own, passed * source.gamma_shape, source.gamma_shape) / source.gamma_shape
    return request_after(spec, model, own, gap)


@kernel
def expected_requests(spec, model, own, since, until):
    """Return the integral of a model's rate from `since` to `until`."""
    source = spec.models[model]
    total, time = 0.0, since
    segment = int(since / source.segment)
    while time < until and segment < source.segments:
        end = min((segment + 1) * source.segment, until)
        total += rate_in(spec, model, own, segment) * (end - time)
        time = end
        segment += 1
    return total


@kernel
def gamma_residual(own, passed, shape):
    """Return what is left of a gamma number of scale 1 that is more than `passed`.

    By rejection: of gamma numbers where little has passed, else of exponential numbers, whose rate is that of the
    logarithm of the density at `passed`, and at most 1.
    """
    found = 0.0
    if passed <= max(TAIL, shape):
        for attempt in range(TRIES):
            found = gamma(own, RESIDUALS + attempt, shape) - passed
            if found > 0.0:
                return found
        return 0.0
    rate = min(1.0, 1.0 - (shape - 1.0) / passed)
    for attempt in range(TRIES):
        found = exponential(own.gap_key, RESIDUALS + attempt, 1.0 / rate)
        accepted = (shape - 1.0) * math.log(1.0 + found / passed) - (1.0 - rate) * found
        if math.log(uniform(own.accept_key, RESIDUALS + attempt)) < accepted:
            break
    return found


@kernel
def redraw_trace(spec, model, own, now):
    """Replace the rest of a trace by a block of what was seen of it; return the time of the next request.

    The block begins with a gap that is longer than the time since the last request. Where there is none, gaps are
    exponential, with the mean rate of what was seen, or the expected rate if nothing was.
    """
    source = spec.models[model]
    own.redrawn = 1
    own.seen = own.arrived
    own.block = 0
    own.time = now
    own.end = now + max(now, spec.machine[0].interval)
    own.mean_gap = 0.0
    if own.seen > 0 and now > 0:
        own.mean_gap = now / own.seen
    elif source.expected > 0.0:
        own.mean_gap = PER_SECOND / source.expected
    if own.seen > 1:
        last = spec.requests[source.first_request + own.seen - 1].time
        for attempt in range(TRIES):
            block = 1 + int(uniform(own.gap_key, BLOCKS + attempt) * (own.seen - 1))
            row = source.first_request + block
            if last + spec.requests[row].time - spec.requests[row - 1].time > now:
                own.block = block
                own.time = last
                break
    return next_redrawn(spec, model, own)


# Batches


@kernel
def redrawn_end(spec, state, lane, accelerator, key):
    """Return the end of an accelerator's running batch, redrawn given that it has not ended yet."""
    machine = spec.machine[0]
    now, own = state.lanes[lane].now, state.accelerators[lane, accelerator]
    elapsed = now - own.began
    if machine.service == EXPONENTIAL_SERVICE:
        time = elapsed + exponential(key, accelerator, 1.0) * own.expected
    else:
        half = 0.5 * machine.spread * machine.spread
        least = (math.log(max(elapsed, 1) / own.expected) + half) / machine.spread
        time = own.expected * math.exp(machine.spread * normal_above(key, accelerator, max(least, -40.0)) - half)
    return own.began + max(elapsed + 1, int(math.ceil(time)))
