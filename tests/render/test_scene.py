"""The scene says what the log says, at every moment."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.families.contract import family_of
from slipstream.families.shared.timeline import DROPPED, LATE, ON_TIME, OPEN, OVERDUE
from slipstream.policies import find
from slipstream.render.scene import PREEMPT, Scene, default_window, scene_of
from slipstream.render.terminal import frame
from slipstream.scenario import builtin_names, load
from slipstream.sim.eventlog import ARRIVAL, END, EVENT, FINISH, MOVE, START
from slipstream.sim.simulator import Simulator

MS = 1_000_000
READY, EVICT = 8, 9
"""Kinds that a scene does not know."""


def labels_of(name):
    scenario = load(name)
    return family_of(scenario).run_labels(scenario)


def log_of(name, policy="edf-fit", seed=7):
    return Simulator(load(name)).play(find(policy, "edge"), seed)


def spans_of(events):
    """Return (task, job, stream, start, end) of every job that started; -1 where it never finished."""
    finish = {(int(e["task"]), int(e["job"])): int(e["time"]) for e in events[events["kind"] == FINISH]}
    return [
        (int(e["task"]), int(e["job"]), int(e["resource"]), int(e["time"]), finish.get((int(e["task"]), int(e["job"]))))
        for e in events[events["kind"] == START]
    ]


def rows(*events):
    """Return a log from (ms, kind, task, job, resource, variant)."""
    log = np.zeros(len(events), EVENT)
    for row, (time, kind, task, job, resource, variant) in zip(log, events, strict=True):
        row["time"], row["kind"], row["task"], row["job"] = time * MS, kind, task, job
        row["resource"], row["variant"] = resource, variant
    return log


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/drone", "edge/tiny"])
@pytest.mark.parametrize("policy", ["edf", "edf-fit", "random"])
def test_totals_at_the_end_are_the_metrics(name, policy):
    scenario, events = load(name), log_of(name, policy)
    scene = Scene(labels_of(name))
    scene.update(events)
    metrics = family_of(scenario).metrics(scenario, events)
    assert scene.over
    assert (sum(scene.released), scene.judged) == (metrics["released"], metrics["judged"])
    assert sum(scene.missed) / scene.judged == pytest.approx(metrics["miss_rate"])
    assert scene.accuracy == pytest.approx(metrics["effective_accuracy"])
    for task, missed, on_time in zip(scenario.tasks, scene.missed, scene.on_time, strict=True):
        assert missed / max(missed + on_time, 1) == pytest.approx(metrics[f"miss_rate/{task.name}"])


@pytest.mark.parametrize("moment_ms", [0.0, 3.7, 250.0, 1234.5, 9_999.0])
def test_streams_and_queues_at_a_moment_are_those_of_the_log(moment_ms):
    events, now = log_of("edge/overload"), int(moment_ms * MS)
    scene = Scene(labels_of("edge/overload"))
    scene.update(events[events["time"] <= now])
    scene.advance_to(now)
    past = events[events["time"] <= now]
    kinds = past["kind"]
    for task in range(len(scene.labels.tasks)):
        own = kinds[past["task"] == task]
        left = ((own != ARRIVAL) & (own != FINISH)).sum()
        assert scene.waiting[task] == (own == ARRIVAL).sum() - left
    seen = []
    for stream in range(2):
        seen += [(s.job.task, s.job.number, stream, s.start, s.end) for s in scene.slices(stream)]
    expected = []
    for task, job, stream, start, end in spans_of(past):
        if end is None or end >= now - scene.window:
            expected.append((task, job, stream, start, end))
    assert sorted(seen, key=lambda row: row[:2]) == sorted(expected, key=lambda row: row[:2])
    assert [s is not None for s in scene.running] == [any(r[2] == n and r[4] is None for r in expected) for n in (0, 1)]


def test_rows_may_come_in_pieces():
    events, whole, parts = log_of("edge/heavy"), Scene(labels_of("edge/heavy")), Scene(labels_of("edge/heavy"))
    whole.update(events)
    for begin in range(0, len(events), 37):
        parts.update(events[begin : begin + 37])
    for name in ("now", "waiting", "missed", "on_time", "finished", "accuracy", "running"):
        assert getattr(whole, name) == getattr(parts, name)
    assert [list(whole.slices(n)) for n in (0, 1)] == [list(parts.slices(n)) for n in (0, 1)]
    assert list(whole.dropped()) == list(parts.dropped())


def test_a_long_run_is_forgotten_behind_the_window():
    scene = Scene(labels_of("edge/overload"))
    scene.update(log_of("edge/overload"))
    oldest = scene.now - scene.window
    assert all(piece.end is None or piece.end >= oldest for n in (0, 1) for piece in scene.slices(n))
    assert all(time >= oldest for time, _ in scene.dropped())
    assert sum(scene.released) > 5_000
    assert len(list(scene.open_jobs())) < 200


def test_an_interrupted_job_leaves_a_slice_and_waits_again():
    scene = Scene(labels_of("edge/tiny"))
    scene.update(
        rows(
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 1, 1),
            (1, READY, 0, 0, 1, 1),
            (3, PREEMPT, 0, 0, 1, 1),
            (3, EVICT, -1, -1, -1, -1),
        )
    )
    assert scene.running == [None, None]
    assert scene.waiting == [1, 0]
    (first,) = scene.slices(1)
    assert (first.start, first.end, first.job.fate) == (0, 3 * MS, OPEN)
    scene.update(rows((5, START, 0, 0, 0, 1), (9, FINISH, 0, 0, 0, 1)))
    (second,) = scene.slices(0)
    assert second.job is first.job
    assert second.job.served == 7 * MS
    assert second.job.fate == ON_TIME
    assert (scene.waiting, scene.finished, scene.on_time) == ([0, 0], [1, 0], [1, 0])


def test_a_job_is_missed_as_soon_as_its_deadline_has_passed():
    scene = Scene(labels_of("edge/tiny"))
    scene.update(rows((0, ARRIVAL, 0, 0, -1, -1), (4, START, 0, 0, 0, 1)))
    job = scene.running[0].job
    assert not job.missed(10 * MS)
    assert job.missed(10 * MS + 1)
    scene.update(rows((12, FINISH, 0, 0, 0, 1)))
    assert job.fate == LATE
    assert scene.missed == [1, 0]


def test_overdue_and_dropped_jobs_count_as_missed_at_the_end():
    scene = Scene(labels_of("edge/tiny"))
    scene.update(
        rows((0, ARRIVAL, 1, 0, -1, -1), (1, ARRIVAL, 0, 0, -1, -1), (2, 5, 1, 0, -1, -1), (11, END, -1, -1, -1, -1))
    )
    assert [job.fate for _, job in scene.dropped()] == [DROPPED]
    assert [job.fate for job in scene.open_jobs()] == [OVERDUE]
    assert scene.missed == [1, 1]
    assert scene.over


def test_the_window_is_a_round_number_of_some_jobs():
    assert default_window(labels_of("edge/tiny")) == 50 * MS
    assert default_window(labels_of("edge/heavy")) == 50 * MS
    assert default_window(labels_of("edge/drone")) == 200 * MS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("edge/tiny", ("jobs waiting", "missed", "A letter begins a job of that task. Red")),
        ("dag/small", ("jobs in the system, with the executors of each",)),
        (
            "taskgraph/tight-memory",
            ("kernels, with the processors or links of each", "B TRSM, for", "transfer for job 0"),
        ),
        (
            "serving/tiny",
            ("requests waiting", "A letter begins a batch of that model. Red", ", request ", " ms  due in "),
        ),
        ("cluster/tiny", ("in the system, with the GPUs of each",)),
    ],
)
def test_every_family_is_drawn_in_its_own_words(name, words):
    scenario = load(name)
    family = family_of(scenario)
    events = Simulator(scenario).play(
        find("infaas" if family.name == "serving" else family.default_policy, family.name), 0
    )
    scene = scene_of(family.run_labels(scenario))
    seen, begin = "", 0
    for moment in np.linspace(0, int(events["time"][-1]), 40).astype(np.int64).tolist():
        end = int(np.searchsorted(events["time"], moment, side="right"))
        scene.update(events[begin:end])
        scene.advance_to(moment)
        begin = end
        seen += frame(scene, name, 120).plain + "\n"
    for word in words:
        assert word in seen
    if not any(scene.labels.deadline):
        assert "missed" not in seen
    assert "1 jobs" not in seen


def test_links_are_busy_while_they_transfer():
    scenario = load("taskgraph/tight-memory")
    events = Simulator(scenario).play(find("mct", "taskgraph"), 0)
    labels = family_of(scenario).run_labels(scenario)
    scene = scene_of(labels, window=int(events["time"][-1]))
    scene.update(events)
    links = range(len(labels.resources) - labels.links, len(labels.resources))
    drawn = [(link, piece.start, piece.end) for link in links for piece in scene.slices(link)]
    moves, ends = (events[events["kind"] == kind] for kind in (MOVE, READY))
    assert sorted((link, start) for link, start, _ in drawn) == sorted(
        zip(moves["resource"].tolist(), moves["time"].tolist(), strict=True)
    )
    assert sorted((link, end) for link, _, end in drawn) == sorted(
        zip(ends["resource"].tolist(), ends["time"].tolist(), strict=True)
    )


@pytest.mark.parametrize("name", builtin_names())
def test_a_cast_names_what_the_timeline_names_and_describes_all_of_it(name):
    scenario = load(name)
    family = family_of(scenario)
    labels, end = family.run_labels(scenario), np.zeros(1, EVENT)
    end["kind"], end["task"], end["job"] = END, -1, -1
    line = family.timeline(scenario, end)
    assert labels.resources == line.resources
    if labels.groups:  # a report gathers jobs by user, a picture of a run under way follows each
        assert set(labels.variants) == set(line.variants)
    else:
        assert (labels.tasks, labels.variants) == (line.tasks, line.variants)
    assert (labels.unit, labels.nanoseconds_per_unit) == (family.time_unit, family.nanoseconds_per_unit)
    assert labels.scenario == name
    assert len(labels.deadline) == len(labels.tasks)
    assert [len(ladder) for ladder in labels.expected] == [len(names) for names in labels.variants]
    assert labels.accuracy is None or [len(row) for row in labels.accuracy] == [len(names) for names in labels.variants]
