"""Plurals, articles, and names of metrics."""

from __future__ import annotations

import pytest

from slipstream.files.wording import counted, metric_title, metric_words, natural_key, plural, with_article


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


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("makespan_ms", ("makespan", "ms")),
        ("throughput_hz", ("throughput", "/s")),
        ("moved_mb", ("moved", "MB")),
        ("jain_users", ("jain users", "")),
        ("miss_rate", ("miss rate", "")),
        ("on_time_accuracy/find", ("on-time accuracy/find", "")),
        ("avg_jct_s", ("avg JCT", "s")),
        ("co2_kg", ("CO2", "kg")),
        ("s", ("s", "")),
        ("throughput_hz/find", ("throughput/find", "/s")),
        ("tokens_per_s", ("tokens", "/s")),
        ("throughput_per_h", ("throughput", "/h")),
        ("e2e_mean_s/chat", ("E2E mean/chat", "s")),
        ("tpot_p99_ms", ("TPOT p99", "ms")),
    ],
)
def test_a_metric_is_a_name_and_a_unit(metric, words):
    assert metric_words(metric) == words


def test_a_title_has_the_unit_in_brackets():
    titles = [
        metric_title(name) for name in ("makespan_ms", "throughput_hz", "tokens_per_s", "energy_kwh", "miss_rate")
    ]
    assert titles == ["makespan (ms)", "throughput (per s)", "tokens (per s)", "energy (kWh)", "miss rate"]


def test_numbers_in_names_are_in_order():
    names = ["user 10", "ann", "user 2", "v2-node 1", "user", "user 1", "10", "9", "v10-node 0", ""]
    ordered = ["", "9", "10", "ann", "user", "user 1", "user 2", "user 10", "v2-node 1", "v10-node 0"]
    assert sorted(names, key=natural_key) == ordered
