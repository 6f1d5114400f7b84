"""The trained policy that comes with the package."""

from __future__ import annotations

import pytest

import slipstream
from slipstream.policies.learned import shipped

SEED = 20_000


def test_it_is_small_and_says_where_it_comes_from() -> None:
    assert set(shipped("serving")) == {"learned-bursty"}
    folder = shipped("serving")["learned-bursty"]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 100_000
    assert "slipstream train serving/route-bursty" in (folder / "policy.json").read_text()


@pytest.mark.parametrize("rival", ["eft", "most-accurate"])
def test_it_is_better_than_every_rule_in_bursts(rival: str) -> None:
    ours, theirs = (
        slipstream.evaluate("serving/route-bursty", policy, 3, SEED).of("on_time_accuracy")
        for policy in ("learned-bursty", rival)
    )
    assert (ours > theirs + 0.03).all()
