from __future__ import annotations

import copy
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream.scenario as scenarios
from slipstream.errors import InputError, ScenarioError, printable
from slipstream.families.contract import family_of
from slipstream.families.edge.scenario import EdgeScenario

FAMILY_NAMES = "'edge', 'dag', 'taskgraph', 'serving', 'cluster', 'llm', 'elastic'"
ORIGINALS = {"light": "config_lw.json", "medium": "config_mw.json", "heavy": "config_hw.json"}
LADDERS = {
    "vgg16": ("builtin:vgg", "vgg@xavier-trt"),
    "resnet50": ("builtin:resnet", "resnet@xavier-trt"),
    "mobilenet_v3_large": ("builtin:mobilenet", "mobile@xavier-trt"),
    "vit_b_16": ("builtin:vit", "vit@xavier-trt"),
}


def valid() -> dict[str, Any]:
    task = {"model": "builtin:resnet", "dataset": "cifar10", "num_variants": 5, "profile": "resnet@xavier-trt"}
    return {
        "family": "edge",
        "horizon_ms": 1000,
        "tasks": [
            {"name": "a", **task, "arrival": {"kind": "periodic", "period_ms": 20}},
            {"name": "b", **task, "arrival": {"kind": "poisson", "mean_gap_ms": 30}, "deadline_ms": 25},
        ],
    }


def edited(path: str, value: Any) -> dict[str, Any]:
    """The valid scenario with one place, such as 'tasks.0.arrival.period_ms', set to a value."""
    data: Any = valid()
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    return data


def removed(path: str) -> dict[str, Any]:
    data = edited(path, None)
    place: Any = data
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    del place[last]
    return data


