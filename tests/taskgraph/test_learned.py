"""The trained policies that come with the taskgraph family do what the results page says, on a few episodes."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.core.eventlog import START
from slipstream.core.simulator import Simulator
from slipstream.policies import find
from slipstream.policies.learned import shipped
from slipstream.taskgraph.generate import Settings, generate

SEED = 10_000
SETTINGS = {
    "noisy": (Settings(graphs="cholesky,qr", sizes="4,8", noise_cv=0.4), 20, ("mct", "heft", "peft")),
    "unrolled": (
        Settings(graphs="cholesky,lu", sizes="4,6", visible=20, jobs=3, mean_gap_ms=150.0),
        20,
        ("mct", "heft", "peft"),
    ),
}
"""Graphs and machine, sizes not trained on; how many episodes tell the policy apart, and from whom."""


def test_one_comes_for_every_setting() -> None:
    assert set(shipped("taskgraph")) == {f"learned-{name}" for name in ("plain", "wait", *SETTINGS)}
    for folder in shipped("taskgraph").values():
        assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


@pytest.mark.parametrize("name", SETTINGS)
def test_it_beats_the_best_heuristics_on_sizes_that_it_was_not_trained_on(name: str) -> None:
    settings, episodes, rivals = SETTINGS[name]
    scenario = generate(settings, 1000)
    ours = slipstream.evaluate(scenario, f"learned-{name}", episodes, SEED).of("makespan_ms")
    for rival in rivals:
        theirs = slipstream.evaluate(scenario, rival, episodes, SEED).of("makespan_ms")
        assert np.mean(theirs - ours) > 0, rival


def test_it_waits_for_a_task_that_reuses_what_is_there() -> None:
    assert slipstream.evaluate("taskgraph/wait-for-reuse", "learned-wait", 1, SEED).mean("makespan_ms") == 20.0


def test_it_waits_for_a_gpu_rather_than_starting_a_long_task_on_a_cpu() -> None:
    scenario = slipstream.load("taskgraph/cholesky-4-2g2c")
    events = Simulator(scenario).play(find("learned-plain", "taskgraph"), SEED)
    starts = events[events["kind"] == START]
    # After POTRF three TRSM are ready, 8 ms on a GPU and 52 on a CPU, and two GPUs: the third waits for one of them.
    trsm = starts[np.isin(starts["task"], (1, 2, 3))]
    assert (trsm["variant"] == 0).all()
    assert trsm["time"].max() > trsm["time"].min()
