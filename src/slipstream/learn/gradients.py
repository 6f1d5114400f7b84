"""Gradients of a network of operations, in compiled code: what torch would give, a few choices at a time.

A block of choices is run forward once more and then backward through the same operations. That costs a third more
arithmetic than keeping every register of a forward pass, and saves reading and writing them all from memory, which
takes longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.core.jit import algebra, entry
from slipstream.core.structs import make_struct, struct
from slipstream.policies import operations as o
from slipstream.policies.inference import ONE, ZERO, infer, matrix
from slipstream.policies.operations import Layout


class SlopesType(types.StructRef):
    """Compiled type of Slopes."""


class Slopes(structref.StructRefProxy):
    """What flows backward, float32: gradients of the weights and of the registers, and room for a product."""


struct(SlopesType, Slopes, ["weights", "registers", "product"])


@entry
def _make_slopes(weights, registers, product):
    return Slopes(weights, registers, product)


def make_slopes(layout: Layout, gradient: np.ndarray) -> Any:
    """Return room for gradients; those of the weights are added to the caller's `gradient`."""
    widest = int(layout.code[:, [o.N_IN, o.N_OUT]].max())
    arrays = {
        "weights": gradient,
        "registers": np.zeros(layout.size, np.float32),
        "product": np.zeros(widest * max(widest, layout.candidates, layout.choices), np.float32),
    }
    return make_struct(_make_slopes, SlopesType, arrays)


@algebra
def add_product(target, a, b, room):
    """Add the matrix product of a and b to the target."""
    product = matrix(room, 0, target.shape[0], target.shape[1])
    np.dot(a, b, product)
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += product[row, j]


@algebra
def is_input(network, step):
    """Return whether a step reads what was observed: no gradient need reach that."""
    return step[o.SOURCE] == network.ports[0] or step[o.SOURCE] == network.ports[1]


@algebra
def linear_slopes(network, slopes, step, count):
    n_in, n_out = step[o.N_IN], step[o.N_OUT]
    slope = matrix(slopes.registers, step[o.TARGET], count, n_out)
    source = matrix(network.registers, step[o.SOURCE], count, n_in)
    add_product(matrix(slopes.weights, step[o.WEIGHT], n_in, n_out), source.T, slope, slopes.product)
    bias = slopes.weights[step[o.BIAS] : step[o.BIAS] + n_out]
    for row in range(count):
        for j in range(n_out):
            bias[j] += slope[row, j]
    if not is_input(network, step):
        weight = matrix(network.weights, step[o.WEIGHT], n_in, n_out)
        add_product(matrix(slopes.registers, step[o.SOURCE], count, n_in), slope, weight.T, slopes.product)


@algebra
def add_slopes(slopes, step, starts, choices):
    width = step[o.N_OUT]
    if step[o.PER_ROW] == step[o.TARGET_PER_ROW]:
        size = width * (starts[choices] if step[o.PER_ROW] else choices)
        for place in range(size):
            slopes[step[o.SOURCE] + place] += slopes[step[o.TARGET] + place]
        return
    slope = matrix(slopes, step[o.TARGET], starts[choices], width)
    goal = matrix(slopes, step[o.SOURCE], choices, width)
    for choice in range(choices):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                goal[choice, j] += slope[row, j]


@algebra
def activate_slopes(registers, slopes, step, count):
    size = count * step[o.N_OUT]
    reached = registers[step[o.TARGET] : step[o.TARGET] + size]
    slope = slopes[step[o.TARGET] : step[o.TARGET] + size]
    if step[o.OP] == o.RELU:
        for place in range(size):
            slope[place] = slope[place] if reached[place] > ZERO else ZERO
    else:
        for place in range(size):
            slope[place] *= ONE - reached[place] * reached[place]


@algebra
def scale_slopes(network, slopes, step, count):
    width = step[o.N_IN]
    factor = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    slope = matrix(slopes, step[o.TARGET], count, width)
    goal = matrix(slopes, step[o.SOURCE], count, width)
    for row in range(count):
        for j in range(width):
            goal[row, j] += slope[row, j] * factor[j]


@algebra
def normalise_slopes(network, slopes, step, count):
    width = step[o.N_IN]
    size = np.float32(width)
    scale = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    source = matrix(network.registers, step[o.SOURCE], count, width)
    slope = matrix(slopes.registers, step[o.TARGET], count, width)
    goal = matrix(slopes.registers, step[o.SOURCE], count, width)
    inverses = network.registers[step[o.EXTRA] : step[o.EXTRA] + count]
    to_scale = slopes.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    to_bias = slopes.weights[step[o.BIAS] : step[o.BIAS] + width]
    for row in range(count):
        inverse = inverses[row]
        mean, total, along = ZERO, ZERO, ZERO
        for j in range(width):
            mean += source[row, j]
        mean /= size
        for j in range(width):
            unit = (source[row, j] - mean) * inverse
            to_scale[j] += slope[row, j] * unit
            to_bias[j] += slope[row, j]
            total += slope[row, j] * scale[j]
            along += slope[row, j] * scale[j] * unit
        for j in range(width):
            unit = (source[row, j] - mean) * inverse
            goal[row, j] += (slope[row, j] * scale[j] - total / size - unit * along / size) * inverse