def complaint(source: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        scenarios.load(source)
    return str(caught.value)


def outcome(source: Any) -> tuple[scenarios.Scenario | None, str]:
    """The scenario, or None and the line that refused it."""
    try:
        return scenarios.load(source), ""
    except ScenarioError as problem:
        return None, str(problem)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edge(source: Any) -> EdgeScenario:
    scenario = scenarios.load(source)
    assert isinstance(scenario, EdgeScenario)
    return scenario


# Built-ins


def test_builtin_names_are_sorted_and_complete() -> None:
    names = scenarios.builtin_names()
    assert names == sorted(names)
    assert {"edge/light", "edge/medium", "edge/heavy", "edge/overload", "edge/drone"} <= set(names)


@pytest.mark.parametrize("name", scenarios.builtin_names())
def test_builtin_loads_says_what_it_is_and_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    scenario = scenarios.load(name)
    assert f"{scenario.family}/{scenario.name}" == name
    assert scenario.description.endswith(".")
    text = scenarios.dump(scenario)
    file = tmp_path / "again.json"
    file.write_text(text, encoding="utf-8")
    again = scenarios.load(file)
    again._folder = scenario._folder
    assert again == scenario
    assert scenarios.dump(again) == text
    assert scenarios.digest(again) == scenarios.digest(scenario)


@pytest.mark.parametrize("name", ORIGINALS)
def test_builtin_has_the_tasks_of_the_original_project(name: str, shared_data: Path) -> None:
    original = json.loads((shared_data / "edge" / ORIGINALS[name]).read_text())
    scenario = edge(f"edge/{name}")
    assert scenario.horizon_ms == original["total_time_ms"]
    assert len(scenario.tasks) == original["num_tasks"]
    for number, (task, row) in enumerate(zip(scenario.tasks, original["task_list"], strict=True), start=1):
        assert task.name == f"task{number}"
        assert (task.model, task.profile) == LADDERS[row["model"]]
        assert task.num_variants == original["num_variants"]
        if row["if_periodic"]:
            expected = {"kind": "periodic", "period_ms": row["period_ms"]}
            assert task.relative_deadline_ms == row["period_ms"]
        else:
            expected = {"kind": "poisson", "mean_gap_ms": row["possion_lambda"]}
            assert task.relative_deadline_ms == row["deadline_ms"]
        assert task.arrival.model_dump(exclude_unset=True) == expected


def mean_rate(arrival: Any) -> float:
    """Releases per millisecond in the long run."""
    if arrival.kind == "bursty":
        releases = arrival.calm_ms / arrival.calm_gap_ms + arrival.burst_ms / arrival.burst_gap_ms
        return releases / (arrival.calm_ms + arrival.burst_ms)
    return 1 / (arrival.period_ms if arrival.kind == "periodic" else arrival.mean_gap_ms)


def test_overload_has_four_times_the_rates_of_heavy_and_cannot_all_be_served() -> None:
    heavy, overload = edge("edge/heavy"), edge("edge/overload")
    for calm, crowded in zip(heavy.tasks, overload.tasks, strict=True):
        assert mean_rate(crowded.arrival) == pytest.approx(4 * mean_rate(calm.arrival))
        assert crowded.relative_deadline_ms == calm.relative_deadline_ms
    bursts = [task.arrival for task in overload.tasks if task.arrival.kind == "bursty"]
    assert len(bursts) == 2
    assert all(arrival.calm_gap_ms == pytest.approx(5 * arrival.burst_gap_ms) for arrival in bursts)
    load = sum(mean_rate(task.arrival) * task.ladder[0].latency_ms for task in overload.tasks)
    assert 1.1 < load / 1.25 < 1.3


# Sources


def test_a_file_a_string_path_and_a_dictionary_give_the_same_work(here: Path) -> None:
    Path("my.json").write_text(json.dumps(valid()))
    digests = {scenarios.digest(scenarios.load(source)) for source in ("my.json", Path("my.json"), valid())}
    assert len(digests) == 1


def test_a_scenario_object_is_returned_as_is() -> None:
    scenario = scenarios.load(valid())
    assert scenarios.load(scenario) is scenario


def test_relative_paths_start_at_the_folder_of_the_file(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "my.json").write_text(json.dumps(valid()))
    assert scenarios.load("deep/my.json")._folder == here.resolve() / "deep"
    assert scenarios.load(valid())._folder == Path.cwd()


def test_a_builtin_name_wins_over_a_file_and_a_dot_names_the_file(here: Path) -> None:
    (here / "edge").mkdir()
    (here / "edge" / "heavy").write_text(json.dumps(valid() | {"name": "mine"}))
    assert scenarios.load("edge/heavy").name == "heavy"
    assert scenarios.load("./edge/heavy").name == "mine"


def test_a_byte_order_mark_is_tolerated(here: Path) -> None:
    Path("my.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(valid()).encode())
    assert edge("my.json").horizon_ms == 1000


def test_the_callers_dictionary_is_left_alone() -> None:
    data = valid()
    scenarios.load(data)
    assert data == valid()


# Bad files


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"", "my.json: is empty: expected a JSON object"),
        (b" \n\t", "my.json: is empty: expected a JSON object"),
        (b"\xef\xbb\xbf", "my.json: is empty: expected a JSON object"),
        (b'{"name": "\xff"}', "my.json: is not UTF-8 text (byte 10): expected a JSON file"),
        ('{"family": "edge"}'.encode("utf-16"), "my.json: is not UTF-8 text (byte 0): expected a JSON file"),
        (b'{\n  "family" "edge"}', "my.json: is not JSON at line 2, column 12: expecting ':' delimiter"),
        (b'{"family": "edge"} x', "my.json: is not JSON at line 1, column 20: extra data"),
        (b"[1, 2]", "my.json: expected a JSON object, got a list"),
        (b"null", "my.json: expected a JSON object, got null"),
        (b'"edge"', "my.json: expected a JSON object, got 'edge'"),
        (b"[" * 100_000, "my.json: is nested too deeply: expected at most 64 levels"),
        (b'{"a": ' * 100 + b"1" + b"}" * 100, "my.json: is nested too deeply: expected at most 64 levels"),
        (b'{"family": "edge", "family": "edge"}', "my.json: the key 'family' appears twice: expected it once"),
        (
            b'{"family": "edge", "tasks": [{}, {"arrival": {"kind": "poisson", "kind": "closed"}}]}',
            "my.json: tasks[1].arrival: the key 'kind' appears twice: expected it once",
        ),
        (
            b'{"family": "edge", "horizon_ms": NaN}',
            "my.json: horizon_ms: expected a finite number (below 1.8e308 in size), got NaN",
        ),
        (
            b'{"family": "edge", "horizon_ms": -Infinity}',
            "my.json: horizon_ms: expected a finite number (below 1.8e308 in size), got -Infinity",
        ),
        (
            b'{"family": "edge", "tasks": [{"deadline_ms": 1e999}]}',
            "my.json: tasks[0].deadline_ms: expected a finite number (below 1.8e308 in size), got Infinity",
        ),
        (
            b'{"family": "edge", "horizon_ms": 1' + b"0" * 5000 + b"}",
            "my.json: horizon_ms: expected a finite number (below 1.8e308 in size), got Infinity",
        ),
        (b'{"family": "edge", "name": "\\ud800"}', "my.json: name: expected valid Unicode, got '\\ud800'"),
    ],
)
def test_a_bad_file_gets_one_line(raw: bytes, line: str, here: Path) -> None:
    Path("my.json").write_bytes(raw)
    assert complaint("my.json") == line


