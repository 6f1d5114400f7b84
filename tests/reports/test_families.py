"""Reports, traces and animations of every family: its words, sensible axes, deadlines only where there are some."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from slipstream.families.contract import FAMILIES, family_of
from slipstream.families.shared.charts import Picture
from slipstream.render.animation import animation
from slipstream.render.style import task_colour
from slipstream.reports.html.page import page
from slipstream.reports.html.sections import family_charts
from slipstream.reports.perfetto import trace
from slipstream.reports.runs import read_run
from slipstream.sim.eventlog import MOVE, read
from tests.reports.test_report import data_of, record

SENTINEL = 2**62
"""The deadline, in ns, of jobs that have none; it may be seen nowhere, in no unit."""

CASES = {
    "edge": ("edge/heavy", "edf", "Each row is a stream; each bar is a job, coloured by task.", "Streams over time"),
    "dag": (
        "dag/small",
        "fair",
        "Each row is an executor; each bar is a run of one stage&#x27;s tasks, coloured by job.",
        "Executors over time",
    ),
    "taskgraph": (
        "taskgraph/tight-memory",
        "mct",
        "Each row is a processor or a link; each bar is a task or transfer, coloured by kernel.",
        "Processors and links over time",
    ),
    "serving": (
        "serving/tiny",
        "infaas",
        "Each row is an accelerator; each bar is a batch, coloured by model.",
        "Accelerators over time",
    ),
    "cluster": ("cluster/tiny", "saf", "Each row is a GPU; each bar is a job, coloured by user.", "GPUs over time"),
    "elastic": ("elastic/tiny", "las", "Each row is a GPU; each bar is a job, coloured by model.", "GPUs over time"),
    "llm": ("llm/tiny", "fcfs", "Each row is a seat; each bar is a request, coloured by class.", "Seats over time"),
}
WITH_DEADLINES = {"edge", "serving"}


@pytest.fixture(scope="module", params=CASES)
def run(request, tmp_path_factory):
    scenario, policy, *_ = CASES[request.param]
    return read_run(record(tmp_path_factory.mktemp(request.param) / "run.parquet", scenario, policy, 0, request.param))


def markup_of(text):
    """Return the visible text of a page."""
    text = re.sub(r"<(script|style|noscript).*?</\1>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def numbers_of(data):
    """Yield every number of JSON data."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            yield from numbers_of(one)
    elif isinstance(data, int | float):
        yield float(data)


def test_every_family_is_here():
    assert set(CASES) == set(FAMILIES)


def test_a_report_speaks_the_words_of_its_family(run):
    _, policy, sentence, title = CASES[run.family.name]
    text = page([run], "a command")
    words = markup_of(text)
    assert sentence in words
    assert title in words
    assert words.index("Result") < words.index(policy, words.index("Result")) < words.index(title)
    assert not re.search(r"\ba [aeio]\w+", words)
    assert not re.search(r"(?<![\d.,])1 (jobs|tasks|users|models|requests|executors|seeds)\b", words)
    assert "Simulated" in words


def test_a_real_run_is_labelled_with_its_hardware(run):
    run.about.update(device="cpu", hardware="Ryzen <5>, 6 cores")
    try:
        text = page([run], "a command")
        assert "Real run on Ryzen &lt;5&gt;, 6 cores<" in text
        assert "Simulated" not in markup_of(text)
        run.about.pop("hardware")
        assert "Real run on cpu<" in page([run], "a command")
        assert "(Real run on cpu)" in json.dumps(trace([run]))
    finally:
        del run.about["device"]


def test_deadlines_are_mentioned_only_where_there_are_some(run):
    text = page([run], "a command")
    data = data_of(text)["runs"][0]
    expected = run.family.name in WITH_DEADLINES
    assert run.timeline.has_deadlines == expected
    assert ("deadline" in markup_of(text)) == expected
    assert ('id="next-miss"' in text) == expected
    assert ("on time" in data["fates"]) == expected
    assert ("finished" in data["fates"]) != expected
    assert ("deadline" in data["ran"]) == expected