@algebra
def mean_slopes(slopes, step, starts, choices):
    width = step[o.N_IN]
    slope = matrix(slopes, step[o.TARGET], choices, width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        share = ONE / np.float32(starts[choice + 1] - starts[choice])
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                goal[row, j] += slope[choice, j] * share


@algebra
def max_slopes(registers, slopes, step, starts, choices, shares):
    """Candidates that are equally high share the gradient, as in torch."""
    width = step[o.N_IN]
    slope = matrix(slopes, step[o.TARGET], choices, width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    target = matrix(registers, step[o.TARGET], choices, width)
    for choice in range(choices):
        for j in range(width):
            shares[j] = ZERO
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                shares[j] += ONE if source[row, j] == target[choice, j] else ZERO
        for j in range(width):
            shares[j] = slope[choice, j] / shares[j]
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                goal[row, j] += shares[j] if source[row, j] == target[choice, j] else ZERO


@algebra
def attend_slopes(registers, slopes, step, starts, choices):
    heads, width = step[o.WEIGHT], step[o.N_IN]
    part = width // heads
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    weights = matrix(registers, step[o.EXTRA], starts[choices], heads)
    slope = matrix(slopes, step[o.TARGET], choices, width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    score = matrix(slopes, step[o.EXTRA], starts[choices], heads)
    for choice in range(choices):
        for head in range(heads):
            mean = ZERO
            for row in range(starts[choice], starts[choice + 1]):
                along = ZERO
                for j in range(head * part, (head + 1) * part):
                    goal[row, j] += weights[row, head] * slope[choice, j]
                    along += slope[choice, j] * source[row, j]
                score[row, head] += weights[row, head] * along
                mean += weights[row, head] * along
            for row in range(starts[choice], starts[choice + 1]):
                score[row, head] -= weights[row, head] * mean


@algebra
def clear_slopes(network, slopes, choices):
    """Forget the gradients of the block before."""
    code, starts = network.code, network.starts
    for index in range(code.shape[0]):
        step = code[index]
        count = starts[choices] if step[o.TARGET_PER_ROW] else choices
        goal = slopes[step[o.TARGET] : step[o.TARGET] + step[o.N_OUT] * count]
        for place in range(goal.shape[0]):
            goal[place] = ZERO


@algebra
def backpropagate(network, slopes, choices):
    """Carry the gradients of logits and values back to the weights."""
    registers, starts, code = network.registers, network.starts, network.code
    for index in range(code.shape[0] - 1, -1, -1):
        step = code[index]
        count = starts[choices] if step[o.PER_ROW] else choices
        if step[o.OP] == o.LINEAR:
            linear_slopes(network, slopes, step, count)
        elif step[o.OP] == o.ADD:
            add_slopes(slopes.registers, step, starts, choices)
        elif step[o.OP] == o.SCALE:
            if not is_input(network, step):
                scale_slopes(network, slopes.registers, step, count)
        elif step[o.OP] == o.NORMALISE:
            normalise_slopes(network, slopes, step, count)
        elif step[o.OP] == o.ATTEND:
            attend_slopes(registers, slopes.registers, step, starts, choices)
        elif step[o.OP] == o.MEAN:
            mean_slopes(slopes.registers, step, starts, choices)
        elif step[o.OP] == o.MAX:
            max_slopes(registers, slopes.registers, step, starts, choices, slopes.product)
        else:
            activate_slopes(registers, slopes.registers, step, count)


@algebra
def load_block(network, rows, begin, count, global_rows, picks, first, candidates, choices):
    """Put as many picked choices as fit, from the `first` on, into the registers; return how many they are."""
    registers, ports, starts = network.registers, network.ports, network.starts
    goal = matrix(registers, ports[0], candidates, ports[4])
    starts[0] = 0
    block = 0
    while first + block < picks.shape[0] and block < choices:
        pick = picks[first + block]
        begun, size = starts[block], np.int64(count[pick])
        if begun + size > candidates:
            break
        for row in range(size):
            for column in range(ports[4]):
                goal[begun + row, column] = rows[begin[pick] + row, column]
        for column in range(ports[5]):
            registers[ports[1] + block * ports[5] + column] = global_rows[pick, column]
        starts[block + 1] = begun + size
        block += 1
    return block


@entry
def score_choices(network, sizes, rows, begin, count, global_rows, picks, offsets, logits, values):
    """Write the logits, packed at `offsets`, and the values of the picked choices, in blocks of those sizes."""
    # Fields of structs are read once: every read counts a reference.
    registers, ports, starts = network.registers, network.ports, network.starts
    done = 0
    while done < picks.shape[0]:
        block = load_block(network, rows, begin, count, global_rows, picks, done, sizes[0], sizes[1])
        infer(network, block)
        for place in range(starts[block]):
            logits[offsets[done] + place] = registers[ports[2] + place]
        for choice in range(block):
            values[done + choice] = registers[ports[3] + choice]
        done += block


@entry
def add_gradients(network, slopes, sizes, rows, begin, count, global_rows, picks, offsets, d_logits, d_values):
    """Add the gradient of every picked choice to that of the weights, in blocks of those sizes."""
    flowing, ports, starts = slopes.registers, network.ports, network.starts
    done = 0
    while done < picks.shape[0]:
        block = load_block(network, rows, begin, count, global_rows, picks, done, sizes[0], sizes[1])
        infer(network, block)
        clear_slopes(network, flowing, block)
        for place in range(starts[block]):
            flowing[ports[2] + place] = d_logits[offsets[done] + place]
        for choice in range(block):
            flowing[ports[3] + choice] = d_values[done + choice]
        backpropagate(network, slopes, block)
        done += block
