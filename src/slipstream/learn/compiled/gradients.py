"""Gradients of a network of operations, in compiled code: what torch would give, a few choices at a time.

A block of choices is run forward, judged, and run backward through the same operations while its registers are still
in a near cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from slipstream.jit.decorators import algebra, entry
from slipstream.jit.structs import make_struct, struct
from slipstream.learn.compiled.graph_gradients import graph_slopes, turn_climb
from slipstream.learn.compiled.objective import choice_slopes
from slipstream.policies import operations as o
from slipstream.policies.compiled.graphs import load_packed_graph, looks_at_graphs, packed_graph_fits
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


@struct("weights", "registers", "product", "turned")
class SlopesType(types.StructRef):
    """What flows backward, float32: gradients of the weights and of the registers, and room for a product.

    turned: the matrices among the network's weights, outputs first. Products with them are twice as fast as with
    matrices that have to be turned every time.
    """


def make_slopes(layout: Layout, gradient: np.ndarray) -> Any:
    """Return room for gradients; those of the weights are added to the caller's `gradient`."""
    widest = int(layout.code[:, [o.N_IN, o.N_OUT]].max())
    arrays = {
        "weights": gradient,
        "registers": np.zeros(layout.size, np.float32),
        "product": np.zeros(widest * max(widest, *layout.room), np.float32),
        "turned": np.zeros(layout.weights, np.float32),
    }
    return make_struct(SlopesType, arrays)


@algebra
def is_input(network, step):
    """Return whether a step reads what was observed: no gradient need reach that."""
    ports, source = network.ports, step[o.SOURCE]
    return source == ports[0] or source == ports[1] or source == ports[o.SORTED_PLACE]


@algebra
def linear_slopes(network, slopes, step, starts, choices, count):
    n_in, n_out = step[o.N_IN], step[o.N_OUT]
    slope = matrix(slopes.registers, step[o.TARGET], count, n_out)
    source = matrix(network.registers, step[o.SOURCE], count, n_in)
    back = matrix(slopes.registers, step[o.SOURCE], count, n_in)
    reaches = not is_input(network, step)
    bias = slopes.weights[step[o.BIAS] : step[o.BIAS] + n_out]
    if n_out == 1:
        place = step[o.WEIGHT]
        to_weight, weight = slopes.weights[place : place + n_in], network.weights[place : place + n_in]
        vector_slopes(slope, source, weight, to_weight, bias, back, reaches, step[o.LAST_READ])
        return
    if step[o.ADDED] < 0:
        if step[o.BEND] >= 0:
            unbend(network.registers, slopes.registers, step[o.TARGET], count * n_out, step[o.BEND])
        sum_rows(slope, bias)
    else:
        if step[o.BEND] == o.TANH:
            unbend(network.registers, slopes.registers, step[o.TARGET], count * n_out, step[o.BEND])
        reached = matrix(network.registers, step[o.TARGET], count, n_out)
        added = matrix(slopes.registers, step[o.ADDED], choices, n_out)
        sum_choices(slope, reached, step[o.BEND] == o.RELU, starts, added, bias, slopes.product)
    add_product(matrix(slopes.weights, step[o.WEIGHT], n_in, n_out), source.T, slope, slopes.product)
    if reaches:
        turned = matrix(slopes.turned, step[o.WEIGHT], n_out, n_in)
        if step[o.LAST_READ]:
            np.dot(slope, turned, back)
        else:
            add_product(back, slope, turned, slopes.product)


@algebra
def turn_weights(network, turned):
    """Write every matrix that slopes are carried back by with its outputs first."""
    for index in range(network.code.shape[0]):
        step = network.code[index]
        n_in, n_out = step[o.N_IN], step[o.N_OUT]
        if step[o.OP] == o.LINEAR and not is_input(network, step):
            source, goal = network.weights[step[o.WEIGHT] :], turned[step[o.WEIGHT] :]
            for i in range(n_in):
                for j in range(n_out):
                    goal[j * n_in + i] = source[i * n_out + j]
        elif step[o.OP] == o.CLIMB:
            turn_climb(network, turned, step)


@algebra
def vector_slopes(slope, source, weight, to_weight, to_bias, back, reaches, last_read):
    """Carry the slopes of a layer with a single output back."""
    for row in range(source.shape[0]):
        here = slope[row, 0]
        to_bias[0] += here
        for j in range(source.shape[1]):
            to_weight[j] += here * source[row, j]
        if reaches and last_read:
            for j in range(source.shape[1]):
                back[row, j] = here * weight[j]
        elif reaches:
            for j in range(source.shape[1]):
                back[row, j] += here * weight[j]


@algebra
def sum_choices(slope, reached, rectified, starts, of_choice, bias, total):
    """Add every row to the vector of its choice and to one of all, without what was cut off on the way there."""
    floor = ZERO if rectified else -INFINITE
    for choice in range(of_choice.shape[0]):
        for j in range(bias.shape[0]):
            total[j] = ZERO
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(bias.shape[0]):
                slope[row, j] = slope[row, j] if reached[row, j] > floor else ZERO
                total[j] += slope[row, j]
        for j in range(bias.shape[0]):
            of_choice[choice, j] += total[j]
            bias[j] += total[j]