def test_a_folder_is_refused(here: Path) -> None:
    Path("my.json").mkdir()
    assert complaint("my.json") == "my.json: is a folder: expected a JSON file"


def test_a_file_of_over_64_mb_is_refused(here: Path) -> None:
    with Path("my.json").open("wb") as file:
        file.truncate(65 * 2**20)
    assert complaint("my.json") == "my.json: is larger than 64 MB: expected a JSON file"


def test_a_pipe_is_refused_and_not_waited_for(here: Path) -> None:
    os.mkfifo("my.json")
    assert complaint("my.json") == "my.json: is not a regular file: expected a JSON file"
    assert complaint("/dev/zero") == "/dev/zero: is not a regular file: expected a JSON file"


def test_a_file_that_cannot_be_opened_is_worded(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    Path("my.json").write_text("{}")
    monkeypatch.setattr(os, "open", refuse)
    assert complaint("my.json") == "my.json: cannot be read (permission denied): expected a JSON file"


def test_a_path_with_a_null_character_is_worded() -> None:
    assert complaint("a\0b") == "a\\x00b: cannot be read (embedded null byte): expected a JSON file"


def test_an_empty_name_is_worded() -> None:
    assert complaint("") == "'': is a folder: expected a JSON file"


def test_a_missing_file_is_worded(here: Path) -> None:
    line = "missing.json: no such file: expected a JSON file or the name of a built-in scenario"
    assert complaint("missing.json") == line


@pytest.mark.parametrize("typo", ["edge/havy", "heavy", "edge/Heavy"])
def test_an_unknown_name_gets_the_nearest_builtin(typo: str, here: Path) -> None:
    assert complaint(typo) == f"{typo}: no such file or built-in scenario: did you mean 'edge/heavy'?"


def test_a_name_like_no_other_is_sent_to_the_list(here: Path) -> None:
    expected = "expected a JSON file or a name that `slipstream scenarios` lists"
    assert complaint("qqq") == f"qqq: no such file or built-in scenario: {expected}"


def test_another_object_is_refused() -> None:
    line = "scenario: expected a built-in name, a path, a dictionary or a scenario, got an object of type int"
    assert complaint(5) == line


# Bad content


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({}, f"family: this key is required: expected {FAMILY_NAMES}"),
        ({"family": "edgy"}, "family: unknown family 'edgy': did you mean 'edge'?"),
        ({"family": "zzz"}, f"family: unknown family 'zzz': expected one of {FAMILY_NAMES}"),
        ({"family": None}, f"family: unknown family null: expected one of {FAMILY_NAMES}"),
        ({"family": "edge", 5: 1}, "expected keys that are strings, got 5"),
        ({"family": "edge", "\ud800": 1}, "expected valid Unicode, got '\\ud800'"),
        ({"family": "edge"}, "horizon_ms: this key is required (and 1 more)"),
        (edited("horizons_ms", 5), "unknown key 'horizons_ms': did you mean 'horizon_ms'?"),
        (edited("line\nbreak", 5), None),
        (edited("horizon_ms", "10s"), "horizon_ms: expected a number, got '10s'"),
        (edited("horizon_ms", True), "horizon_ms: expected a number, got true"),
        (edited("horizon_ms", 10**400), None),
        (edited("horizon_ms", 1e12), "horizon_ms: must be at most 8640000000, got 1000000000000"),
        (edited("horizon_ms", math.nan), "horizon_ms: expected a finite number (below 1.8e308 in size), got NaN"),
        (edited("tasks", []), "tasks: must have at least 1 item, got 0"),
        (edited("tasks", {}), "tasks: expected a list, got an object"),
        (edited("tasks.1", 7), "tasks[1]: expected an object, got 7"),
        (edited("tasks.1.name", ""), "tasks[1].name: must have at least 1 character, got ''"),
        (edited("tasks.1.name", 3), "tasks[1].name: expected a string, got 3"),
        (removed("tasks.1.name"), "tasks[1].name: this key is required"),
        (edited("tasks.1.name", "a"), "tasks[1].name 'a' is taken by tasks[0]: expected unique names"),
        (edited("tasks.0.num_variants", 2.5), "tasks[0].num_variants: expected a whole number, got 2.5"),
        (edited("tasks.0.arrival.period_ms", -5), "tasks[0].arrival.period_ms: must be at least 1e-06, got -5"),
        (edited("tasks.0.arrival.period_ms", "10ms"), "tasks[0].arrival.period_ms: expected a number, got '10ms'"),
        (removed("tasks.0.arrival.period_ms"), "tasks[0].arrival.period_ms: this key is required"),
        (
            edited("tasks.0.arrival.perod_ms", 5),
            "tasks[0].arrival: unknown key 'perod_ms': did you mean 'period_ms'?",
        ),
        (edited("tasks.0.arrival.jitter_ms", 21), "tasks[0].arrival: jitter_ms must not exceed period_ms"),
        (
            edited("tasks.0.arrival.kind", "period"),
            "tasks[0].arrival.kind: unknown kind 'period': did you mean 'periodic'?",
        ),
        (removed("tasks.0.arrival.kind"), "tasks[0].arrival.kind: this key is required"),
        (
            edited("tasks.0.arrival.kind", 5),
            "tasks[0].arrival.kind: unknown kind 5: "
            "expected one of 'periodic', 'poisson', 'bursty', 'trace', 'closed', 'external'",
        ),
        (edited("tasks.0.arrival", "often"), "tasks[0].arrival: expected an object, got 'often'"),
        (
            edited("tasks.0.num_variants", 4),
            "tasks[0]: num_variants is 4 but the ladder has 5 variants: expected the same number",
        ),
        (edited("periodic_tasks", 2), "periodic_tasks is 2 but 'tasks' lists 1: expected the same number"),
        (edited("poisson_tasks", 0), "poisson_tasks is 0 but 'tasks' lists 1: expected the same number"),
        (removed("tasks.1.deadline_ms"), None),
        (edited("device", {"late": "maybe"}), "device.late: expected 'drop' or 'run', got 'maybe'"),
        (
            edited("device", {"latency": {"kind": "lognormal", "cv": 0}}),
            "device.latency.cv: must be more than 0, got 0",
        ),
        (edited("reward", {"drops": -1, "lateness": "x"}), "reward.lateness: expected a number, got 'x' (and 1 more)"),
        (
            edited("tasks.0.dataset", "x" * 300),
            f"tasks[0].dataset: must have at most 200 characters, got '{'x' * 60}…'",
        ),
        (
            edited("tasks.0.arrival", {"kind": "trace", "times_ms": [1, 2, -3]}),
            "tasks[0].arrival.times_ms[2]: must be at least 0, got -3",
        ),
    ],
)
def test_bad_content_gets_one_line_with_its_place(data: Any, line: str | None) -> None:
    said = complaint(data)
    assert "\n" not in said
    if line is not None:
        assert said == f"scenario: {line}"