def test_axes_are_finite_and_within_the_run(run):
    data = data_of(page([run], "a command"))
    assert all(math.isfinite(number) and abs(number) < SENTINEL / 1e9 / 2 for number in numbers_of(data))
    for name, figure in data["figures"].items():
        for drawn in figure["data"]:
            if drawn["type"] == "heatmap":
                assert (drawn["zmin"], drawn["zmax"] >= 1) == (0, True), "one must not look like none"
        if (figure["layout"].get("meta") or {}).get("over_time"):
            assert all(0 <= x <= data["end"] * (1 + 1e-6) for drawn in figure["data"] for x in drawn["x"]), name
        if name.startswith("responses"):
            longest = max(x for drawn in figure["data"] for x in drawn["x"])
            finished = run.timeline.finish >= 0
            slowest = (run.timeline.finish - run.timeline.release)[finished].max() / run.family.nanoseconds_per_unit
            assert longest <= max(slowest, data["end"]) * (1 + 1e-6)


def test_bars_have_names_and_colours_of_their_own(run):
    data = data_of(page([run], "a command"))["runs"][0]
    ran = data["ran"]
    names = {
        (ran["task"][n], ran["number"][n], ran["part"][n] if "part" in ran else 0) for n in range(len(ran["task"]))
    }
    assert len(names) > 5
    assert len(set(ran["group"])) > 1
    assert max(ran["group"]) < len(data["groups"])
    assert set(ran["group"]) <= set(range(len(data["groups"])))


def test_a_finished_job_is_not_said_to_have_never_run(run):
    """A request of a batch has no bar of its own."""
    idle = data_of(page([run], "a command"))["runs"][0]["idle"]
    began = np.isin(np.arange(len(run.timeline.task)), run.timeline.slice_job)
    assert len(idle["left"]) == int((~began & (run.timeline.finish < 0)).sum())


def test_a_trace_names_tracks_and_slices_in_the_family_s_words(run):
    line = run.timeline
    content = json.loads(json.dumps(trace([run]), allow_nan=False))
    rows = content["traceEvents"]
    tracks = [row["args"]["name"] for row in rows if row["name"] == "thread_name"]
    assert tracks == list(line.resources)
    slices = [row for row in rows if row["ph"] == "X"]
    assert len(slices) == len(line.slice_job)
    assert len({row["name"] for row in slices}) > 1
    assert all(line.nouns.job in row["args"] for row in slices)
    assert {"deadline_us" in row["args"] for row in slices} == {run.family.name in WITH_DEADLINES}
    assert all(
        0 <= row["ts"] <= line.end / 1000 and row.get("dur", 0) <= line.end / 1000 for row in rows if "ts" in row
    )
    counters = {row["name"] for row in rows if row["ph"] == "C"}
    assert all(name.startswith(f"{line.nouns.job}s waiting") for name in counters)
    assert len(counters) == (1 if line.per_job else len(line.tasks))


def test_a_run_becomes_an_animation_that_fills(run):
    labels = run.family.run_labels(run.scenario)
    image = Image.open(io.BytesIO(animation(labels, run.timeline, frames=4)))
    assert (image.format, image.n_frames) == ("GIF", 4)
    image.seek(3)
    last = np.asarray(image.convert("RGB"), int)
    drawn = {task_colour(group) for group in run.timeline.slice_group[-20:].tolist()}
    for colour in drawn:
        wanted = np.array(list(bytes.fromhex(colour.lstrip("#"))))
        assert (np.abs(last - wanted).max(axis=2) < 12).any()  # a GIF has 64 colours


def test_transfers_are_bars_of_their_links(tmp_path):
    log = record(tmp_path / "run.parquet", "taskgraph/tight-memory", "mct", 0, "taskgraph")
    line = read_run(log).timeline
    moves = int((read(log)[0]["kind"] == MOVE).sum())
    assert moves == (line.slice_resource >= len(line.resources) - line.links).sum() > 100
    assert family_of(read_run(log).scenario).run_labels(read_run(log).scenario).links == line.links


def test_heat_maps_of_several_runs_have_one_colour_scale(tmp_path):
    run = read_run(record(tmp_path / "run.parquet", "serving/tiny", "infaas", 0, "serving"))
    (place,) = [index for index, one in enumerate(run.charts) if isinstance(one, Picture) and "Hosted" in one.section]
    hosted = run.charts[place]
    fuller = [{**trace, "zmax": trace["zmax"] + 5} for trace in hosted.figure["data"]]
    other = replace(run, charts=[*run.charts])
    other.charts[place] = replace(hosted, figure={**hosted.figure, "data": fuller})
    figures = {}
    family_charts([run, other], ["one", "other"], figures)
    tops = [trace["zmax"] for number in range(2) for trace in figures[f"chart-{place}-{number}"]["data"]]
    assert tops == [fuller[0]["zmax"]] * 2
