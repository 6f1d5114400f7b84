"""The report shows what the event log says, in one file that needs nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from slipstream.errors import TraceError
from slipstream.policies import find
from slipstream.reports.html.page import page
from slipstream.reports.perfetto import trace
from slipstream.reports.runs import labels_of, read_recording, read_run
from slipstream.scenario import digest as scenario_digest
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, START, LogWriter, digest, read
from slipstream.sim.simulator import Simulator

COMMAND = Path(sys.executable).with_name("slipstream")
NANOSECONDS_PER_MS = 1_000_000


def slipstream(*arguments, cwd):
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=dict(os.environ))
    return done.returncode, done.stdout, done.stderr


def record(path, source="edge/heavy", policy="edf-fit", seed=7, family="edge"):
    """Write the log of a run, as `slipstream run --log` does."""
    scenario = load(source)
    about = {
        "version": "0",
        "command": f"slipstream run x --policy {policy} --seed {seed}",
        "policy": policy,
        "seed": seed,
        "split": "test",
        "scenario": dump(scenario),
        "scenario_digest": scenario_digest(scenario),
    }
    writer = LogWriter(path, about)
    Simulator(scenario).play(find(policy, family), seed, sink=writer.write)
    writer.close()
    return path


def long_scenario():
    """edge/heavy for long enough to release more than 10,000 jobs."""
    return {**json.loads(dump(load("edge/heavy"))), "horizon_ms": 50_000}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return record(tmp_path_factory.mktemp("runs") / "run.parquet")


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    return record(tmp_path_factory.mktemp("runs") / "long.parquet", long_scenario())


def data_of(text):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1])


def spans_of(events):
    """Return (task, job, stream, start, end) of every job that started, straight from the log."""
    end = int(events["time"][events["kind"] == END][0])
    finish = {(int(e["task"]), int(e["job"])): int(e["time"]) for e in events[events["kind"] == FINISH]}
    spans = []
    for event in events[events["kind"] == START]:
        job = int(event["task"]), int(event["job"])
        spans.append((*job, int(event["resource"]), int(event["time"]), finish.get(job, end)))
    return spans


def interrupted(run):
    """Return the run as if its second slice had been interrupted halfway and gone on after a pause."""
    line = run.timeline
    start, end = int(line.slice_start[1]), int(line.slice_end[1])
    third = (end - start) // 3
    parts = {
        "slice_job": np.insert(line.slice_job, 2, line.slice_job[1]),
        "slice_resource": np.insert(line.slice_resource, 2, line.slice_resource[1]),
        "slice_variant": np.insert(line.slice_variant, 2, line.slice_variant[1]),
        "slice_group": np.insert(line.slice_group, 2, line.slice_group[1]),
        "slice_start": np.insert(line.slice_start, 2, end - third),
        "slice_end": np.insert(line.slice_end, 1, start + third),
    }
    order = np.argsort(parts["slice_start"], kind="stable")
    return replace(run, timeline=replace(line, **{name: array[order] for name, array in parts.items()}))


# The picture and the log


def test_the_gantt_chart_shows_every_job_of_the_log(long_log):
    events, _ = read(long_log)
    run = data_of(page([read_run(long_log)], "x"))["runs"][0]
    ran, idle = run["ran"], run["idle"]
    start, end = ([round(time * NANOSECONDS_PER_MS) for time in ran[key]] for key in ("start", "end"))
    drawn = list(zip(ran["task"], ran["number"], ran["resource"], start, end, strict=True))
    assert len(drawn) + len(idle["task"]) == (events["kind"] == ARRIVAL).sum() > 10_000
    assert Counter(drawn) == Counter(spans_of(events))
    arrived = {(int(e["task"]), int(e["job"])) for e in events[events["kind"] == ARRIVAL]}
    assert set(zip(idle["task"], idle["number"], strict=True)) == arrived - {row[:2] for row in drawn}


def test_red_bars_are_the_jobs_that_missed_their_deadline(log):
    ran = data_of(page([read_run(log)], "x"))["runs"][0]["ran"]
    for end, deadline, fate in zip(ran["end"], ran["deadline"], ran["fate"], strict=True):
        assert (fate == 1) <= (end <= deadline)
        assert (fate == 2) <= (end > deadline)


def test_the_line_of_waiting_jobs_counts_them(log):
    events, _ = read(log)
    line = data_of(page([read_run(log)], "x"))["waiting"][0]
    waiting, known = 0, {}
    for event in events[events["kind"] != END]:
        waiting += 1 if event["kind"] == ARRIVAL else 0 if event["kind"] == FINISH else -1
        known[int(event["time"])] = waiting
    times = np.array([round(x * NANOSECONDS_PER_MS) for x in line["times"]])
    for time, count in known.items():
        assert line["counts"][np.searchsorted(times, time, side="right") - 1] == count


def test_plotly_accepts_every_figure(log):
    data = data_of(page([read_run(log)], "x"))
    for figure in data["figures"].values():
        go.Figure(figure)


# The file


def test_a_report_of_ten_thousand_jobs_is_below_8_mb(long_log):
    assert len(page([read_run(long_log)], "x").encode()) < 8e6


def test_the_page_loads_nothing_from_outside(log):
    text = page([read_run(log)], "x")
    assert "default-src 'none'" in text
    markup = re.sub(r"<script.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!data:)', markup)
    assert "http" not in markup.replace("http-equiv", "")
    assert "url(" not in re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]


def test_the_top_says_what_was_run(log):
    run = read_run(log)
    text = page([run], "slipstream report run.parquet --out report.html")
    top = text[text.index("<body>") : text.index('id="gantt"')]
    assert (
        top.index('id="verdict"') < top.index("<details") < top.index(run.digest)
    )  # what nobody reads first is folded
    for fact in (run.about["command"], "edf-fit", "7 (test arrivals)", run.about["scenario_digest"], run.digest):
        assert fact in top
    assert "slipstream report run.parquet --out report.html" in top
    assert run.digest == digest(read(log)[0])


def test_names_cannot_break_out_of_the_page(tmp_path):
    scenario = json.loads(dump(load("edge/tiny")))
    scenario["tasks"][0]["name"] = "</script><b>x"
    text = page([read_run(record(tmp_path / "run.parquet", scenario))], "x")
    assert "</script><b>" not in text
    assert "<b>x" not in text


def test_several_runs_are_compared(log, tmp_path):
    runs = [read_run(log), read_run(record(tmp_path / "a.parquet", policy="edf")), read_run(log)]
    assert len(set(labels_of(runs))) == 3
    text = page(runs[:2], "x")
    assert "edge/heavy under edf-fit and edf" in text
    assert [len(run["ran"]["task"]) for run in data_of(text)["runs"]] == [
        len(run.timeline.slice_job) for run in runs[:2]
    ]
    assert "over several seeds" not in text


def test_a_policy_with_several_seeds_gets_an_interval(log, tmp_path):
    runs = [read_run(log), read_run(record(tmp_path / "a.parquet", seed=8))]
    mean = np.mean([run.metrics["response_p99_ms"] for run in runs])
    assert f"{mean:.1f}&nbsp;±&nbsp;" in page(runs, "x")


# The command


def test_the_command_writes_both_files(log, tmp_path):
    code, output, _ = slipstream("report", log, "--out", "r.html", "--perfetto", "t.json", "--json", cwd=tmp_path)
    assert code == 0
    assert json.loads(output)["runs"] == [{"policy": "edf-fit", "seed": 7, "digest": read_run(log).digest}]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["r.html", "t.json"]
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8")) == trace([read_run(log)])


BAD = {
    "missing file": ("gone.parquet", "gone.parquet: no such file"),
    "a scenario": ("scenario.json", "scenario.json: not a Parquet file"),
    "a folder": (".", "is a folder"),
    "a log without a description": ("bare.parquet", "bare.parquet: does not say what was run"),
    "a log that breaks a law": ("torn.parquet", "torn.parquet: damaged"),
    "a task that the scenario lacks": ("alien.parquet", "alien.parquet: damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_one_line_and_writes_nothing(case, log, tmp_path):
    events, about = read(log)
    shifted = events.copy()
    shifted["task"][events["kind"] != END] += 1
    gap = np.zeros(1, events.dtype)  # an arrival of task 0 keeps the numbering whole
    (tmp_path / "scenario.json").write_text(dump(load("edge/tiny")))
    for name, rows, text in (
        ("bare", events, {}),
        ("torn", events[: len(events) // 2], about),
        ("alien", np.concatenate([gap, shifted]), about),
    ):
        writer = LogWriter(tmp_path / f"{name}.parquet", text)
        writer.write(rows)
        writer.close()
    before = sorted(tmp_path.iterdir())
    name, expected = BAD[case]
    code, output, error = slipstream("report", name, "--out", "r.html", cwd=tmp_path)
    assert (code, output) == (2, "")
    assert expected in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("column", "value"),
    [("job", 2**63 - 1), ("job", 10**10), ("job", -2), ("time", -1), ("time", 2**63 - 1), ("kind", 99), ("task", -7)],
)
def test_numbers_that_no_log_has_are_refused_before_anything_is_counted_by_them(log, tmp_path, column, value):
    events, about = read(log)
    events[column][3] = value  # by a job of 2**63 - 1, counting writes outside of its memory
    writer = LogWriter(tmp_path / "odd.parquet", about)
    writer.write(events)
    writer.close()
    with pytest.raises(TraceError, match=rf"odd.parquet: damaged \(row 3: {column} {value} is out of range\)"):
        read_recording(tmp_path / "odd.parquet")


# Perfetto


def test_a_trace_keeps_to_the_trace_event_format(log, tmp_path):
    """The rules of "Trace Event Format" for the phases that are used: M, X and C."""
    runs = [read_run(log), read_run(record(tmp_path / "a.parquet", policy="edf"))]
    rows = json.loads(json.dumps(trace(runs), allow_nan=False))["traceEvents"]
    named = [row for row in rows if row["ph"] == "M"]
    timed = [row for row in rows if row["ph"] != "M"]
    assert rows == named + timed
    assert [row["ts"] for row in timed] == sorted(row["ts"] for row in timed)
    keys = {"M": set(), "X": {"ts", "dur", "tid", "cat"}, "C": {"ts"}}
    for row in rows:
        assert row.keys() - {"tid"} == {"name", "ph", "pid", "args"} | keys[row["ph"]] - {"tid"}
        assert type(row["pid"]) is int
        assert row["pid"] > 0
        assert isinstance(row["name"], str)
        assert isinstance(row["args"], dict)
        assert row.get("ts", 0) >= 0
        assert row.get("dur", 0) >= 0
    for row in timed:
        if row["ph"] == "C":
            assert all(isinstance(value, int) for value in row["args"].values())
    tracks = {(row["pid"], row["tid"]): row["args"]["name"] for row in named if row["name"] == "thread_name"}
    assert tracks == {(run, stream + 1): f"stream {stream}" for run in (1, 2) for stream in (0, 1)}
    order = {(row["pid"], row["tid"]) for row in named if row["name"] == "thread_sort_index"}
    assert order == {(row["pid"], row["tid"]) for row in timed if row["ph"] == "X"} == set(tracks)
    assert {row["pid"] for row in named if row["name"] == "process_name"} == {1, 2}


def test_a_trace_has_one_track_per_stream_and_the_times_of_the_log(log):
    events, _ = read(log)
    rows = json.loads(json.dumps(trace([read_run(log)])))["traceEvents"]
    names = [task.name for task in load("edge/heavy").tasks]
    slices = [row for row in rows if row["ph"] == "X"]
    drawn = []
    for row in slices:
        start = round(row["ts"] * 1000)
        job = names.index(row["cat"]), row["args"]["job"]
        assert row["args"]["on_time"] == (row["args"]["outcome"] == "on time")
        assert row["name"].startswith(f"{row['cat']} · ")
        assert "part" not in row["args"]
        drawn.append((*job, row["tid"] - 1, start, start + round(row["dur"] * 1000)))
    assert sorted(drawn) == sorted(spans_of(events))
    for track in (0, 1):
        own = sorted(row[3:] for row in drawn if row[2] == track)
        assert all(before[1] <= after[0] for before, after in pairwise(own))


def test_a_trace_holds_every_part_of_an_interrupted_job(tmp_path):
    run = interrupted(read_run(record(tmp_path / "run.parquet", "edge/tiny", "edf-fit")))
    slices = [row for row in trace([run])["traceEvents"] if row["ph"] == "X"]
    assert len(slices) == len(run.timeline.slice_job)
    parts = [row for row in slices if "part" in row["args"]]
    assert [row["args"]["part"] for row in parts] == ["1 of 2", "2 of 2"]
    assert len({(row["name"], row["args"]["job"]) for row in parts}) == 1


def test_the_page_holds_every_part_of_an_interrupted_job(tmp_path):
    whole = read_run(record(tmp_path / "run.parquet", "edge/tiny", "edf-fit"))
    run = interrupted(whole)
    assert len(run.timeline.slice_job) == len(whole.timeline.slice_job) + 1
    ran = data_of(page([run], "x"))["runs"][0]["ran"]
    assert ran["start"] == run.times(run.timeline.slice_start)
    assert ran["end"] == run.times(run.timeline.slice_end)
    jobs = list(zip(ran["task"], ran["number"], strict=True))
    assert len(jobs) == len(set(jobs)) + 1
    assert "interrupted and resumed later" not in page([whole], "x")


def test_the_counters_of_a_trace_end_with_what_still_waits(log):
    run = read_run(log)
    last = {row["name"]: row["args"]["jobs"] for row in trace([run])["traceEvents"] if row["ph"] == "C"}
    assert set(last) == {f"jobs waiting: {name}" for name in run.timeline.tasks}
    assert set(last.values()) == {0}  # what waits at the end leaves with it