@algebra
def unbend(registers, slopes, place, size, kind):
    """Carry slopes back through an activation, in their place."""
    reached, slope = registers[place : place + size], slopes[place : place + size]
    if kind == o.RELU:
        for index in range(size):
            slope[index] = slope[index] if reached[index] > ZERO else ZERO
    else:
        for index in range(size):
            slope[index] *= ONE - reached[index] * reached[index]


@algebra
def add_slopes(slopes, step, starts, choices, count):
    width = step[o.N_OUT]
    if step[o.DOMAIN] == step[o.TARGET_DOMAIN]:
        add_vector(slopes, step[o.SOURCE], step[o.TARGET], width * count)
        return
    slope = matrix(slopes, step[o.TARGET], starts[choices], width)
    goal = matrix(slopes, step[o.SOURCE], choices, width)
    for choice in range(choices):
        sum_rows(slope[starts[choice] : starts[choice + 1]], goal[choice])


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
def switch_slopes(network, slopes, step, starts, choices):
    """Take the slopes of choices that turn the switch over to the source."""
    width = step[o.N_IN]
    slope = matrix(slopes, step[o.TARGET], starts[choices], width)
    goal = matrix(slopes, step[o.SOURCE], starts[choices], width)
    for choice in range(choices):
        if is_switched(network, step, choice):
            for row in range(starts[choice], starts[choice + 1]):
                for j in range(width):
                    goal[row, j] += slope[row, j]
                    slope[row, j] = ZERO


@algebra
def clear_slopes(network, slopes, choices):
    """Forget the gradients of the block before."""
    code, counts = network.code, count_vectors(network, choices)
    for index in range(code.shape[0]):
        step = code[index]
        if not step[o.CLEAR]:
            continue
        goal = slopes[step[o.TARGET] : step[o.TARGET] + step[o.N_OUT] * counts[step[o.TARGET_DOMAIN]]]
        for place in range(goal.shape[0]):
            goal[place] = ZERO


@algebra
def backpropagate(network, slopes, choices):
    """Carry the gradients of logits and values back to the weights."""
    registers, starts, code = network.registers, network.starts, network.code
    counts = count_vectors(network, choices)
    for index in range(code.shape[0] - 1, -1, -1):
        step = code[index]
        count = counts[step[o.DOMAIN]]
        if count == 0:
            continue
        if step[o.OP] == o.LINEAR:
            linear_slopes(network, slopes, step, starts, choices, count)
        elif step[o.OP] == o.ADD:
            add_slopes(slopes.registers, step, starts, choices, count)
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
        elif step[o.OP] == o.SWITCH:
            switch_slopes(network, slopes.registers, step, starts, choices)
        elif step[o.OP] >= o.CLIMB:
            graph_slopes(network, slopes, step, choices, count)
        else:
            unbend(registers, slopes.registers, step[o.TARGET], count * step[o.N_OUT], step[o.OP])


@algebra
def load_block(network, rows, begin, count, global_rows, graphs, picks, first):
    """Put as many picked choices as fit, from the `first` on, into the registers; return how many they are."""
    registers, ports, starts = network.registers, network.ports, network.starts
    candidates, choices = ports[6], ports[7]
    nodes, node_job, edges, row_node, places = graphs
    graph = looks_at_graphs(network)
    goal = matrix(registers, ports[0], candidates, ports[4])
    sight = matrix(registers, ports[1], choices, ports[5])
    starts[0] = 0
    block = 0
    while first + block < picks.shape[0] and block < choices:
        pick = picks[first + block]
        begun, size = starts[block], np.int64(count[pick])
        if begun + size > candidates or (graph and not packed_graph_fits(network, block, places[pick])):
            break
        if graph:
            own = row_node[begin[pick] : begin[pick] + size]
            load_packed_graph(network, block, places[pick], nodes, node_job, edges, own)
        copy_rows(rows, begin[pick], goal, begun, size)
        copy_rows(global_rows, pick, sight, block, 1)
        starts[block + 1] = begun + size
        block += 1
    return block


@entry
def add_gradients(network, slopes, rows, begin, count, global_rows, graphs, picks, rules, lessons, worth, sums):
    """Add the gradient of every picked choice's loss to that of the weights.

    `graphs` are the arrays of `learn.choices.Graphs`; `worth` holds a number per packed row, for the objective that
    wants them; `sums` gathers the terms of the loss.
    """
    # Fields of structs are read once: every read counts a reference.
    registers, flowing, ports, starts = network.registers, slopes.registers, network.ports, network.starts
    rule, done = rules[0], 0
    turn_weights(network, slopes.turned)
    while done < picks.shape[0]:
        block = load_block(network, rows, begin, count, global_rows, graphs, picks, done)
        infer(network, block)
        clear_slopes(network, flowing, block)
        for choice in range(block):
            pick = picks[done + choice]
            logits, size = ports[2] + starts[choice], starts[choice + 1] - starts[choice]
            value = registers[ports[3] + choice]
            flowing[ports[3] + choice] = choice_slopes(
                rule, lessons[pick], worth, begin[pick], registers, logits, size, value, flowing, sums
            )
        backpropagate(network, slopes, block)
        done += block
