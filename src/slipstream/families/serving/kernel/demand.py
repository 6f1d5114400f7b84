"""Arrival processes and rate forecasts, compiled."""

from __future__ import annotations

import math

from slipstream.families.serving.kernel.state import EVEN, EWMA, EXPONENTIAL, TRACE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import exponential_time, normal, stream_key, uniform

STREAMS_PER_MODEL = 8
GAPS, ACCEPTANCE, BOOST, SERVICE, ROUTING = range(5)
"""Random-number streams of a model."""
ATTEMPTS = 32
"""Most attempts to accept a gamma number; each succeeds with a probability of over 95%."""
PER_SECOND = 1e9
REDRAWN_ROWS = 2**41
"""First counter, in the stream of gaps, of the rows that redrawn requests repeat."""


@kernel
def derive_keys(spec, header, model, own):
    """Derive the random-number keys of `model` from its number in the file, so that other models do not matter."""
    first = 1 + STREAMS_PER_MODEL * spec.models[model].number
    own.gap_key = stream_key(header.key, first + GAPS)
    own.accept_key = stream_key(header.key, first + ACCEPTANCE)
    own.boost_key = stream_key(header.key, first + BOOST)
    own.service_key = stream_key(header.key, first + SERVICE)
    own.route_key = stream_key(header.key, first + ROUTING)


@kernel
def gamma(own, counter, shape):
    """Return a gamma number of scale 1 and shape `shape` (Marsaglia and Tsang, 2000)."""
    boosted = shape + 1.0 if shape < 1.0 else shape
    d = boosted - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    value = d
    for attempt in range(ATTEMPTS):
        x = normal(own.gap_key, ATTEMPTS * counter + attempt)
        v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
        if v > 0.0:
            u = uniform(own.accept_key, ATTEMPTS * counter + attempt)
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                value = d * v
                break
    if shape < 1.0:
        value *= math.pow(uniform(own.boost_key, counter), 1.0 / shape)
    return value


@kernel
def next_request(spec, model, own):
    """Return the arrival time of a model's next request, NEVER if there is none."""
    source = spec.models[model]
    if source.law == TRACE:
        if own.redrawn:
            return next_redrawn(spec, model, own)
        if own.arrived >= source.requests:
            return NEVER
        return spec.requests[source.first_request + own.arrived].time
    if source.law == EXPONENTIAL:
        gap = -math.log(uniform(own.gap_key, own.arrived))
    elif source.law == EVEN:
        gap = 1.0
    else:
        gap = gamma(own, own.arrived, source.gamma_shape) / source.gamma_shape
    return request_after(spec, model, own, gap)


@kernel
def request_after(spec, model, own, gap):
    """Return the arrival time of the request that comes `gap` expected requests after `own.time`, NEVER if none."""
    source = spec.models[model]
    time = own.time
    while own.segment < source.segments:
        rate = rate_in(spec, model, own, own.segment)
        end = min((own.segment + 1) * source.segment, source.end)
        capacity = rate * (end - time)
        if gap <= capacity and rate > 0.0:
            time += gap / rate
            own.time = time
            return int(math.ceil(time))
        gap -= capacity
        time = end
        own.segment += 1
    return NEVER


# Recordings whose rest was redrawn


@inlined
def rate_in(spec, model, own, segment):
    """Return the rate in a segment; of a recording that was redrawn, that of a segment before, or the expected one."""
    source = spec.models[model]
    if own.redrawn and segment >= own.seen:
        if own.seen == 0:
            return source.expected / PER_SECOND
        # The present segment goes on like the one before it.
        segment = own.seen - 1 if segment == own.seen else (own.block + segment - own.seen - 1) % own.seen
    return spec.rates[source.first_segment + segment]


@kernel
def listed_row(spec, model, own, number):
    """Return the row of request `number` in the trace, or of the one that it repeats where the rest was redrawn.

    It is -1 if nothing had been seen of the trace.
    """
    first = spec.models[model].first_request
    if not own.redrawn or number < own.seen:
        return first + number
    if own.seen == 0:
        return -1
    if own.block == 0:
        return first + int(uniform(own.gap_key, REDRAWN_ROWS + number) * own.seen)
    return first + 1 + (own.block - 1 + number - own.seen) % (own.seen - 1)


@kernel
def next_redrawn(spec, model, own):
    """Return the arrival time of the next request of a trace whose rest was redrawn, NEVER if there is none."""
    if own.mean_gap == 0.0:
        return NEVER
    if own.block > 0:
        row = listed_row(spec, model, own, own.arrived)
        own.time += spec.requests[row].time - spec.requests[row - 1].time
    else:
        own.time += exponential_time(own.gap_key, own.arrived, own.mean_gap)
    return int(own.time) if own.time <= own.end else NEVER


# Forecasts


@kernel
def take_sample(spec, state, lane):
    """Measure the rate of each model since the last sample and update its forecast."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.samples += 1
    for model in range(machine.models):
        own = state.models[lane, model]
        own.rate = own.sampled / (machine.sample / PER_SECOND)
        own.sampled = 0
        a = machine.level_weight
        if machine.forecast == EWMA:
            own.weighed = own.rate + (1.0 - a) * own.weighed
            own.weight = 1.0 + (1.0 - a) * own.weight
            own.forecast = own.weighed / own.weight
        else:
            guess = own.weighed + own.weight
            error = abs(own.rate - guess)
            level = a * own.rate + (1.0 - a) * guess
            b = machine.trend_weight
            own.weight = b * (level - own.weighed) + (1.0 - b) * own.weight
            own.weighed = level
            own.deviation = own.deviation + a * (error - own.deviation)
            ahead = own.weighed + own.weight * machine.ahead
            own.forecast = max(0.0, ahead + machine.margin * own.deviation)
