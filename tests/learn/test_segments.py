"""Functions over packed rows are those of every choice alone."""

from __future__ import annotations

import pytest
import torch

from slipstream.networks import pad_rows, segment_attend, segment_max, segment_mean, segment_sum, spread

OFFSETS = torch.tensor([0, 1, 5, 7])
PARTS = (slice(0, 1), slice(1, 5), slice(5, 7))
VALUES = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SCORES = torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def attended(values, scores):
    weights = scores.softmax(0)
    return torch.cat([(weights[:, :1] * values[:, :2]).sum(0), (weights[:, 1:] * values[:, 2:]).sum(0)])


@pytest.mark.parametrize(
    ("found", "alone"),
    [
        (segment_sum, lambda values: values.sum(0)),
        (segment_mean, lambda values: values.mean(0)),
        (segment_max, lambda values: values.amax(0)),
    ],
)
def test_a_pool_is_that_of_each_choice(found, alone):
    expected = [alone(VALUES[part]) for part in PARTS]
    torch.testing.assert_close(found(VALUES, OFFSETS), torch.stack(expected))


def test_attention_weights_the_rows_of_each_choice_by_head():
    expected = torch.stack([attended(VALUES[part], SCORES[part]) for part in PARTS])
    torch.testing.assert_close(segment_attend(VALUES, SCORES, OFFSETS), expected)
    torch.testing.assert_close(segment_attend(VALUES, SCORES + 1000.0, OFFSETS), expected)


def test_a_vector_per_choice_is_spread_over_its_rows():
    vectors = torch.arange(3.0).unsqueeze(1)
    assert spread(vectors, OFFSETS).squeeze(1).tolist() == [0, 1, 1, 1, 1, 2, 2]


def test_padding_is_masked_and_comes_off_again():
    padded, mask = pad_rows(VALUES, OFFSETS)
    assert padded.shape == (3, 4, 4)
    assert mask.sum(1).tolist() == [1, 4, 2]
    torch.testing.assert_close(padded[mask], VALUES)
    assert not padded[~mask].any()
