"""Brackets: optima that are known, bounds that nobody beats, schedules that the simulator can play."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.families.taskgraph.metrics import tasks_of
from slipstream.families.taskgraph.oracle.bounds import area, bounds_of, least_makespan
from slipstream.families.taskgraph.oracle.hindsight import jobs_of_episode
from slipstream.families.taskgraph.oracle.optimum import optimum_bounds
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

LINK = {"bandwidth_mb_s": 250.0}


def cholesky(n, gpus, cpus):
    processors = [{"name": "gpu", "count": gpus}, *([{"name": "cpu", "count": cpus}] if cpus else [])]
    return load({"family": "taskgraph", "processors": processors, "graphs": [{"kind": "cholesky", "n": n}]})


@pytest.mark.parametrize(("n", "gpus", "cpus", "optimum"), [(4, 2, 2, 74), (4, 1, 3, 94), (8, 4, 0, 159)])
def test_known_optima_are_found_and_proven(n, gpus, cpus, optimum):
    found = optimum_bounds(cholesky(n, gpus, cpus), 0, seconds=60.0)
    assert (found.best_known, found.bound, found.exact) == (-optimum, -optimum, True)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "gpus", "cpus", "optimum"), [(6, 2, 2, 134)])
def test_harder_optima_are_found_and_proven(n, gpus, cpus, optimum):
    found = optimum_bounds(cholesky(n, gpus, cpus), 0, seconds=120.0)
    assert (found.best_known, found.bound, found.exact) == (-optimum, -optimum, True)


@pytest.mark.parametrize(
    ("n", "gpus", "cpus", "bound"), [(4, 2, 2, 74), (6, 2, 2, 116), (8, 4, 0, 158), (8, 2, 2, 204), (8, 1, 3, 322)]
)
def test_bounds_are_the_known_ones(n, gpus, cpus, bound):
    assert bounds_of(cholesky(n, gpus, cpus), 0).best / 1e6 == pytest.approx(bound, abs=1.0)


def test_waiting_for_reuse_is_solved_by_trying_everything():
    found = optimum_bounds(load("taskgraph/wait-for-reuse"), 0)
    assert (found.best_known, found.bound, found.exact, found.method) == (-20.0, -20.0, True, "search")


def test_nobody_who_never_waits_does_as_well_where_waiting_pays():
    scenario = load("taskgraph/wait-for-reuse")
    ends = {}
    for name in names("taskgraph"):
        events = Simulator(scenario).play(find(name, "taskgraph"), 0)
        ends[name] = int(events["time"][-1]) / 1e6
    assert min(ends.values()) == 23.0


@pytest.mark.parametrize("name", ["noisy", "tight-memory", "unrolled", "spgemm", "push-8-2g2c"])
def test_no_policy_is_better_than_the_bound(name):
    scenario = load(f"taskgraph/{name}")
    found = optimum_bounds(scenario, 4, seconds=1.0)
    assert found.best_known <= found.bound
    for policy in ("mct", "peft", "dmdas"):
        end = int(Simulator(scenario).play(find(policy, "taskgraph"), 4)["time"][-1])
        assert -end / 1e6 <= found.best_known


def test_the_luck_of_an_episode_is_known_afterwards():
    scenario = load("taskgraph/noisy")
    events = Simulator(scenario).play(find("mct", "taskgraph"), 9)
    work = jobs_of_episode(scenario, events[events["kind"] == 0], 9, "test")
    tasks = tasks_of(events)
    drawn = [work[0].durations[task][kind] for task, kind in zip(tasks.task, tasks.variant, strict=True)]
    assert drawn == (tasks.end - tasks.start).tolist()


def test_areas_of_jobs_do_not_add_up():
    # One job suits the CPU, the other the GPU: together they take as long as either alone on its own processor.
    one, other = np.array([[1_000, 10_000]]), np.array([[10_000, 1_000]])
    both = area(np.concatenate((one, other)), [1, 1])
    assert both == pytest.approx(1_000, abs=1)
    assert area(one, [1, 1]) + area(other, [1, 1]) > 1.5 * both


@pytest.mark.parametrize("seed", range(10))
def test_the_area_of_two_kinds_is_that_of_three_of_which_two_are_alike(seed):
    # Two kinds are worked out by moving tasks, three by a linear program.
    rng = np.random.default_rng(seed)
    durations = rng.integers(1_000, 1_000_000, (int(rng.integers(1, 12)), 2))
    one, other, third = rng.integers(1, 4, 3).tolist()
    three = area(durations[:, [0, 1, 1]], [one, other, third])
    assert three == pytest.approx(area(durations, [one, other + third]), rel=1e-6)


def test_what_has_to_be_loaded_is_a_bound():
    task = {"name": "a", "duration_ms": 1.0, "accesses": {"s": "r", "t": "rw", "u": "w"}}
    processors = [{"name": "gpu", "count": 1, "device": True}]
    graphs = [{"kind": "inline", "tasks": [task], "tile_bytes": 1_000_000}]
    links = {"to_device": LINK, "to_host": LINK}
    scenario = load({"family": "taskgraph", "processors": processors, "links": links, "graphs": graphs})
    # Two tiles of 4 ms each; what is only written need not come.
    assert bounds_of(scenario, 0).loads == 8_000_000
    with_host = [*processors, {"name": "cpu", "count": 1}]
    scenario = load({"family": "taskgraph", "processors": with_host, "links": links, "graphs": graphs})
    assert bounds_of(scenario, 0).loads == 0


def test_work_that_arrives_late_ends_late():
    scenario = load(
        {
            "family": "taskgraph",
            "processors": [{"name": "gpu", "count": 2}],
            "graphs": [{"kind": "cholesky", "n": 4}],
            "arrivals": {"kind": "trace", "times_ms": [0.0, 500.0, 500.0]},
        }
    )
    events = Simulator(scenario).play(find("critical-path", "taskgraph"), 0)
    # POTRF 11, TRSM 8, SYRK 2, GEMM 3 on two processors: 4, 6, 6 and 4 of them, 116 ms of work a job, two of them late.
    assert least_makespan(scenario, events[events["kind"] == 0]) == 616_000_000
