"""HEFT and PEFT against a second implementation on random graphs, and plans that the machine keeps to."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from slipstream.families.taskgraph.metrics import end_of
from slipstream.families.taskgraph.plans import SCHEDULERS, Schedule, problems
from slipstream.policies.base import find
from slipstream.scenario import digest, load
from slipstream.sim.eventlog import START
from slipstream.sim.simulator import Simulator
from tests.taskgraph import list_scheduling

pytestmark = pytest.mark.thorough

Json = dict[str, Any]
GRAPHS = 300
TILE = 1000


def random_scenario(seed: int) -> Json:
    """Return a random graph: durations differ, so ties are rare; in every third one data move over links."""
    rng = np.random.default_rng(seed)
    names = ["cpu", "gpu", "npu"][: rng.integers(1, 4)]
    links = seed % 3 == 0
    tasks = []
    for number in range(rng.integers(1, 25)):
        parents = [f"n{one}" for one in range(number) if rng.random() < 2.0 / (1 + number)]
        accesses = {f"t{number}": "w"} | {f"t{name[1:]}": "r" for name in parents}
        times = {name: round(float(rng.uniform(0.5, 20.0)), 6) for name in names}
        tasks.append(
            {"name": f"n{number}", "duration_ms": times, "after": parents, "accesses": accesses if links else {}}
        )
    kinds = [{"name": name, "count": int(rng.integers(1, 4)), "device": links and name != "cpu"} for name in names]
    link = {"bandwidth_mb_s": 1.0, "latency_us": 200.0}
    return {
        "family": "taskgraph",
        "processors": [kinds[one] for one in rng.permutation(len(kinds))],
        "links": {"to_device": link, "to_host": {**link, "bandwidth_mb_s": 0.5}} if links else None,
        "graphs": [{"kind": "inline", "tasks": tasks, "tile_bytes": TILE}],
    }


def as_graph(data: Json) -> list_scheduling.Graph:
    """Return the same graph for the second implementation, its processors numbered from the fastest kind on."""
    tasks = data["graphs"][0]["tasks"]
    total = {one["name"]: sum(task["duration_ms"][one["name"]] for task in tasks) for one in data["processors"]}
    kinds = sorted(data["processors"], key=lambda one: (total[one["name"]], one["name"]))
    processors = [(one["name"], one["device"], number) for one in kinds for number in range(one["count"])]
    down, up = (round(200e3) + TILE * 1000 // rate for rate in (1, 0.5))
    numbers = {task["name"]: number for number, task in enumerate(tasks)}

    def delay(source: int, target: int) -> int:
        (_, from_device, _), (_, to_device, _) = processors[source], processors[target]
        if not data["links"] or source == target:
            return 0
        return int(up * from_device + down * to_device)

    return list_scheduling.Graph(
        [[round(task["duration_ms"][name] * 1e6) for name, _, _ in processors] for task in tasks],
        {(numbers[parent], numbers[task["name"]]): delay for task in tasks for parent in task["after"]},
    )


def starts_of(schedule: Schedule) -> dict[int, int]:
    return {task: start for intervals in schedule.intervals for start, _, task in intervals}


@pytest.mark.parametrize("name", ["heft", "peft"])
def test_a_plan_is_that_of_the_second_implementation(name: str) -> None:
    for seed in range(GRAPHS):
        data = random_scenario(seed)
        planned = SCHEDULERS[name](problems(load(data))[0])
        expected = getattr(list_scheduling, name)(as_graph(data))
        assert dict(enumerate(planned.where)) == expected.where, seed
        assert starts_of(planned) == expected.start, seed


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_machine_keeps_to_a_plan(name: str) -> None:
    for seed in range(GRAPHS):
        data = random_scenario(seed)
        scenario = load(data)
        planned = SCHEDULERS[name](problems(scenario)[0])
        events = Simulator(scenario).play(find(name, "taskgraph"), 0)
        began = events[events["kind"] == START]
        assert dict(zip(began["task"].tolist(), began["resource"].tolist(), strict=True)) == dict(
            enumerate(planned.where)
        )
        if not data["links"]:
            assert dict(zip(began["task"].tolist(), began["time"].tolist(), strict=True)) == starts_of(planned), seed
            assert end_of(events) == planned.makespan


@pytest.mark.parametrize("name", [*SCHEDULERS, "mct", "fifo", "dmda", "critical-path"])
def test_listing_kinds_in_another_order_changes_no_makespan(name: str) -> None:
    for seed in range(60):
        data = random_scenario(seed)
        ends = []
        for order in itertools.permutations(data["processors"]):
            scenario = load({**data, "processors": list(order)})
            ends.append((digest(scenario), end_of(Simulator(scenario).play(find(name, "taskgraph"), 0))))
        assert set(ends) == {ends[0]}, seed
