"""Compiled networks are the torch networks: the same numbers forward, the same gradients backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.errors import PolicyError
from slipstream.learn.compiled.objective import CLIPPED, EXPECTED, LIKELIHOOD, SAMPLE, Objective
from slipstream.learn.networks.networks import (
    CandidateScorer,
    NetworkSettings,
    packed_entropy,
    packed_log_softmax,
)
from slipstream.learn.rollout.learner import Batch, Choices, Learner
from slipstream.policies.operations import Operation, lay_out

NETWORKS = st.builds(
    NetworkSettings,
    width=st.sampled_from([8, 16, 32]),
    summary=st.sampled_from(["pool", "attention"]),
    heads=st.sampled_from([1, 2, 4]),
    activation=st.sampled_from(["relu", "tanh"]),
    layer_norm=st.booleans(),
    logarithms=st.booleans(),
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


def random_batch(rng, choices):
    """Return what was taken and how it turned out; about half of the choices were likelier then than they are now."""
    samples = np.zeros(len(choices), SAMPLE)
    samples["taken"] = rng.integers(choices.count)
    for name in ("advantage", "value_target"):
        samples[name] = rng.normal(size=len(choices))
    samples["log_prob"] = -rng.exponential(1.5, len(choices))
    return Batch(choices, samples, rng.normal(size=len(choices.rows)).astype(np.float32))


def loss_by_definition(network, batch, picks, objective):
    return loss_of(network, batch, picks, objective, by_definition)


def loss_of(network, batch, picks, objective, score):
    """Return the mean loss, its terms, how far the policy moved and how often it was cut, in torch."""
    choices, targets = batch.choices, {name: torch.from_numpy(batch.samples[name][picks]) for name in SAMPLE.names}
    logits, values = score(network, choices, picks)
    counts = torch.from_numpy(choices.count[picks].astype(np.int64))
    choice_of, first = torch.repeat_interleave(torch.arange(len(picks)), counts), torch.cumsum(counts, 0) - counts
    log_probs = packed_log_softmax(logits, choice_of, len(picks))
    taken = log_probs[first + targets["taken"].long()]
    ratio = (taken - targets["log_prob"]).exp()
    limited = ratio.clamp(1.0 - objective.clip_range, 1.0 + objective.clip_range)
    if objective.term == CLIPPED:
        policy = -torch.min(ratio * targets["advantage"], limited * targets["advantage"]).mean()
    elif objective.term == LIKELIHOOD:
        policy = -(taken * targets["advantage"]).mean()
    else:
        action_values = np.concatenate(
            [batch.action_values[choices.begin[p] : choices.begin[p] + choices.count[p]] for p in picks]
        )
        policy = -(log_probs.exp() * torch.from_numpy(action_values)).sum() / len(picks)
    value = (((values - targets["value_target"]) / network.value_scale) ** 2).mean()
    entropy = packed_entropy(log_probs, choice_of, len(picks)).mean()
    loss = policy + objective.vf_coef * value - objective.ent_coef * entropy
    terms = [policy, value, entropy]
    if objective.term == CLIPPED:
        terms += [(ratio - 1.0 - ratio.log()).mean(), (ratio != limited).float().mean()]
    return loss, terms


@settings(max_examples=60, deadline=None)
@given(
    NETWORKS,
    st.sampled_from([CLIPPED, LIKELIHOOD, EXPECTED]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 1000),
    st.sampled_from([1, 2]),
)
def test_compiled_gradients_and_losses_are_those_of_torch(network_settings, term, ent_coef, seed, threads):
    rng = np.random.default_rng(seed)
    columns, global_columns = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    network = random_network(seed, columns, global_columns, network_settings)
    batch = random_batch(rng, random_choices(rng, columns, global_columns, 150))
    picks = rng.permutation(150)[: int(rng.integers(1, 151))]
    objective = Objective(term, 0.5, ent_coef, 0.2)
    learner = Learner(network, 12, threads)
    loss, terms = loss_by_definition(network, batch, picks, objective)
    loss.backward()
    gradient, sums = learner.gradient(batch, picks, objective, 1.0 / len(picks))
    np.testing.assert_allclose(sums[: len(terms)] / len(picks), [term.item() for term in terms], rtol=1e-3, atol=1e-3)
    for name, place, shape in learner.layout.parameters:
        ours = gradient[place : place + int(np.prod(shape))].reshape(shape[::-1]).T
        theirs = network.tensors()[name].grad
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-3, atol=2e-3)
        else:
            assert not ours.any(), "measured constants are not learned"


def test_a_learner_and_its_network_share_their_weights():
    network = random_network(0, 5, 3, NetworkSettings(16))
    before = network.arrays()
    learner = Learner(network, 12)
    for name, array in network.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    learner.weights += 1.0
    for name, array in network.arrays().items():
        np.testing.assert_array_equal(array, before[name] + np.float32(1.0))


def test_log_chances_and_entropy_are_those_of_a_masked_categorical():
    counts = torch.tensor([3, 1, 4])
    logits = torch.randn(8, dtype=torch.float64) * 5
    choice_of = torch.repeat_interleave(torch.arange(3), counts)
    log_probs = packed_log_softmax(logits, choice_of, 3)
    entropy = packed_entropy(log_probs, choice_of, 3)
    padded = torch.full((3, 4), -torch.inf, dtype=torch.float64)
    places = [(choice, row) for choice, count in enumerate(counts) for row in range(count)]
    for logit, (choice, row) in zip(logits, places, strict=True):
        padded[choice, row] = logit
    expected = torch.distributions.Categorical(logits=padded)
    torch.testing.assert_close(log_probs, torch.stack([expected.logits[place] for place in places]))
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
        samples = np.zeros(1, SAMPLE)
        gradients = []
        for taken, seen in ((int(order[0]), rows), (0, rows[order])):
            samples["taken"], samples["advantage"] = taken, 1.0
            one = Choices(np.ascontiguousarray(seen), global_row, np.zeros(1, np.int64), np.array([count], np.int32))
            known = Batch(one, samples, np.zeros(0, np.float32))
            objective = Objective(LIKELIHOOD, 1.0, 0.1)
            gradients.append(Learner(network, count).gradient(known, np.zeros(1, np.int64), objective, 1.0))
        for ours, shuffled in zip(*gradients, strict=True):
            np.testing.assert_allclose(ours, shuffled, rtol=1e-3, atol=1e-3)


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
