"""The graphs of choices in compiled code: how they lie in a network's registers, and the operations that walk them.

The nodes, jobs and edges of several choices lie one behind the other. A climb computes vectors from the leaves up, as
Decima does (Mao et al. 2019): h = start + update(merge(sum over children of message(h))), each node once, when its
children are done. Nodes whose children are equally far from a leaf form a level, over all choices; within a climb they
lie together, so that a level takes three matrix products however many choices there are.
"""

from __future__ import annotations

import numpy as np

from slipstream.core.jit import algebra, kernel
from slipstream.policies import operations as o
from slipstream.policies.vectors import ZERO, matrix, shift


@kernel
def used(indices):
    """Return how many indices there are before the first that says there is nothing."""
    for place in range(indices.shape[0]):
        if indices[place] < 0:
            return place
    return indices.shape[0]


@algebra
def graph_fits(network, choice, sheet, slot):
    """Return whether the graph that a slot of a sheet shows fits behind those already in the registers."""
    nodes = network.node_starts[choice] + used(sheet.node_job[slot])
    edges = network.edge_starts[choice] + used(sheet.edges[slot, 0])
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@algebra
def load_graph(network, choice, sheet, slot, count):
    """Put the graph of a slot, and the nodes of its `count` legal candidates, behind those already in the registers."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    node_job, edges = sheet.node_job[slot], sheet.edges[slot]
    nodes, width = used(node_job), ports[o.NODE_WIDTH]
    first, first_edge = network.node_starts[choice], network.edge_starts[choice]
    first_job, jobs = network.job_starts[choice], 0
    goal = matrix(network.registers, ports[o.NODES_PLACE] + first * width, nodes, width)
    for node in range(nodes):
        for column in range(width):
            goal[node, column] = sheet.nodes[slot, node, column]
        job_of[first + node] = first_job + node_job[node]
        jobs = max(jobs, np.int64(node_job[node]) + 1)
    lines = used(edges[0])
    for edge in range(lines):
        pairs[first_edge + edge, 0] = first + edges[0, edge]
        pairs[first_edge + edge, 1] = first + edges[1, edge]
    first_row = network.starts[choice]
    for position in range(count):
        node = sheet.candidate_node[slot, sheet.legal[slot, position]]
        node_of[first_row + position] = first + node if node >= 0 else -1
    network.node_starts[choice + 1] = first + nodes
    network.job_starts[choice + 1] = first_job + jobs
    network.edge_starts[choice + 1] = first_edge + lines


@algebra
def packed_graph_fits(network, choice, place):
    """Return whether a packed graph fits behind those already in the registers."""
    nodes = network.node_starts[choice] + place.nodes
    edges = network.edge_starts[choice] + place.edges
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@algebra
def load_packed_graph(network, choice, place, nodes, node_job, edges, row_node):
    """Put a packed graph behind those already in the registers; `row_node` has the nodes of the candidates."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    width, first, first_edge = ports[o.NODE_WIDTH], network.node_starts[choice], network.edge_starts[choice]
    first_job, first_row = network.job_starts[choice], network.starts[choice]
    begin, count = place.node_begin, np.int64(place.nodes)
    matrix(network.registers, ports[o.NODES_PLACE] + first * width, count, width)[:] = nodes[begin : begin + count]
    for node in range(count):
        job_of[first + node] = first_job + node_job[begin + node]
    for edge in range(place.edges):
        pairs[first_edge + edge, 0] = first + edges[place.edge_begin + edge, 0]
        pairs[first_edge + edge, 1] = first + edges[place.edge_begin + edge, 1]
    for position in range(row_node.shape[0]):
        node_of[first_row + position] = first + row_node[position] if row_node[position] >= 0 else -1
    network.node_starts[choice + 1] = first + count
    network.job_starts[choice + 1] = first_job + place.jobs
    network.edge_starts[choice + 1] = first_edge + place.edges


@algebra
def arrange(network, choices):
    """Find the level of every node, the order of nodes by level, and the children of each in that order."""
    nodes, lines = network.node_starts[choices], network.edge_starts[choices]
    find_levels(network.level, nodes, network.edges, lines)
    order_by_level(network.level, nodes, network.level_starts, network.position, network.node_at)
    list_children(network.position, nodes, network.edges, lines, network.child_starts, network.child_at)


@kernel
def find_levels(level, nodes, edges, lines):
    """Write how many edges the longest way from each node to a leaf has."""
    for node in range(nodes):
        level[node] = 0
    # Children mostly stand behind their parents, so going backward one sweep finds nearly all.
    for _ in range(nodes):
        settled = True
        for edge in range(lines - 1, -1, -1):
            above = level[edges[edge, 1]] + 1
            if level[edges[edge, 0]] < above:
                level[edges[edge, 0]] = above
                settled = False
        if settled:
            break


@kernel
def order_by_level(level, nodes, level_starts, position, node_at):
    """Write where each node lies when they are sorted by level, and which lies where; those of a level keep their order.

    Level l takes the positions from level_starts[l] to level_starts[l + 1]; behind the last level stands `nodes`.
    """
    for index in range(nodes + 1):
        level_starts[index] = 0
    for node in range(nodes):
        level_starts[level[node] + 1] += 1
    for index in range(nodes):
        level_starts[index + 1] += level_starts[index]
    for node in range(nodes):
        place = level_starts[level[node]]
        position[node] = place
        node_at[place] = node
        level_starts[level[node]] = place + 1
    # Filling a level moved its start to its end.
    for index in range(nodes, 0, -1):
        level_starts[index] = level_starts[index - 1]
    level_starts[0] = 0


