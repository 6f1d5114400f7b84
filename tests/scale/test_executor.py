"""Work that is shared comes back as if it had been done here, whoever does it and whoever dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import slipstream
from slipstream.cli.main import main
from slipstream.errors import InputError
from slipstream.learn.settings import TrainSettings
from slipstream.learn.study.search_space import make_search_space
from slipstream.learn.study.sweep import sweep
from slipstream.learn.training import train
from slipstream.policies.base import _REGISTRY
from slipstream.scale.executor import InProcess, chunk_ranges, executor_at

POLICIES = "edf,lookahead,weigher,learned-heavy"
SMALL = {
    "steps": 6_000,
    "n_envs": 8,
    "groups": 4,
    "n_steps": 64,
    "threads": 1,
    "evaluate_every": 3,
    "evaluation_episodes": 3,
    "warm_start": "edf",
    "imitation.rollouts": 2,
    "hindsight.rounds": 2,
    "variation.rate": 0.2,
    "redraw": 4,
}


@pytest.fixture
def weigher():
    """Register a rule of the test's own, which workers cannot find by its name; nobody else is to see it."""

    @slipstream.rule("edge")
    def weigher(row):
        return -row[0]

    yield weigher
    del _REGISTRY["edge"]["weigher"]


class Count:
    """Work that squares, and notes in a folder which items were begun."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self.folder, self.seconds = folder, seconds

    def __call__(self, item: int) -> int:
        (self.folder / f"{item}-{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(self.seconds)
        if item == 13:
            raise InputError("item 13: expected another number")
        return item * item


def same(training, other):
    """Assert that two trainings went the same way and gave the same network."""
    lines = [
        [{key: line[key] for key in line if key != "seconds"} for line in one.history] for one in (training, other)
    ]
    assert lines[0] == lines[1]
    assert set(training.policy.tensors) == set(other.policy.tensors)
    for name, tensor in training.policy.tensors.items():
        np.testing.assert_array_equal(tensor, other.policy.tensors[name])


def test_pieces_cover_everything_once(tmp_path):
    class Many(InProcess):
        workers = 3

    assert [list(piece) for piece in chunk_ranges(3, InProcess())] == [[0], [1], [2]]
    for count in (1, 7, 12, 100):
        pieces = chunk_ranges(count, Many())
        assert [index for piece in pieces for index in piece] == list(range(count))


def test_results_come_in_the_order_of_the_items(executor, tmp_path):
    assert executor.workers == 4
    assert list(executor.map(Count(tmp_path), range(12))) == [item * item for item in range(12)]


def test_an_error_of_a_piece_is_the_error_here(executor, tmp_path):
    with pytest.raises(InputError, match=r"^item 13: expected another number$"):
        list(executor.map(Count(tmp_path), range(10, 20)))


def test_a_comparison_on_a_cluster_is_the_one_made_here(executor, weigher):
    here = slipstream.compare("edge/light", POLICIES, episodes=9, seed=5, oracle_seconds=None)
    there = slipstream.compare("edge/light", POLICIES, episodes=9, seed=5, executor=executor)
    assert there.to_dict() == here.to_dict()


def test_a_training_on_a_cluster_gives_the_network_that_training_here_gives(executor):
    settings = TrainSettings().with_changes(SMALL)
    same(train("edge/tiny", settings), train("edge/tiny", settings, executor=executor))


def test_graphs_and_judges_play_on_a_cluster_as_here(executor):
    own = {"network.kind": "decima", "judges": "fair", "steps": 400, "n_steps": 16, "n_envs": 4, "groups": 2}
    settings = TrainSettings().with_changes({**own, "threads": 1, "evaluation_episodes": 1, "evaluate_every": 2})
    same(train("dag/tiny", settings), train("dag/tiny", settings, executor=executor))


def test_killed_workers_lose_nothing_and_count_nothing_twice(executor, tmp_path):
    """Kill whoever works, several times, while episodes are played."""
    here = slipstream.compare("edge/light", "edf,lookahead", episodes=40, seed=3)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        mine = [one for one in psutil.process_iter(["cmdline"]) if "ray::_do" in " ".join(one.info["cmdline"] or [])]
        if len(killed) < 3 and mine:
            killed.append(mine[0].pid)
            os.kill(mine[0].pid, signal.SIGKILL)

    there = slipstream.compare("edge/light", "edf,lookahead", episodes=40, seed=3, progress=kill, executor=executor)
    assert len(killed) == 3
    assert there.to_dict() == here.to_dict()


def test_a_node_that_dies_in_the_middle_changes_nothing(cluster, executor):
    settings = TrainSettings().with_changes(SMALL)
    here = train("edge/tiny", settings)
    gone = []

    def unplug(report) -> None:
        if not gone:
            gone.append(cluster.worker_nodes.copy().pop())
            cluster.remove_node(gone[0], allow_graceful=False)

    same(here, train("edge/tiny", settings, report=unplug, executor=executor))
    assert gone


def test_a_sweep_on_a_cluster_finds_and_keeps_what_one_here_does(executor, tmp_path):
    small = {**SMALL, "steps": 512, "warm_start": None, "hindsight.rounds": 0}
    base = TrainSettings().with_changes(small)
    search_space = make_search_space(base, None, {"ppo.clip_range": ["0.1"]})
    here = sweep("edge/tiny", tmp_path / "here", search_space, base, seeds=2, episodes=2)
    there = sweep("edge/tiny", tmp_path / "there", search_space, base, seeds=2, episodes=2, executor=executor)
    assert there == here
    kept = [{str(path.relative_to(home)) for path in home.rglob("policy.json")} for home in tmp_path.iterdir()]
    assert kept[0] == kept[1]
    again = sweep("edge/tiny", tmp_path / "there", search_space, base, seeds=2, episodes=2, resume=True)
    assert again == here


def test_ray_tune_stops_trainings_that_fall_behind(executor, single_cpu, tmp_path):
    small = {
        **SMALL,
        "steps": 4096,
        "evaluate_every": 1,
        "warm_start": None,
        "hindsight.rounds": 0,
        "variation.rate": 0,
        "ppo.learning_rate": 1e-9,
    }
    base = TrainSettings().with_changes(small)
    # A network that hardly learns stays as good as it began; one that learns from so few lanes gets worse at first.
    hasty = TrainSettings().ppo.learning_rate
    search_space = make_search_space(base, None, {"ppo.learning_rate": ["1e-8", str(hasty)]})
    result = sweep(
        "edge/tiny", tmp_path / "out", search_space, base, seeds=1, episodes=4, executor=executor, scheduler="asha"
    )
    assert result["scheduler"] == "asha"
    # They run one after the other, so it does not matter who is quick.
    assert result["stopped"] == [{"training": f"ppo.learning_rate={hasty:g}", "seed": 0, "steps": 512}]
    values = result["knobs"][0]["values"]
    assert all(len(one["rewards"]) == 1 for one in values)


def test_a_scheduler_needs_a_cluster(tmp_path):
    base = TrainSettings().with_changes({**SMALL, "steps": 64})
    with pytest.raises(InputError, match="expected --ray"):
        sweep(
            "edge/tiny",
            tmp_path / "out",
            make_search_space(base, None, {"ppo.clip_range": ["0.1"]}),
            base,
            scheduler="asha",
        )


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "edge/tiny", "--policies", "edf,stf", "--episodes", "3"],
        ["bench", "suite", "--policy", "edf", "--family", "edge"],
    ],
)
def test_the_command_line_plays_on_a_cluster(command, cluster, capsys, monkeypatch):
    arguments = ["slipstream", *command, "--json"]
    told = []
    for own in ([], ["--ray", cluster.address]):
        monkeypatch.setattr(sys, "argv", [*arguments, *own])
        with contextlib.suppress(SystemExit):
            main()
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


def test_a_port_at_which_nobody_listens_is_told_at_once(monkeypatch):
    """Ray would go on asking for minutes."""
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray was asked"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    told = "no cluster answers .*: expected 'local', 'auto' or HOST:PORT"
    with pytest.raises(InputError, match=told), executor_at(f"127.0.0.1:{free}"):
        pass


@pytest.mark.slow
def test_an_address_where_nobody_answers_is_told_in_one_line():
    with pytest.raises(InputError) as refusal, executor_at("nonsense"):
        pass
    assert "\n" not in str(refusal.value)
    assert "expected 'local', 'auto' or HOST:PORT" in str(refusal.value)
