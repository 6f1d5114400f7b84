"""Compiled networks are the torch networks: the same numbers forward, the same gradients backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.errors import PolicyError
from slipstream.learn.networks import (
    CandidateScorer,
    NetworkSettings,
    packed_entropy,
    packed_log_softmax,
)
from slipstream.learn.scoring import Choices, Scorer
from slipstream.policies.operations import Operation, lay_out

NETWORKS = st.builds(
    NetworkSettings,
    width=st.sampled_from([8, 16, 32]),
    summary=st.sampled_from(["pool", "attention"]),
    heads=st.sampled_from([1, 2, 4]),
    activation=st.sampled_from(["relu", "tanh"]),
    layer_norm=st.booleans(),
)


def random_choices(rng, columns, global_columns, choices, most=12):
    count = rng.integers(1, most + 1, choices).astype(np.int32)
    begin = (np.cumsum(count) - count).astype(np.int64)
    rows = rng.normal(size=(int(count.sum()), columns)).astype(np.float32)
    return Choices(rows, rng.normal(size=(choices, global_columns)).astype(np.float32), begin, count)


def random_network(seed, columns, global_columns, network_settings):
    torch.manual_seed(seed)
    network = CandidateScorer(columns, global_columns, network_settings)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for name, buffer in network.named_buffers():
            buffer.copy_(torch.rand_like(buffer) + (0.5 if name.endswith("scale") else 0.0))
    return network


def by_definition(network, choices, picks):
    parts = [choices.rows[choices.begin[p] : choices.begin[p] + choices.count[p]] for p in picks]
    counts = torch.from_numpy(choices.count[picks].astype(np.int64))
    return network(torch.from_numpy(np.concatenate(parts)), torch.from_numpy(choices.global_rows[picks]), counts)


@settings(max_examples=40, deadline=None)
@given(NETWORKS, st.integers(0, 1000), st.sampled_from([1, 2]))
def test_compiled_networks_give_the_numbers_and_gradients_of_torch(network_settings, seed, threads):
    rng = np.random.default_rng(seed)
    columns, global_columns = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    network = random_network(seed, columns, global_columns, network_settings)
    choices = random_choices(rng, columns, global_columns, 150)
    picks = rng.permutation(150)[: int(rng.integers(1, 151))]
    scored = Scorer(network, 12, threads).score(choices, picks)
    logits, values = by_definition(network, choices, picks)
    torch.testing.assert_close(scored.logits, logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scored.values, values, rtol=1e-4, atol=1e-4)
    to_logits, to_values = torch.randn(len(logits)), torch.randn(len(values))
    gradients = []
    for out, value in ((scored.logits, scored.values), (logits, values)):
        network.zero_grad()
        (out @ to_logits + value @ to_values).backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    for ours, torchs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=2e-3, atol=2e-3)


def test_log_chances_and_entropy_are_those_of_a_masked_categorical():
    counts = torch.tensor([3, 1, 4])
    logits = torch.randn(8, dtype=torch.float64) * 5
    choice_of = torch.repeat_interleave(torch.arange(3), counts)
    log_chances = packed_log_softmax(logits, choice_of, 3)
    entropy = packed_entropy(log_chances, choice_of, 3)
    padded = torch.full((3, 4), -torch.inf, dtype=torch.float64)
    places = [(choice, row) for choice, count in enumerate(counts) for row in range(count)]
    for logit, (choice, row) in zip(logits, places, strict=True):
        padded[choice, row] = logit
    expected = torch.distributions.Categorical(logits=padded)
    torch.testing.assert_close(log_chances, torch.stack([expected.logits[place] for place in places]))
    chances = expected.probs
    by_hand = -(chances * torch.where(chances > 0, chances.log(), torch.zeros_like(chances))).sum(1)
    torch.testing.assert_close(entropy, by_hand)
    assert entropy[1] == 0.0


def test_a_network_does_not_care_how_many_candidates_there_are_nor_in_which_order():
    network = random_network(0, 5, 3, NetworkSettings(16))
    rng = np.random.default_rng(0)
    for count in (1, 7, 300):
        rows, global_row = rng.normal(size=(count, 5)).astype(np.float32), rng.normal(size=(1, 3)).astype(np.float32)
        order = rng.permutation(count)
        scored = []
        for seen in (rows, rows[order]):
            one = Choices(np.ascontiguousarray(seen), global_row, np.zeros(1, np.int64), np.array([count], np.int32))
            scored.append(Scorer(network, count).score(one, np.zeros(1, np.int64)))
        torch.testing.assert_close(scored[0].logits[order], scored[1].logits, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(scored[0].values, scored[1].values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([Operation("conv", "rows", "x")], "not among those that can be compiled"),
        ([Operation("linear", "x", "logits", "w", "b")], "'x' is read before it is written"),
        ([Operation("linear", "rows", "logits", "w")], "expected a weight and a bias"),
        ([Operation("linear", "rows", "logits", "b", "b")], "parameter 'b' has shape"),
        ([Operation("mean", "globals", "x")], "expected one per candidate"),
        ([Operation("add", "rows", "globals")], "does not fit"),
        ([Operation("mean", "rows", "x"), Operation("mean", "rows", "x")], "written twice"),
        ([Operation("attend", "rows", "x", scores="globals")], "expected scores per candidate"),
        ([Operation("relu", "rows", "globals")], "does not fit"),
        ([Operation("linear", "rows", "logits", "w", "b")], "does not write 'value'"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_a_sentence(operations, message):
    with pytest.raises(PolicyError, match=message):
        lay_out(operations, {"w": (1, 4), "b": (1,)}, (4, 4), 10)
