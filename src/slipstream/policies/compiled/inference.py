"""Forward pass of a network of operations in compiled code.

Registers and weights are flat arrays of float32 (`policies.operations` assigns the offsets), small enough for the L1 or
L2 cache. The candidates of several choices are concatenated: those of choice c from `starts[c]` to `starts[c + 1]`.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra
from slipstream.policies import operations as o
from slipstream.policies.compiled.graphs import arrange, count_jobs, count_nodes, run_graph_step
from slipstream.policies.compiled.vectors import (
    HALF,
    ONE,
    ZERO,
    add_bias,
    add_bias_per_choice,
    add_vector,
    matrix,
    tanh_activation,
    weighted_sums,
)

EPSILON = np.float32(1e-5)
"""Epsilon of the layer norm, torch's default."""


@algebra
def linear(registers, weights, step, starts, choices, count):
    """Write the linear layer of the source, with the vector added to it and the activation in the same pass."""
    n_in, n_out = step[o.N_IN], step[o.N_OUT]
    source = matrix(registers, step[o.SOURCE], count, n_in)
    target = matrix(registers, step[o.TARGET], count, n_out)
    bias = weights[step[o.BIAS] : step[o.BIAS] + n_out]
    if n_out == 1:
        weighted_sums(source, weights[step[o.WEIGHT] : step[o.WEIGHT] + n_in], bias[0], target)
    else:
        np.dot(source, matrix(weights, step[o.WEIGHT], n_in, n_out), target)
        rectify = step[o.ACTIVATION] == o.RELU
        if step[o.ADDED] < 0:
            add_bias(target, bias, rectify)
        else:
            add_bias_per_choice(target, bias, matrix(registers, step[o.ADDED], choices, n_out), starts, rectify)
    if step[o.ACTIVATION] == o.TANH:
        tanh_activation(registers, step[o.TARGET], count * n_out)


@algebra
def add(registers, step, starts, choices, count):
    """Add the source to the target; a vector per choice is added to every candidate of the choice."""
    width = step[o.N_OUT]
    if step[o.DOMAIN] == step[o.TARGET_DOMAIN]:
        add_vector(registers, step[o.TARGET], step[o.SOURCE], width * count)
        return
    target = matrix(registers, step[o.TARGET], starts[choices], width)
    source = matrix(registers, step[o.SOURCE], choices, width)
    for choice in range(choices):
        add_bias(target[starts[choice] : starts[choice + 1]], source[choice], False)


@algebra
def activate(registers, step, count):
    """Apply the activation of `step` in place."""
    size = count * step[o.N_OUT]
    values = registers[step[o.TARGET] : step[o.TARGET] + size]
    if step[o.OP] == o.RELU:
        for index in range(size):
            values[index] = max(values[index], ZERO)
    else:
        tanh_activation(registers, step[o.TARGET], size)


@algebra
def scale(registers, weights, step, count):
    """Write source * weight + bias, column by column."""
    width = step[o.N_IN]
    factor = weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    bias = weights[step[o.BIAS] : step[o.BIAS] + width]
    source = matrix(registers, step[o.SOURCE], count, width)
    target = matrix(registers, step[o.TARGET], count, width)
    for row in range(count):
        for j in range(width):
            target[row, j] = source[row, j] * factor[j] + bias[j]


@algebra
def signed_log(registers, weights, step, count):
    """Write sign(source) log(1 + |source| * weight), column by column."""
    width = step[o.N_IN]
    factor = weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    source = matrix(registers, step[o.SOURCE], count, width)
    target = matrix(registers, step[o.TARGET], count, width)
    for row in range(count):
        for j in range(width):
            size = np.log(ONE + abs(source[row, j]) * factor[j])
            target[row, j] = size if source[row, j] > ZERO else -size


