"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.families.contract import FAMILIES
from slipstream.policies import names
from slipstream.sim.eventlog import digest, read

COMMANDS = ["demo", "run", "compare", "train", "sweep", "oracle", "report", "scenarios", "policies", "schema", "bench"]
COMMANDS += ["dashboard", "doctor"]
COMMANDS += ["profile", "execute", "validate", "import", "generate"]
COMMANDS += [f"generate {family}" for family in ("edge", "dag", "taskgraph", "serving", "cluster", "llm", "elastic")]
COMMANDS += [f"import {kind}" for kind in ("tasklist", "trace", "profile", "log", "slurm")]
COMMANDS += ["library", *(f"library {step}" for step in ("add", "list", "show", "choose", "update", "merge", "split"))]
COMMANDS += [f"library {step}" for step in ("rollback", "verify", "tradeoff")]
COMMANDS += [f"bench {step}" for step in ("speed", "suite", "verify", "leaderboard")]


def slipstream(*arguments, cwd=None, **environment):
    """Run the installed command; return exit code, standard output and standard error."""
    command = Path(sys.executable).with_name("slipstream")
    variables = {**os.environ, "COLUMNS": "200", **environment}
    done = subprocess.run([str(command), *arguments], capture_output=True, text=True, cwd=cwd, env=variables)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command):
    code, output, _ = slipstream(*command.split(), "--help")
    assert code == 0
    assert f"Example: slipstream {command}" in " ".join(output.split())


def test_a_serving_scenario_whose_trace_is_missing_ends_in_one_line(tmp_path):
    variant = {"name": "A", "accuracy": 90.0, "latency_ms": {"gpu": [10.0]}}
    model = {"name": "a", "slo_ms": 100.0, "variants": [variant], "arrivals": {"kind": "trace", "path": "nowhere.txt"}}
    scenario = {"family": "serving", "accelerators": [{"name": "gpu", "count": 1}], "models": [model]}
    (tmp_path / "mine.json").write_text(json.dumps(scenario))
    for command in (("run",), ("compare", "--episodes", "1"), ("run", "--log", "run.parquet")):
        code, output, error = slipstream(*command[:1], "./mine.json", *command[1:], cwd=tmp_path)
        assert (code, output) == (2, "")
        assert error.startswith(
            f"error: models[0].arrivals.path: {tmp_path / 'nowhere.txt'}: no such file: expected a "
        )
        assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_compare_prints_json_of_the_documented_shape():
    arguments = ("--policies", "edf,edf-fit", "--episodes", "3", "--seed", "10000", "--json")
    code, output, _ = slipstream("compare", "edge/heavy", *arguments)
    assert code == 0
    data = json.loads(output)
    assert data["scenario"] == "edge/heavy"
    assert "oracle" in data
    assert [entry["policy"] for entry in data["policies"]] == ["edf", "edf-fit"]
    assert len(data["policies"][0]["metrics"]["miss_rate"]["values"]) == 3


def test_run_writes_the_log_it_measured(tmp_path):
    file = tmp_path / "run.parquet"
    code, output, _ = slipstream(
        "run", "edge/heavy", "--policy", "edf-fit", "--seed", "3", "--log", str(file), "--json"
    )
    assert code == 0
    report = json.loads(output)
    events, about = read(file)
    assert digest(events) == report["digest"]
    assert about["policy"] == "edf-fit"
    assert about["seed"] == 3
    assert not list(tmp_path.glob("*.partial"))
    metrics = FAMILIES["edge"].metrics
    from slipstream.scenario import load

    assert metrics(load(json.loads(about["scenario"])), events) == report["metrics"]


def test_scenarios_prints_one_that_can_be_edited_and_run(tmp_path):
    code, output, _ = slipstream("scenarios", "edge/tiny")
    assert code == 0
    (tmp_path / "mine.json").write_text(output)
    code, output, _ = slipstream("run", "mine.json", "--policy", "edf", "--json", cwd=tmp_path)
    assert code == 0
    assert json.loads(output)["metrics"]["reward"] == pytest.approx(4.25)


