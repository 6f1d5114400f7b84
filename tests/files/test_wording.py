"""Plurals and articles."""

from __future__ import annotations

import pytest

from slipstream.files.wording import counted, plural, with_article


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "job", "1 job"), (0, "job", "0 jobs"), (2000, "task", "2,000 tasks"), (2, "batch", "2 batches")],
)
def test_a_noun_goes_with_its_number(count, noun, text):
    assert counted(count, noun) == text


def test_a_consonant_before_y_changes_and_a_vowel_does_not():
    assert (plural("policy"), plural("day"), plural("GPU slice")) == ("policies", "days", "GPU slices")


@pytest.mark.parametrize(
    "text", ["an executor", "an accelerator", "a stream", "a GPU", "a user", "a processor", "an hour", "a one-off"]
)
def test_the_article_follows_the_sound(text):
    assert with_article(text.split(" ", 1)[1]) == text
