"""What others wrote becomes the scenario it describes, or one line that says why not."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from slipstream.errors import InputError, ScenarioError, TraceError
from slipstream.families.edge.scenario import Periodic, Poisson, Trace
from slipstream.families.edge.workload.importers.ladder import read_ladder, with_ladder
from slipstream.families.edge.workload.importers.log import releases_of_log
from slipstream.families.edge.workload.importers.tasklist import TaskList, scenario_of
from slipstream.families.edge.workload.importers.trace import read_releases
from slipstream.families.edge.workload.profiles import PROFILES
from slipstream.families.edge.workload.replay import moved, recorded_releases, replay, with_horizon
from slipstream.files.validation import read_model
from slipstream.policies import find
from slipstream.reports.runs import read_recording
from slipstream.scenario import builtin_names, digest, dump, load
from slipstream.sim.eventlog import END, LogWriter
from slipstream.sim.simulator import Simulator
from tests.strategies import edge_scenarios, episode_seeds

LIST = {
    "num_tasks": 2,
    "num_variants": 5,
    "total_time_ms": 1000,
    "task_list": [
        {"name": "a", "model": "vgg16", "data": "CIFAR10", "if_periodic": True, "period_ms": 40},
        {"name": "b", "model": "resnet50", "data": "X", "if_periodic": False, "possion_lambda": 25, "deadline_ms": 8},
    ],
}


def tasks_of(**changes):
    return TaskList.model_validate({**LIST, **changes})


def play(scenario, seed=0):
    return Simulator(scenario).play(find("edf", "edge"), seed)


def round_trips(scenario):
    again = load(json.loads(dump(scenario)))
    again._folder = scenario._folder
    return dump(again) == dump(scenario) and digest(again) == digest(scenario)


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_scenario_round_trips(name):
    assert round_trips(load(name))


# Task lists


@pytest.mark.parametrize(("file", "built_in"), [("lw", "light"), ("mw", "medium"), ("hw", "heavy")])
def test_the_published_lists_are_the_work_of_the_built_in_scenarios(file, built_in, shared_data):
    scenario = scenario_of(read_model(shared_data / "edge" / f"config_{file}.json", TaskList), file)
    expected = load(f"edge/{built_in}")
    assert scenario.resolved()["tasks"] == expected.resolved()["tasks"]
    assert scenario.horizon_ms == expected.horizon_ms
    assert round_trips(scenario)
    assert play(scenario)["kind"][-1] == END


@pytest.mark.parametrize("file", ["lw", "mw", "hw"])
def test_the_published_lists_run_with_their_own_gaps(file, shared_data):
    tasks = read_model(shared_data / "edge" / f"config_{file}.json", TaskList)
    scenario = scenario_of(tasks, file, "integer-poisson", seed=7)
    assert round_trips(scenario)
    assert play(scenario)["kind"][-1] == END
    assert {type(task.arrival) for task in scenario.tasks} == {Periodic, Trace}


def test_integer_poisson_gaps_are_whole_milliseconds_with_the_spread_of_the_poisson_distribution():
    scenario = scenario_of(tasks_of(total_time_ms=200_000), "long", "integer-poisson", seed=1)
    assert (scenario.periodic_tasks, scenario.poisson_tasks) == (1, 0)
    times = np.array(scenario.tasks[1].arrival.times_ms)
    assert times[0] == 0.0
    assert times[-1] < 200_000
    gaps = np.diff(times)
    assert (gaps == np.rint(gaps)).all()
    assert gaps.mean() == pytest.approx(25.0, rel=0.01)
    assert gaps.std() / gaps.mean() == pytest.approx(0.2, rel=0.05)  # exponential gaps have 1


def test_integer_poisson_gaps_belong_to_their_seed():
    texts = [dump(scenario_of(tasks_of(), "n", "integer-poisson", seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_exponential_gaps_stay_a_poisson_process():
    scenario = scenario_of(tasks_of(), "n")
    assert scenario.tasks[1].arrival == Poisson(kind="poisson", mean_gap_ms=25)
    assert [task.deadline_ms for task in scenario.tasks] == [40, 8]


def test_a_periodic_task_may_have_a_deadline_of_its_own():
    scenario = scenario_of(tasks_of(num_tasks=1, task_list=[{**LIST["task_list"][0], "deadline_ms": 12}]), "n")
    assert scenario.tasks[0].deadline_ms == 12


def test_a_repeated_name_becomes_its_place():
    rows = [{**LIST["task_list"][0], "name": name} for name in ("a", "task4", "a", "a", "task4")]
    scenario = scenario_of(tasks_of(num_tasks=5, task_list=rows), "n")
    assert [task.name for task in scenario.tasks] == ["a", "task4", "task3", "task4-4", "task5"]


def test_long_names_are_cut_to_what_a_scenario_allows():
    rows = [{**LIST["task_list"][0], "data": "\u0130" * 200}]  # lower case doubles its length
    scenario = scenario_of(tasks_of(num_tasks=1, task_list=rows), "n" * 255)
    assert (len(scenario.name), len(scenario.tasks[0].dataset)) == (200, 200)


def test_fewer_variants_are_the_fastest_of_the_ladder():
    scenario = scenario_of(tasks_of(num_variants=2), "n")
    assert scenario.tasks[0].ladder == list(PROFILES["vgg@xavier-trt"].variants[:2])


def test_another_ladder_can_be_chosen_for_a_model():
    scenario = scenario_of(tasks_of(), "n", profiles={"vgg16": "yolov8@orin-nano-int8"})
    assert [task.profile for task in scenario.tasks] == ["yolov8@orin-nano-int8", "resnet@xavier-trt"]


BAD_LISTS = {
    "count": ({**LIST, "num_tasks": 3}, "num_tasks is 3 but 'task_list' has 2: expected the same number"),
    "period": (
        {**LIST, "task_list": [{**LIST["task_list"][0], "period_ms": -5}]},
        "task_list[0].period_ms: must be at least 1e-06, got -5",
    ),
    "no period": (
        {**LIST, "task_list": [{**LIST["task_list"][0], "if_periodic": False}, LIST["task_list"][1]]},
        "task_list[0]: possion_lambda is missing: expected it where if_periodic is false",
    ),
    "key": ({**LIST, "num_task": 2}, "unknown key 'num_task': did you mean 'num_tasks'?"),
    "list": ([1], "expected a JSON object, got a list"),
}


@pytest.mark.parametrize("case", BAD_LISTS)
def test_a_damaged_list_is_told_with_its_place(case, tmp_path):
    data, words = BAD_LISTS[case]
    file = tmp_path / "list.json"
    file.write_text(json.dumps(data))
    with pytest.raises(ScenarioError) as problem:
        read_model(file, TaskList)
    assert str(problem.value).startswith(f"{file}: ")
    assert words in str(problem.value)


def test_a_list_that_no_ladder_fits_is_told():
    strange = [{**LIST["task_list"][0], "model": "alexnet"}]
    with pytest.raises(InputError, match=r"task_list\[0\]\.model: no ladder for 'alexnet': expected one of vgg16, "):
        scenario_of(tasks_of(num_tasks=1, task_list=strange), "n")
    with pytest.raises(InputError, match=r"unknown ladder 'x': expected one of resnet@xavier-trt"):
        scenario_of(tasks_of(), "n", profiles={"vgg16": "x"})
    with pytest.raises(InputError, match=r"num_variants is 6: expected at most 5, as 'vgg@xavier-trt' has"):
        scenario_of(tasks_of(num_variants=6), "n")
    with pytest.raises(InputError, match=r"possion_lambda 25: gives over 1,000,000 releases"):
        scenario_of(tasks_of(total_time_ms=1e9), "n", "integer-poisson")


# Traces


def test_rows_that_name_their_tasks_are_told_apart(tmp_path):
    (tmp_path / "t.csv").write_text("task,arrival_ms\ntask2,5\ntask1,1\ntask2,6\ntask1,1.5\n")
    found = read_releases(tmp_path / "t.csv", load("edge/light"), None)
    assert {index: times.tolist() for index, times in found.items()} == {
        0: [1_000_000, 1_500_000],
        1: [5_000_000, 6_000_000],
    }
    table = pa.table({"who": pa.array(["task2", "task1"]).dictionary_encode(), "at": [7, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_releases(tmp_path / "t.parquet", load("edge/light"), None, "who", "at", unit_ms=1000.0)
    assert {index: times.tolist() for index, times in found.items()} == {0: [3_000_000_000], 1: [7_000_000_000]}


def test_a_scenario_with_replaced_arrivals_keeps_all_else(tmp_path):
    base = load("edge/heavy")
    scenario = replay(base, {0: np.array([0, 5_000_000]), 3: np.array([], np.int64)})
    assert (scenario.periodic_tasks, scenario.poisson_tasks) == (3, 3)
    assert scenario.tasks[0].arrival == Trace(kind="trace", times_ms=[0.0, 5.0])
    assert [task.relative_deadline_ms for task in scenario.tasks] == [task.relative_deadline_ms for task in base.tasks]
    assert scenario.tasks[1:3] == base.tasks[1:3]
    assert (scenario.device, scenario.reward) == (base.device, base.reward)
    assert round_trips(scenario)
    assert with_horizon(scenario, 50.0).horizon_ms == 50.0


def test_a_moved_scenario_finds_the_traces_it_had(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "t.csv").write_text("arrival_ms\n1\n2\n")
    first = {"kind": "trace", "path": "t.csv"}
    second = {"kind": "trace", "path": str(tmp_path / "old" / "t.csv")}
    tasks = [
        {"name": name, "model": "m", "dataset": "d", "num_variants": 5, "deadline_ms": 5, "arrival": arrival}
        | {"profile": "vgg@xavier-trt"}
        for name, arrival in (("a", first), ("b", second))
    ]
    (tmp_path / "old" / "s.json").write_text(json.dumps({"family": "edge", "horizon_ms": 9, "tasks": tasks}))
    scenario = load(tmp_path / "old" / "s.json")
    other = moved(scenario, tmp_path / "new")
    assert [task.arrival.path for task in other.tasks] == ["../old/t.csv", second["path"]]
    (tmp_path / "new" / "s.json").write_text(dump(other))
    assert digest(load(tmp_path / "new" / "s.json")) == digest(scenario)


def test_too_many_releases_for_one_file_are_told():
    with pytest.raises(TraceError, match=r"1,000,001 releases: expected at most 1,000,000 in a scenario file; --trace"):
        replay(load("edge/tiny"), {0: np.zeros(1_000_001, np.int64)})


BAD_TRACES = {
    "task,arrival_ms\ntask1,1\ntask9,2\n": "row 3: no task 'task9' in the scenario: expected one of task1, task2",
    "task,arrival_ms\ntask1,1\n,2\n": "row 3: task: expected text, got nothing",
    "task,arrival_ms\ntask1,1\ntask2,\n": "row 3: arrival_ms: expected a number, got nothing",
    "task,arrival_ms\ntask1,5\ntask2,1\ntask1,4\n": "row 4: 4 is earlier than the row before it: expected ascending",
    "task,arrival_ms\ntask1,5\ntask2,-1\n": "row 3: expected a time between 0 and 8.64e+09 ms, got -1",
    "task,arrival_ms\n": "no rows: expected at least one release",
    "who,arrival_ms\ntask1,5\n": "row 1: column 'task' is missing (found who, arrival_ms)",
}


@pytest.mark.parametrize("text", BAD_TRACES)
def test_a_damaged_trace_of_several_tasks_is_told_with_its_row(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError) as problem:
        read_releases(tmp_path / "t.csv", load("edge/light"), None)
    assert str(problem.value).startswith(f"{tmp_path / 't.csv'}: {BAD_TRACES[text]}")


def test_releases_of_a_task_that_is_not_there_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_ms\n1\n")
    with pytest.raises(InputError, match="no task 'camera' in the scenario: expected one of task1, task2"):
        read_releases(tmp_path / "t.csv", load("edge/light"), "camera")


# Ladders

MEASURED = "model,device,latency_ms,accuracy\nslow,x,9,80\nfast,x,2,60\nodd,x,5,55\nother,y,1,\n"


def test_a_ladder_is_sorted_and_its_percents_become_shares(tmp_path):
    (tmp_path / "p.csv").write_text(MEASURED)
    ladder = read_ladder(tmp_path / "p.csv", {"device": "x"})
    assert [(v.name, v.latency_ms, v.accuracy) for v in ladder] == [
        ("fast", 2, 0.6),
        ("odd", 5, 0.55),
        ("slow", 9, 0.8),
    ]
    assert [v.name for v in read_ladder(tmp_path / "p.csv", {"device": "x"}, pareto=True)] == ["fast", "slow"]
    scenario = with_ladder(load("edge/light"), 1, ladder)
    assert scenario.tasks[1].ladder == ladder
    assert scenario.tasks[0] == load("edge/light").tasks[0]
    assert round_trips(scenario)
    assert play(scenario)["kind"][-1] == END


def test_a_ladder_from_parquet_is_the_same(tmp_path):
    table = pa.table({"name": ["b", "a", "c"], "ms": [9, 2, 1], "share": [0.8, 0.6, 0.1], "batch": [1, 1, 8]})
    pq.write_table(table, tmp_path / "p.parquet")
    ladder = read_ladder(tmp_path / "p.parquet", {"batch": "1"}, "name", "ms", "share")
    assert [(v.name, v.latency_ms, v.accuracy) for v in ladder] == [("a", 2, 0.6), ("b", 9, 0.8)]


def test_the_published_profiles_give_the_built_in_ladders(shared_data):
    where = {"device": "jetson_agx_xavier", "runtime": "tensorrt", "family": "resnet"}
    ladder = read_ladder(shared_data / "edge" / "profiles.csv", where)
    assert ladder == list(PROFILES["resnet@xavier-trt"].variants)


BAD_LADDERS = {
    "empty cell": (MEASURED, {"device": "y"}, "row 5: accuracy: expected a number, got nothing"),
    "no such device": (MEASURED, {"device": "z"}, "device: no row has 'z': expected one of x, y"),
    "no such column": (MEASURED, {"gpu": "z"}, "row 1: column 'gpu' is missing (found model, device, latency_ms, accu"),
    "latency": ("model,latency_ms,accuracy\na,0,1\n", {}, "row 2: latency_ms: expected a number between 1e-06 and"),
    "accuracy": ("model,latency_ms,accuracy\na,1,101\n", {}, "row 2: accuracy: expected a number between 0 and 100, g"),
    "name": ("model,latency_ms,accuracy\n,1,1\n", {}, "row 2: model: expected text, got nothing"),
    "nothing": ("model,latency_ms,accuracy\n", {}, "has no rows: expected a variant in each"),
    "too many": ("model,latency_ms,accuracy\n" + "a,1,1\n" * 65, {}, "65 rows: expected at most 64 variants; --where"),
}


@pytest.mark.parametrize("case", BAD_LADDERS)
def test_damaged_measurements_are_told_with_their_row(case, tmp_path):
    text, where, words = BAD_LADDERS[case]
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(TraceError) as problem:
        read_ladder(tmp_path / "p.csv", where)
    assert str(problem.value).startswith(f"{tmp_path / 'p.csv'}: {words}")


# Recorded runs


@given(edge_scenarios(), episode_seeds())
@settings(max_examples=50)
def test_a_replayed_run_is_the_run_itself(scenario, seed):
    events = play(scenario, seed)
    again = replay(scenario, recorded_releases(events, len(scenario.tasks)))
    assert round_trips(again)
    replayed = play(again, seed)
    # Traces come to an end: the last row may come earlier, and nothing else changes.
    assert replayed[:-1].tolist() == events[:-1].tolist()
    assert replayed["time"][-1] <= events["time"][-1]


def test_another_policy_gets_the_arrivals_of_the_log(tmp_path):
    scenario = load("edge/heavy")
    events = play(scenario, 3)
    writer = LogWriter(tmp_path / "run.parquet", {"scenario": dump(scenario), "policy": "edf", "seed": 3})
    writer.write(events)
    writer.close()
    found, _, base = read_recording(tmp_path / "run.parquet")
    again = replay(base, releases_of_log(tmp_path / "run.parquet", base, found))
    expected = recorded_releases(Simulator(scenario).play(find("edf-fit", "edge"), 3), 8)
    fit = recorded_releases(Simulator(again).play(find("edf-fit", "edge"), 99), 8)
    assert all((fit[task] == expected[task]).all() for task in range(8))


def test_a_log_that_breaks_a_law_is_told(tmp_path):
    scenario = load("edge/tiny")
    events = play(scenario)
    with pytest.raises(TraceError, match=r"run\.parquet: damaged \(.*\): expected an event log of its scenario"):
        releases_of_log(tmp_path / "run.parquet", scenario, events[:-1])
