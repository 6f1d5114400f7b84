"""Packing of the graphs of choices in compiled code, without padding and without repetition.

The second decision of a two-phase choice mostly shows the graph of the first, which is then stored once.
"""

from __future__ import annotations

from slipstream.jit.decorators import algebra, kernel
from slipstream.policies import operations as o
from slipstream.policies.compiled.networks import graph_function
from slipstream.policies.compiled.vectors import copy_rows, matrix


@graph_function
def store_graph(network, choice, rollout, lane, step, begin, count):
    """Store the graph of a choice, and the nodes of its candidates, whose rows begin at `begin`."""
    first, first_edge, first_row = network.node_starts[choice], network.edge_starts[choice], network.starts[choice]
    nodes, lines = network.node_starts[choice + 1] - first, network.edge_starts[choice + 1] - first_edge
    node_of, span, width = network.node_of, rollout.spans[lane, step], network.ports[o.NODE_WIDTH]
    seen = matrix(network.registers, network.ports[o.NODES_OFFSET] + first * width, nodes, width)
    job_of, first_job = network.job_of[first : first + nodes], network.job_starts[choice]
    edges = network.edges[first_edge : first_edge + lines]
    span.node_begin, span.edge_begin = rollout.graph_free[0], rollout.graph_free[1]
    span.nodes, span.edges, span.jobs = nodes, lines, network.job_starts[choice + 1] - first_job
    for position in range(count):
        node = node_of[first_row + position]
        rollout.row_node[begin + position] = node - first if node >= 0 else -1
    if step > 0:
        before = rollout.spans[lane, step - 1]
        same_size = before.nodes == nodes and before.edges == lines and before.jobs == span.jobs
        if same_size and same_graph(seen, job_of, first_job, edges, first, before, rollout):
            span.node_begin, span.edge_begin = before.node_begin, before.edge_begin
            return
    copy_rows(seen, 0, rollout.nodes, span.node_begin, nodes)
    for node in range(nodes):
        rollout.node_job[span.node_begin + node] = job_of[node] - first_job
    for line in range(lines):
        rollout.edges[span.edge_begin + line, 0] = edges[line, 0] - first
        rollout.edges[span.edge_begin + line, 1] = edges[line, 1] - first
    rollout.graph_free[0] += nodes
    rollout.graph_free[1] += lines


@algebra
def same_graph(seen, job_of, first_job, edges, first, before, rollout):
    """Return whether a graph equals the one stored for the step before, which has the same size."""
    nodes = rollout.nodes[before.node_begin : before.node_begin + seen.shape[0]]
    jobs = rollout.node_job[before.node_begin : before.node_begin + seen.shape[0]]
    lines = rollout.edges[before.edge_begin : before.edge_begin + edges.shape[0]]
    same_jobs = True
    for node in range(job_of.shape[0]):
        same_jobs = same_jobs and job_of[node] - first_job == jobs[node]
    return same_jobs and same_rows(seen, nodes) and same_pairs(edges, first, lines)


@kernel
def same_rows(rows, others):
    """Return whether all numbers of two matrices are equal."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            if rows[row, column] != others[row, column]:
                return False
    return True


@kernel
def same_pairs(pairs, first, others):
    """Return whether pairs of indices, less `first`, equal `others`."""
    for index in range(pairs.shape[0]):
        if pairs[index, 0] - first != others[index, 0] or pairs[index, 1] - first != others[index, 1]:
            return False
    return True
