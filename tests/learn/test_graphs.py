"""Graph encoders: numbering and company do not matter, descendants do."""

from __future__ import annotations

import torch

from slipstream.learn.graphs import UpstreamSums


def graph(seed, nodes):
    torch.manual_seed(seed)
    edges = [(parent, child) for child in range(1, nodes) for parent in range(child) if torch.rand(1) < 0.5]
    return torch.randn(nodes, 5), torch.tensor(edges, dtype=torch.long).t().reshape(2, -1)


def encode(encoder, nodes, edges):
    with torch.no_grad():
        return encoder(nodes, edges, torch.zeros(len(nodes), dtype=torch.long), 1)


def test_the_numbering_of_nodes_does_not_matter():
    encoder = UpstreamSums(5)
    nodes, edges = graph(0, 8)
    order = torch.randperm(8)
    place = torch.argsort(order)
    vectors, summed = encode(encoder, nodes, edges)
    other, other_sum = encode(encoder, nodes[order], place[edges])
    torch.testing.assert_close(vectors[order], other)
    torch.testing.assert_close(summed, other_sum)


def test_graphs_in_a_batch_are_encoded_as_if_alone():
    encoder = UpstreamSums(5)
    parts = [graph(seed, nodes) for seed, nodes in ((0, 6), (1, 1), (2, 9))]
    nodes = torch.cat([part[0] for part in parts])
    starts = [0, 6, 7]
    edges = torch.cat([part[1] + start for part, start in zip(parts, starts, strict=True)], 1)
    graph_of = torch.repeat_interleave(torch.arange(3), torch.tensor([6, 1, 9]))
    with torch.no_grad():
        vectors, summed = encoder(nodes, edges, graph_of, 3)
    for index, (part, start) in enumerate(zip(parts, starts, strict=True)):
        alone, alone_sum = encode(encoder, *part)
        torch.testing.assert_close(vectors[start : start + len(alone)], alone)
        torch.testing.assert_close(summed[index : index + 1], alone_sum)


def test_a_node_knows_its_descendants_and_not_its_ancestors():
    encoder = UpstreamSums(5)
    nodes, chain = torch.randn(3, 5), torch.tensor([[0, 1], [1, 2]])
    before, _ = encode(encoder, nodes, chain)
    changed = nodes.clone()
    changed[2] += 1.0
    after, _ = encode(encoder, changed, chain)
    assert (after != before).any(dim=1).tolist() == [True, True, True]
    changed = nodes.clone()
    changed[0] += 1.0
    after, _ = encode(encoder, changed, chain)
    assert (after != before).any(dim=1).tolist() == [True, False, False]
