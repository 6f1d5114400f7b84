"""Requests, compiled: arrival times, lengths, classes and predictions, drawn by number or read from a list."""

from __future__ import annotations

import math

from slipstream.families.llm.kernel.state import (
    CLASSES,
    GAPS,
    GROUPS,
    OUTPUTS,
    PREDICTIONS,
    PROMPTS,
    WINDOW,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import TRAIN, normal, stream_key, uniform


@inlined
def derive_keys(header):
    """Derive the keys of the streams of requests from the key of the episode."""
    header.gap_key = stream_key(header.key, GAPS)
    header.class_key = stream_key(header.key, CLASSES)
    header.prompt_key = stream_key(header.key, PROMPTS)
    header.output_key = stream_key(header.key, OUTPUTS)
    header.group_key = stream_key(header.key, GROUPS)
    header.prediction_key = stream_key(header.key, PREDICTIONS)


@kernel
def choose_window(spec, header, split):
    """Choose the listed requests of the episode: a window that begins anywhere in the part of the split."""
    header.first, header.origin = 0, 0
    if spec.machine[0].listed:
        part = spec.splits[0 if split == TRAIN else 1]
        span = part.high - part.low + 1
        header.first = part.low + int(uniform(stream_key(header.key, WINDOW), 0) * span)
        if span > 1 or header.first > 0:
            header.origin = spec.listed[header.first].time


@kernel
def drawn_gap(spec, header, number):
    """Return the gap before request `number`, a quantile of the gaps' distribution, in whole ns."""
    index = uniform(header.gap_key, number) * (spec.gaps.shape[0] - 1)
    low = int(index)
    share = index - low
    gap = spec.gaps[low] + share * (spec.gaps[low + 1] - spec.gaps[low])
    return max(1, int(math.ceil(gap * spec.machine[0].mean_gap)))


@kernel
def source_of(spec, header, number):
    """Return the listed request that request `number` is."""
    if header.redrawn and number >= header.seen:
        return header.first + (header.block + number - header.seen) % max(1, header.seen)
    return header.first + number


@kernel
def next_arrival(spec, header):
    """Return the time of the next request, NEVER if none is left."""
    number = header.arrived
    if number >= header.to_come:
        return NEVER
    if not spec.machine[0].listed:
        return header.now + drawn_gap(spec, header, number)
    if header.redrawn:
        source = source_of(spec, header, number)
        if source == header.first:
            return header.now + 1
        return header.now + max(1, spec.listed[source].time - spec.listed[source - 1].time)
    return spec.listed[header.first + number].time - header.origin


@inlined
def scaled_index(key, counter, count):
    """Return a random index below `count`."""
    return int(uniform(key, counter) * count)


@kernel
def drawn_class(spec, header, number):
    """Return the class of a drawn request."""
    lot = uniform(header.class_key, number)
    group = 0
    while group < spec.machine[0].classes - 1 and lot >= spec.classes[group].until:
        group += 1
    return group


@kernel
def drawn_output(spec, header, number, counter):
    """Return draw `counter` of the output length of a request."""
    if spec.machine[0].paired:
        return spec.outputs[scaled_index(header.prompt_key, number, spec.prompts.shape[0])]
    return spec.outputs[scaled_index(header.output_key, counter, spec.outputs.shape[0])]


@kernel
def predicted_output(spec, header, number, output):
    """Return the output length that is predicted for a request."""
    machine = spec.machine[0]
    if not machine.predicts:
        return machine.mean_output
    if machine.spread == 0.0:
        return output
    factor = math.exp(machine.spread * normal(header.prediction_key, number) - 0.5 * machine.spread * machine.spread)
    return max(1, int(round(min(output * factor, 1e9))))


@kernel
def fill_request(spec, state, lane, number):
    """Write lengths, class and prediction of request `number`, which arrives now.

    A request of a redrawn trace has the output of the one seen that it repeats, as far as that is known.
    """
    machine, header, request = spec.machine[0], state.lanes[lane], state.requests[lane, number]
    if machine.listed:
        request.source = source_of(spec, header, number)
        row = spec.listed[request.source]
        request.prompt, request.output, request.group = row.prompt, row.output, row.group
        if header.redrawn and number >= header.seen and header.seen > 0:
            request.output = state.requests[lane, request.source - header.first].output
        request.predicted = row.predicted
        if row.predicted == 0:
            request.predicted = predicted_output(spec, header, number, request.output)
    else:
        request.source = scaled_index(header.group_key, number, machine.groups) if machine.groups > 0 else 0
        drawn = spec.prompts[scaled_index(header.prompt_key, number, spec.prompts.shape[0])]
        request.prompt = drawn + machine.prefix_tokens
        request.output = drawn_output(spec, header, number, number)
        request.group = drawn_class(spec, header, number)
        request.predicted = predicted_output(spec, header, number, request.output)
