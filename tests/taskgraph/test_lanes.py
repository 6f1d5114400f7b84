"""A lane plays one episode after the other, and each as if it were the first."""

from __future__ import annotations

from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator


def test_an_episode_leaves_nothing_to_a_smaller_graph_in_the_same_lane() -> None:
    link = {"bandwidth_mb_s": 1000.0}
    scenario = load(
        {
            "family": "taskgraph",
            "processors": [{"name": "gpu", "count": 1, "device": True, "memory_mb": 15.0}],
            "links": {"to_device": link, "to_host": link},
            "graphs": [{"kind": "cholesky", "n": 6}, {"kind": "cholesky", "n": 3}],
        }
    )
    worn, policy = Simulator(scenario), find("fifo", "taskgraph")
    for seed in range(8):
        assert (worn.play(policy, seed) == Simulator(scenario).play(policy, seed)).all()
