"""Gradients of a network of operations in compiled code, equal to those of torch.

A block of choices runs forward, through the loss, and backward through the same operations while its registers are
still in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from slipstream.jit.decorators import algebra, entry
from slipstream.jit.structs import make_struct, struct
from slipstream.learn.compiled.graph_gradients import graph_gradient, transpose_message_passing
from slipstream.learn.compiled.objective import loss_gradient
from slipstream.policies import operations as o
from slipstream.policies.compiled.graphs import is_graph_network, load_packed_graph, packed_graph_fits
from slipstream.policies.compiled.inference import count_vectors, infer, is_switched
from slipstream.policies.compiled.vectors import (
    INFINITE,
    ONE,
    ZERO,
    add_product,
    add_vector,
    copy_rows,
    matrix,
    sum_rows,
)
from slipstream.policies.operations import Layout


@struct("weights", "registers", "product", "transposed")
class GradientsType(types.StructRef):
    """Buffers of the backward pass, float32: gradients of weights and registers, and scratch memory for a product.

    transposed: the network's weight matrices, outputs first. Products with them are twice as fast as with transposed
    views.
    """


def make_gradients(layout: Layout, gradient: np.ndarray) -> Any:
    """Return buffers of the backward pass; gradients of the weights are added to the caller's `gradient`."""
    widest = int(layout.code[:, [o.N_IN, o.N_OUT]].max())
    arrays = {
        "weights": gradient,
        "registers": np.zeros(layout.size, np.float32),
        "product": np.zeros(widest * max(widest, *layout.capacities), np.float32),
        "transposed": np.zeros(layout.weights, np.float32),
    }
    return make_struct(GradientsType, arrays)


@algebra
def is_input(network, step):
    """Return whether `step` reads an observation, which needs no gradient."""
    ports, source = network.ports, step[o.SOURCE]
    return source == ports[0] or source == ports[1] or source == ports[o.SORTED_NODES_OFFSET]


@algebra
def linear_gradient(network, gradients, step, starts, choices, count):
    """Add the gradients of weight and bias of a linear layer, and that of its source."""
    n_in, n_out = step[o.N_IN], step[o.N_OUT]
    output_gradient = matrix(gradients.registers, step[o.TARGET], count, n_out)
    source = matrix(network.registers, step[o.SOURCE], count, n_in)
    input_gradient = matrix(gradients.registers, step[o.SOURCE], count, n_in)
    reaches = not is_input(network, step)
    bias = gradients.weights[step[o.BIAS] : step[o.BIAS] + n_out]
    if n_out == 1:
        offset = step[o.WEIGHT]
        to_weight, weight = gradients.weights[offset : offset + n_in], network.weights[offset : offset + n_in]
        vector_gradient(output_gradient, source, weight, to_weight, bias, input_gradient, reaches, step[o.LAST_READ])
        return
    if step[o.ADDED] < 0:
        if step[o.ACTIVATION] >= 0:
            activation_gradient(
                network.registers, gradients.registers, step[o.TARGET], count * n_out, step[o.ACTIVATION]
            )
        sum_rows(output_gradient, bias)
    else:
        if step[o.ACTIVATION] == o.TANH:
            activation_gradient(
                network.registers, gradients.registers, step[o.TARGET], count * n_out, step[o.ACTIVATION]
            )
        output = matrix(network.registers, step[o.TARGET], count, n_out)
        added = matrix(gradients.registers, step[o.ADDED], choices, n_out)
        sum_choices(output_gradient, output, step[o.ACTIVATION] == o.RELU, starts, added, bias, gradients.product)
    add_product(matrix(gradients.weights, step[o.WEIGHT], n_in, n_out), source.T, output_gradient, gradients.product)
    if reaches:
        transposed_weight = matrix(gradients.transposed, step[o.WEIGHT], n_out, n_in)
        if step[o.LAST_READ]:
            np.dot(output_gradient, transposed_weight, input_gradient)
        else:
            add_product(input_gradient, output_gradient, transposed_weight, gradients.product)


