"""Backward pass of the operations on graphs, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra
from slipstream.policies import operations as o
from slipstream.policies.compiled.graphs import message_passing_buffers, message_passing_layer
from slipstream.policies.compiled.networks import graph_function
from slipstream.policies.compiled.vectors import ZERO, add_product, add_vector, matrix, sum_rows


@graph_function
def transpose_message_passing(network, transposed, step):
    """Write the transposes of the matrices of message passing."""
    weights = network.weights
    for number in range(3):
        source, target = (
            message_passing_layer(weights, step, number)[0],
            message_passing_layer(transposed, step, number)[0],
        )
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                target[j, i] = source[i, j]


@algebra
def message_passing_gradient(network, gradients, step, nodes):
    """Propagate gradients from the top level to the leaves; those of the layers come from all levels at once."""
    starts, child_starts, child_at = network.level_starts, network.child_starts, network.child_at
    vectors, messages, sums, hidden = message_passing_buffers(network.registers, step, nodes)
    vector_gradients, message_gradients, sum_gradients, hidden_gradients = message_passing_buffers(
        gradients.registers, step, nodes
    )
    message, merge = (
        message_passing_layer(gradients.transposed, step, 0)[0],
        message_passing_layer(gradients.transposed, step, 1)[0],
    )
    update = message_passing_layer(gradients.transposed, step, 2)[0]
    levels = 0
    while starts[levels] < nodes:
        levels += 1
    leaves, below = starts[1], starts[levels - 1]
    message_gradients[:below] = ZERO
    for level in range(levels - 1, -1, -1):
        first, end = starts[level], starts[level + 1]
        if level + 1 < levels:
            relu_gradient(message_gradients[first:end], messages[first:end])
            # The gradients of this level's sums are not written yet, so their buffer holds the product.
            np.dot(message_gradients[first:end], message, sum_gradients[first:end])
            add_rows(vector_gradients[first:end], sum_gradients[first:end])
        if level > 0:
            np.dot(vector_gradients[first:end], update, hidden_gradients[first:end])
            relu_gradient(hidden_gradients[first:end], hidden[first:end])
            np.dot(hidden_gradients[first:end], merge, sum_gradients[first:end])
            scatter_to_children(sum_gradients, child_starts, child_at, first, end, message_gradients)
    layer_gradient(gradients, step, 0, vectors[:below], message_gradients[:below])
    layer_gradient(gradients, step, 1, sums[leaves:], hidden_gradients[leaves:])
    layer_gradient(gradients, step, 2, hidden[leaves:], vector_gradients[leaves:])
    add_vector(gradients.registers, step[o.SOURCE], step[o.TARGET], nodes * step[o.N_IN])


@algebra
def layer_gradient(gradients, step, number, source, output_gradient):
    """Add the gradients of layer `number` of message passing, given its input and the gradient of its output."""
    if source.shape[0] > 0:
        matrix_gradient, bias_gradient = message_passing_layer(gradients.weights, step, number)
        add_product(matrix_gradient, source.T, output_gradient, gradients.product)
        sum_rows(output_gradient, bias_gradient)


@algebra
def relu_gradient(gradient, output):
    """Set gradients to zero where the output of a ReLU is zero, in place."""
    flat, values = gradient.reshape(-1), output.reshape(-1)
    for index in range(flat.shape[0]):
        flat[index] = flat[index] if values[index] > ZERO else ZERO


@algebra
def add_rows(target, term):
    """Add the rows of `term` to those of `target`."""
    flat, other = target.reshape(-1), term.reshape(-1)
    for index in range(flat.shape[0]):
        flat[index] += other[index]


@algebra
def scatter_to_children(sum_gradients, child_starts, child_at, first, end, message_gradients):
    """Add the gradients of a level's sums to those of the messages they were summed from."""
    for node in range(first, end):
        for index in range(child_starts[node], child_starts[node + 1]):
            message_gradient, sum_gradient = message_gradients[child_at[index]], sum_gradients[node]
            for j in range(message_gradient.shape[0]):
                message_gradient[j] += sum_gradient[j]


@algebra
def sum_jobs_gradient(network, gradients, step, nodes, jobs):
    """Add the gradient of every job to its nodes."""
    width, job_at = step[o.N_IN], network.job_at
    output_gradient = matrix(gradients.registers, step[o.TARGET], jobs, width)
    input_gradient = matrix(gradients.registers, step[o.SOURCE], nodes, width)
    for node in range(nodes):
        node_gradient, job_gradient = input_gradient[node], output_gradient[job_at[node]]
        for j in range(width):
            node_gradient[j] += job_gradient[j]


@algebra
def sum_choices_gradient(gradients, step, starts, choices):
    """Add the gradient of every choice to its jobs."""
    width = step[o.N_IN]
    output_gradient = matrix(gradients, step[o.TARGET], choices, width)
    input_gradient = matrix(gradients, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        for job in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                input_gradient[job, j] += output_gradient[choice, j]


@algebra
def take_gradient(network, gradients, step, count, rows):
    """Add the gradients of candidates to the nodes, or jobs, whose vectors they took."""
    width, row_position, job_at = step[o.N_IN], network.row_position, network.job_at
    output_gradient = matrix(gradients.registers, step[o.TARGET], rows, width)
    input_gradient = matrix(gradients.registers, step[o.SOURCE], count, width)
    for row in range(rows):
        index = row_position[row]
        if index >= 0:
            if step[o.DOMAIN] == o.JOB:
                index = job_at[index]
            for j in range(width):
                input_gradient[index, j] += output_gradient[row, j]


@graph_function
def graph_gradient(network, gradients, step, choices, count):
    """Propagate gradients back through an operation on graphs; its source has `count` vectors."""
    if step[o.OP] == o.MESSAGE_PASSING:
        message_passing_gradient(network, gradients, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs_gradient(network, gradients, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take_gradient(network, gradients, step, count, network.starts[choices])
    else:
        sum_choices_gradient(gradients.registers, step, network.job_starts, choices)
