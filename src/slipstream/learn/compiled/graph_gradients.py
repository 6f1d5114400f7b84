"""The way back through the operations that walk graphs, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra
from slipstream.policies import operations as o
from slipstream.policies.compiled.graphs import climb_layer, climb_parts
from slipstream.policies.compiled.networks import graph_function
from slipstream.policies.compiled.vectors import ZERO, add_product, add_vector, matrix, sum_rows


@graph_function
def turn_climb(network, turned, step):
    """Write the matrices of a climb with their outputs first."""
    weights = network.weights
    for number in range(3):
        source, goal = climb_layer(weights, step, number)[0], climb_layer(turned, step, number)[0]
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                goal[j, i] = source[i, j]


@algebra
def climb_slopes(network, slopes, step, nodes):
    """Carry slopes back from the top level to the leaves; those of the layers then come from all levels at once."""
    starts, child_starts, child_at = network.level_starts, network.child_starts, network.child_at
    vectors, messages, sums, hidden = climb_parts(network.registers, step, nodes)
    to_vectors, to_messages, to_sums, to_hidden = climb_parts(slopes.registers, step, nodes)
    message, merge = climb_layer(slopes.turned, step, 0)[0], climb_layer(slopes.turned, step, 1)[0]
    update = climb_layer(slopes.turned, step, 2)[0]
    levels = 0
    while starts[levels] < nodes:
        levels += 1
    leaves, below = starts[1], starts[levels - 1]
    to_messages[:below] = ZERO
    for level in range(levels - 1, -1, -1):
        first, end = starts[level], starts[level + 1]
        if level + 1 < levels:
            cut_off(to_messages[first:end], messages[first:end])
            # The place of the sums' slopes is free until the vectors' are done.
            np.dot(to_messages[first:end], message, to_sums[first:end])
            add_rows(to_vectors[first:end], to_sums[first:end])
        if level > 0:
            np.dot(to_vectors[first:end], update, to_hidden[first:end])
            cut_off(to_hidden[first:end], hidden[first:end])
            np.dot(to_hidden[first:end], merge, to_sums[first:end])
            tell_children(to_sums, child_starts, child_at, first, end, to_messages)
    layer_slopes(slopes, step, 0, vectors[:below], to_messages[:below])
    layer_slopes(slopes, step, 1, sums[leaves:], to_hidden[leaves:])
    layer_slopes(slopes, step, 2, hidden[leaves:], to_vectors[leaves:])
    add_vector(slopes.registers, step[o.SOURCE], step[o.TARGET], nodes * step[o.N_IN])


@algebra
def layer_slopes(slopes, step, number, source, slope):
    """Add the slopes of one of a climb's layers, from what it read and the slopes of what it wrote."""
    if source.shape[0] > 0:
        to_matrix, to_bias = climb_layer(slopes.weights, step, number)
        add_product(to_matrix, source.T, slope, slopes.product)
        sum_rows(slope, to_bias)


@algebra
def cut_off(slope, reached):
    """Forget slopes where nothing got through on the way there."""
    flat, through = slope.reshape(-1), reached.reshape(-1)
    for index in range(flat.shape[0]):
        flat[index] = flat[index] if through[index] > ZERO else ZERO


@algebra
def add_rows(target, term):
    """Add rows to rows."""
    flat, other = target.reshape(-1), term.reshape(-1)
    for index in range(flat.shape[0]):
        flat[index] += other[index]


@algebra
def tell_children(to_sums, child_starts, child_at, first, end, to_messages):
    """Add the slopes of the sums of a level to those of the messages that they were made of."""
    for place in range(first, end):
        for index in range(child_starts[place], child_starts[place + 1]):
            goal, slope = to_messages[child_at[index]], to_sums[place]
            for j in range(goal.shape[0]):
                goal[j] += slope[j]


@algebra
def sum_jobs_slopes(network, slopes, step, nodes, jobs):
    """Give every node the slopes of its job."""
    width, job_at = step[o.N_IN], network.job_at
    slope = matrix(slopes.registers, step[o.TARGET], jobs, width)
    goal = matrix(slopes.registers, step[o.SOURCE], nodes, width)
    for place in range(nodes):
        own, of_job = goal[place], slope[job_at[place]]
        for j in range(width):
            own[j] += of_job[j]


@algebra
def sum_choices_slopes(slopes, step, starts, choices):
    """Give every job the slopes of its choice."""
    width = step[o.N_IN]
    slope = matrix(slopes, step[o.TARGET], choices, width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        for job in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                goal[job, j] += slope[choice, j]


@algebra
def take_slopes(network, slopes, step, count, rows):
    """Give every node, or every job, the slopes of the candidates that took its vector."""
    width, place_of, job_at = step[o.N_IN], network.place_of, network.job_at
    slope = matrix(slopes.registers, step[o.TARGET], rows, width)
    goal = matrix(slopes.registers, step[o.SOURCE], count, width)
    for row in range(rows):
        place = place_of[row]
        if place >= 0:
            if step[o.DOMAIN] == o.JOB:
                place = job_at[place]
            for j in range(width):
                goal[place, j] += slope[row, j]


@graph_function
def graph_slopes(network, slopes, step, choices, count):
    """Carry slopes back through one of the operations that walk graphs; its source has `count` vectors."""
    if step[o.OP] == o.CLIMB:
        climb_slopes(network, slopes, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs_slopes(network, slopes, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take_slopes(network, slopes, step, count, network.starts[choices])
    else:
        sum_choices_slopes(slopes.registers, step, network.job_starts, choices)
