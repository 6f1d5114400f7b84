"""HEFT, PEFT and CPOP: the makespans that others have found on the same graphs, and schedules that are ones."""

from __future__ import annotations

import gc
import weakref

import pytest

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.metrics import end_of
from slipstream.families.taskgraph.plans import SCHEDULERS, cpop, heft, peft, problems
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

LINK = {"bandwidth_mb_s": 1000.0}


def cholesky(n, gpus, cpus, **more):
    processors = [{"name": "gpu", "count": gpus, "device": "links" in more}]
    processors += [{"name": "cpu", "count": cpus}] if cpus else []
    return load({"family": "taskgraph", "processors": processors, "graphs": [{"kind": "cholesky", "n": n}], **more})


@pytest.mark.parametrize(
    ("n", "gpus", "cpus", "of_heft", "of_peft"),
    [
        (4, 2, 2, 85, 78),
        (4, 1, 3, 114, 94),
        (6, 2, 2, 166, 144),
        (8, 4, 0, 164, 165),
        (8, 2, 2, 284, 254),
        (8, 1, 3, 469, 426),
        (10, 4, 0, 259, 260),
        (10, 2, 2, 458, 425),
    ],
)
def test_heft_and_peft_give_the_known_makespans(n, gpus, cpus, of_heft, of_peft):
    problem = problems(cholesky(n, gpus, cpus))[0]
    assert heft(problem).makespan == of_heft * 1_000_000
    assert peft(problem).makespan == of_peft * 1_000_000


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("kind", ["cholesky", "lu", "qr"])
def test_a_plan_is_played_as_it_was_made(name, kind):
    scenario = load(
        {
            "family": "taskgraph",
            "processors": [{"name": "gpu", "count": 2}, {"name": "cpu", "count": 1}],
            "graphs": [{"kind": kind, "n": 5}],
        }
    )
    planned = SCHEDULERS[name](problems(scenario)[0]).makespan
    assert end_of(Simulator(scenario).play(find(name, "taskgraph"), 0)) == planned


@pytest.mark.parametrize("plan", [heft, peft, cpop])
@pytest.mark.parametrize("peer", [False, True])
def test_a_plan_keeps_parents_and_processors_apart(plan, peer):
    links = {"to_device": LINK, "to_host": LINK, **({"peer": {"bandwidth_mb_s": 2000.0}} if peer else {})}
    problem = problems(cholesky(5, 2, 2, links=links))[0]
    schedule = plan(problem)
    start = {}
    for processor, intervals in enumerate(schedule.intervals):
        for (begin, end, task), following in zip(intervals, [*intervals[1:], (2**62, 0, 0)], strict=False):
            start[task] = begin
            assert end - begin == problem.durations[task, processor]
            assert end <= following[0]
    assert len(start) == problem.tasks
    for task in range(problem.tasks):
        for parent in problem.parents[task]:
            delay = problem.delay(parent, task, schedule.where[parent], schedule.where[task])
            assert start[task] >= schedule.end[parent] + delay


def test_delays_depend_on_where_data_are():
    links = {"to_device": LINK, "to_host": {"bandwidth_mb_s": 500.0}}
    problem = problems(cholesky(2, 2, 2, links=links))[0]
    size_ms = 3.6864
    # A tile from POTRF to TRSM: within a node, down, up, and from device to device by way of the host.
    delays = [problem.delay(0, 1, *pair) for pair in [(2, 3), (2, 0), (0, 2), (0, 1), (0, 0)]]
    assert delays == [round(time * 1e6) for time in (0, size_ms, 2 * size_ms, 3 * size_ms, 0)]


def test_the_critical_path_stays_on_the_processor_that_suits_it():
    # HEFT would put b on the slower processor to use a gap; a chain is done fastest where its sum is least.
    times = {"a": (2.0, 3.0), "b": (4.0, 3.0), "c": (2.0, 4.0), "s": (1.0, 1.0)}
    after = {"a": [], "b": ["a"], "c": ["b"], "s": ["a"]}
    tasks = [
        {"name": name, "duration_ms": {"gpu": gpu, "cpu": cpu}, "after": after[name]}
        for name, (gpu, cpu) in times.items()
    ]
    processors = [{"name": "gpu", "count": 1}, {"name": "cpu", "count": 1}]
    graphs = [{"kind": "inline", "tasks": tasks}]
    problem = problems(load({"family": "taskgraph", "processors": processors, "graphs": graphs}))[0]
    assert cpop(problem).where == [0, 0, 0, 1]
    assert heft(problem).where[1] == 1


def test_a_simulator_follows_a_plan_that_was_made_after_many_other_scenarios_were_built():
    scenario = cholesky(4, 2, 2)
    simulator = Simulator(scenario)
    others = [cholesky(n, 1, 1) for n in range(2, 9)]
    assert [len(problems(other)) for other in others] == [1] * 7
    assert end_of(simulator.play(find("heft", "taskgraph"), 0)) == heft(problems(scenario)[0]).makespan


def test_arrays_of_a_scenario_go_with_it():
    scenario = cholesky(4, 2, 2)
    arrays = weakref.ref(compiled_scenario(scenario))
    assert compiled_scenario(scenario) is arrays()
    del scenario
    gc.collect()
    assert arrays() is None
