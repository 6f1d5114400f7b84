"""What the dashboard answers: what the files say, nothing from outside the folder, and a sentence to bad questions."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from slipstream.dashboard.app import create_app
from slipstream.dashboard.jobs import Jobs
from slipstream.dashboard.live import follow
from slipstream.dashboard.replay import Recording
from slipstream.dashboard.results import real_runs
from slipstream.dashboard.trial import problems_of
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import FAMILIES
from slipstream.families.shared.timeline import ON_TIME, OPEN
from slipstream.policies import find
from slipstream.policies.learned import shipped
from slipstream.scenario import builtin_names, dump, load
from slipstream.sim.eventlog import START, LogWriter, read
from slipstream.sim.simulator import Simulator
from tests.dashboard.conftest import HISTORY, TWIN, relabel, serving
from tests.reports.test_report import record

# Runs


def test_the_list_holds_every_run_of_the_folder_and_nothing_else(client):
    found = client.get("/api/runs")
    kinds = {run["name"]: run["kind"] for run in found["runs"] if not run["name"].startswith("tried/")}
    assert kinds == {
        "fit.parquet": "run",
        "deep/edf.parquet": "run",
        "real.parquet": "run",
        "all.json": "comparison",
        "trained": "training",
        "camera.live.jsonl": "live",
        "validation.html": "page",
        "queue.json": "twin",
        "way-out.parquet": "unreadable",
    }
    (run,) = [run for run in found["runs"] if run["name"] == "deep/edf.parquet"]
    assert (run["scenario"], run["policy"], run["seed"]) == ("edge/heavy", "edf", 7)


def test_metrics_are_those_of_the_log(client, runs):
    recording = Recording(runs / "fit.parquet")
    assert client.get("/api/metrics", run="fit.parquet") == {"fit.parquet": {"metrics": recording.metrics}}


def test_metrics_of_a_damaged_run_are_a_reason_and_the_others_as_ever(runs, tmp_path):
    shutil.copy(runs / "fit.parquet", tmp_path / "fit.parquet")
    events, about = read(runs / "fit.parquet")
    writer = LogWriter(tmp_path / "harmed.parquet", about)
    writer.write(torn(events))
    writer.close()
    with serving(create_app(tmp_path)) as client:
        found = client.get("/api/metrics", run=["harmed.parquet", "fit.parquet"])
        assert found["harmed.parquet"]["error"].startswith("harmed.parquet: damaged (")
        assert found["fit.parquet"]["metrics"] == Recording(runs / "fit.parquet").metrics
        status, _, told = client.ask("/api/metrics", run=["fit.parquet"] * 51)
        assert (status, told["error"]) == (400, "51 runs: expected at most 50 at a time")


def test_the_list_says_how_far_each_training_came_and_what_each_family_shows_first(client):
    found = client.get("/api/runs")
    (training,) = [run for run in found["runs"] if run["kind"] == "training"]
    assert (training["trained_steps"], training["best_reward"], training["heuristic_reward"]) == (3000, 13.0, 12.5)
    for name, family in FAMILIES.items():
        assert [metric["name"] for metric in found["families"][name]["headline"]] == list(family.headline)
    lower = {
        metric["name"] for family in found["families"].values() for metric in family["headline"] if metric["lower"]
    }
    assert lower >= {"miss_rate", "violation_ratio", "p99_ms", "ratio_to_bound", "moved_mb", "evictions", "idle_share"}
    assert {
        metric["name"] for family in found["families"].values() for metric in family["headline"] if metric["neutral"]
    } == {"utilisation", "idle_share", "busy_share"}
    assert not lower & {
        "reward",
        "utilisation",
        "on_time_accuracy",
        "effective_accuracy",
        "throughput_hz",
        "allocation",
    }


# Notes


def note(client, run, text):
    return client.ask("/api/note", "POST", {"run": run, "text": text})


def notes_of(client):
    return {run["name"]: run["note"] for run in client.get("/api/runs")["runs"] if run["note"]}


def test_notes_are_kept_in_a_file_of_their_own(runs, tmp_path):
    shutil.copy(runs / "fit.parquet", tmp_path / "fit.parquet")
    shutil.copytree(runs / "trained", tmp_path / "trained")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with serving(create_app(tmp_path)) as client:
        assert note(client, "fit.parquet", " best so far: é ✓ ")[2] == {
            "run": "fit.parquet",
            "note": "best so far: é ✓",
        }
        assert note(client, "trained", "too short")[0] == 200
        assert note(client, "trained", "long\nenough")[0] == 200
    with serving(create_app(tmp_path)) as client:
        assert notes_of(client) == {"fit.parquet": "best so far: é ✓", "trained": "long\nenough"}
        assert note(client, "trained", "")[0] == 200
        assert notes_of(client) == {"fit.parquet": "best so far: é ✓"}
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after.keys() - before.keys() == {tmp_path / "dashboard-notes.json"}
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("name", ["../secret.parquet", "gone.parquet", "", "dashboard-notes.json", "x" * 1001])
def test_a_note_belongs_to_a_run_of_the_folder(runs, tmp_path, name):
    with serving(create_app(tmp_path)) as client:
        status, _, found = note(client, name, "text")
        assert status in (404, 422)
        assert set(found) == {"error"}
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_cannot_be_kept_is_refused_with_a_sentence(runs, tmp_path):
    home, elsewhere = tmp_path / "runs", tmp_path / "elsewhere.json"
    home.mkdir()
    shutil.copy(runs / "fit.parquet", home / "fit.parquet")
    kept = home / "dashboard-notes.json"
    elsewhere.write_text('{"notes": {"fit.parquet": "secret"}}')
    with serving(create_app(home)) as client:
        assert note(client, "fit.parquet", "x" * 2001)[0] == 422
        assert note(client, "fit.parquet", "\ud800")[0] in (400, 422)
        assert not kept.exists()
        for content in ("[1]", '{"notes": {"a": 1}}', "{"):
            kept.write_text(content)
            status, _, found = note(client, "fit.parquet", "text")
            assert status == 400
            assert found["error"].startswith("dashboard-notes.json: ")
            assert kept.read_text() == content
            assert client.get("/api/runs")["notes_problem"] == found["error"]
        kept.unlink()
        kept.symlink_to(elsewhere)
        status, _, found = note(client, "fit.parquet", "text")
        assert status == 400
        assert "leads out of the folder" in found["error"]
        assert str(tmp_path) not in found["error"]
        assert notes_of(client) == {}
    assert "secret" in elsewhere.read_text()


# Real runs


@pytest.mark.parametrize("name", FAMILIES)
def test_a_real_run_of_any_family_stands_beside_its_simulation(name, family_runs, tmp_path):
    family = FAMILIES[name]
    simulated = Recording(family_runs / f"{name}.parquet")
    other = Simulator(simulated.scenario).play(find(family.default_policy, name), 2)
    writer = LogWriter(tmp_path / "real.parquet", {**simulated.about, "device": "cpu", "hardware": "Imaginary CPU"})
    writer.write(other)
    writer.close()
    with serving(create_app(tmp_path)) as client:
        (run,) = client.get("/api/runs")["runs"]
        assert (run["device"], run["hardware"]) == ("cpu", "Imaginary CPU")
        found = client.get("/api/real", run="real.parquet")
    measured = Recording(tmp_path / "real.parquet").metrics
    for metric in found["metrics"]:
        assert metric["measured"] == pytest.approx(measured[metric["name"]])
        assert metric["simulated"] == pytest.approx(simulated.metrics[metric["name"]])
    assert [metric["name"] for metric in found["metrics"]][: len(found["headline"])] == list(family.headline)
    assert found["simulated"]["end"] == simulated.timeline.end / simulated.unit


def test_a_real_run_that_cannot_be_simulated_says_why(runs, tmp_path, monkeypatch):
    relabel(runs / "fit.parquet", tmp_path / "real.parquet", device="cpu")
    shutil.copy(runs / "fit.parquet", tmp_path / "simulated.parquet")
    relabel(runs / "fit.parquet", tmp_path / "foreign.parquet", device="cpu", policy=str(tmp_path.parent / "elsewhere"))
    cut = {**json.loads(dump(load("edge/heavy"))), "horizon_ms": 20_000}
    relabel(runs / "fit.parquet", tmp_path / "cut.parquet", device="cpu", scenario=dump(load(cut)))
    with serving(create_app(tmp_path)) as client:
        assert client.ask("/api/real", run="simulated.parquet")[2]["error"].startswith("this run was simulated")
        assert client.ask("/api/real", run="foreign.parquet")[0] == 400
        first, second = client.get("/api/real", run="cut.parquet")["notes"]
        assert first.startswith("The run ended at 10,000 ms, its simulation at 20,000 ms")
        assert "arrivals, its simulation" in second
        monkeypatch.setattr(real_runs, "MOST_EVENTS", 10)
        found = client.get("/api/real", run="real.parquet")
    assert found["notes"] == ["Not simulated: the simulation takes too long."]
    assert found["simulated"] is None
    assert {metric["simulated"] for metric in found["metrics"]} == {None}


def test_a_validation_is_listed_with_both_sides(tmp_path):
    figures = {"reward": {"measured": 9.0, "deviation": 0.1, "simulated": 10.0}}
    result = {"scenario": "edge/cpu-mini", "policy": "edf", "seed": 0, "runs": 2, "device": "cpu", "causes": []}
    (tmp_path / "good.json").write_text(json.dumps({**result, "metrics": figures}))
    (tmp_path / "bad.json").write_text(json.dumps({**result, "metrics": {"reward": {"measured": 1}}}))
    with serving(create_app(tmp_path)) as client:
        listed = {run["name"]: run for run in client.get("/api/runs")["runs"]}
    assert listed["good.json"]["kind"] == "validation"
    assert listed["good.json"]["metrics"] == [{"name": "reward", "measured": 9.0, "simulated": 10.0}]
    assert "metrics.reward: expected numbers" in listed["bad.json"]["error"]


def test_the_answer_of_a_twin_is_listed_and_checked(client, tmp_path):
    listed = {run["name"]: run for run in client.get("/api/runs")["runs"]}["queue.json"]
    assert (listed["policy"], listed["waiting"], listed["taken_at"]) == ("fifo", 2, "2026-01-15T12:00:00")
    found = client.get("/api/twin", run="queue.json")
    assert [job["job"] for job in found["jobs"]] == ["17", "<b>18", "19"]
    assert found["what_if"][1]["wait_mean_s_difference"]["mean"] == -300.0
    assert client.ask("/api/twin", run="all.json")[0] == 404
    (tmp_path / "bad.json").write_text(json.dumps({**TWIN, "jobs": [{"job": 3}]}))
    with serving(create_app(tmp_path)) as other:
        (bad,) = other.get("/api/runs")["runs"]
        assert bad["kind"] == "unreadable"
        assert "job: expected a text, got 3" in bad["error"]


def torn(events):
    return events[: len(events) // 2]


def doubled(events):
    return np.insert(events, 1, events[0])


def strange(events):
    events = events.copy()
    events["task"] += 1000
    return events


@pytest.mark.parametrize("harm", [torn, doubled, strange])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_damaged_log_is_told_in_one_line_at_the_first_look_at_a_moment(family_runs, family, harm, tmp_path):
    events, about = read(family_runs / f"{family}.parquet")
    writer = LogWriter(tmp_path / "harmed.parquet", about)
    writer.write(harm(events))
    writer.close()
    with serving(create_app(tmp_path)) as client:
        # The first picture does not wait for the laws, and can be drawn of some damaged logs.
        for question in ("/api/replay", "/api/window"):
            status, _, found = client.ask(question, run="harmed.parquet", **{"from": 0, "to": 1000})
            assert status == 200 or (status == 400 and "damaged" in found["error"])
        for question in ("/api/moment", "/api/decision"):
            status, _, found = client.ask(question, run="harmed.parquet", at=0)
            assert status == 400
            assert found["error"].startswith("harmed.parquet: damaged (")
            assert "\n" not in found["error"]


OUTSIDE = [
    "../secret.parquet",
    "..%2fsecret.parquet",
    "deep/../../secret.parquet",
    "/etc/passwd",
    "way-out.parquet",
    "",
]
OUTSIDE += [
    ".",
    "..",
    "deep/..",
    "./fit.parquet/..",
    "\\..\\secret.parquet",
    "fit.parquet\0",
    "fit.parquet/x",
    "x" * 900,
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "question", ["metrics", "real", "replay", "window", "moment", "decision", "compare", "live", "page"]
)
def test_no_path_outside_the_folder_can_be_read(client, question, name):
    key = "name" if question in ("live", "page") else "run"
    path = "/page" if question == "page" else f"/api/{question}"
    status, _, found = client.ask(path, **{key: name, "from": 0, "to": 1, "at": 0})
    assert status == 404
    assert set(found) == {"error"}
    assert "passwd" not in found["error"] or name == "/etc/passwd"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/nothing.js"]
)
def test_only_our_own_files_are_served(client, path):
    status, _, _ = client.ask(path)
    assert status == 404


def test_a_page_among_the_runs_is_shut_in(client):
    status, headers, text = client.ask("/page", name="validation.html")
    assert status == 200
    assert b"validated" in text
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert client.ask("/page", name="fit.parquet")[0] == 404


# Windows


def test_a_window_of_few_jobs_holds_each_of_them(client, runs):
    line = Recording(runs / "fit.parquet").timeline
    piece = client.get("/api/window", **{"run": "fit.parquet", "from": 100, "to": 300})
    inside = (line.slice_end > 100e6) & (line.slice_start < 300e6)
    assert piece["ran"]["start"] == (line.slice_start[inside] / 1e6).tolist()
    assert piece["ran"]["fate"] == line.fate[line.slice_job[inside]].tolist()
    assert all(100 <= left <= 300 for left in piece["idle"]["left"])


def test_a_window_of_many_jobs_holds_shares_of_the_time(client, runs):
    line = Recording(runs / "fit.parquet").timeline
    piece = client.get("/api/window", **{"run": "fit.parquet", "from": 1000, "to": 9000, "columns": 80, "detail": 5})
    shares = np.frombuffer(base64.b64decode(piece["shares"]), np.uint8).reshape(2, 80, 3) / 255
    fate = line.fate[line.slice_job]
    kinds = [(fate != ON_TIME) & (fate != OPEN), fate == ON_TIME, fate == OPEN]
    edges = np.linspace(1000e6, 9000e6, 81)
    for stream in (0, 1):
        for kind, mask in enumerate(kinds):
            own = mask & (line.slice_resource == stream)
            begin, end = line.slice_start[own][:, None], line.slice_end[own][:, None]
            covered = (np.clip(end, edges[:-1], edges[1:]) - np.clip(begin, edges[:-1], edges[1:])).sum(axis=0) / 100e6
            assert np.abs(shares[stream, :, kind] - covered).max() <= 0.5 / 255 + 1e-9
    assert sum(piece["lost"]) > 0
    times, counts = line.waiting(np.arange(len(line.task)))
    assert max(piece["waiting"]["counts"]) == counts[(times >= 1000e6) & (times <= 9000e6)].max()


def test_a_moment_says_who_runs_and_who_waits(client, runs):
    line = Recording(runs / "fit.parquet").timeline
    now = client.get("/api/moment", run="fit.parquet", at=4321.5)
    for stream, told in enumerate(now["resources"]):
        here = (line.slice_resource == stream) & (line.slice_start <= 4321.5e6) & (line.slice_end > 4321.5e6)
        numbers = line.number[line.slice_job[here]].tolist()
        assert ([told["job"]["number"]] if told["job"] else []) == numbers
    assert now["waiting"] == ((line.wait_start <= 4321.5e6) & (line.wait_end > 4321.5e6)).sum()
    assert sum(one["waiting"] for one in now["queues"]) == now["waiting"]


# Choices


def test_choices_are_those_that_the_policy_made(client):
    """Against the same episode played step by step, choice by choice."""
    simulator, policy = Simulator(load("edge/heavy"), log_rows=0), find("edf", "edge")
    simulator.reset(7)
    expected = []
    while simulator.asking and len(expected) < 60:
        global_row, rows, mask = simulator.observe()
        chosen = policy.choose(global_row, rows, mask)
        expected.append((int(simulator.header["now"]) / 1e6, np.flatnonzero(mask).tolist(), chosen))
        simulator.step(chosen)
    for number in (59, 0, 7, 8, 31):
        told = client.get("/api/decision", run="deep/edf.parquet", number=number)
        when, legal, chosen = expected[number]
        assert (told["number"], told["time"], told["note"]) == (number, when, "")
        assert sorted(one["row"] for one in told["candidates"]) == legal
        assert [one["row"] for one in told["candidates"] if one["chosen"]] == [chosen]
        scored = [one["score"] for one in told["candidates"] if one["score"] is not None]
        assert max(scored) == next(one["score"] for one in told["candidates"] if one["chosen"])
    between = (expected[20][0] + expected[21][0]) / 2
    last = max(n for n, one in enumerate(expected) if one[0] <= between)
    assert client.get("/api/decision", run="deep/edf.parquet", at=between)["number"] == last


def test_a_choice_says_what_each_candidate_would_start(client, runs):
    recording = Recording(runs / "deep" / "edf.parquet")
    told = client.get("/api/decision", run="deep/edf.parquet", number=12)
    chosen = next(one["name"] for one in told["candidates"] if one["chosen"])
    starts = recording.events[(recording.events["kind"] == START)]
    (here,) = starts[(starts["time"] == round(told["time"] * 1e6)) & (starts["resource"] == int(told["asked"][-1]))]
    line = recording.timeline
    variant = line.variants[here["task"]][here["variant"]]
    assert chosen == f"{told['asked']} runs {line.tasks[here['task']]} as {variant}"
    assert len({one["name"] for one in told["candidates"]}) == len(told["candidates"])


def test_a_log_that_the_policy_did_not_make_is_told(tmp_path):
    path = record(tmp_path / "a.parquet", policy="edf")
    events, about = read(path)
    writer = LogWriter(tmp_path / "b.parquet", {**about, "policy": "accuracy-first"})
    writer.write(events)
    writer.close()
    with serving(create_app(tmp_path)) as client:
        assert "another version" in client.get("/api/decision", run="b.parquet", number=3)["note"]


def test_the_last_choice_stands_for_all_beyond(client):
    last = client.get("/api/decision", run="fit.parquet", number=10**9)
    assert client.get("/api/decision", run="fit.parquet", number=last["number"]) == last
    assert client.get("/api/decision", run="fit.parquet", at=10**9)["number"] == last["number"]


def test_a_chooser_is_asked_for_the_order_of_its_choices(client):
    simulator, policy = Simulator(load("edge/heavy"), log_rows=0), find("edf-fit", "edge")
    simulator.reset(7)
    while True:
        global_row, rows, mask = simulator.observe()
        first = policy.choose(global_row, rows, mask)
        left = mask.copy()
        left[first] = False
        second = policy.choose(global_row, rows, left)
        if left[second]:
            break
        simulator.step(first)
    told = client.get("/api/decision", run="fit.parquet", number=int(simulator.header["choices"]) - 1)
    ranks = {one["row"]: one["rank"] for one in told["candidates"] if one["rank"] is not None}
    assert (ranks[first], ranks[second]) == (1, 2)
    assert sorted(ranks.values()) == list(range(1, len(ranks) + 1))
    assert told["candidates"][0]["chosen"]
    assert "picks a row directly" in told["judgement"]
    ruled = client.get("/api/decision", run="deep/edf.parquet", number=12)
    assert {one["rank"] for one in ruled["candidates"]} == {None}
    assert "highest score" in ruled["judgement"]


@pytest.mark.parametrize("name", FAMILIES)
def test_words_of_deadlines_are_for_families_that_have_them(name, family_runs):
    with serving(create_app(family_runs)) as client:
        about = client.get("/api/replay", run=f"{name}.parquet")
        assert about["deadlines"] == (name in ("edge", "serving"))
        assert ("on time" in about["fates"]) == about["deadlines"]
        now = client.get("/api/moment", run=f"{name}.parquet", at=about["end"] / 2)
        fates = {one["job"]["fate"] for one in now["resources"] if one["job"]}
        assert fates <= set(about["fates"])


@pytest.mark.parametrize("name", FAMILIES)
def test_runs_of_every_family_can_be_replayed(name, family_runs):
    with serving(create_app(family_runs)) as client:
        about = client.get("/api/replay", run=f"{name}.parquet")
        whole = client.get("/api/window", **{"run": f"{name}.parquet", "from": 0, "to": about["end"]})
        assert len(whole["ran"]["start"]) > 0
        told = client.get("/api/decision", run=f"{name}.parquet", at=about["end"] / 2)
        (chosen,) = [one for one in told["candidates"] if one["chosen"]]
        assert told["note"] == ""
        resource = {"edge": "stream", "taskgraph": "pu", "dag": "", "serving": "", "cluster": ""}
        assert told["asked"].partition(" ")[0].endswith(resource.get(name, ""))
        assert bool(told["asked"]) == bool(resource.get(name, told["asked"]))
        jobs = client.get("/api/compare", run=f"{name}.parquet", baseline="")["jobs"]
        assert jobs == ("requests" if name in ("serving", "llm") else "jobs")
        judged = chosen["score"] is not None or chosen["rank"] == 1
        assert judged or "picks a row directly" in told["judgement"]


@pytest.mark.thorough
def test_a_policy_that_simulates_ahead_shows_means_and_errors_of_what_it_tried(simulated_runs):
    files = sorted(simulated_runs.glob("*.parquet"))
    assert len(files) >= 4
    with serving(create_app(simulated_runs)) as client:
        for file in files:
            recording = Recording(file)
            policy = find(str(recording.about["policy"]), recording.family.name)
            simulator = Simulator(recording.scenario)
            simulator.reset(1)
            while len(policy.estimate(simulator).actions) < 2:
                simulator.step(policy.decide(simulator))
            estimate, number = policy.estimate(simulator), int(simulator.header["choices"]) - 1
            told = client.get("/api/decision", run=file.name, number=number)
            assert (told["number"], told["note"]) == (number, "")
            assert f"{len(estimate.totals)} resampled futures" in told["judgement"]
            tried = {one["row"]: one for one in told["candidates"] if one["mean"] is not None}
            rows, means = estimate.actions.tolist(), estimate.means
            for row in set(rows):
                # Several plans of a fleet may begin with the same row.
                best = max((index for index in range(len(rows)) if rows[index] == row), key=lambda index: means[index])
                assert tried[row]["mean"] == means[best]
                assert tried[row]["error"] == estimate.errors[best]
                assert tried[row]["lead"] == means[best] - means[0]
            assert [one["row"] for one in told["candidates"] if one["chosen"]] == [estimate.action]
            means = [one["mean"] for one in told["candidates"] if one["mean"] is not None]
            assert means == sorted(means, reverse=True)


@pytest.mark.thorough
def test_where_nothing_was_simulated_the_inspector_says_so(simulated_runs):
    with serving(create_app(simulated_runs)) as client:
        for number in range(9):
            told = client.get("/api/decision", run="dag.parquet", number=number)
            if all(one["mean"] is None for one in told["candidates"]):
                assert "nothing was simulated" in told["judgement"]
                return
    pytest.fail("every decision was simulated")


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["rollout(/nowhere/policy)", "rollout(fair,../outside)"])
def test_the_bases_of_a_recorded_policy_lie_among_the_runs(simulated_runs, tmp_path, policy):
    relabel(simulated_runs / "dag.parquet", tmp_path / "a.parquet", policy="auto", plays=policy)
    with serving(create_app(tmp_path)) as client:
        status, _, found = client.ask("/api/decision", run="a.parquet", at=0)
    assert status == 400
    assert "is not among the runs" in found["error"]


@pytest.mark.thorough  # compiles rollouts of every family
def test_a_run_of_auto_is_inspected_as_what_it_played(simulated_runs, tmp_path):
    relabel(simulated_runs / "dag.parquet", tmp_path / "a.parquet", policy="auto", plays="rollout(fair)")
    with serving(create_app(tmp_path)) as client:
        told = client.get("/api/decision", run="a.parquet", number=2)
    assert (told["policy"], told["note"]) == ("rollout(fair)", "")


def test_a_trained_policy_shows_its_scores(tmp_path):
    record(tmp_path / "a.parquet", "edge/tiny", "learned-heavy", seed=1)
    with serving(create_app(tmp_path)) as client:
        told = client.get("/api/decision", run="a.parquet", number=1)
    best = max(told["candidates"], key=lambda one: one["score"])
    assert best["chosen"]
    assert len({one["score"] for one in told["candidates"]}) > 1


# Compare


def test_a_comparison_has_means_intervals_and_paired_differences(client, runs):
    data = json.loads((runs / "all.json").read_text())
    found = client.get("/api/compare", run=["all.json"], baseline="edf")
    edf, fit = ({metric: row["metrics"][metric]["values"] for metric in row["metrics"]} for row in data["policies"])
    row = next(row for row in found["policies"] if row["policy"] == "edf-fit")
    gap = np.array(fit["reward"]) - np.array(edf["reward"])
    assert row["differences"]["reward"]["mean"] == pytest.approx(gap.mean())
    assert (row["differences"]["reward"]["low"], row["differences"]["reward"]["high"]) == bootstrap_interval(gap)
    assert found["oracle"]["places"] == data["oracle"]["places"]
    runs_only = client.get("/api/compare", run=["fit.parquet", "deep/edf.parquet"])
    assert [curve["label"] for curve in runs_only["curves"]] == ["edf-fit, seed 7", "edf, seed 7"]
    assert runs_only["policies"][1]["differences"]["reward"]["episodes"] == 1


def test_runs_that_cannot_be_compared_are_refused(client):
    for chosen, words in ((["all.json", "fit.parquet"], "different scenarios"), (["trained"], "is a training")):
        status, _, found = client.ask("/api/compare", run=chosen)
        assert status == 400
        assert words in found["error"]


# Live


def test_a_training_is_followed_while_it_trains(client, runs):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("GET", "/api/live?name=trained")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert json.loads(response.readline().removeprefix(b"data: ")) == HISTORY
    line = {**HISTORY[-1], "update": 4}
    with (runs / "trained" / "history.jsonl").open("a") as file:
        file.write(json.dumps(line) + '\n{"cut')
    response.readline()
    assert json.loads(response.readline().removeprefix(b"data: ")) == [line]
    connection.close()
    (runs / "trained" / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in HISTORY))


# Try it


def draft(**changes):
    return json.dumps({**json.loads(dump(load("edge/tiny"))), **changes})


def test_a_draft_is_checked_at_its_fields(client):
    data = json.loads(draft(horizon_ms=-1))
    data["tasks"][0]["deadline_ms"] = "soon"
    status, _, found = client.ask("/api/check", "POST", {"text": json.dumps(data)})
    assert status == 200
    places = {one["place"]: one["text"] for one in found["problems"]}
    assert places["horizon_ms"] == "must be at least 1e-06, got -1"
    assert places["tasks[0].deadline_ms"] == "expected a number, got 'soon'"
    assert client.ask("/api/check", "POST", {"text": draft()})[2]["problems"] == []
    (one,) = client.ask("/api/check", "POST", {"text": '{"family": '})[2]["problems"]
    assert one["text"].startswith("is not JSON at line 1")


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_scenario_can_be_tried(name):
    assert problems_of(dump(load(name)))[1] == []


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"profile": "/etc/passwd"}, "profile"), ({"tasks": [{"arrival": {"path": "../x"}}]}, "tasks[0].arrival.path")],
)
def test_a_draft_cannot_name_files(client, changes, place):
    (one,) = client.ask("/api/check", "POST", {"text": draft(**changes)})[2]["problems"]
    assert one == {"place": place, "text": "names a file, which a scenario of this page cannot"}


BAD_TRIALS = {
    "a policy that is a path": {"policies": ["../trained/best"]},
    "no policy": {"policies": []},
    "too many episodes": {"policies": ["edf"], "episodes": 10**6},
    "a scenario that is none": {"policies": ["edf"], "text": "{}"},
    "an unknown key": {"policies": ["edf"], "command": "rm"},
    "a seed that is none": {"policies": ["edf"], "seed": -1},
}


@pytest.mark.parametrize("case", BAD_TRIALS)
def test_a_bad_trial_is_refused_with_a_sentence(client, case):
    before = [job["name"] for job in client.get("/api/jobs")]
    status, _, found = client.ask("/api/jobs", "POST", {"text": draft(), **BAD_TRIALS[case]})
    assert status in (400, 422)
    assert set(found) == {"error"}
    assert [job["name"] for job in client.get("/api/jobs")] == before


def ended(client, name):
    for _ in range(1200):
        job = client.get(f"/api/jobs/{name}")
        if job["state"] != "running":
            return job
        time.sleep(0.1)
    raise AssertionError(job)


def test_runs_from_the_page_are_bounded_and_can_be_cancelled(tmp_path):
    jobs = Jobs(tmp_path, seconds=2)
    with serving(create_app(tmp_path, jobs=jobs)) as client:
        body = {"text": draft(), "policies": ["edf"]}
        _, _, slow = client.ask("/api/jobs", "POST", body)
        _, _, other = client.ask("/api/jobs", "POST", body)
        status, _, found = client.ask("/api/jobs", "POST", body)
        assert status == 429
        assert "2 runs are under way" in found["error"]
        assert client.ask(f"/api/jobs/{other['name']}", "DELETE")[2]["state"] == "cancelled"
        assert ended(client, slow["name"])["state"] in ("too long", "done", "failed")
        assert client.ask("/api/jobs/none")[0] == 400
    left = [one for one in psutil.Process().children(recursive=True) if "slipstream.dashboard.limits" in one.cmdline()]
    assert left == []


def test_a_run_that_takes_too_much_memory_ends(tmp_path):
    jobs = Jobs(tmp_path, megabytes=40)
    with serving(create_app(tmp_path, jobs=jobs)) as client:
        _, _, job = client.ask("/api/jobs", "POST", {"text": draft(), "policies": ["edf"]})
        assert ended(client, job["name"])["state"] == "failed"
    assert not list(tmp_path.rglob("comparison.json"))


# Two users at once


def test_two_users_get_the_answers_to_their_own_questions(client):
    alone = {
        (run, at): client.get("/api/decision", run=run, at=at)
        for run in ("fit.parquet", "deep/edf.parquet")
        for at in (50, 5000)
    }
    with ThreadPoolExecutor(4) as pool:
        questions = [*alone] * 6
        answers = pool.map(lambda one: client.get("/api/decision", run=one[0], at=one[1]), questions)
        assert all(alone[question] == answer for question, answer in zip(questions, answers, strict=True))


# Who may ask


def test_the_chart_library_comes_from_here_and_may_be_kept(client):
    status, headers, text = client.ask("/static/plotly.js")
    assert status == 200
    assert b"plotly.js" in text[:200]
    assert headers["Cache-Control"] == "private, max-age=86400"
    assert client.ask("/static/app.js")[1]["Cache-Control"] == "no-store"


def test_every_answer_says_what_a_browser_may_do(client):
    for path in ("/", "/static/app.js", "/api/runs", "/nowhere", "/api/replay?run=nothing"):
        _, headers, _ = client.ask(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_strangers_are_refused(client):
    assert client.ask("/api/runs", headers={"Host": "evil.example"})[0] == 403
    status, _, found = client.ask("/api/jobs", "POST", {"text": "{}"}, {"Origin": "http://evil.example"})
    assert (status, found["error"]) == (403, "this request comes from another site")
    assert client.ask("/api/check", "POST", "x" * (9 << 20))[0] == 413


def test_a_token_opens_the_door_and_leaves_the_address(runs):
    with serving(create_app(runs, token="open sesame")) as client:
        assert client.ask("/api/runs")[0] == 401
        assert client.ask("/", token="open barley")[0] == 401
        status, headers, _ = client.ask("/", token="open sesame")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        assert "SameSite=strict" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        assert client.ask("/api/runs", headers={"Cookie": cookie, "Host": "my-machine:1"})[0] == 200
        assert client.ask("/api/runs", headers={"Authorization": "Bearer open sesame"})[0] == 200


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_token_is_none(runs, blank):
    with serving(create_app(runs, token=blank)) as client:
        assert client.ask("/api/runs")[0] == 200
        for headers in ({}, {"Authorization": f"Bearer {blank.strip()}"}, {"Cookie": "slipstream-token="}):
            assert client.ask("/api/runs", headers={"Host": "my-machine:1", **headers})[0] == 403
        assert client.ask("/api/runs?token=", headers={"Host": "my-machine:1"})[0] == 403


@pytest.mark.parametrize("token", ["Schlüssel", "鍵 & #1;", "caf\udce9", "\x1b[2J"])
def test_a_token_may_have_any_characters(runs, token):
    raw = token.encode("utf-8", "surrogateescape")
    with serving(create_app(runs, token=token)) as client:
        for wrong in (b"Schluessel", b"\xff\xfe", "Schlüsse".encode()):
            assert client.ask("/api/runs", headers={"Authorization": b"Bearer " + wrong})[0] == 401
            assert client.ask("/api/runs", headers={"Cookie": b"slipstream-token=" + wrong})[0] == 401
        if "\x1b" not in token:  # which no header holds
            assert client.ask("/api/runs", headers={"Authorization": b"Bearer " + raw})[0] == 200
        if "\udce9" in token:
            return  # bytes that are not UTF-8 do not survive in an address
        status, headers, _ = client.ask("/", token=token)
        assert status == 303
        cookie = headers["Set-Cookie"].split(";")[0]
        assert client.ask("/api/runs", headers={"Cookie": cookie})[0] == 200


@pytest.mark.parametrize(
    "question", [{"from": "x", "to": 1}, {"from": 0}, {"from": "nan", "to": 1}, {"from": 0, "to": 1, "columns": 0}]
)
def test_misspelt_questions_get_a_sentence(client, question):
    status, _, found = client.ask("/api/window", run="fit.parquet", **question)
    assert status == 422
    assert set(found) == {"error"}


# Damaged files


def damage(folder, whole):
    """Write files into a folder that only look like runs; return the reason for each."""
    (folder / "trained").mkdir()
    (folder / "trained" / "run.json").write_text("[1]")
    (folder / "odd").mkdir()
    (folder / "odd" / "run.json").write_text('{"scenario": "edge/tiny", "settings": {"seed": [7]}}')
    comparison = json.loads((whole / "all.json").read_text())
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "infinite.json").write_text(json.dumps({**comparison, "seed": float("inf")}))
    (folder / "words.json").write_text(json.dumps({**comparison, "policies": [{"policy": "\ud800"}]}))
    (folder / "none.json").write_text(json.dumps({**comparison, "policies": [{"policy": "a", "metrics": {"m": 1}}]}))
    (folder / "torn.parquet").write_bytes((whole / "fit.parquet").read_bytes()[:-9])
    os.mkfifo(folder / "pipe.json")
    os.mkfifo(folder / "pipe.live.jsonl")
    os.mkfifo(folder / "pipe.parquet")
    (folder / "clear\x1b[2J.html").write_text("<!doctype html>")
    (folder / os.fsdecode(b"raw\xff.html")).write_text("<!doctype html>")
    _, about = read(whole / "fit.parquet")
    for name, change in (
        ("seed", {"seed": -1}), ("policy", {"policy": ["edf"]}), ("split", {"split": "x"}),
        ("scenario", {"scenario": "{"}), ("family", {"scenario": '{"family": ["edge"]}'}), ("huge", {"seed": 2**80}),
    ):  # fmt: skip
        LogWriter(folder / f"{name}.parquet", {**about, **change}).close()
    return {
        "trained": "trained/run.json: expected a JSON object, got a list",
        "odd": "odd/run.json: settings.seed: got a list: expected a whole number",
        "deep.json": "deep.json: is nested too deeply: expected at most 64 levels",
        "infinite.json": "infinite.json: seed: expected a finite number (below 1.8e308 in size), got Infinity",
        "words.json": "words.json: policies[0].policy: expected valid Unicode, got '\\ud800'",
        "none.json": "none.json: policies[0].metrics.m: expected a JSON object, got 1",
        "torn.parquet": "torn.parquet: not a Parquet file: expected an event log written by slipstream",
        "pipe.json": "pipe.json: is not a regular file: expected a run",
        "pipe.live.jsonl": "pipe.live.jsonl: is not a regular file: expected a run",
        "pipe.parquet": "pipe.parquet: is not a regular file: expected a run",
        "clear\\x1b[2J.html": "its name is not printable",
        "raw\\udcff.html": "its name is not printable",
        "seed.parquet": "seed.parquet: seed: expected a whole number, got -1",
        "huge.parquet": "huge.parquet: seed: expected a whole number, got 12",
        "policy.parquet": "policy.parquet: policy: expected a text, got a list",
        "split.parquet": "split.parquet: split: expected one of train, eval, test, got 'x'",
        "scenario.parquet": "scenario.parquet: its scenario: is not JSON",
        "family.parquet": "family.parquet: its scenario: family is a list: expected one of edge",
    }


def test_a_file_that_cannot_be_read_is_listed_with_its_reason_and_the_others_as_ever(runs, tmp_path):
    reasons = damage(tmp_path, runs)
    shutil.copy(runs / "fit.parquet", tmp_path / "fit.parquet")
    (tmp_path / "list.json").write_text("[1]")  # another file, which nobody asked for
    with serving(create_app(tmp_path)) as client:
        listed = {run["name"]: run for run in client.get("/api/runs")["runs"]}
        assert listed.keys() == {*reasons, "fit.parquet"}
        for name, reason in reasons.items():
            assert listed[name]["kind"] == "unreadable"
            assert reason in listed[name]["error"]
            assert listed[name]["error"].isprintable()
            assert str(tmp_path) not in listed[name]["error"]
        assert listed["fit.parquet"]["kind"] == "run"
        for name in reasons:
            for question, parameter in (("/api/replay", "run"), ("/api/compare", "run"), ("/api/live", "name")):
                status, _, found = client.ask(question, **{parameter: name})
                assert status in (400, 404), (question, name, found)
                assert found["error"].isprintable()


@pytest.mark.parametrize("entry", ["run.json", "history.jsonl", "trained", "fit.parquet", "all.json", "page.html"])
def test_a_link_that_leads_out_of_the_folder_is_listed_with_the_reason_and_never_read(runs, tmp_path, entry):
    outside, home = tmp_path / "outside", tmp_path / "runs"
    shutil.copytree(runs / "trained", outside / "trained")
    for name in ("fit.parquet", "all.json"):
        shutil.copy(runs / name, outside / name)
    (outside / "page.html").write_text("<title>secret</title>")
    home.mkdir()
    shutil.copy(runs / "fit.parquet", home / "mine.parquet")
    (home / "link-inside.parquet").symlink_to("mine.parquet")
    if entry.endswith(("run.json", ".jsonl")):
        shutil.copytree(runs / "trained", home / "mine")
        (home / "mine" / entry).unlink()
        (home / "mine" / entry).symlink_to(outside / "trained" / entry)
        name = "mine"
    else:
        name = entry
        (home / entry).symlink_to(outside / entry)
    with serving(create_app(home)) as client:
        listed = {run["name"]: run for run in client.get("/api/runs")["runs"]}
        assert {one: run["kind"] for one, run in listed.items()} == {
            name: "unreadable",
            "mine.parquet": "run",
            "link-inside.parquet": "run",
        }
        assert "leads out of the folder" in listed[name]["error"]
        assert str(tmp_path) not in listed[name]["error"]
        for question, parameter in (("replay", "run"), ("compare", "run"), ("live", "name"), ("page", "name")):
            status, _, found = client.ask(f"/api/{question}" if question != "page" else "/page", **{parameter: name})
            assert status in (400, 404), found


def test_a_link_that_appears_later_is_not_followed(runs, tmp_path):
    shutil.copytree(runs / "trained", tmp_path / "runs" / "mine")
    history = tmp_path / "runs" / "mine" / "history.jsonl"
    (tmp_path / "secret.jsonl").write_text('{"secret": 1}\n' * 10_000)

    async def told():
        found = []
        looks = iter([False] * 3 + [True])

        async def gone():
            return next(looks)

        async for event in follow(history, tmp_path / "runs", gone):
            found.append(event)
            history.unlink()
            history.symlink_to(tmp_path / "secret.jsonl")
        return found

    (event,) = asyncio.run(told())
    assert "heuristic_reward" in event


def test_what_is_tried_stays_in_the_folder(runs, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "tried").symlink_to(tmp_path / "elsewhere")
    with serving(create_app(tmp_path / "runs")) as client:
        trial = {"text": dump(load("edge/tiny")), "policies": ["edf"]}
        status, _, found = client.ask("/api/jobs", "POST", trial)
        assert status == 400
        assert "leads out of the folder" in found["error"]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_training_that_is_repaired_is_listed_as_one(tmp_path):
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "history.jsonl").write_text("")
    (tmp_path / "trained" / "run.json").write_text("[1]")
    with serving(create_app(tmp_path)) as client:
        assert [run["kind"] for run in client.get("/api/runs")["runs"]] == ["unreadable"]
        (tmp_path / "trained" / "run.json").write_text('{"scenario": "edge/heavy", "settings": {}}')
        assert [run["kind"] for run in client.get("/api/runs")["runs"]] == ["training"]


def test_a_log_cannot_make_the_page_open_a_folder_elsewhere(runs, tmp_path):
    (tmp_path / "runs").mkdir()
    shutil.copytree(shipped("edge")["learned-heavy"], tmp_path / "elsewhere")
    events, about = read(runs / "fit.parquet")
    writer = LogWriter(tmp_path / "runs" / "a.parquet", {**about, "policy": str(tmp_path / "elsewhere")})
    writer.write(events)
    writer.close()
    with serving(create_app(tmp_path / "runs")) as client:
        status, _, found = client.ask("/api/decision", run="a.parquet", at=0)
        assert status == 400
        assert "is not among the runs" in found["error"]


@pytest.mark.parametrize("moment", ["1e308", "-1e308"])
def test_a_moment_that_no_run_has_is_answered(client, moment):
    for path in ("/api/moment", "/api/decision"):
        assert client.ask(path, run="fit.parquet", at=moment)[0] == 200
    assert client.ask("/api/window", run="fit.parquet", **{"from": moment, "to": moment})[0] == 200