@algebra
def transpose_weights(network, transposed):
    """Write the transpose of every weight matrix that gradients are propagated through."""
    for index in range(network.code.shape[0]):
        step = network.code[index]
        n_in, n_out = step[o.N_IN], step[o.N_OUT]
        if step[o.OP] == o.LINEAR and not is_input(network, step):
            source, target = network.weights[step[o.WEIGHT] :], transposed[step[o.WEIGHT] :]
            for i in range(n_in):
                for j in range(n_out):
                    target[j * n_in + i] = source[i * n_out + j]
        elif step[o.OP] == o.MESSAGE_PASSING:
            transpose_message_passing(network, transposed, step)


@algebra
def vector_gradient(output_gradient, source, weight, to_weight, to_bias, input_gradient, reaches, last_read):
    """Add the gradients of a linear layer with a single output, and that of its source."""
    for row in range(source.shape[0]):
        here = output_gradient[row, 0]
        to_bias[0] += here
        for j in range(source.shape[1]):
            to_weight[j] += here * source[row, j]
        if reaches and last_read:
            for j in range(source.shape[1]):
                input_gradient[row, j] = here * weight[j]
        elif reaches:
            for j in range(source.shape[1]):
                input_gradient[row, j] += here * weight[j]


@algebra
def sum_choices(output_gradient, output, rectified, starts, of_choice, bias, total):
    """Apply the gradient of a ReLU if `rectified`, and add every row to the vector of its choice and to `bias`."""
    floor = ZERO if rectified else -INFINITE
    for choice in range(of_choice.shape[0]):
        for j in range(bias.shape[0]):
            total[j] = ZERO
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(bias.shape[0]):
                output_gradient[row, j] = output_gradient[row, j] if output[row, j] > floor else ZERO
                total[j] += output_gradient[row, j]
        for j in range(bias.shape[0]):
            of_choice[choice, j] += total[j]
            bias[j] += total[j]


@algebra
def activation_gradient(registers, gradients, offset, size, kind):
    """Multiply gradients by the derivative of the activation `kind`, in place."""
    output, gradient = registers[offset : offset + size], gradients[offset : offset + size]
    if kind == o.RELU:
        for index in range(size):
            gradient[index] = gradient[index] if output[index] > ZERO else ZERO
    else:
        for index in range(size):
            gradient[index] *= ONE - output[index] * output[index]


@algebra
def add_gradient(gradients, step, starts, choices, count):
    """Add the gradient of the target to that of the source, summed over candidates if it is a vector per choice."""
    width = step[o.N_OUT]
    if step[o.DOMAIN] == step[o.TARGET_DOMAIN]:
        add_vector(gradients, step[o.SOURCE], step[o.TARGET], width * count)
        return
    output_gradient = matrix(gradients, step[o.TARGET], starts[choices], width)
    input_gradient = matrix(gradients, step[o.SOURCE], choices, width)
    for choice in range(choices):
        sum_rows(output_gradient[starts[choice] : starts[choice + 1]], input_gradient[choice])


@algebra
def scale_gradient(network, gradients, step, count):
    """Add the gradient of the target, times the factors, to that of the source."""
    width = step[o.N_IN]
    factor = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    output_gradient = matrix(gradients, step[o.TARGET], count, width)
    input_gradient = matrix(gradients, step[o.SOURCE], count, width)
    for row in range(count):
        for j in range(width):
            input_gradient[row, j] += output_gradient[row, j] * factor[j]


@algebra
def log_gradient(network, gradients, step, count):
    """Add the gradient of the target, times the derivative of the logarithm, to that of the source."""
    width = step[o.N_IN]
    factor = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    source = matrix(network.registers, step[o.SOURCE], count, width)
    output_gradient = matrix(gradients, step[o.TARGET], count, width)
    input_gradient = matrix(gradients, step[o.SOURCE], count, width)
    for row in range(count):
        for j in range(width):
            input_gradient[row, j] += output_gradient[row, j] * factor[j] / (ONE + abs(source[row, j]) * factor[j])


