"""The way back through the operations that walk graphs, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.core.jit import algebra
from slipstream.policies import operations as o
from slipstream.policies.graphs import climb_layer, climb_parts, pick_rows
from slipstream.policies.vectors import ZERO, add_product, matrix, sum_rows


@algebra
def turn_climb(weights, turned, step):
    """Write the matrices of a climb with their outputs first."""
    for number in range(3):
        source, goal = climb_layer(weights, step, number)[0], climb_layer(turned, step, number)[0]
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                goal[j, i] = source[i, j]


@algebra
def climb_slopes(network, slopes, step, nodes):
    """Carry slopes back from the top level to the leaves; those of the layers then come from all levels at once."""
    width, node_at, starts = step[o.N_IN], network.node_at, network.level_starts
    child_starts, child_at = network.child_starts, network.child_at
    vectors, messages, sums, hidden = climb_parts(network.registers, step[o.EXTRA], nodes, width)
    to_vectors, to_messages, to_sums, to_hidden = climb_parts(slopes.registers, step[o.EXTRA], nodes, width)
    message, merge = climb_layer(slopes.turned, step, 0)[0], climb_layer(slopes.turned, step, 1)[0]
    update = climb_layer(slopes.turned, step, 2)[0]
    pick_rows(matrix(slopes.registers, step[o.TARGET], nodes, width), node_at, to_vectors)
    to_messages[:] = ZERO
    levels = 0
    while starts[levels] < nodes:
        levels += 1
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
    leaves, below = starts[1], starts[levels - 1]
    layer_slopes(slopes, step, 0, vectors[:below], to_messages[:below])
    layer_slopes(slopes, step, 1, sums[leaves:], to_hidden[leaves:])
    layer_slopes(slopes, step, 2, hidden[leaves:], to_vectors[leaves:])
    goal = matrix(slopes.registers, step[o.SOURCE], nodes, width)
    for place in range(nodes):
        node = node_at[place]
        for j in range(width):
            goal[node, j] += to_vectors[place, j]


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
    for row in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            slope[row, j] = slope[row, j] if reached[row, j] > ZERO else ZERO


@algebra
def add_rows(target, term):
    """Add rows to rows."""
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += term[row, j]


@algebra
def tell_children(to_sums, child_starts, child_at, first, end, to_messages):
    """Add the slopes of the sums of a level to those of the messages that they were made of."""
    for place in range(first, end):
        for index in range(child_starts[place], child_starts[place + 1]):
            child = child_at[index]
            for j in range(to_sums.shape[1]):
                to_messages[child, j] += to_sums[place, j]


@algebra
def sum_jobs_slopes(network, slopes, step, nodes, jobs):
    """Give every node the slopes of its job."""
    width, job_of = step[o.N_IN], network.job_of
    slope = matrix(slopes.registers, step[o.TARGET], jobs, width)
    goal = matrix(slopes.registers, step[o.SOURCE], nodes, width)
    for node in range(nodes):
        job = job_of[node]
        for j in range(width):
            goal[node, j] += slope[job, j]


@algebra
def sum_all_slopes(slopes, step, starts, choices):
    """Give everything of a choice its slopes."""
    width = step[o.N_IN]
    slope = matrix(slopes, step[o.TARGET], choices, width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                goal[row, j] += slope[choice, j]


@algebra
def take_slopes(network, slopes, step, count, rows):
    """Give every node, or every job, the slopes of the candidates that took its vector."""
    width, node_of, job_of = step[o.N_IN], network.node_of, network.job_of
    slope = matrix(slopes.registers, step[o.TARGET], rows, width)
    goal = matrix(slopes.registers, step[o.SOURCE], count, width)
    for row in range(rows):
        place = node_of[row]
        if place >= 0:
            if step[o.DOMAIN] == o.JOB:
                place = job_of[place]
            for j in range(width):
                goal[place, j] += slope[row, j]


@algebra
def graph_slopes(network, slopes, step, choices, count):
    """Carry slopes back through one of the operations that walk graphs; its source has `count` vectors."""
    if step[o.OP] == o.CLIMB:
        climb_slopes(network, slopes, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs_slopes(network, slopes, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take_slopes(network, slopes, step, count, network.starts[choices])
    elif step[o.DOMAIN] == o.NODE:
        sum_all_slopes(slopes.registers, step, network.node_starts, choices)
    else:
        sum_all_slopes(slopes.registers, step, network.job_starts, choices)