def ladder(*variants: dict[str, Any]) -> dict[str, Any]:
    """The valid scenario with variants of its own in the second task, each of 5 ms."""
    data = edited("tasks.1.variants", [{"latency_ms": 5, "accuracy": 0.5, **variant} for variant in variants])
    data["tasks"][1]["num_variants"] = len(variants)
    del data["tasks"][1]["profile"]
    return data


def matrix(*rows: list[Any]) -> dict[str, Any]:
    """The valid scenario of two tasks and ten variants with measured slowdowns."""
    return edited("device", {"interference": {"kind": "matrix", "slowdowns": list(rows)}})


def with_memory(megabytes: float) -> dict[str, Any]:
    return ladder({"memory_mb": 2}, {"memory_mb": 3.5}) | {"device": {"memory_mb": megabytes}}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (
            edited("device", {"stream_priorities": [1]}),
            "device: stream_priorities lists 1 but streams is 2: expected one for each stream",
        ),
        (
            edited("device", {"streams": 1, "stream_priorities": []}),
            "device: stream_priorities lists 0 but streams is 1: expected one for each stream",
        ),
        (
            edited("device", {"stream_priorities": [1, 0], "interference": {"kind": "none"}}),
            "device: stream_priorities say how interference is shared out: expected interference 'share' or 'roofline'",
        ),
        (
            matrix([1, 1], [1, 1]) | {"device": {"stream_priorities": [1, 0], **matrix([1, 1], [1, 1])["device"]}},
            "device: stream_priorities say how interference is shared out: expected interference 'share' or 'roofline'",
        ),
        (
            edited("device", {"stream_priorities": [1, 11]}),
            "device.stream_priorities[1]: must be at most 10, got 11",
        ),
        (
            edited("device", {"preemption": {"kind": "stage"}, "decision_time_ms": 0.5}),
            "device: decision_time_ms is 0.5 but a run does not wait at the end of a stage: expected 0 with 'stage'",
        ),
        (
            edited("device", {"preemption": {"cost_ms": 2}}),
            "device.preemption: cost_ms is 2.0 but kind is 'none': expected 0",
        ),
        (
            edited("device", {"preemption": {"kind": "resume", "cost_ms": -1}}),
            "device.preemption.cost_ms: must be at least 0, got -1",
        ),
        (
            edited("device", {"preemption": {"kind": "pause"}}),
            "device.preemption.kind: expected 'none', 'stage', 'restart' or 'resume', got 'pause'",
        ),
        (matrix([1]), "slowdowns is 1 x 1: expected 2 x 2 (tasks) or 10 x 10 (variants)"),
        (matrix([1, 2], [1]), "slowdowns is 2 x 1: expected 2 x 2 (tasks) or 10 x 10 (variants)"),
        (matrix([1, 2], [1, 2, 3]), "slowdowns is 2 x 3: expected 2 x 2 (tasks) or 10 x 10 (variants)"),
        (matrix([1] * 10, [1] * 10), "slowdowns is 2 x 10: expected 2 x 2 (tasks) or 10 x 10 (variants)"),
        (matrix(), "device.interference.slowdowns: must have at least 1 item, got 0"),
        (matrix([1, 0], [1, 1]), "device.interference.slowdowns[0][1]: must be at least 0.01, got 0"),
        (
            with_memory(3),
            "variant 1 of tasks[1] needs 3.5 MB: expected at most device.memory_mb, 3.0",
        ),
        (with_memory(0), "device.memory_mb: must be more than 0, got 0"),
        (ladder({"memory_mb": -1}), "tasks[1].variants[0].memory_mb: must be at least 0, got -1"),
        (ladder({"load_ms": -1}), "tasks[1].variants[0].load_ms: must be at least 0, got -1"),
        (ladder({"stages": 0}), "tasks[1].variants[0].stages: must be at least 1, got 0"),
        (ladder({"compute_share": 1.5}), "tasks[1].variants[0].compute_share: must be at most 1, got 1.5"),
        (ladder({"power_w": -0.5}), "tasks[1].variants[0].power_w: must be at least 0, got -0.5"),
        (ladder({"actual_ms": 0}), "tasks[1].variants[0].actual_ms: must be at least 1e-06, got 0"),
        (edited("device", {"idle_w": -1}), "device.idle_w: must be at least 0, got -1"),
        (edited("device", {"busy_w": -1}), "device.busy_w: must be at least 0, got -1"),
        (edited("reward", {"energy": -1}), "reward.energy: must be at least 0, got -1"),
    ],
)
def test_bad_parts_of_the_machine_get_one_line_with_their_place(data: Any, line: str) -> None:
    assert complaint(data) == f"scenario: {line}"


