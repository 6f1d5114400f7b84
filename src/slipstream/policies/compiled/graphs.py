"""The graphs of choices in compiled code: how they lie in a network's registers, and the operations that walk them.

The nodes, jobs and edges of several choices lie one behind the other. A climb computes vectors from the leaves up, as
Decima does (Mao et al. 2019): h = start + update(merge(sum over children of message(h))), each node once, when its
children are done. Nodes equally far from a leaf form a level, over all choices. Registers hold the vectors of nodes
sorted by level, so that a level takes three matrix products however many choices there are.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra, kernel
from slipstream.policies import operations as o
from slipstream.policies.compiled.networks import graph_function
from slipstream.policies.compiled.vectors import ZERO, copy_rows, matrix, shift


@kernel
def used(indices):
    """Return how many indices there are before the first that says there is nothing."""
    for place in range(indices.shape[0]):
        if indices[place] < 0:
            return place
    return indices.shape[0]


@graph_function
def looks_at_graphs(network):
    """Return whether the network does."""
    return True


@graph_function
def count_nodes(network, choices):
    """Return how many nodes the graphs of the choices have."""
    return network.node_starts[choices]


@graph_function
def count_jobs(network, choices):
    """Return how many jobs the graphs of the choices have."""
    return network.job_starts[choices]


@graph_function
def graph_fits(network, choice, buffer, slot):
    """Return whether the graph that a slot of a buffer shows fits behind those already in the registers."""
    nodes = network.node_starts[choice] + used(buffer.node_job[slot])
    edges = network.edge_starts[choice] + used(buffer.edges[slot, 0])
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@graph_function
def load_graph(network, choice, buffer, slot, count):
    """Put the graph of a slot, and the nodes of its `count` legal candidates, behind those already in the registers."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    node_job, edges = buffer.node_job[slot], buffer.edges[slot]
    nodes, width = used(node_job), ports[o.NODE_WIDTH]
    first, first_edge = network.node_starts[choice], network.edge_starts[choice]
    first_job, jobs = network.job_starts[choice], np.int64(0)
    goal = matrix(network.registers, ports[o.NODES_PLACE] + first * width, nodes, width)
    for node in range(nodes):
        for column in range(width):
            goal[node, column] = buffer.nodes[slot, node, column]
        job_of[first + node] = first_job + node_job[node]
        jobs = max(jobs, np.int64(node_job[node]) + np.int64(1))
    lines = used(edges[0])
    for edge in range(lines):
        pairs[first_edge + edge, 0] = first + edges[0, edge]
        pairs[first_edge + edge, 1] = first + edges[1, edge]
    first_row = network.starts[choice]
    for position in range(count):
        node = buffer.candidate_node[slot, buffer.legal[slot, position]]
        node_of[first_row + position] = first + node if node >= 0 else -1
    network.node_starts[choice + 1] = first + nodes
    network.job_starts[choice + 1] = first_job + jobs
    network.edge_starts[choice + 1] = first_edge + lines