@algebra
def normalise_gradient(network, gradients, step, count):
    """Add the gradients of a layer norm's weight, bias and source."""
    width = step[o.N_IN]
    size = np.float32(width)
    scale = network.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    source = matrix(network.registers, step[o.SOURCE], count, width)
    output_gradient = matrix(gradients.registers, step[o.TARGET], count, width)
    input_gradient = matrix(gradients.registers, step[o.SOURCE], count, width)
    inverses = network.registers[step[o.EXTRA] : step[o.EXTRA] + count]
    to_scale = gradients.weights[step[o.WEIGHT] : step[o.WEIGHT] + width]
    to_bias = gradients.weights[step[o.BIAS] : step[o.BIAS] + width]
    for row in range(count):
        inverse = inverses[row]
        mean, total, along = ZERO, ZERO, ZERO
        for j in range(width):
            mean += source[row, j]
        mean /= size
        for j in range(width):
            unit = (source[row, j] - mean) * inverse
            to_scale[j] += output_gradient[row, j] * unit
            to_bias[j] += output_gradient[row, j]
            total += output_gradient[row, j] * scale[j]
            along += output_gradient[row, j] * scale[j] * unit
        for j in range(width):
            unit = (source[row, j] - mean) * inverse
            input_gradient[row, j] += (
                output_gradient[row, j] * scale[j] - total / size - unit * along / size
            ) * inverse


