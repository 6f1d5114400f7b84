"""A frame in the terminal says what the log says, in any size of terminal."""

from __future__ import annotations

import re

import numpy as np
import pytest

from slipstream.policies import find
from slipstream.render.scene import Scene, scene_of
from slipstream.render.style import MISSED
from slipstream.render.terminal import frame, letter
from slipstream.scenario import load
from slipstream.sim.eventlog import START
from slipstream.sim.simulator import Simulator
from tests.render.test_scene import MS, labels_of, log_of, spans_of


def scene_at(name, moment_ms, policy="edf-fit", seed=7):
    events = log_of(name, policy, seed)
    scene = Scene(labels_of(name))
    scene.update(events[events["time"] <= moment_ms * MS])
    scene.advance_to(int(moment_ms * MS))
    return scene


def test_a_known_instant_of_the_tiny_scenario():
    """By hand, under edf at 13 ms: two cameras since 10, the alarm of 12 waits for one of them to end at 14."""
    lines = frame(scene_at("edge/tiny", 13, "edf"), "tiny", 100).plain.splitlines()
    assert lines[0].split() == ["tiny", "13.0", "of", "40", "ms"]
    assert lines[1] == "finished 3 of 6   missed 0 (0.0%)   waiting 1   effective accuracy 0.583"
    assert " ".join(lines[3].split()) == "stream 0 A camera, fast, job 2 █████████░░░ 3.0 of 4.0 ms due in 7.0 ms"
    assert " ".join(lines[5].split()) == "stream 1 A camera, fast, job 3 █████████░░░ 3.0 of 4.0 ms due in 7.0 ms"
    assert "A camera    0 " in lines[10]
    assert lines[11].split() == ["B", "alarm", "1", "■", "0", "of", "1"]