@pytest.mark.parametrize(
    "data",
    [
        with_memory(3.5),
        matrix([1, 0.5], [100, 1]),
        matrix(*[[1.5] * 10] * 10),
        edited("device", {"stream_priorities": [0, 10], "interference": {"kind": "roofline"}}),
        edited("device", {"preemption": {"kind": "resume", "cost_ms": 2}, "decision_time_ms": 0.5}),
    ],
)
def test_what_is_just_allowed_is(data: Any) -> None:
    scenarios.load(data)


def test_the_file_is_named_before_the_place(here: Path) -> None:
    Path("my.json").write_text(json.dumps(edited("tasks.1.arrival.mean_gap_ms", -5)))
    assert complaint("my.json") == "my.json: tasks[1].arrival.mean_gap_ms: must be at least 1e-06, got -5"


def test_a_hostile_key_does_not_fill_the_screen() -> None:
    assert len(complaint(edited("x" * 100_000, 1))) <= 600


def test_a_dictionary_that_contains_itself_is_refused() -> None:
    data = valid()
    data["device"] = data
    assert complaint(data) == "scenario: is nested too deeply: expected at most 64 levels"


# Dump and digest


def test_dump_leaves_out_what_was_not_set() -> None:
    assert json.loads(scenarios.dump(scenarios.load(valid()))) == valid()


