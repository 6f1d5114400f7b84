"""Step time, compiled: linear layers and output layer by tables, attention by a closed form or a table."""

from __future__ import annotations

import math

from slipstream.jit.decorators import inlined, kernel


@inlined
def bracket(points, value):
    """Return the index of the point before `value` and the weight of the next one; flat before the first point.

    Beyond the last point the line through the last two goes on.
    """
    last = points.shape[0] - 1
    if last == 0 or value <= points[0]:
        return 0, 0.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if points[middle] <= value:
            low = middle
        else:
            high = middle
    return low, (value - points[low]) / (points[high] - points[low])


@kernel
def interpolated(points, values, value):
    """Return the height at `value` of the lines through `points` and `values`."""
    low, weight = bracket(points, value)
    if weight == 0.0:
        return values[low]
    return values[low] + weight * (values[low + 1] - values[low])


@kernel
def attention_at(spec, chunk, context, sequences, length):
    """Return the attention of a step, from the table: prefill tokens, their context, sequences, their mean length."""
    first, chunk_weight = bracket(spec.chunk_at, chunk)
    second, context_weight = bracket(spec.context_at, context)
    third, sequence_weight = bracket(spec.decode_at, sequences)
    fourth, length_weight = bracket(spec.decode_context_at, length)
    contexts, decodes, lengths = spec.context_at.shape[0], spec.decode_at.shape[0], spec.decode_context_at.shape[0]
    total = 0.0
    for corner in range(16):
        weight, index = 1.0, 0
        bit = corner & 1
        weight *= chunk_weight if bit else 1.0 - chunk_weight
        index = first + bit
        bit = (corner >> 1) & 1
        weight *= context_weight if bit else 1.0 - context_weight
        index = index * contexts + second + bit
        bit = (corner >> 2) & 1
        weight *= sequence_weight if bit else 1.0 - sequence_weight
        index = index * decodes + third + bit
        bit = (corner >> 3) & 1
        weight *= length_weight if bit else 1.0 - length_weight
        index = index * lengths + fourth + bit
        if weight != 0.0:
            total += weight * spec.attention[index]
    return total


@kernel
def step_time(spec, tokens, sequences, chunk, context, pairs, decodes, decode_context, longest):
    """Return the length of a step in ns, at least 1.

    `chunk` tokens of prefill follow `context` tokens and attend to `pairs` / 2 tokens in all. `decodes` sequences
    attend to `decode_context` tokens, the longest of them to `longest`.
    """
    machine = spec.machine[0]
    time = machine.step + interpolated(spec.dense_at, spec.dense, tokens)
    time += interpolated(spec.head_at, spec.head, sequences)
    if machine.tables:
        mean = decode_context / decodes if decodes > 0 else 0.0
        mean += machine.skew * (longest - mean)
        time += attention_at(spec, chunk, context, decodes, mean)
    else:
        time += machine.attention + machine.per_sequence * decodes + machine.per_pair * (0.5 * pairs)
        time += (machine.per_mixed_context if chunk > 0 else machine.per_context) * decode_context
    return max(1, int(math.ceil(time)))