def test_a_batch_says_how_long_it_has_run_and_claims_no_share():
    """A batch takes longer than a request alone, and each kind of accelerator has times of its own."""
    scenario = load("serving/tiny")
    events = Simulator(scenario).play(find("static", "serving"), 0)
    scene = scene_of(labels_of("serving/tiny"))
    start = events[events["kind"] == START][-1]
    scene.update(events[events["time"] <= start["time"]])
    scene.advance_to(int(start["time"]) + MS // 2)
    text = frame(scene, "tiny", 120).plain
    running = [line for line in text.splitlines() if ", request " in line]
    assert any(re.search(r"request \d+ +for 0\.5 ms  due in [\d.]+ ms", line) for line in running)
    assert not any("█" in line or " of " in line for line in running)
    assert "Bar:" not in text


def test_a_request_of_an_llm_engine_says_how_long_it_has_run_and_claims_no_share():
    """How long one takes alone is known of the mean request only."""
    scenario = load("llm/tiny")
    events = Simulator(scenario).play(find("fcfs", "llm"), 0)
    scene = scene_of(labels_of("llm/tiny"))
    start = events[events["kind"] == START][0]
    scene.update(events[events["time"] <= start["time"]])
    scene.advance_to(int(start["time"]) + 5 * MS)
    text = frame(scene, "tiny", 120).plain
    assert re.search(r"A chat, request 0 +for 5\.0 ms", text)
    assert "█" not in text
    assert "Bar:" not in text


def test_marks_of_the_axis_have_a_suitable_unit():
    for name, window, marks in (
        ("serving/tiny", 200 * MS, ["200 ms ago", "100 ms ago", "now"]),
        ("edge/tiny", 50 * MS, ["50 ms ago", "25 ms ago", "now"]),
        ("cluster/tiny", 2_000_000 * MS, ["2,000 s ago", "1,000 s ago", "now"]),
    ):
        text = frame(scene_of(labels_of(name), window=window), name, 120).plain
        (axis,) = [line for line in text.splitlines() if line.endswith("now")]
        assert re.split(r"\s{2,}", axis.strip()) == marks


@pytest.mark.parametrize(("name", "policy"), [("edge/overload", "edf-fit"), ("edge/heavy", "edf")])
def test_every_column_shows_the_job_that_had_most_of_its_time(name, policy):
    scene = scene_at(name, 1234.5, policy)
    events = log_of(name, policy)
    spans = [(t, s, b, e if e is not None else 2**62) for t, _, s, b, e in spans_of(events)]
    text, width = frame(scene, "x", 110), 110
    lines = text.plain.splitlines()
    label = len("stream 0  ")
    step = scene.window / (width - label)
    for stream, line in ((0, lines[4]), (1, lines[6])):
        assert len(line) == width
        drawn = line[label:]
        for column, sign in enumerate(drawn):
            begin = scene.now - scene.window + column * step
            shares = {}
            for task, where, start, end in spans:
                used = min(end, begin + step, scene.now) - max(start, begin)
                if where == stream and used > 0:
                    shares[task, start] = used
            top = max(shares.values(), default=0.0)
            if sign == "·":
                assert step - sum(shares.values()) >= top - 1
            else:
                before = drawn[:column].rstrip("─")
                task = sign if sign != "─" else before[-1]
                tasks = {letter(t) for (t, _), used in shares.items() if used >= top - 1}
                assert task.upper() in tasks
                assert step - sum(shares.values()) <= top + 1


def test_missed_jobs_are_red_and_lower_case():
    scene = scene_at("edge/overload", 1234.5)
    text = frame(scene, "x", 110)
    lines = text.plain.splitlines()
    begin = sum(len(line) + 1 for line in lines[:4])
    for column, sign in enumerate(lines[4]):
        styles = [span.style for span in text.spans if span.start <= begin + column < span.end]
        red = any(getattr(style, "bgcolor", None) and style.bgcolor.name == MISSED for style in styles)
        if sign.isalpha() and column >= len("stream 0  "):
            assert red == sign.islower()
    assert any(sign.islower() for sign in lines[4][10:])


@pytest.mark.parametrize("colour_of", [(0.5, "#2e9e5b"), (4.5, "#c98a00"), (12.5, "#d64550")])
def test_slack_is_coloured_by_whether_it_suffices(colour_of):
    from slipstream.sim.eventlog import ARRIVAL, START
    from tests.render.test_scene import rows

    moment, colour = colour_of
    scene = Scene(labels_of("edge/tiny"))
    scene.update(rows((0, ARRIVAL, 0, 0, -1, -1), (0 if moment < 1 else 4, START, 0, 0, 0, 1)))  # takes 8 ms, due at 10
    scene.advance_to(int(moment * MS))
    text = frame(scene, "x", 100)
    place = text.plain.index("late by" if moment > 10 else "due in")
    assert any(
        span.start <= place < span.end and span.style.color and span.style.color.name == colour for span in text.spans
    )


@pytest.mark.parametrize("width", [20, 40, 47, 60, 80, 200])
@pytest.mark.parametrize("height", [6, 14, 24, None])
def test_a_frame_fits_its_terminal(width, height):
    for name in ("edge/overload", "edge/drone", "edge/tiny"):
        lines = frame(scene_at(name, 30), "a title that is rather long for a narrow terminal", width, height).plain
        assert all(len(line) <= max(width, 40) for line in lines.splitlines())
        assert height is None or len(lines.splitlines()) <= height


def test_the_usual_terminal_has_room_for_all_totals():
    scene = scene_at("edge/heavy", 9_999)
    assert frame(scene, "x", 80).plain.splitlines()[1].endswith(f"accuracy {scene.accuracy:.3f}")
    assert frame(scene, "x", 100).plain.splitlines()[1].endswith(f"effective accuracy {scene.accuracy:.3f}")


def test_a_short_terminal_keeps_the_longest_queues():
    scene = scene_at("edge/overload", 1234.5)
    text = frame(scene, "x", 80, 14).plain
    longest = int(np.argmax(scene.waiting))
    assert f"{letter(longest)} {scene.labels.tasks[longest]} " in text
    assert "more tasks with shorter queues" in text


def test_a_terminal_without_unicode_gets_ascii():
    scene = scene_at("edge/overload", 1234.5)
    plain = frame(scene, "x", 80, ascii_only=True)
    assert plain.plain.isascii()
    assert plain.spans == frame(scene, "x", 80).spans