def test_digest_ignores_names_and_spelled_out_defaults() -> None:
    plain = scenarios.digest(scenarios.load(valid()))
    spelled = valid() | {"name": "other", "description": "Words.", "device": {"streams": 2}}
    assert scenarios.digest(scenarios.load(spelled)) == plain
    assert len(plain) == 64


@pytest.mark.parametrize("path", ["horizon_ms", "tasks.0.arrival.period_ms", "tasks.1.weight"])
def test_digest_changes_with_the_work(path: str) -> None:
    assert scenarios.digest(scenarios.load(edited(path, 19.5))) != scenarios.digest(scenarios.load(valid()))


MACHINE_KEYS: dict[str, tuple[str, Any, Any]] = {
    # key: (where it is, its default, another value)
    "stream_priorities": ("device", None, [1, 0]),
    "memory_mb": ("device", None, 100),
    "preemption": ("device", {"kind": "none", "cost_ms": 0}, {"kind": "resume"}),
    "idle_w": ("device", 0, 5),
    "busy_w": ("device", 0, 5),
    "energy": ("reward", 0, 1),
    "variant.compute_share": ("variant", 1, 0.5),
    "variant.bandwidth_share": ("variant", 1, 0.5),
    "variant.stages": ("variant", 1, 2),
    "variant.memory_mb": ("variant", 0, 1),
    "variant.load_ms": ("variant", 0, 1),
    "variant.power_w": ("variant", None, 1),
    "variant.actual_ms": ("variant", None, 1),
}


