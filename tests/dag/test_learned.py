"""The trained policies that come with the dag family do what the results page says, on a few episodes."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.policies.learned import shipped

pytestmark = pytest.mark.thorough

SEED = 10_000
RIVALS = {
    "stream-10x50": (("srpt(4)", "fair", "sjf-cp", "weighted-fair(-1)"), 8),
    "stream-50x200": (("fair", "srpt(20)", "weighted-fair(0)"), 8),
    "batch-50x20": (("srpt(12)", "fair", "weighted-fair(-0.25)"), 12),
    "ml-workflow": (("srpt(3)", "fair", "weighted-fair(0)"), 8),
}
"""The best heuristics of each scenario, those with a number tuned, and how many episodes tell them apart."""


def test_one_comes_for_every_setting() -> None:
    more = {"learned-stream-50x200-tpch", "learned-batch-50x20-compat", "learned-batch-50x20-tpch"}
    more |= {"learned-general", "learned-graph"}
    assert set(shipped("dag")) == {f"learned-{name}" for name in RIVALS} | more
    for folder in shipped("dag").values():
        assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


@pytest.mark.parametrize("name", RIVALS)
def test_it_beats_the_best_heuristics_where_it_was_trained(name: str) -> None:
    rivals, episodes = RIVALS[name]
    ours = slipstream.evaluate(f"dag/{name}", f"learned-{name}", episodes, SEED).of("avg_jct_s")
    for rival in rivals:
        theirs = slipstream.evaluate(f"dag/{name}", rival, episodes, SEED).of("avg_jct_s")
        assert np.mean(theirs - ours) > 0, rival
