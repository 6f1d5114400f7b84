"""Running a network of operations in compiled code.

Registers and weights are flat arrays of float32 (`policies.operations` lays them out), few enough to stay in a near
cache. The candidates of several choices may lie one behind the other: those of choice c from `starts[c]` to
`starts[c + 1]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.core.jit import algebra, entry
from slipstream.core.structs import make_struct, struct
from slipstream.policies import operations as o
from slipstream.policies.operations import Layout

ZERO, ONE = np.float32(0.0), np.float32(1.0)
TINY = np.float32(1e-5)
"""Keeps a layer norm from dividing by zero; the default of torch."""


class NetworkType(types.StructRef):
    """Compiled type of Network."""


class Network(structref.StructRefProxy):
    """A network: code (operations, COLUMNS), ports (6,) and starts (choices + 1,) int64, weights, registers float32."""


struct(NetworkType, Network, ["code", "ports", "starts", "weights", "registers"])


@entry
def _make_network(code, ports, starts, weights, registers):
    return Network(code, ports, starts, weights, registers)


def make_network(layout: Layout, weights: np.ndarray) -> Any:
    """Return the network with registers of its own; it reads the caller's weights."""
    arrays = {
        "code": layout.code,
        "ports": layout.ports,
        "starts": np.zeros(layout.choices + 1, np.int64),
        "weights": weights,
        "registers": np.zeros(layout.size, np.float32),
    }
    return make_struct(_make_network, NetworkType, arrays)


@algebra
def matrix(flat, place, rows, columns):
    """Return a part of a flat array as a matrix."""
    return flat[place : place + rows * columns].reshape((rows, columns))


@algebra
def linear(registers, weights, step, count):
    n_in, n_out = step[o.N_IN], step[o.N_OUT]
    target = matrix(registers, step[o.TARGET], count, n_out)
    np.dot(matrix(registers, step[o.SOURCE], count, n_in), matrix(weights, step[o.WEIGHT], n_in, n_out), target)
    bias = weights[step[o.BIAS] : step[o.BIAS] + n_out]
    for row in range(count):
        for j in range(n_out):
            target[row, j] += bias[j]


@algebra
def add(registers, step, starts, choices):
    width = step[o.N_OUT]
    if step[o.PER_ROW] == step[o.TARGET_PER_ROW]:
        size = width * (starts[choices] if step[o.PER_ROW] else choices)
        for place in range(size):
            registers[step[o.TARGET] + place] += registers[step[o.SOURCE] + place]
        return
    target = matrix(registers, step[o.TARGET], starts[choices], width)
    source = matrix(registers, step[o.SOURCE], choices, width)
    for choice in range(choices):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                target[row, j] += source[choice, j]


@algebra
def activate(registers, step, count):
    goal = registers[step[o.TARGET] : step[o.TARGET] + count * step[o.N_OUT]]
    if step[o.OP] == o.RELU:
        for place in range(goal.shape[0]):
            goal[place] = max(goal[place], ZERO)
    else:
        for place in range(goal.shape[0]):
            goal[place] = np.tanh(goal[place])


@algebra
def scale(registers, weights, step, count):
    width = step[o.N_IN]
    factor = weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    bias = weights[step[o.BIAS] : step[o.BIAS] + width]
    source = matrix(registers, step[o.SOURCE], count, width)
    target = matrix(registers, step[o.TARGET], count, width)
    for row in range(count):
        for j in range(width):
            target[row, j] = source[row, j] * factor[j] + bias[j]


@algebra
def normalise(registers, weights, step, count):
    """Write the layer norm of every vector, and the inverse of what it was divided by."""
    width = step[o.N_IN]
    scale = weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    bias = weights[step[o.BIAS] : step[o.BIAS] + width]
    source = matrix(registers, step[o.SOURCE], count, width)
    target = matrix(registers, step[o.TARGET], count, width)
    for row in range(count):
        mean, variance = ZERO, ZERO
        for j in range(width):
            mean += source[row, j]
        mean /= np.float32(width)
        for j in range(width):
            variance += (source[row, j] - mean) * (source[row, j] - mean)
        inverse = ONE / np.sqrt(variance / np.float32(width) + TINY)
        registers[step[o.EXTRA] + row] = inverse
        for j in range(width):
            target[row, j] = (source[row, j] - mean) * inverse * scale[j] + bias[j]


@algebra
def pool(registers, step, starts, choices):
    """Write, for every choice, the mean or the greatest value of every column over its candidates."""
    width = step[o.N_IN]
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    target = matrix(registers, step[o.TARGET], choices, width)
    for choice in range(choices):
        first, end = starts[choice], starts[choice + 1]
        for j in range(width):
            target[choice, j] = source[first, j]
        for row in range(first + 1, end):
            if step[o.OP] == o.MAX:
                for j in range(width):
                    target[choice, j] = max(target[choice, j], source[row, j])
            else:
                for j in range(width):
                    target[choice, j] += source[row, j]
        if step[o.OP] == o.MEAN:
            share = ONE / np.float32(end - first)
            for j in range(width):
                target[choice, j] *= share


@algebra
def attend(registers, step, starts, choices):
    """Write, head by head, the mean of the vectors weighted by the softmax of their scores; scores become weights."""
    heads, width = step[o.WEIGHT], step[o.N_IN]
    part = width // heads
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    scores = matrix(registers, step[o.EXTRA], starts[choices], heads)
    target = matrix(registers, step[o.TARGET], choices, width)
    for choice in range(choices):
        first, end = starts[choice], starts[choice + 1]
        for j in range(width):
            target[choice, j] = ZERO
        for head in range(heads):
            highest, total = scores[first, head], ZERO
            for row in range(first + 1, end):
                highest = max(highest, scores[row, head])
            for row in range(first, end):
                scores[row, head] = np.exp(scores[row, head] - highest)
                total += scores[row, head]
            for row in range(first, end):
                scores[row, head] /= total
                for j in range(head * part, (head + 1) * part):
                    target[choice, j] += scores[row, head] * source[row, j]


@algebra
def infer(network, choices):
    """Run the network on the choices that lie in its registers."""
    registers, weights, starts, code = network.registers, network.weights, network.starts, network.code
    for index in range(code.shape[0]):
        step = code[index]
        count = starts[choices] if step[o.PER_ROW] else choices
        if step[o.OP] == o.LINEAR:
            linear(registers, weights, step, count)
        elif step[o.OP] == o.ADD:
            add(registers, step, starts, choices)
        elif step[o.OP] == o.SCALE:
            scale(registers, weights, step, count)
        elif step[o.OP] == o.NORMALISE:
            normalise(registers, weights, step, count)
        elif step[o.OP] == o.ATTEND:
            attend(registers, step, starts, choices)
        elif step[o.OP] == o.MEAN or step[o.OP] == o.MAX:
            pool(registers, step, starts, choices)
        else:
            activate(registers, step, count)


@algebra
def load_candidates(network, rows, legal, count, global_row):
    """Put the legal candidates of one choice, and the globals, into the network's registers."""
    registers, ports = network.registers, network.ports
    network.starts[0] = 0
    network.starts[1] = count
    goal = matrix(registers, ports[0], count, ports[4])
    for position in range(count):
        row = legal[position]
        for column in range(ports[4]):
            goal[position, column] = rows[row, column]
    for column in range(ports[5]):
        registers[ports[1] + column] = global_row[column]


@algebra
def best_candidate(network, count):
    """Return the candidate with the greatest logit, the first of equals."""
    logits = network.registers[network.ports[2] : network.ports[2] + count]
    best = 0
    for row in range(1, count):
        if logits[row] > logits[best]:
            best = row
    return best
