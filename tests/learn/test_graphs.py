"""Networks that look at graphs: numbering and company do not matter, descendants do, and compiled code is torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.errors import PolicyError
from slipstream.jit.decorators import entry
from slipstream.learn.compiled.objective import CLIPPED, EXPECTED, LIKELIHOOD, SAMPLE, Objective
from slipstream.learn.networks.decima import Decima
from slipstream.learn.networks.graphs import MessagePassing, PackedGraphs, levels
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.rollout.batch import SPAN, Choices, Graphs
from slipstream.learn.rollout.learner import Batch, Learner
from slipstream.policies.compiled.graphs import load_packed_graph
from slipstream.policies.compiled.inference import infer, load_candidates
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import GraphCapacity, Operation, lay_out
from tests.learn.test_networks import loss_of, random_batch

COLUMNS, GLOBALS, NODES = 5, 3, 4


def random_graph(rng, nodes, share):
    """Return pairs of parent and child whose numbers say nothing of who comes first."""
    order = rng.permutation(nodes)
    pairs = [(order[a], order[b]) for b in range(nodes) for a in range(b) if rng.random() < share]
    return np.array(pairs, np.int32).reshape(-1, 2)


def random_graphs(rng, count, share=0.3, most=9):
    """Return the graphs of choices, some of them empty, packed; some candidates have no node."""
    places = np.zeros(len(count), SPAN)
    nodes, jobs, edges, row_node = [], [], [], []
    for place, rows in zip(places, count, strict=True):
        size = int(rng.integers(0, most + 1))
        pairs = random_graph(rng, size, share)
        own = rng.permutation(np.repeat(np.arange(size), rng.integers(1, 4, size))[:size])
        _, own = np.unique(own, return_inverse=True)
        place["nodes"], place["edges"], place["jobs"] = size, len(pairs), own.max() + 1 if size else 0
        nodes.append(rng.normal(size=(size, NODES)))
        jobs.append(own)
        edges.append(pairs)
        row_node.append(rng.integers(-1, size, rows))
    places["node_begin"] = np.cumsum(places["nodes"]) - places["nodes"]
    places["edge_begin"] = np.cumsum(places["edges"]) - places["edges"]
    packed = (np.concatenate(nodes).astype(np.float32), np.concatenate(jobs).astype(np.int32))
    return Graphs(*packed, np.concatenate(edges), np.concatenate(row_node).astype(np.int32), places)


def random_choices(rng, choices, most=7, **options):
    count = rng.integers(1, most + 1, choices).astype(np.int32)
    begin = (np.cumsum(count) - count).astype(np.int64)
    rows = rng.normal(size=(int(count.sum()), COLUMNS)).astype(np.float32)
    global_rows = rng.normal(size=(choices, GLOBALS)).astype(np.float32)
    return Choices(rows, global_rows, begin, count, random_graphs(rng, count, **options))


def random_decima(seed, network_settings=None):
    torch.manual_seed(seed)
    chosen = network_settings or NetworkSettings(8, node_width=6, kind="decima")
    network = Decima(COLUMNS, GLOBALS, NODES, chosen, flag=seed % GLOBALS if seed % 2 else None)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in network.named_buffers():
            buffer.copy_(torch.rand_like(buffer) * 0.5 + (0.5 if name.endswith("scale") else 0.0))
    return network


def by_definition(network, choices, picks):
    own = choices.picked(picks)
    seen = torch.from_numpy(own.rows), torch.from_numpy(own.global_rows), torch.from_numpy(own.count.astype(np.int64))
    return network(*seen, PackedGraphs.of(own))


@entry
def registers_of(network):
    return network.registers


@entry
def load(network, choice, place, nodes, node_job, edges, row_node):
    load_packed_graph(network, choice, place, nodes, node_job, edges, row_node)


def run_compiled(network, choices):
    """Return the logits and values that compiled code gives for all choices at once."""
    graphs = choices.graphs
    room = GraphCapacity(NODES, max(1, len(graphs.nodes)), max(1, len(graphs.edges)))
    shapes = {name: tuple(tensor.shape) for name, tensor in network.tensors().items()}
    layout = lay_out(network.operations(), shapes, (COLUMNS, GLOBALS), len(choices.rows), len(choices), room)
    struct = make_network(layout, layout.flat(network.arrays()))
    for choice in range(len(choices)):
        part = slice(choices.begin[choice], choices.begin[choice] + choices.count[choice])
        load(struct, choice, graphs.spans[choice], graphs.nodes, graphs.node_job, graphs.edges, graphs.row_node[part])
        legal = np.arange(choices.count[choice], dtype=np.int32)
        load_candidates(struct, choice, choices.rows[part], legal, len(legal), choices.global_rows[choice])
    infer(struct, len(choices))
    registers, (_, _, logits, value) = registers_of(struct), layout.ports[:4]
    return registers[logits : logits + len(choices.rows)], registers[value : value + len(choices)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.2, 0.7, 1.0]), st.sampled_from([0, 1, 9]))
def test_compiled_logits_and_values_are_those_of_torch(seed, count, share, most):
    rng = np.random.default_rng(seed)
    network = random_decima(seed)
    choices = random_choices(rng, count, share=share)
    if most < 9:
        choices = Choices(
            choices.rows,
            choices.global_rows,
            choices.begin,
            choices.count,
            random_graphs(rng, choices.count, most=most),
        )
    with torch.no_grad():
        logits, values = by_definition(network, choices, np.arange(count))
    found, expected = run_compiled(network, choices), (logits.numpy(), values.numpy())
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["relu", "tanh"]),
    st.sampled_from([CLIPPED, LIKELIHOOD, EXPECTED]),
    st.sampled_from([0.0, 0.3, 0.6]),
    st.integers(0, 1000),
    st.sampled_from([1, 2]),
)
def test_compiled_gradients_are_those_of_torch(activation, term, share, seed, threads):
    rng = np.random.default_rng(seed)
    network = random_decima(seed, NetworkSettings(8, activation=activation, node_width=6, kind="decima"))
    batch = random_batch(rng, random_choices(rng, 150, share=share))
    picks = rng.permutation(150)[: int(rng.integers(1, 151))]
    objective = Objective(term, 0.5, 0.1, 0.2)
    learner = Learner(network, 7, threads, GraphCapacity(NODES, 9, 36))
    loss, terms = loss_of(network, batch, picks, objective, by_definition)
    loss.backward()
    gradient, sums = learner.gradient(batch, picks, objective, 1.0 / len(picks))
    np.testing.assert_allclose(sums[: len(terms)] / len(picks), [one.item() for one in terms], rtol=1e-3, atol=1e-3)
    for name, place, shape in learner.layout.parameters:
        ours = gradient[place : place + int(np.prod(shape))].reshape(shape[::-1]).T
        theirs = network.tensors()[name].grad
        if theirs is not None:
            size = max(1.0, float(theirs.abs().max()))
            np.testing.assert_allclose(ours / size, theirs.numpy() / size, rtol=2e-3, atol=2e-3, err_msg=name)
        else:
            assert not ours.any(), "measured constants are not learned"


def test_levels_count_the_longest_way_to_a_leaf():
    edges = torch.tensor([[0, 0, 3, 3, 2], [2, 4, 0, 4, 4]])
    assert levels(edges, 6).tolist() == [2, 0, 1, 3, 0, 0]
    assert levels(torch.zeros((2, 0), dtype=torch.long), 2).tolist() == [0, 0]


def test_message_passing_is_what_its_formula_says_node_by_node():
    torch.manual_seed(0)
    message_passing, start = MessagePassing(3), torch.randn(5, 3)
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]

    def vector(node):
        children = [child for parent, child in edges if parent == node]
        if not children:
            return start[node]
        heard = sum(torch.relu(message_passing.message(vector(child))) for child in children)
        return start[node] + message_passing.update(torch.relu(message_passing.merge(heard)))

    with torch.no_grad():
        found = message_passing(start, torch.tensor(edges).t())
        torch.testing.assert_close(found, torch.stack([vector(node) for node in range(5)]))


def test_the_numbering_of_nodes_and_jobs_does_not_matter():
    network, rng = random_decima(0), np.random.default_rng(0)
    choices = random_choices(rng, 1, share=0.5)
    graphs = choices.graphs
    while len(graphs.nodes) < 6:
        graphs = random_graphs(rng, choices.count, share=0.5)
    order = rng.permutation(len(graphs.nodes))
    place = np.argsort(order).astype(np.int32)
    jobs = rng.permutation(graphs.node_job.max() + 1).astype(np.int32)
    row_node = np.where(graphs.row_node >= 0, place[graphs.row_node], -1).astype(np.int32)
    other = Graphs(graphs.nodes[order], jobs[graphs.node_job[order]], place[graphs.edges], row_node, graphs.spans)
    seen = (choices.rows, choices.global_rows, choices.begin, choices.count)
    for ours, renamed in zip(
        run_compiled(network, Choices(*seen, graphs)), run_compiled(network, Choices(*seen, other)), strict=True
    ):
        np.testing.assert_allclose(ours, renamed, rtol=1e-4, atol=1e-4)


def test_choices_looked_at_together_are_seen_as_if_alone():
    network, rng = random_decima(1), np.random.default_rng(1)
    choices = random_choices(rng, 20, share=0.4)
    logits, values = run_compiled(network, choices)
    for choice in range(20):
        alone = run_compiled(network, choices.picked(np.array([choice])))
        part = slice(choices.begin[choice], choices.begin[choice] + choices.count[choice])
        np.testing.assert_allclose(alone[0], logits[part], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(alone[1], values[choice], rtol=1e-4, atol=1e-5)


def test_a_node_knows_its_descendants_and_not_its_ancestors():
    torch.manual_seed(0)
    message_passing, nodes, chain = MessagePassing(8), torch.rand(3, 8), torch.tensor([[0, 1], [1, 2]])
    with torch.no_grad():
        before = message_passing(nodes, chain)
        for changed, reached in ((2, [True, True, True]), (0, [True, False, False])):
            other = nodes.clone()
            other[changed] += 1.0
            assert (message_passing(other, chain) != before).any(dim=1).tolist() == reached


def test_choices_come_back_from_plain_arrays_and_from_parts():
    rng = np.random.default_rng(0)
    whole = random_choices(rng, 12)
    again = Choices.joined([whole.picked(np.arange(5)), whole.picked(np.arange(5, 12))])
    for one in (again, Choices.from_arrays(whole.arrays())):
        for name, array in whole.arrays().items():
            np.testing.assert_array_equal(one.arrays()[name], array, err_msg=name)


def test_a_choice_too_large_for_what_is_left_of_a_block_waits_for_the_next():
    rng = np.random.default_rng(3)
    choices = random_choices(rng, 400, share=0.5)
    network = random_decima(3)
    batch = Batch(choices, np.zeros(400, SAMPLE), np.zeros(0, np.float32))
    objective = Objective(LIKELIHOOD, 1.0, 0.1)
    batch.samples["advantage"] = rng.normal(size=400)
    gradient, _ = Learner(network, 7, 1, GraphCapacity(NODES, 9, 36)).gradient(batch, np.arange(400), objective, 1.0)
    parts = [
        Learner(network, 7, 1, GraphCapacity(NODES, 9, 36)).gradient(batch, part, objective, 1.0)[0]
        for part in np.array_split(np.arange(400), 7)
    ]
    np.testing.assert_allclose(gradient, np.sum(parts, axis=0), rtol=2e-3, atol=2e-2)


MESSAGE_PASSING = {
    f"c.{layer}.{part}": (4, 4) if part == "weight" else (4,)
    for layer in ("message", "merge", "update")
    for part in ("weight", "bias")
}


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([Operation("message_passing", "rows", "x", "c")], "'rows' is one vector per candidate: expected one per node"),
        ([Operation("message_passing", "nodes", "x", "d")], "parameter 'd.message.weight' has shape None"),
        ([Operation("message_passing", *names, "c") for names in (("nodes", "x"), ("x", "y"))], "are used twice"),
        ([Operation("sum_jobs", "globals", "x")], "expected one per node"),
        ([Operation("sum", "nodes", "x")], "expected one per job"),
        ([Operation("take", "globals", "x")], "expected one per node or job"),
        ([Operation("add", "nodes", "rows")], "does not fit"),
        ([Operation("add", "globals", "nodes")], "does not fit"),
        ([Operation("mean", "nodes", "x")], "expected one per candidate"),
    ],
)
def test_what_cannot_be_done_with_graphs_is_refused_with_a_sentence(operations, message):
    with pytest.raises(PolicyError, match=message):
        lay_out(operations, MESSAGE_PASSING, (4, 4), 10, graph=GraphCapacity(4, 10, 10))


def test_a_network_without_graphs_cannot_read_nodes():
    with pytest.raises(PolicyError, match="'nodes' is read before it is written"):
        lay_out([Operation("sum_jobs", "nodes", "x")], {}, (4, 4), 10)