@kernel
def list_children(position, nodes, edges, lines, child_starts, child_at):
    """Write the positions of the children of the node at each position, one behind the other."""
    for index in range(nodes + 1):
        child_starts[index] = 0
    for edge in range(lines):
        child_starts[position[edges[edge, 0]] + 1] += 1
    for index in range(nodes):
        child_starts[index + 1] += child_starts[index]
    for edge in range(lines):
        parent = position[edges[edge, 0]]
        child_at[child_starts[parent]] = position[edges[edge, 1]]
        child_starts[parent] += 1
    for index in range(nodes, 0, -1):
        child_starts[index] = child_starts[index - 1]
    child_starts[0] = 0


@algebra
def climb_parts(registers, place, nodes, width):
    """Return what a climb keeps, by position: vectors, messages, sums over children, and hidden vectors of the merge."""
    size = nodes * width
    return (
        matrix(registers, place, nodes, width),
        matrix(registers, place + size, nodes, width),
        matrix(registers, place + 2 * size, nodes, width),
        matrix(registers, place + 3 * size, nodes, width),
    )


@algebra
def climb_layer(weights, step, number):
    """Return matrix and bias of one of a climb's layers."""
    width = step[o.N_IN]
    place = step[o.WEIGHT] + number * (width * width + width)
    return matrix(weights, place, width, width), weights[place + width * width : place + width * width + width]


@algebra
def climb(network, step, nodes):
    """Write the vectors of all nodes, level by level from the leaves."""
    registers, weights, width = network.registers, network.weights, step[o.N_IN]
    node_at, starts = network.node_at, network.level_starts
    child_starts, child_at = network.child_starts, network.child_at
    source = matrix(registers, step[o.SOURCE], nodes, width)
    target = matrix(registers, step[o.TARGET], nodes, width)
    vectors, messages, sums, hidden = climb_parts(registers, step[o.EXTRA], nodes, width)
    (message, message_bias), (merge, merge_bias) = climb_layer(weights, step, 0), climb_layer(weights, step, 1)
    update, update_bias = climb_layer(weights, step, 2)
    pick_rows(source, node_at, vectors)
    level = 0
    while starts[level] < nodes:
        first, end = starts[level], starts[level + 1]
        own, told = vectors[first:end], messages[first:end]
        if level > 0:
            sum_children(messages, child_starts, child_at, first, end, sums)
            np.dot(sums[first:end], merge, hidden[first:end])
            shift(hidden[first:end], merge_bias, True)
            # The place of the messages is free until the vectors are done.
            np.dot(hidden[first:end], update, told)
            add_shifted(own, told, update_bias)
        if end < nodes:
            np.dot(own, message, told)
            shift(told, message_bias, True)
        level += 1
    for place in range(nodes):
        target[node_at[place]] = vectors[place]


@algebra
def pick_rows(source, indices, target):
    """Write some rows in another order."""
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] = source[indices[row], j]


@algebra
def sum_children(messages, child_starts, child_at, first, end, sums):
    """Write, for the nodes of a level, the sums of what their children tell."""
    for place in range(first, end):
        for j in range(sums.shape[1]):
            sums[place, j] = ZERO
        for index in range(child_starts[place], child_starts[place + 1]):
            child = child_at[index]
            for j in range(sums.shape[1]):
                sums[place, j] += messages[child, j]


@algebra
def add_shifted(target, term, vector):
    """Add a term and a vector to every row."""
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += term[row, j] + vector[j]


@algebra
def sum_jobs(network, step, nodes, jobs):
    """Write the sums over the nodes of each job."""
    width, job_of = step[o.N_IN], network.job_of
    source = matrix(network.registers, step[o.SOURCE], nodes, width)
    target = matrix(network.registers, step[o.TARGET], jobs, width)
    target[:] = ZERO
    for node in range(nodes):
        job = job_of[node]
        for j in range(width):
            target[job, j] += source[node, j]


@algebra
def sum_all(registers, step, starts, choices):
    """Write the sums over what each choice has from `starts[choice]` to `starts[choice + 1]`."""
    width = step[o.N_IN]
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    target = matrix(registers, step[o.TARGET], choices, width)
    target[:] = ZERO
    for choice in range(choices):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                target[choice, j] += source[row, j]


@algebra
def take(network, step, count, rows):
    """Write, for each candidate, the vector of its node or of its job; zeros where it has none."""
    width, node_of, job_of = step[o.N_IN], network.node_of, network.job_of
    source = matrix(network.registers, step[o.SOURCE], count, width)
    target = matrix(network.registers, step[o.TARGET], rows, width)
    for row in range(rows):
        place = node_of[row]
        if place < 0:
            for j in range(width):
                target[row, j] = ZERO
            continue
        if step[o.DOMAIN] == o.JOB:
            place = job_of[place]
        for j in range(width):
            target[row, j] = source[place, j]


@algebra
def run_graph_step(network, step, choices, count):
    """Run one of the operations that walk graphs; `count` is how many vectors its source has."""
    if step[o.OP] == o.CLIMB:
        climb(network, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs(network, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take(network, step, count, network.starts[choices])
    elif step[o.DOMAIN] == o.NODE:
        sum_all(network.registers, step, network.node_starts, choices)
    else:
        sum_all(network.registers, step, network.job_starts, choices)