@graph_function
def packed_graph_fits(network, choice, place):
    """Return whether a packed graph fits behind those already in the registers."""
    nodes = network.node_starts[choice] + place.nodes
    edges = network.edge_starts[choice] + place.edges
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@graph_function
def load_packed_graph(network, choice, place, nodes, node_job, edges, row_node):
    """Put a packed graph behind those already in the registers; `row_node` has the nodes of the candidates."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    width, first, first_edge = ports[o.NODE_WIDTH], network.node_starts[choice], network.edge_starts[choice]
    first_job, first_row = network.job_starts[choice], network.starts[choice]
    begin, count = place.node_begin, np.int64(place.nodes)
    copy_rows(nodes, begin, matrix(network.registers, ports[o.NODES_PLACE], first + count, width), first, count)
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


@graph_function
def arrange(network, choices):
    """Sort the nodes by level, and find the children of each, the jobs and the candidates' nodes in that order."""
    nodes, lines, position = network.node_starts[choices], network.edge_starts[choices], network.position
    find_levels(network.level, nodes, network.edges, lines)
    order_by_level(network.level, nodes, network.level_starts, position)
    list_children(position, nodes, network.edges, lines, network.child_starts, network.child_at)
    ports, job_of, job_at = network.ports, network.job_of, network.job_at
    width = ports[o.NODE_WIDTH]
    came = matrix(network.registers, ports[o.NODES_PLACE], nodes, width)
    ordered = matrix(network.registers, ports[o.SORTED_PLACE], nodes, width)
    for node in range(nodes):
        place = position[node]
        job_at[place] = job_of[node]
        for column in range(width):
            ordered[place, column] = came[node, column]
    node_of, place_of = network.node_of, network.place_of
    for row in range(network.starts[choices]):
        place_of[row] = position[node_of[row]] if node_of[row] >= 0 else -1


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
def order_by_level(level, nodes, level_starts, position):
    """Write where each node lies when they are sorted by level; those of a level keep their order.

    Level l takes the positions from level_starts[l] to level_starts[l + 1]; behind the last level stands `nodes`.
    """
    for index in range(nodes + 1):
        level_starts[index] = 0
    for node in range(nodes):
        level_starts[level[node] + 1] += 1
    for index in range(nodes):
        level_starts[index + 1] += level_starts[index]
    for node in range(nodes):
        position[node] = level_starts[level[node]]
        level_starts[level[node]] += 1
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
def climb_parts(registers, step, nodes):
    """Return the vectors of a climb, and what it keeps: messages, sums over children, hidden vectors of the merge."""
    width, place = step[o.N_IN], step[o.EXTRA]
    return (
        matrix(registers, step[o.TARGET], nodes, width),
        matrix(registers, place, nodes, width),
        matrix(registers, place + nodes * width, nodes, width),
        matrix(registers, place + 2 * nodes * width, nodes, width),
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
    registers, weights, size = network.registers, network.weights, nodes * step[o.N_IN]
    starts, child_starts, child_at = network.level_starts, network.child_starts, network.child_at
    vectors, messages, sums, hidden = climb_parts(registers, step, nodes)
    (message, message_bias), (merge, merge_bias) = climb_layer(weights, step, 0), climb_layer(weights, step, 1)
    update, update_bias = climb_layer(weights, step, 2)
    registers[step[o.TARGET] : step[o.TARGET] + size] = registers[step[o.SOURCE] : step[o.SOURCE] + size]
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


@algebra
def sum_children(messages, child_starts, child_at, first, end, sums):
    """Write, for the nodes of a level, the sums of what their children tell; each has at least one."""
    for place in range(first, end):
        goal, child = sums[place], messages[child_at[child_starts[place]]]
        for j in range(goal.shape[0]):
            goal[j] = child[j]
        for index in range(child_starts[place] + 1, child_starts[place + 1]):
            child = messages[child_at[index]]
            for j in range(goal.shape[0]):
                goal[j] += child[j]


@algebra
def add_shifted(target, term, vector):
    """Add a term and a vector to every row."""
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += term[row, j] + vector[j]


@algebra
def sum_jobs(network, step, nodes, jobs):
    """Write the sums over the nodes of each job."""
    width, job_at = step[o.N_IN], network.job_at
    source = matrix(network.registers, step[o.SOURCE], nodes, width)
    target = matrix(network.registers, step[o.TARGET], jobs, width)
    target[:] = ZERO
    for place in range(nodes):
        goal, term = target[job_at[place]], source[place]
        for j in range(width):
            goal[j] += term[j]


@algebra
def sum_choices(registers, step, starts, choices):
    """Write the sums over the jobs of each choice."""
    width = step[o.N_IN]
    source = matrix(registers, step[o.SOURCE], starts[choices], width)
    target = matrix(registers, step[o.TARGET], choices, width)
    target[:] = ZERO
    for choice in range(choices):
        for job in range(starts[choice], starts[choice + 1]):
            for j in range(width):
                target[choice, j] += source[job, j]


@algebra
def take(network, step, count, rows):
    """Write, for each candidate, the vector of its node or of its job; zeros where it has none."""
    width, place_of, job_at = step[o.N_IN], network.place_of, network.job_at
    source = matrix(network.registers, step[o.SOURCE], count, width)
    target = matrix(network.registers, step[o.TARGET], rows, width)
    for row in range(rows):
        place = place_of[row]
        if place < 0:
            for j in range(width):
                target[row, j] = ZERO
            continue
        if step[o.DOMAIN] == o.JOB:
            place = job_at[place]
        for j in range(width):
            target[row, j] = source[place, j]


@graph_function
def run_graph_step(network, step, choices, count):
    """Run one of the operations that walk graphs; `count` is how many vectors its source has."""
    if step[o.OP] == o.CLIMB:
        climb(network, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs(network, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take(network, step, count, network.starts[choices])
    else:
        sum_choices(network.registers, step, network.job_starts, choices)
