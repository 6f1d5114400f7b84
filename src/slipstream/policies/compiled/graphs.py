"""Graphs of choices in compiled code: their layout in a network's registers, and the operations on them.

The nodes, jobs and edges of several choices are concatenated. Message passing computes the vectors of nodes from the
leaves up, as Decima does (Mao et al. 2019): h = start + update(merge(sum over children of message(h))), each node once,
after its children. Nodes at the same distance from a leaf form a level, over all choices. Registers hold the vectors of
nodes sorted by level, so that a level takes three matrix products, however many choices there are.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra, kernel
from slipstream.policies import operations as o
from slipstream.policies.compiled.networks import graph_function
from slipstream.policies.compiled.vectors import ZERO, add_bias, copy_rows, matrix


@kernel
def used(indices):
    """Return the number of indices before the first negative one, which marks the end."""
    for index in range(indices.shape[0]):
        if indices[index] < 0:
            return index
    return indices.shape[0]


@graph_function
def is_graph_network(network):
    """Return True, for networks that read graphs."""
    return True


@graph_function
def count_nodes(network, choices):
    """Return the number of nodes in the graphs of the first `choices` choices."""
    return network.node_starts[choices]


@graph_function
def count_jobs(network, choices):
    """Return the number of jobs in the graphs of the first `choices` choices."""
    return network.job_starts[choices]


@graph_function
def graph_fits(network, choice, buffer, slot):
    """Return whether the graph in `slot` of a buffer fits into the capacity left by the choices before `choice`."""
    nodes = network.node_starts[choice] + used(buffer.node_job[slot])
    edges = network.edge_starts[choice] + used(buffer.edges[slot, 0])
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@graph_function
def load_graph(network, choice, buffer, slot, count):
    """Append the graph in `slot`, and the nodes of its `count` legal candidates, to the graphs in the registers."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    node_job, edges = buffer.node_job[slot], buffer.edges[slot]
    nodes, width = used(node_job), ports[o.NODE_WIDTH]
    first, first_edge = network.node_starts[choice], network.edge_starts[choice]
    first_job, jobs = network.job_starts[choice], np.int64(0)
    node_inputs = matrix(network.registers, ports[o.NODES_OFFSET] + first * width, nodes, width)
    for node in range(nodes):
        for column in range(width):
            node_inputs[node, column] = buffer.nodes[slot, node, column]
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
def packed_graph_fits(network, choice, span):
    """Return whether the packed graph of `span` fits into the capacity left by the choices before `choice`."""
    nodes = network.node_starts[choice] + span.nodes
    edges = network.edge_starts[choice] + span.edges
    return nodes <= network.ports[o.MOST_NODES] and edges <= network.ports[o.MOST_EDGES]


@graph_function
def load_packed_graph(network, choice, span, nodes, node_job, edges, row_node):
    """Append the packed graph of `span` to those in the registers; `row_node` has the nodes of its candidates."""
    ports, job_of, node_of, pairs = network.ports, network.job_of, network.node_of, network.edges
    width, first, first_edge = ports[o.NODE_WIDTH], network.node_starts[choice], network.edge_starts[choice]
    first_job, first_row = network.job_starts[choice], network.starts[choice]
    begin, count = span.node_begin, np.int64(span.nodes)
    copy_rows(nodes, begin, matrix(network.registers, ports[o.NODES_OFFSET], first + count, width), first, count)
    for node in range(count):
        job_of[first + node] = first_job + node_job[begin + node]
    for edge in range(span.edges):
        pairs[first_edge + edge, 0] = first + edges[span.edge_begin + edge, 0]
        pairs[first_edge + edge, 1] = first + edges[span.edge_begin + edge, 1]
    for position in range(row_node.shape[0]):
        node_of[first_row + position] = first + row_node[position] if row_node[position] >= 0 else -1
    network.node_starts[choice + 1] = first + count
    network.job_starts[choice + 1] = first_job + span.jobs
    network.edge_starts[choice + 1] = first_edge + span.edges


@graph_function
def arrange(network, choices):
    """Sort the nodes by level, and index children, jobs and the candidates' nodes in that order."""
    nodes, lines, position = network.node_starts[choices], network.edge_starts[choices], network.position
    find_levels(network.level, nodes, network.edges, lines)
    order_by_level(network.level, nodes, network.level_starts, position)
    list_children(position, nodes, network.edges, lines, network.child_starts, network.child_at)
    ports, job_of, job_at = network.ports, network.job_of, network.job_at
    width = ports[o.NODE_WIDTH]
    unsorted = matrix(network.registers, ports[o.NODES_OFFSET], nodes, width)
    ordered = matrix(network.registers, ports[o.SORTED_NODES_OFFSET], nodes, width)
    for node in range(nodes):
        index = position[node]
        job_at[index] = job_of[node]
        for column in range(width):
            ordered[index, column] = unsorted[node, column]
    node_of, row_position = network.node_of, network.row_position
    for row in range(network.starts[choices]):
        row_position[row] = position[node_of[row]] if node_of[row] >= 0 else -1