@pytest.mark.parametrize("name", MACHINE_KEYS)
def test_digest_changes_with_a_later_key_only_where_it_is_not_the_default(name: str) -> None:
    place, default, other = MACHINE_KEYS[name]
    key = name.rpartition(".")[2]

    def with_value(**cells: Any) -> str:
        data = ladder(cells if place == "variant" else {})
        return scenarios.digest(scenarios.load(data if place == "variant" else data | {place: cells}))

    # Scenarios from before the key was there must keep their digest.
    assert with_value(**{key: default}) == with_value()
    assert with_value(**{key: other}) != with_value()


def test_every_kind_of_preemption_has_its_digest() -> None:
    costly = [{"kind": "resume", "cost_ms": cost} for cost in (0, 1)]
    kinds = [{"kind": kind} for kind in ("none", "stage", "restart")]
    loaded = [scenarios.load(edited("device", {"preemption": each})) for each in kinds + costly]
    assert len({scenarios.digest(each) for each in loaded}) == 5


DATA_FILES = [
    ("edge/tiny", "tasks.0.arrival", {"kind": "trace"}),
    ("dag/tiny", "jobs", {"kind": "tpch"}),
    ("dag/tiny", "jobs", {"kind": "alibaba"}),
    ("dag/tiny", "arrivals", {"kind": "trace"}),
    *(("cluster/tiny", "jobs", {"kind": kind}) for kind in ("swf", "philly", "helios", "openb")),
    *(("taskgraph/tiny", "graphs.0", {"kind": kind}) for kind in ("stg", "wfcommons", "file")),
    ("taskgraph/tiny", "durations", {"kind": "profile", "machine": "x", "kernels": {"PREPARE": "p", "TRAIN": "t"}}),
    ("serving/tiny", "models.0.arrivals", {"kind": "trace"}),
    ("serving/tiny", "models.0.arrivals", {"kind": "trace", "format": "azure-llm"}),
    ("serving/tiny", "models.0.arrivals", {"kind": "rates", "step_s": 1.0}),
]


@pytest.mark.parametrize("path", ["nowhere.csv", "nowhere", ".", "null\0.csv", f"{'long' * 80}.csv"])
@pytest.mark.parametrize(
    ("name", "place", "source"), DATA_FILES, ids=lambda value: value.get("kind") if isinstance(value, dict) else value
)
def test_a_data_file_that_cannot_be_read_is_named_in_one_line(
    name: str, place: str, source: dict[str, Any], path: str, here: Path
) -> None:
    data = json.loads(scenarios.dump(scenarios.load(name)))
    *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    part: Any = data
    for step in way:
        part = part[step]
    part[last] = {**source, "path": path}
    (here / "mine.json").write_text(json.dumps(data))
    if name == "cluster/tiny" and len(path) > 200:
        assert "path: must have at most 200 characters" in complaint("./mine.json")
        return
    scenario = scenarios.load("./mine.json")
    for read in (scenarios.digest, family_of(scenario).spec_arrays):
        with pytest.raises(InputError) as caught:
            read(scenario)
        key = re.sub(r"\.(\d+)", r"[\1]", place)
        assert str(caught.value).startswith(f"{key}.path: {printable(str(here / path))}")
        assert "\n" not in str(caught.value)


def test_digest_uses_what_the_family_resolves() -> None:
    class Resolving(EdgeScenario):
        def resolved(self) -> dict[str, Any]:
            return {"name": "left out", "ladder": [1.5]}

    resolving = Resolving.model_validate(valid())
    assert scenarios.digest(resolving) == scenarios.digest(Resolving.model_validate(edited("horizon_ms", 5)))
    assert scenarios.digest(resolving) != scenarios.digest(scenarios.load(valid()))


# Schema


