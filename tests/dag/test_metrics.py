"""Metrics, laws, timeline and pictures of a dag episode, all from its log."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.dag.invariants import check
from slipstream.families.dag.labels import run_labels
from slipstream.families.dag.metrics import jobs_in_system, jobs_of, metrics, moves_of
from slipstream.families.dag.timeline import timeline
from slipstream.families.shared.timeline import ON_TIME
from slipstream.policies.base import find
from slipstream.render.gantt import CHART, LABEL, TOP, GanttPainter
from slipstream.render.picture import BACKGROUND
from slipstream.render.scene import GraphScene, scene_of
from slipstream.render.style import task_colour
from slipstream.scenario import load
from slipstream.sim.eventlog import EVENT, FINISH, MOVE, START
from slipstream.sim.simulator import Simulator


@pytest.fixture(scope="module")
def tiny():
    scenario = load("dag/tiny")
    return scenario, Simulator(scenario).play(find("sjf-cp", "dag"), 0)


def test_metrics_of_the_episode_worked_out_on_the_page(tiny):
    scenario, events = tiny
    figures = metrics(scenario, events)
    expected = {
        "reward": -17.0,
        "avg_jct_s": 8.5,
        "jct_p50_s": 8.5,
        "makespan_s": 13.0,
        "job_seconds": 17.0,
        "tasks": 9.0,
        "moves": 4.0,
        "jobs_in_system_max": 2.0,
        "jobs_done": 2.0,
        "stage_failures": 0.0,
        # Tasks: 4 × 3 + 2 × 2 + 2 × 2 + 1 s, ways: 4 × 1 s, of 2 × 13 s.
        "utilisation": 21 / 26,
        "moving_share": 4 / 26,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert figures["jct_p99_s"] == pytest.approx(12.91)


def test_jobs_in_the_system_over_time(tiny):
    moments, counts = jobs_in_system(jobs_of(tiny[1]))
    assert dict(zip((moments / 1e9).tolist(), counts.tolist(), strict=True)) == {0.0: 2, 4.0: 1, 13.0: 0}


def test_moves_last_as_long_as_the_moving_delay(tiny):
    moves = moves_of(tiny[1])
    assert set((moves.end - moves.start).tolist()) == {1_000_000_000}


# Laws


def broken(events, scenario):
    with pytest.raises(InvariantError) as error:
        check(events, scenario)
    return str(error.value)


def rows_of(events, kind):
    return np.flatnonzero(events["kind"] == kind)


def test_a_log_that_lost_a_row_breaks_a_law(tiny):
    scenario, events = tiny
    check(events, scenario)
    for row in range(len(events)):
        assert broken(np.delete(events, row), scenario)


def test_laws_name_what_is_wrong(tiny):
    scenario, events = tiny
    backwards = events.copy()
    backwards["time"][3] = 10**15
    assert "the clock ran backwards" in broken(backwards, scenario)
    elsewhere = events.copy()
    elsewhere["resource"][rows_of(events, START)[0]] ^= 1
    assert "which" in broken(elsewhere, scenario)
    early = events.copy()
    early["task"][rows_of(events, START)[0]] = 2
    assert "before its parents are complete" in broken(early, scenario)
    assert "the log is empty" in broken(np.zeros(0, EVENT), scenario)
    stranger = events.copy()
    stranger["kind"][0] = 7
    assert "expected one of arrival" in broken(stranger, scenario)
    first = rows_of(events, FINISH)[0]
    twice = np.insert(events, first + 1, events[first])
    assert "does not run it" in broken(twice, scenario)
    assert "busy" in broken(np.delete(events, rows_of(events, FINISH)[0]), scenario)
    assert "was not on its way" in broken(np.delete(events, rows_of(events, MOVE)[0]), scenario)


# Pictures


def test_a_timeline_has_every_job_and_merges_tasks_in_a_row(tiny):
    scenario, events = tiny
    line = timeline(scenario, events)
    assert line.fate.tolist() == [ON_TIME, ON_TIME]
    assert line.finish.tolist() == [13_000_000_000, 4_000_000_000]
    assert len(line.slice_job) < (events["kind"] == START).sum()
    assert (line.slice_end - line.slice_start).sum() == 21_000_000_000
    assert np.all(np.diff(line.slice_start) >= 0)


def test_a_report_of_a_run_can_be_written(tiny):
    from slipstream.reports.html.page import page
    from slipstream.reports.runs import run_of

    scenario, events = tiny
    about = {"policy": "sjf-cp", "seed": 0, "command": "slipstream run dag/tiny"}
    assert "job 1" in page([run_of(events, about, scenario)], "a command")


def test_a_scene_knows_who_works_moves_and_is_done(tiny):
    scenario, events = tiny
    scene = scene_of(run_labels(scenario))
    assert isinstance(scene, GraphScene)
    scene.update(events[events["time"] <= 3_500_000_000])
    assert scene.active == [0, 1]
    assert [one.job.task if one else None for one in scene.running] == [1, None]
    assert scene.moving == [None, 0]
    scene.update(events[events["time"] > 3_500_000_000])
    assert (scene.over, scene.active, scene.finished) == (True, [], [1, 1])
    assert [job for _, job in scene.completions] == [1, 0]


def test_a_scene_counts_the_jobs_in_the_system_whenever_it_is_looked_at(tiny):
    scenario, events = tiny
    scene = GraphScene(run_labels(scenario), window=13_000_000_000)
    scene.update(events)
    moments, counts = jobs_in_system(jobs_of(events))
    assert dict(scene.counts) == dict(zip(moments.tolist(), counts.tolist(), strict=True))


def test_a_picture_is_coloured_by_job_and_marks_completions(tiny):
    scenario, events = tiny
    scene = GraphScene(run_labels(scenario), window=13_000_000_000)
    scene.update(events)
    picture = GanttPainter(run_labels(scenario)).paint(scene)
    colours = {tuple(colour) for colour in picture.reshape(-1, 3)[::7].tolist()}
    for job in (0, 1):
        text = task_colour(job).lstrip("#")
        assert tuple(bytes.fromhex(text)) in colours
    assert (picture == np.array([0xD6, 0x45, 0x50])).all(axis=2).any()
    above = tuple(bytes.fromhex(BACKGROUND.lstrip("#")))
    between = picture[TOP + CHART // 2 - 2, LABEL + 40 :]
    assert (between == above).all(axis=1).mean() > 0.9, "rows are apart"