@kernel
def find_levels(level, nodes, edges, lines):
    """Write the level of each node: the number of edges on its longest path to a leaf."""
    for node in range(nodes):
        level[node] = 0
    # Children mostly have higher indices than their parents, so one backward sweep finds nearly all levels.
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
    """Write the position of each node in the order of levels; nodes of a level keep their order.

    Level l has the positions from level_starts[l] to level_starts[l + 1]; after the last level follows `nodes`.
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
    # Filling a level has moved its start to its end.
    for index in range(nodes, 0, -1):
        level_starts[index] = level_starts[index - 1]
    level_starts[0] = 0


@kernel
def list_children(position, nodes, edges, lines, child_starts, child_at):
    """Write the positions of the children of each node, concatenated in the order of the nodes' positions."""
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
def message_passing_buffers(registers, step, nodes):
    """Return the output of message passing and its intermediate vectors: messages, sums, hidden of the merge."""
    width, offset = step[o.N_IN], step[o.EXTRA]
    return (
        matrix(registers, step[o.TARGET], nodes, width),
        matrix(registers, offset, nodes, width),
        matrix(registers, offset + nodes * width, nodes, width),
        matrix(registers, offset + 2 * nodes * width, nodes, width),
    )


@algebra
def message_passing_layer(weights, step, number):
    """Return matrix and bias of layer `number` of message passing."""
    width = step[o.N_IN]
    offset = step[o.WEIGHT] + number * (width * width + width)
    return matrix(weights, offset, width, width), weights[offset + width * width : offset + width * width + width]


@algebra
def message_passing(network, step, nodes):
    """Write the vectors of all nodes, level by level from the leaves."""
    registers, weights, size = network.registers, network.weights, nodes * step[o.N_IN]
    starts, child_starts, child_at = network.level_starts, network.child_starts, network.child_at
    vectors, messages, sums, hidden = message_passing_buffers(registers, step, nodes)
    (message, message_bias), (merge, merge_bias) = (
        message_passing_layer(weights, step, 0),
        message_passing_layer(weights, step, 1),
    )
    update, update_bias = message_passing_layer(weights, step, 2)
    registers[step[o.TARGET] : step[o.TARGET] + size] = registers[step[o.SOURCE] : step[o.SOURCE] + size]
    level = 0
    while starts[level] < nodes:
        first, end = starts[level], starts[level + 1]
        level_vectors, level_messages = vectors[first:end], messages[first:end]
        if level > 0:
            sum_children(messages, child_starts, child_at, first, end, sums)
            np.dot(sums[first:end], merge, hidden[first:end])
            add_bias(hidden[first:end], merge_bias, True)
            # The messages of this level are not written yet, so their buffer holds the update.
            np.dot(hidden[first:end], update, level_messages)
            add_with_bias(level_vectors, level_messages, update_bias)
        if end < nodes:
            np.dot(level_vectors, message, level_messages)
            add_bias(level_messages, message_bias, True)
        level += 1


@algebra
def sum_children(messages, child_starts, child_at, first, end, sums):
    """Write, for the nodes of a level, the sum of their children's messages; each has at least one child."""
    for node in range(first, end):
        total, child = sums[node], messages[child_at[child_starts[node]]]
        for j in range(total.shape[0]):
            total[j] = child[j]
        for index in range(child_starts[node] + 1, child_starts[node + 1]):
            child = messages[child_at[index]]
            for j in range(total.shape[0]):
                total[j] += child[j]


@algebra
def add_with_bias(target, term, vector):
    """Add `term` and `vector` to every row of `target`."""
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += term[row, j] + vector[j]


@algebra
def sum_jobs(network, step, nodes, jobs):
    """Write the sum over the nodes of each job."""
    width, job_at = step[o.N_IN], network.job_at
    source = matrix(network.registers, step[o.SOURCE], nodes, width)
    target = matrix(network.registers, step[o.TARGET], jobs, width)
    target[:] = ZERO
    for node in range(nodes):
        total, term = target[job_at[node]], source[node]
        for j in range(width):
            total[j] += term[j]


@algebra
def sum_choices(registers, step, starts, choices):
    """Write the sum over the jobs of each choice."""
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
    width, row_position, job_at = step[o.N_IN], network.row_position, network.job_at
    source = matrix(network.registers, step[o.SOURCE], count, width)
    target = matrix(network.registers, step[o.TARGET], rows, width)
    for row in range(rows):
        index = row_position[row]
        if index < 0:
            for j in range(width):
                target[row, j] = ZERO
            continue
        if step[o.DOMAIN] == o.JOB:
            index = job_at[index]
        for j in range(width):
            target[row, j] = source[index, j]


@graph_function
def run_graph_step(network, step, choices, count):
    """Run an operation on graphs; its source has `count` vectors."""
    if step[o.OP] == o.MESSAGE_PASSING:
        message_passing(network, step, count)
    elif step[o.OP] == o.SUM_JOBS:
        sum_jobs(network, step, count, network.job_starts[choices])
    elif step[o.OP] == o.TAKE:
        take(network, step, count, network.starts[choices])
    else:
        sum_choices(network.registers, step, network.job_starts, choices)