def test_schema_describes_every_key_of_every_family() -> None:
    schema = scenarios.schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    assert schema["discriminator"]["mapping"]["edge"] == "#/$defs/EdgeScenario"
    assert {"$ref": "#/$defs/EdgeScenario"} in schema["oneOf"]
    assert {"family", "horizon_ms", "device", "reward", "tasks"} <= set(schema["$defs"]["EdgeScenario"]["properties"])
    for title, definition in schema["$defs"].items():
        for key, field in definition.get("properties", {}).items():
            assert field.get("description"), f"{title}.{key} has no description"
    period = schema["$defs"]["Periodic"]["properties"]["period_ms"]
    assert period["description"] == "Time between nominal releases."
    json.dumps(schema, allow_nan=False)


def test_schema_refers_only_to_what_it_defines() -> None:
    schema = scenarios.schema()

    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(references, node))
        if not isinstance(node, dict):
            return set()
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))

    assert references(schema) <= {f"#/$defs/{name}" for name in schema["$defs"]}


# Fuzz

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["edge", "periodic", "poisson", "trace", "share", "resnet@xavier-trt", 0, 1, 5, 20.0, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "name", "path", "times_ms", "\ud800"]) | st.text(max_size=4), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside the data."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found += [(data, key), *places(data[key])]
    return found


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_scenarios_load_or_are_refused_in_one_line(data: st.DataObject) -> None:
    scenario = copy.deepcopy(json.loads(scenarios.dump(scenarios.load("edge/overload"))))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(scenario)))
        action = data.draw(st.sampled_from(["replace", "delete", "add"]))
        if action == "replace":
            container[key] = data.draw(VALUES)
        elif action == "delete":
            del container[key]
        elif isinstance(container, dict):
            container[data.draw(st.text(max_size=8))] = data.draw(VALUES)
        else:
            container.append(data.draw(VALUES))
        if not places(scenario):
            break
    loaded, line = outcome(scenario)
    if loaded is None:
        assert len(line.splitlines()) == 1
    else:
        assert scenarios.digest(scenarios.load(json.loads(scenarios.dump(loaded)))) == scenarios.digest(loaded)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=60), cut=st.integers(0, 400), mutate=st.booleans())
def test_damaged_files_load_or_are_refused_in_one_line(
    raw: bytes, cut: int, mutate: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged.json"
    whole = json.dumps(valid()).encode()
    file.write_bytes(whole[:cut] + raw + whole[cut + len(raw) :] if mutate else raw)
    loaded, line = outcome(file)
    assert loaded is not None or len(line.splitlines()) == 1


def test_one_change_may_set_several_values():
    base = scenarios.load("cluster/tiny")
    found = scenarios.changed(base, 'nodes.0.count=5,name="a, b",power.price_per_kwh=[0.1,0.2],backfill=strict')
    assert (found.nodes[0].count, found.name, found.backfill) == (5, "a, b", "strict")
    assert found.power.price_per_kwh == [0.1, 0.2]
    assert scenarios.changed(base, "name='it, too'").name == "it, too"
    assert scenarios.changed(base, "name=the user's own").name == "the user's own"


def test_values_that_are_valid_only_together_are_changed_together():
    base = scenarios.load("edge/light")
    with pytest.raises(ScenarioError, match="stream_priorities lists 3 but streams is"):
        scenarios.changed(base, "device.stream_priorities=[1,2,3]")
    found = scenarios.changed(base, "device.streams=3,device.stream_priorities=[1,2,3]")
    assert found.device.stream_priorities == [1, 2, 3]


@pytest.mark.parametrize("change", ["nodes.0.count", "=3", "name=a,b", "nodes.0.count=3,", ""])
def test_a_change_without_key_or_value_is_refused_with_an_example(change):
    with pytest.raises(ScenarioError, match=r"expected a key and its value, such as nodes\.0\.count=16; a value with"):
        scenarios.changed(scenarios.load("cluster/tiny"), change)
