"""The trained policies that come with the taskgraph family do what the results page says, on a few episodes."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.errors import InputError
from slipstream.families.taskgraph import features
from slipstream.families.taskgraph.workload.generator import Settings, generate
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.policies import find
from slipstream.policies.learned import shipped
from slipstream.sim.eventlog import START
from slipstream.sim.simulator import Simulator

SEED = 10_000
SETTINGS = {
    "noisy": (Settings(graphs="cholesky,qr", sizes="4,8", noise_cv=0.4), 20, ("mct", "heft", "peft")),
    "memory": (
        Settings(graphs="cholesky,qr,spgemm", sizes="4,8", bandwidth_mb_s=1000.0, memory_tiles=8, pipeline=2),
        20,
        ("mct", "dmdar", "darts"),
    ),
    "unrolled": (
        Settings(graphs="cholesky,lu", sizes="4,6", visible=20, jobs=3, mean_gap_ms=150.0),
        20,
        ("mct", "heft", "peft"),
    ),
}
"""Graphs and machine, sizes not trained on; how many episodes tell the policy apart, and from whom."""


def test_one_comes_for_every_setting() -> None:
    more = ("plain", "exact", "wait", "general", "graph")
    assert set(shipped("taskgraph")) == {f"learned-{name}" for name in (*more, *SETTINGS)}
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


@pytest.mark.parametrize("size", [4, 8, 10])
def test_without_transfers_it_is_no_worse_than_peft_on_cholesky(size: int) -> None:
    scenario = generate(Settings(graphs="cholesky", sizes=str(size)), 1000)
    ours, theirs = (
        slipstream.evaluate(scenario, one, 1, SEED).mean("makespan_ms") for one in ("learned-exact", "peft")
    )
    assert ours <= theirs


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


def test_a_training_goes_on_from_it_and_opens_columns_that_never_varied_before() -> None:
    scenario = slipstream.load("taskgraph/wait-for-reuse")
    folder = shipped("taskgraph")["learned-plain"]
    common = {"start_from": str(folder), "n_envs": 4, "groups": 1, "n_steps": 8, "threads": 1}
    trainer = Trainer(scenario, TrainSettings().with_changes({**common, "open_columns": True}))
    before = {name: array.copy() for name, array in trainer.network.arrays().items()}
    played = slipstream.evaluate(scenario, trainer.policy(), 1, SEED).mean("makespan_ms")
    # It was trained without links, so it never saw a tile that was missing.
    assert before["row_scale"][features.MISSING] == 0.0
    trainer._open_columns()
    after = trainer.network.arrays()
    assert after["row_scale"][features.MISSING] > 0.0
    assert (after["row.weight"][:, features.MISSING] == 0.0).all()
    assert after["row_scale"][features.DURATION] == before["row_scale"][features.DURATION]
    assert (after["row.weight"][:, features.DURATION] == before["row.weight"][:, features.DURATION]).all()
    assert slipstream.evaluate(scenario, trainer.policy(), 1, SEED).mean("makespan_ms") == played


def test_columns_are_opened_only_where_a_training_goes_on() -> None:
    with pytest.raises(InputError, match="open_columns is true: expected start_from"):
        TrainSettings(open_columns=True)
