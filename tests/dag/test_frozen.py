"""Built-in dag scenarios are frozen: nobody can win by moving them."""

from __future__ import annotations

import pytest

from slipstream.scenario import builtin_names, digest, load

FROZEN = {
    "dag/batch-50x20": "452eacee1882865352b0147970d9cbdc1bf7b358a5ca008672a22460d5a7680f",
    "dag/ml-workflow": "7cd7ee8466d02e6fd395d01081d3f1e7c2dfd4417bc358541920c56de4bf82d5",
    "dag/small": "c67497a6b5138210edb6a48959158bce283168b86e605d708caac34a5b659724",
    "dag/stream-10x50": "e38d8704abbf4fe0a4b80d012b0f2a99242e9e8f8b0ab4fa028b677ac517f531",
    "dag/stream-50x200": "7e187bed080abc329fd5258f74893179ff3887d8af285e8384c3a6381d83cb80",
    "dag/tiny": "d6ebf4d4737dd133aaec90e8060350ff6b5464d6ce7804e236eddc675d34ddaf",
}
"""Digest of each built-in: machine, arrivals, every job that can arrive, and reward weights."""


def test_every_built_in_is_frozen():
    assert set(FROZEN) == {name for name in builtin_names() if name.startswith("dag/")}


@pytest.mark.parametrize("name", FROZEN)
def test_a_built_in_has_not_been_moved(name):
    assert digest(load(name)) == FROZEN[name]


@pytest.mark.parametrize("name", FROZEN)
def test_what_decides_results_is_written_out(name):
    written = load(name).model_fields_set
    assert written >= {"executors", "moving_delay_s", "warmup_delay_s", "arrivals", "jobs", "reward"}