@algebra
def mean_gradient(gradients, step, starts, choices):
    """Add the gradient of a mean to all its candidates, in equal shares."""
    width = step[o.N_IN]
    output_gradient = matrix(gradients, step[o.TARGET], choices, width)
    input_gradient = matrix(gradients, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        share = ONE / np.float32(starts[choice + 1] - starts[choice])
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                input_gradient[row, j] += output_gradient[choice, j] * share


@algebra
def max_gradient(registers, gradients, step, starts, choices, shares):
    """Add the gradient of a maximum to the candidates that reach it, in equal shares, as torch does."""
    width = step[o.N_IN]
    output_gradient = matrix(gradients, step[o.TARGET], choices, width)
    input_gradient = matrix(gradients, step[o.SOURCE], starts[choices], width)
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    target = matrix(registers, step[o.TARGET], choices, width)
    for choice in range(choices):
        for j in range(width):
            shares[j] = ZERO
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                shares[j] += ONE if source[row, j] == target[choice, j] else ZERO
        for j in range(width):
            shares[j] = output_gradient[choice, j] / shares[j]
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                input_gradient[row, j] += shares[j] if source[row, j] == target[choice, j] else ZERO


@algebra
def attend_gradient(registers, gradients, step, starts, choices):
    """Add the gradients of an attention's source and scores."""
    heads, width = step[o.WEIGHT], step[o.N_IN]
    part = width // heads
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    weights = matrix(registers, step[o.EXTRA], starts[choices], heads)
    output_gradient = matrix(gradients, step[o.TARGET], choices, width)
    input_gradient = matrix(gradients, step[o.SOURCE], starts[choices], width)
    score = matrix(gradients, step[o.EXTRA], starts[choices], heads)
    for choice in range(choices):
        for head in range(heads):
            mean = ZERO
            for row in range(starts[choice], starts[choice + 1]):
                along = ZERO
                for j in range(head * part, (head + 1) * part):
                    input_gradient[row, j] += weights[row, head] * output_gradient[choice, j]
                    along += output_gradient[choice, j] * source[row, j]
                score[row, head] += weights[row, head] * along
                mean += weights[row, head] * along
            for row in range(starts[choice], starts[choice + 1]):
                score[row, head] -= weights[row, head] * mean


@algebra
def switch_gradient(network, gradients, step, starts, choices):
    """Move the gradients of choices that select the second head from the target to the source."""
    width = step[o.N_IN]
    output_gradient = matrix(gradients, step[o.TARGET], starts[choices], width)
    input_gradient = matrix(gradients, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        if is_switched(network, step, choice):
            for row in range(starts[choice], starts[choice + 1]):
                for j in range(width):
                    input_gradient[row, j] += output_gradient[row, j]
                    output_gradient[row, j] = ZERO


@algebra
def clear_gradients(network, gradients, choices):
    """Set the register gradients of the block before to zero."""
    code, counts = network.code, count_vectors(network, choices)
    for index in range(code.shape[0]):
        step = code[index]
        if not step[o.CLEAR]:
            continue
        gradient = gradients[step[o.TARGET] : step[o.TARGET] + step[o.N_OUT] * counts[step[o.TARGET_DOMAIN]]]
        for index in range(gradient.shape[0]):
            gradient[index] = ZERO


@algebra
def backpropagate(network, gradients, choices):
    """Propagate the gradients of logits and values back to the weights."""
    registers, starts, code = network.registers, network.starts, network.code
    counts = count_vectors(network, choices)
    for index in range(code.shape[0] - 1, -1, -1):
        step = code[index]
        count = counts[step[o.DOMAIN]]
        if count == 0:
            continue
        if step[o.OP] == o.LINEAR:
            linear_gradient(network, gradients, step, starts, choices, count)
        elif step[o.OP] == o.ADD:
            add_gradient(gradients.registers, step, starts, choices, count)
        elif step[o.OP] == o.SCALE:
            if not is_input(network, step):
                scale_gradient(network, gradients.registers, step, count)
        elif step[o.OP] == o.LOG:
            if not is_input(network, step):
                log_gradient(network, gradients.registers, step, count)
        elif step[o.OP] == o.NORMALISE:
            normalise_gradient(network, gradients, step, count)
        elif step[o.OP] == o.ATTEND:
            attend_gradient(registers, gradients.registers, step, starts, choices)
        elif step[o.OP] == o.MEAN:
            mean_gradient(gradients.registers, step, starts, choices)
        elif step[o.OP] == o.MAX:
            max_gradient(registers, gradients.registers, step, starts, choices, gradients.product)
        elif step[o.OP] == o.SWITCH:
            switch_gradient(network, gradients.registers, step, starts, choices)
        elif step[o.OP] >= o.MESSAGE_PASSING:
            graph_gradient(network, gradients, step, choices, count)
        else:
            activation_gradient(registers, gradients.registers, step[o.TARGET], count * step[o.N_OUT], step[o.OP])


@algebra
def load_block(network, rows, begin, count, global_rows, graphs, picks, first):
    """Load as many picked choices as fit, from `first` on, into the registers; return their number."""
    registers, ports, starts = network.registers, network.ports, network.starts
    candidates, choices = ports[6], ports[7]
    nodes, node_job, edges, row_node, spans = graphs
    graph = is_graph_network(network)
    row_inputs = matrix(registers, ports[0], candidates, ports[4])
    global_inputs = matrix(registers, ports[1], choices, ports[5])
    starts[0] = 0
    block = 0
    while first + block < picks.shape[0] and block < choices:
        pick = picks[first + block]
        first_row, size = starts[block], np.int64(count[pick])
        if first_row + size > candidates or (graph and not packed_graph_fits(network, block, spans[pick])):
            break
        if graph:
            own = row_node[begin[pick] : begin[pick] + size]
            load_packed_graph(network, block, spans[pick], nodes, node_job, edges, own)
        copy_rows(rows, begin[pick], row_inputs, first_row, size)
        copy_rows(global_rows, pick, global_inputs, block, 1)
        starts[block + 1] = first_row + size
        block += 1
    return block


@entry
def accumulate_gradients(
    network, gradients, rows, begin, count, global_rows, graphs, picks, loss_settings, samples, action_values, sums
):
    """Add the gradient of every picked choice's loss to that of the weights.

    `graphs` are the arrays of `learn.rollout.batch.Graphs`; `action_values` has a number per packed row, for the
    objective EXPECTED; the terms of the loss are added to `sums`.
    """
    # Fields of structs are read once: every read updates a reference count.
    registers, register_gradients, ports, starts = network.registers, gradients.registers, network.ports, network.starts
    loss, done = loss_settings[0], 0
    transpose_weights(network, gradients.transposed)
    while done < picks.shape[0]:
        block = load_block(network, rows, begin, count, global_rows, graphs, picks, done)
        infer(network, block)
        clear_gradients(network, register_gradients, block)
        for choice in range(block):
            pick = picks[done + choice]
            logits, size = ports[2] + starts[choice], starts[choice + 1] - starts[choice]
            value = registers[ports[3] + choice]
            register_gradients[ports[3] + choice] = loss_gradient(
                loss,
                samples[pick],
                action_values,
                begin[pick],
                registers,
                logits,
                size,
                value,
                register_gradients,
                sums,
            )
        backpropagate(network, gradients, block)
        done += block