@algebra
def normalise(registers, weights, step, count):
    """Write the layer norm of every vector, and the inverse of its deviation for the backward pass."""
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
        inverse = ONE / np.sqrt(variance / np.float32(width) + EPSILON)
        registers[step[o.EXTRA] + row] = inverse
        for j in range(width):
            target[row, j] = (source[row, j] - mean) * inverse * scale[j] + bias[j]


@algebra
def pool(registers, step, starts, choices):
    """Write, for every choice, the mean or the maximum of every column over its candidates."""
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
    """Write, per head, the mean of the vectors weighted by the softmax of `scores`, which become the weights."""
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
def is_switched(network, step, choice):
    """Return whether the globals of a choice select the second head."""
    width = network.ports[5]
    weight = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    seen = matrix(network.registers, network.ports[1], choice + 1, width)[choice]
    total = ZERO
    for j in range(width):
        total += seen[j] * weight[j]
    return total > HALF


@algebra
def switch(network, step, starts, choices):
    """Copy the source to the target for candidates of choices that select the second head."""
    width = step[o.N_IN]
    source = matrix(network.registers, step[o.SOURCE], starts[choices], width)
    target = matrix(network.registers, step[o.TARGET], starts[choices], width)
    for choice in range(choices):
        if is_switched(network, step, choice):
            for row in range(starts[choice], starts[choice + 1]):
                for j in range(width):
                    target[row, j] = source[row, j]


@algebra
def count_vectors(network, choices):
    """Return the number of vectors in a register of each domain: choices, candidates, nodes, jobs."""
    nodes, jobs = np.int64(count_nodes(network, choices)), np.int64(count_jobs(network, choices))
    return choices, network.starts[choices], nodes, jobs


@algebra
def infer(network, choices):
    """Run the forward pass on the first `choices` choices in the registers."""
    registers, weights, starts, code = network.registers, network.weights, network.starts, network.code
    counts = count_vectors(network, choices)
    arrange(network, choices)
    for index in range(code.shape[0]):
        step = code[index]
        count = counts[step[o.DOMAIN]]
        if step[o.OP] == o.LINEAR:
            if count > 0:
                linear(registers, weights, step, starts, choices, count)
        elif step[o.OP] == o.ADD:
            add(registers, step, starts, choices, count)
        elif step[o.OP] == o.SCALE:
            scale(registers, weights, step, count)
        elif step[o.OP] == o.LOG:
            signed_log(registers, weights, step, count)
        elif step[o.OP] == o.NORMALISE:
            normalise(registers, weights, step, count)
        elif step[o.OP] == o.ATTEND:
            attend(registers, step, starts, choices)
        elif step[o.OP] == o.MEAN or step[o.OP] == o.MAX:
            pool(registers, step, starts, choices)
        elif step[o.OP] == o.SWITCH:
            switch(network, step, starts, choices)
        elif step[o.OP] >= o.MESSAGE_PASSING:
            run_graph_step(network, step, choices, count)
        else:
            activate(registers, step, count)


@algebra
def load_candidates(network, choice, rows, legal, count, global_row):
    """Append the `count` legal candidates of a choice, and its globals, to the choices in the registers."""
    registers, ports, starts = network.registers, network.ports, network.starts
    first = starts[choice]
    starts[choice + 1] = first + count
    for position in range(count):
        row = legal[position]
        offset = ports[0] + (first + position) * ports[4]
        for column in range(min(ports[4], rows.shape[1])):
            registers[offset + column] = rows[row, column]
    offset = ports[1] + choice * ports[5]
    for column in range(ports[5]):
        registers[offset + column] = global_row[column]


@algebra
def best_candidate(network, choice):
    """Return the candidate of `choice` with the highest logit, the first of equals."""
    first, end = network.ports[2] + network.starts[choice], network.ports[2] + network.starts[choice + 1]
    logits = network.registers[first:end]
    best = 0
    for row in range(1, end - first):
        if logits[row] > logits[best]:
            best = row
    return best