def test_lists_and_schema_are_json():
    assert {row["name"] for row in json.loads(slipstream("scenarios", "--json")[1])} >= {"edge/tiny", "edge/heavy"}
    assert {row["name"] for row in json.loads(slipstream("policies", "--json")[1])} >= set(names("edge"))
    assert "EdgeScenario" in json.loads(slipstream("schema")[1])["$defs"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the file of a run of edge/tiny."""
    file = tmp_path_factory.mktemp("recorded") / "run.parquet"
    assert slipstream("run", "edge/tiny", "--policy", "fifo", "--log", str(file))[0] == 0
    return file


def test_regret_of_a_run_is_printed_and_drawn(recorded, tmp_path):
    file, page = recorded, tmp_path / "regret.html"
    code, output, _ = slipstream("oracle", "--regret", str(file), "--out", str(page), "--json")
    assert code == 0
    data = json.loads(output)
    optimum = json.loads(slipstream("oracle", "edge/tiny", "--json")[1])
    assert data["exact"]
    assert data["best_known"] == pytest.approx(optimum["best_known"])
    costs = {one["number"]: one["regret"] for one in data["decisions"]}
    assert sum(costs.values()) == pytest.approx(data["best_known"] - data["reached"])
    assert max(costs.values()) > 0.0
    _, table, _ = slipstream("oracle", "--regret", str(file), "--top", "1")
    dearest = max(data["decisions"], key=lambda one: (one["regret"], -one["number"]))
    assert dearest["chosen_name"] in table
    assert dearest["best_name"] in table
    assert "(proven)" in " ".join(table.split())
    text = page.read_text()
    assert "Regret of decisions" in text
    marks = json.loads(re.search(r'"marks":(\[.*?\])', text)[1])
    assert [mark["time"] for mark in marks][:1] == [dearest["time_ns"] / 1e6]


def test_a_run_without_regret_is_told_without_a_table(tmp_path):
    run = tmp_path / "best.parquet"
    assert slipstream("run", "taskgraph/tiny", "--policy", "mct", "--log", str(run))[0] == 0
    output = slipstream("oracle", "--regret", str(run), "--seconds", "1")[1]
    assert re.search(r"None of \d decisions cost anything: .*\(proven\)", " ".join(output.split()))
    assert "chosen" not in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected a scenario, or --regret and the event log of a run"),
        (["edge/tiny", "--regret", "RUN"], "a run names its scenario: expected one of the two"),
        (["edge/tiny", "--out", "page.html"], "--out without --regret: expected both, or neither"),
        (["--regret", "missing.parquet"], "missing.parquet: no such file"),
        (["--regret", "RUN", "--policy", "random"], "is not what 'random' plays with seed 0"),
        (["--regret", "RUN", "--policy", "nobody"], "expected --policy with the folder of the one that played"),
        (["--regret", "RUN", "--out", "/dev/null/page.html"], "page.html: cannot be written (not a directory)"),
    ],
)
def test_regret_of_what_is_no_run_is_refused_in_one_line(recorded, tmp_path, arguments, told):
    words = [str(recorded) if word == "RUN" else word for word in arguments]
    code, output, error = slipstream("oracle", *words, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_oracle_says_where_the_optimum_lies():
    code, output, _ = slipstream("oracle", "edge/tiny", "--json")
    assert code == 0
    found = json.loads(output)
    assert found["exact"] is True
    assert found["bound"] == pytest.approx(5.0)
    assert "the optimum is 5.0000" in slipstream("oracle", "edge/tiny")[1]


def test_compare_places_every_policy_in_the_bracket():
    options = ("--policies", "edf,edf-degrade", "--episodes", "2", "--oracle", "2")
    found = json.loads(slipstream("compare", "edge/tiny", *options, "--json")[1])["oracle"]
    assert found["exact"] == 2
    assert found["places"] == {"edf": pytest.approx(0.85), "edf-degrade": pytest.approx(1.0)}
    assert "of bound" in slipstream("compare", "edge/tiny", *options)[1]


def test_bench_reports_speeds():
    code, output, _ = slipstream("bench", "edge/tiny", "--seconds", "0.1", "--json")
    assert code == 0
    assert all(json.loads(output)[key] > 0 for key in ("events_per_s", "vector_steps_per_s", "single_steps_per_s"))


BAD = {
    "unknown scenario": (("run", "edge/hevy"), "edge/heavy"),
    "unknown policy": (("run", "edge/tiny", "--policy", "edff"), "unknown policy 'edff'"),
    "policy without a name": (("run", "edge/tiny", "--policy", ""), "unknown policy ''"),
    "unknown metric": (("compare", "edge/tiny", "--metrics", "speed", "--json"), "unknown metric 'speed'"),
    "no argument": (
        ("compare", "--json"),
        "slipstream compare: missing argument 'SCENARIO': see `slipstream compare -",
    ),
    "no option": (("sweep", "edge/tiny"), "slipstream sweep: missing option '--out'"),
    "unknown option": (("run", "edge/tiny", "--sede", "3"), "slipstream run: no such option: --sede"),
    "unknown command": (("library", "remove", "--json"), "slipstream library: no such command 'remove'"),
    "negative number": (("compare", "edge/tiny", "--episodes", "-3"), "slipstream compare: invalid value for '--episo"),
    "word for a number": (("generate", "edge", "--count", "two"), "slipstream generate edge: invalid value for '--cou"),
    "negative seconds": (("compare", "edge/tiny", "--oracle", "-1"), "slipstream compare: invalid value for '--oracle"),
    "picture into a folder": (("run", "dag/tiny", "--gif", "."), "is a folder: expected the name of a file to write"),
    "log into a file": (("run", "edge/tiny", "--log", "bad.json/run.parquet"), "bad.json/run.parquet: cannot be wri"),
    "seed too large": (("run", "edge/tiny", "--seed", str(2**62)), "expected a number from 0 to 2**62 - 1"),
    **{
        f"seed too large of {command.partition(' ')[0]}": (
            (*command.split(), "--seed", str(2**62)),
            "seed 46116860184273",
        )
        for command in (
            "compare edge/tiny",
            "train edge/tiny",
            "sweep edge/tiny --out s --set seed=1,2",
            "generate edge",
        )
    },
    "negative period": (("run", "bad.json"), "bad.json: tasks[0].arrival.period_ms"),
    "broken trace": (("run", "trace.json"), "times.csv: row 3: arrival_ms: expected a number, got 'soon'"),
    "missing trace": (("run", "lost.json"), "gone.csv"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_one_line_and_exit_code_2(case, tmp_path):
    task = {"name": "a", "model": "m", "dataset": "d", "num_variants": 1, "deadline_ms": 5}
    task["variants"] = [{"latency_ms": 1, "accuracy": 0.5}]

    def scenario(arrival):
        return json.dumps({"family": "edge", "horizon_ms": 10, "tasks": [{**task, "arrival": arrival}]})

    (tmp_path / "bad.json").write_text(scenario({"kind": "periodic", "period_ms": -5}))
    (tmp_path / "trace.json").write_text(scenario({"kind": "trace", "path": "times.csv"}))
    (tmp_path / "lost.json").write_text(scenario({"kind": "trace", "path": "gone.csv"}))
    (tmp_path / "times.csv").write_text("arrival_ms\n1\nsoon\n")
    before = sorted(tmp_path.iterdir())
    arguments, expected = BAD[case]
    code, output, error = slipstream(*arguments, cwd=tmp_path)
    assert code == 2
    assert output == ""
    assert expected in error
    assert len(error.strip().splitlines()) == 1
    assert "Traceback" not in error
    assert sorted(tmp_path.iterdir()) == before


def test_doctor_says_what_is_here_and_what_an_extra_would_add():
    code, output, _ = slipstream("doctor", "--json")
    assert code == 0
    found = json.loads(output)
    assert found["versions"]["numba"]
    assert found["extras"]["learn"]["missing"] == []
    assert Path(found["cache"]["folder"]).parent.name == "kernels"
    code, output, _ = slipstream("doctor")
    assert code == 0
    assert "Installed: learn, for training: `train`, `sweep`." in output


def test_doctor_says_what_the_compile_cache_holds_and_needs(tmp_path):
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path)}
    code, output, _ = slipstream("doctor", "--json", **cache)
    empty = json.loads(output)["cache"]
    assert (code, empty["files"], empty["megabytes"], empty["versions"]) == (0, 0, 0.0, 0)
    current, other = Path(empty["folder"]), tmp_path / "kernels" / ("0" * 24)
    for folder, number in ((current / "kernel", 3), (other / "kernel", 1)):
        folder.mkdir(parents=True)
        for index in range(number):
            (folder / f"{index}.nbc").write_bytes(bytes(500_000))
    code, output, _ = slipstream("doctor", "--json", **cache)
    found = json.loads(output)["cache"]
    assert (found["files"], found["megabytes"]) == (3, 1.5)
    assert (found["versions"], found["megabytes_of_all_versions"]) == (2, 2.0)
    code, output, _ = slipstream("doctor", **cache)
    needed = f"{found['files_needed_by_all_families']} files, {found['megabytes_needed_by_all_families']} MB"
    stored = f"3 files, 1.5 MB (all families together need about {needed})"
    assert f"{stored}; 2.0 MB with those of other versions" in output
