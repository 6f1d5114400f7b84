"""The page in a real browser: it draws what the log says, moves as it is told, and needs nothing from outside.

A copy of the page gets a script that uses the controls as a hand would and writes what it saw into the page; Chromium
hands the page back when it is done.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import pairwise

import numpy as np
import pytest

from slipstream.families.shared.timeline import ON_TIME, OPEN
from slipstream.render.style import task_colour
from slipstream.reports.figures.page_figures import never_ran
from slipstream.reports.html.page import page
from slipstream.reports.runs import read_run
from slipstream.sim.eventlog import read
from tests.reports.test_report import NANOSECONDS_PER_MS, interrupted, log, long_log, record, spans_of  # noqa: F401

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr"]

TOOLS = """
const seen = { errors: [], views: {} };
addEventListener("error", (event) => seen.errors.push(event.message));
const chart = (id) => document.getElementById(id);
const column = (plot, time) => {
  const { from, to, left, right } = plot.dataset;
  return Number(left) + ((time - from) * (right - left)) / (to - from);
};
const pen = (plot) => plot.firstChild.getContext("2d");
const pixel = (plot, x, y) => [...pen(plot).getImageData(Math.floor(x), Math.floor(y), 1, 1).data];
const pointer = (plot, name, x, y) => {
  const box = plot.firstChild.getBoundingClientRect();
  plot.firstChild.dispatchEvent(new PointerEvent(name, { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
};
const pointed = (plot, x, y) => {
  pointer(plot, "pointermove", x, y);
  return chart("tip").hidden ? null : chart("tip").textContent;
};
const inSight = (plot, row, time) => {
  const x = column(plot, time), y = Number(plot.dataset.lanes.split(",")[row]);
  return x > Number(plot.dataset.left) + 2 && x < plot.dataset.right - 2 ? [x, y] : null;
};
function note(name) {
  const { from, to, mode } = chart("gantt-0").dataset;
  const slider = chart("position");
  seen.views[name] = { from: Number(from), to: Number(to), mode, text: chart("window").textContent,
    slider: Number(slider.value), fixed: slider.disabled, told: !chart("shares").hidden };
}
"""


def drive(text, script, folder, *flags):
    """Open a page with a script that acts on it; return what the script saw, what came out, and what was complained."""
    if BROWSER is None:
        pytest.skip("there is no `chromium` on this machine to open the page with")
    ending = f"<script>{TOOLS}\n{script}\ndocument.title = 'done';\n"
    ending += "const out = document.createElement('pre'); out.id = 'seen'; out.textContent = JSON.stringify(seen);\n"
    file = folder / "report.html"
    file.write_text(text.replace("</body>", f"{ending}document.body.append(out);</script></body>"), encoding="utf-8")
    profile = [f"--user-data-dir={folder / 'profile'}", "--window-size=1200,1600", "--virtual-time-budget=8000"]
    done = subprocess.run(
        [BROWSER, *FLAGS, *profile, *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=180
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert seen["errors"] == []
    return seen, done.stdout, done.stderr


def kinds_of(run):
    """Return of every slice the kind of its outcome."""
    fate = run.timeline.fate[run.timeline.slice_job]
    return np.where(fate == ON_TIME, "on-time", np.where(fate == OPEN, "open", "missed"))


MISSED = (0xD6, 0x45, 0x50)


def colours_of(run):
    """Return of every slice the colour of its outline: that of its task, or red if its job missed its deadline."""
    own = [tuple(bytes.fromhex(task_colour(group).lstrip("#"))) for group in run.timeline.slice_group.tolist()]
    return [MISSED if kind == "missed" else colour for kind, colour in zip(kinds_of(run), own, strict=True)]


def test_the_page_opens_without_a_complaint_or_a_request(long_log, tmp_path):  # noqa: F811
    script = 'seen.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);'
    seen, document, complaints = drive(page([read_run(long_log)], "x"), script, tmp_path)
    assert "CONSOLE" not in complaints
    assert 'data-drawn="yes"' in document
    assert [name for name in seen["loaded"] if not name.startswith("data:")] == []
    drawn = re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)
    assert drawn.count('class="main-svg"') >= 4
    assert drawn.count("<canvas") == 2


# Bars


PROBE = """
function probe() {
  const plot = chart("gantt-0");
  const places = probes.map(([row, time]) => inSight(plot, row, time));
  return places.map((place) => place && pixel(plot, place[0], place[1] + 13));
}
seen.first = probe(); note("first");
chart("position").value = 400;
chart("position").dispatchEvent(new Event("input"));
seen.later = probe(); note("later");
"""


def test_the_bars_in_sight_are_those_of_the_log(long_log, tmp_path):  # noqa: F811
    run = read_run(long_log)
    spans = spans_of(read(long_log)[0])
    kind = dict(
        zip(zip(run.timeline.slice_resource, run.timeline.slice_start, strict=True), colours_of(run), strict=True)
    )
    probes, expected = [], []
    for *_, stream, start, end in spans:
        probes.append((stream, (start + end) / 2 / NANOSECONDS_PER_MS))
        expected.append(kind[stream, start] if end - start > 2 * NANOSECONDS_PER_MS else None)
    for stream in (0, 1):
        own = sorted(span[3:] for span in spans if span[2] == stream)
        for (_, before), (after, _) in pairwise(own):
            if after - before > 2 * NANOSECONDS_PER_MS:
                probes.append((stream, (before + after) / 2 / NANOSECONDS_PER_MS))
                expected.append((0, 0, 0))  # idle: nothing is painted there, but for lines of the grid
    seen, *_ = drive(page([run], "x"), f"const probes = {json.dumps(probes)};{PROBE}", tmp_path)
    for view in ("first", "later"):
        checked = {}
        for colour, wanted in zip(seen[view], expected, strict=True):
            if colour is None or wanted is None:
                continue
            checked[wanted] = checked.get(wanted, 0) + 1
            if wanted == (0, 0, 0):
                assert colour[3] == 0 or colour[:3] == [0xD9, 0xDD, 0xE4]
            else:
                assert tuple(colour[:3]) == wanted
        assert sum(checked.values()) >= 15
    assert seen["views"]["first"]["mode"] == seen["views"]["later"]["mode"] == "jobs"


WHOLE = """
chart("whole").click(); note("whole");
const plot = chart("gantt-0"), bar = Number(plot.dataset.bar), step = Number(plot.dataset.column);
seen.left = Number(plot.dataset.left); seen.right = Number(plot.dataset.right); seen.step = step;
seen.columns = [];
for (const middle of plot.dataset.lanes.split(",").slice(0, 2).map(Number)) {
  const columns = [];
  for (let x = Number(plot.dataset.left) + 2; x < plot.dataset.right - step; x += step) {
    const data = plot.firstChild.getContext("2d").getImageData(x, middle - bar / 2, 1, bar).data;
    let red = 0, blue = 0;
    for (let y = 0; y < bar; y++) {
      const [r, g, b, a] = data.slice(4 * y, 4 * y + 4);
      if (r > g + 60) red += a / 255; else if (b > r + 60) blue += a / 255;
    }
    columns.push([red / bar, blue / bar]);
  }
  seen.columns.push(columns);
}
seen.told = pointed(plot, seen.left + 100, Number(plot.dataset.lanes.split(",")[0]));
"""


def test_from_far_away_colours_are_shares_of_the_time(long_log, tmp_path):  # noqa: F811
    run = read_run(long_log)
    seen, *_ = drive(page([run], "x"), WHOLE, tmp_path)
    assert seen["views"]["whole"]["mode"] == "shares"
    assert seen["views"]["whole"]["told"]
    line, missed = run.timeline, kinds_of(run) == "missed"
    scale = (seen["right"] - seen["left"]) / line.end
    for stream, columns in enumerate(np.array(seen["columns"])):
        own = line.slice_resource == stream
        for colour, chosen in enumerate((own & missed, own & (kinds_of(run) == "on-time"))):
            begin = seen["left"] + line.slice_start[chosen] * scale
            end = seen["left"] + line.slice_end[chosen] * scale
            edges = seen["left"] + seen["step"] * np.arange(len(columns) + 1)
            covered = [np.clip(end, None, edge).sum() - np.clip(begin, None, edge).sum() for edge in edges]
            shares = np.diff(covered) / seen["step"]
            assert np.abs(columns[:, colour] - shares).max() < 0.12  # three of 28 rows of pixels, at two soft edges
            assert columns[:, colour].mean() == pytest.approx(shares.mean(), abs=0.01)
    assert "zoom in to see single bars" in seen["told"]


# Controls


CONTROLS = """
note("start");
chart("wider").click(); note("wider");
chart("closer").click(); note("closer");
chart("position").value = 500; chart("position").dispatchEvent(new Event("input")); note("middle");
const plot = chart("gantt-0"), waiting = chart("waiting");
pointer(plot, "pointerdown", 600, 20); pointer(plot, "pointermove", 500, 20); note("dragged");
pointer(plot, "pointerup", 500, 20); pointer(plot, "pointermove", 300, 20); note("let go");
pointer(waiting, "pointerdown", 500, 20); pointer(waiting, "pointermove", 600, 20);
pointer(waiting, "pointerup", 600, 20); note("back");
seen.perPixel = (plot.dataset.to - plot.dataset.from) / (plot.dataset.right - plot.dataset.left);
seen.left = Number(plot.dataset.left);
const box = plot.firstChild.getBoundingClientRect();
plot.firstChild.dispatchEvent(new MouseEvent("dblclick", { clientX: box.left + 700, clientY: box.top + 20 }));
note("double");
seen.waiting = [waiting.dataset.from, waiting.dataset.to].map(Number);
chart("position").value = 1000; chart("position").dispatchEvent(new Event("input")); note("end");
chart("whole").click(); note("whole");
chart("wider").click(); note("wider than whole");
for (let n = 0; n < 60; n++) chart("closer").click();
note("closest");
"""


def test_slider_buttons_and_dragging_move_the_charts(long_log, tmp_path):  # noqa: F811
    run = read_run(long_log)
    seen, _, complaints = drive(page([run], "x"), CONTROLS, tmp_path)
    assert "CONSOLE" not in complaints
    views, end = seen["views"], run.timeline.end / NANOSECONDS_PER_MS

    def view(name):
        return pytest.approx((views[name]["from"], views[name]["to"]), rel=1e-5, abs=1e-3)

    start, stop = views["start"]["from"], views["start"]["to"]
    assert start == 0
    assert views["wider"]["to"] - views["wider"]["from"] == pytest.approx(2 * stop, rel=1e-5)
    assert views["closer"]["to"] - views["closer"]["from"] == pytest.approx(stop, rel=1e-5)
    assert ((end - stop) / 2, (end + stop) / 2) == view("middle")
    assert views["middle"]["slider"] == pytest.approx(500, abs=0.01)
    shift = 100 * seen["perPixel"]
    assert (views["middle"]["from"] + shift, views["middle"]["to"] + shift) == view("dragged")
    assert (views["dragged"]["from"], views["dragged"]["to"]) == view("let go")
    assert (views["middle"]["from"], views["middle"]["to"]) == view("back")
    at = views["back"]["from"] + (700 - seen["left"]) * seen["perPixel"]
    assert (at - (at - views["back"]["from"]) / 2, at + (views["back"]["to"] - at) / 2) == view("double")
    assert tuple(seen["waiting"]) == view("double")  # the line below shows the same times
    assert views["end"]["to"] == pytest.approx(end)
    assert (0, end) == view("whole")
    assert views["whole"]["fixed"]
    assert (0, end) == view("wider than whole")
    assert views["closest"]["to"] > views["closest"]["from"]
    assert views["whole"]["text"] == "the whole run (50 s)"
    assert views["start"]["text"] == f"0\u2013{stop:.{0 if stop >= 100 else 1}f} ms of 50 s"


def test_pointing_tells_about_the_job_and_the_queue(log, tmp_path):  # noqa: F811
    run = read_run(log)
    line = run.timeline
    late = int(np.flatnonzero(kinds_of(run) == "missed")[0])
    job = line.slice_job[late]
    row, middle = int(line.slice_resource[late]), (line.slice_start[late] + line.slice_end[late]) / 2e6
    times, counts = line.waiting(np.arange(len(line.task)))
    longest = int(np.argmax(counts[:40]))
    moment = (times[longest] + times[longest + 1]) / 2e6
    script = f"""
    const plot = chart("gantt-0"), [x, y] = inSight(plot, {row}, {middle});
    seen.job = pointed(plot, x, y);
    seen.outline = pixel(plot, x, y - plot.dataset.bar / 2);
    seen.deadline = pointed(plot, column(plot, {line.deadline[job] / 1e6}), y - plot.dataset.bar / 2 - 6);
    seen.beside = pointed(plot, 5, y);
    seen.queue = pointed(chart("waiting"), column(chart("waiting"), {moment}), 50);
    """
    seen, *_ = drive(page([run], "x"), script, tmp_path)
    first, variant, ran, due, fate = seen["job"].splitlines()
    assert first == f"{line.tasks[line.task[job]]}, job {line.number[job]}"
    assert variant == line.variants[line.task[job]][line.slice_variant[late]]
    assert ran.startswith(f"ran {line.slice_start[late] / 1e6:,.6f}".rstrip("0").rstrip("."))
    assert f"deadline {line.deadline[job] / 1e6:,.6f}".rstrip("0").rstrip(".") in due
    assert fate == "late"
    assert seen["outline"][:3] == [0x1D, 0x23, 0x30]
    assert seen["deadline"].splitlines()[0] == "deadline of"
    assert seen["beside"] is None
    assert seen["queue"].splitlines()[1] == f"{counts[longest]} waiting"


# Interrupted jobs


def test_every_part_of_an_interrupted_job_is_drawn_and_named(tmp_path):
    run = interrupted(read_run(record(tmp_path / "run.parquet", "edge/tiny", "edf-fit")))
    line = run.timeline
    (job,) = {job for job in line.slice_job.tolist() if (line.slice_job == job).sum() == 2}
    own = np.flatnonzero(line.slice_job == job)
    middles = [[int(line.slice_resource[n]), (line.slice_start[n] + line.slice_end[n]) / 2e6] for n in own]
    gap = (line.slice_end[own[0]] + line.slice_start[own[1]]) / 2e6
    script = f"""
    const plot = chart("gantt-0");
    const places = {json.dumps(middles)}.map(([row, time]) => inSight(plot, row, time));
    const colours = places.map(([x, y]) => pixel(plot, x, y + 13));
    seen.parts = places.map(([x, y], n) => [colours[n], pointed(plot, x, y)]);
    pointed(plot, ...places[0]);
    seen.outline = pixel(plot, places[1][0], places[1][1] - plot.dataset.bar / 2);
    seen.gap = pointed(plot, ...inSight(plot, {middles[0][0]}, {gap}));
    """
    text = page([run], "x")
    assert "interrupted and resumed later" in text
    seen, *_ = drive(text, script, tmp_path)
    (one, told), (other, told_again) = seen["parts"]
    assert one == other == [*colours_of(run)[own[0]], 255]
    assert "(part 1 of 2)" in told
    assert "(part 2 of 2)" in told_again
    assert told.splitlines()[0] == told_again.splitlines()[0]
    assert seen["outline"][:3] == [0x1D, 0x23, 0x30]  # pointing at one part marks the other too
    assert seen["gap"] is None


# Finding, saving, linked axes


FINDING = """
function wheel(plot, x, deltaY) {
  const box = plot.firstChild.getBoundingClientRect();
  const place = { clientX: box.left + x, clientY: box.top + 20 };
  const event = new WheelEvent("wheel", { ...place, deltaY, cancelable: true, bubbles: true });
  plot.firstChild.dispatchEvent(event);
  return event.defaultPrevented;
}
const plot = chart("gantt-0");
note("start");
seen.closer = wheel(plot, 700, -100); note("closer");
seen.at = 700; seen.left = Number(plot.dataset.left); seen.right = Number(plot.dataset.right);
chart("whole").click(); seen.scrolls = !wheel(plot, 700, 100);
chart("position").value = 0;
for (let n = 0; n < 12; n++) chart("closer").click();
chart("position").value = 0; chart("position").dispatchEvent(new Event("input"));
seen.misses = [];
for (let n = 0; n < 3; n++) {
  chart("next-miss").click();
  seen.misses.push([chart("found").textContent, plot.dataset.from, plot.dataset.to]);
}
chart("search").value = SOUGHT;
chart("search").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
seen.found = [chart("found").textContent, Number(plot.dataset.from), Number(plot.dataset.to)];
chart("search").value = "nothing of that name"; chart("find").click();
seen.nothing = chart("found").textContent;
"""


def test_the_wheel_zooms_and_misses_and_jobs_are_found(log, tmp_path):  # noqa: F811
    run = read_run(record(tmp_path / "run.parquet", "edge/overload", "edf-fit"))
    line = run.timeline
    piece = len(line.slice_job) // 2
    job = line.slice_job[piece]
    sought = f"{line.tasks[line.task[job]]} {line.number[job]}"
    script = FINDING.replace("SOUGHT", json.dumps(sought))
    seen, _, complaints = drive(page([run], "x"), script, tmp_path)
    assert "CONSOLE" not in complaints
    start, closer = seen["views"]["start"], seen["views"]["closer"]
    assert seen["closer"]
    assert seen["scrolls"]  # of the whole run no more is to be seen: the page scrolls
    assert closer["to"] - closer["from"] == pytest.approx(0.8 * (start["to"] - start["from"]), rel=1e-5)
    share = (seen["at"] - seen["left"]) / (seen["right"] - seen["left"])
    under = [view["from"] + share * (view["to"] - view["from"]) for view in (start, closer)]
    assert under[0] == pytest.approx(under[1], rel=1e-4)  # what is under the pointer stays there

    ran = np.isin(np.arange(len(line.task)), line.slice_job)
    left = line.wait_end[np.searchsorted(line.wait_job, np.arange(len(line.task)))]
    lost = left[line.missed & ~ran].tolist()
    missed = sorted([*line.slice_start[line.missed[line.slice_job]].tolist(), *lost])
    for number, (text, begin, end) in enumerate(seen["misses"]):
        assert text.startswith(f"{number + 1} of {len(missed):,}. ")
        assert text.endswith(("late", "dropped", "past its deadline, not finished"))
        assert float(begin) <= missed[number] / 1e6 <= float(end)
    text, begin, end = seen["found"]
    assert f"{line.tasks[line.task[job]]}, job {line.number[job]}, " in text
    assert begin <= line.slice_start[piece] / 1e6 < end
    assert seen["nothing"] == "Nothing found for \u201cnothing of that name\u201d."


SAVING = """
const files = [], addresses = new Map();
const address = URL.createObjectURL.bind(URL);
URL.createObjectURL = (blob) => {
  if (blob.type !== "text/csv") return address(blob); // Plotly makes its images so
  const name = `blob:${addresses.size}`;
  addresses.set(name, blob);
  return name;
};
HTMLAnchorElement.prototype.click = function () { files.push([this.download, this.href]); };
for (const button of document.querySelectorAll("[data-save]")) button.click();
seen.ranges = {};
const time = "queues-0";
chart("position").value = 1000; chart("position").dispatchEvent(new Event("input"));
setTimeout(async () => {
  const range = () => chart(time).layout.xaxis.range.map(Number);
  seen.ranges.moved = [range(), [Number(chart("gantt-0").dataset.from), Number(chart("gantt-0").dataset.to)]];
  await Plotly.relayout(chart(time), { "xaxis.range[0]": 10, "xaxis.range[1]": 20 });
  note("led");
  const content = async (href) => (addresses.has(href) ? addresses.get(href).text() : href.slice(0, 22));
  seen.files = await Promise.all(files.map(async ([name, href]) => [name, await content(href)]));
  out.textContent = JSON.stringify(seen);
}, 3000);
"""


def test_charts_are_saved_and_time_axes_are_linked(log, tmp_path):  # noqa: F811
    run = read_run(log)
    seen, *_ = drive(page([run], "x"), SAVING, tmp_path)
    files = dict(seen["files"])
    names = ("gantt-0", "waiting", "queues-0", "responses-0", "task-effective_accuracy")
    assert set(files) >= {f"{name}.{form}" for name in names for form in ("png", "csv")}
    assert {files[f"{name}.png"] for name in names} == {"data:image/png;base64,"}
    head, *rows = files["gantt-0.csv"].splitlines()
    assert head == "resource,task,job,variant,start_ms,end_ms,arrival_ms,deadline_ms,outcome"
    line = run.timeline
    assert len(rows) == len(line.slice_job) + len(never_ran(line))
    task = int(line.task[line.slice_job[0]])
    assert rows[0].startswith(f"stream {line.slice_resource[0]},{line.tasks[task]},{line.number[line.slice_job[0]]},")
    assert files["waiting.csv"].splitlines()[0] == "run,time_ms,waiting"
    assert files["queues-0.csv"].splitlines()[0] == "row,time (ms),value"
    assert seen["ranges"]["moved"][0] == pytest.approx(seen["ranges"]["moved"][1])
    assert (seen["views"]["led"]["from"], seen["views"]["led"]["to"]) == (10, 20)


AXES = """
seen.axes = {};
const queue = chart("queues-0"), words = (plot) => [plot.layout.xaxis.title.text, plot.layout.xaxis.ticktext];
chart("whole").click();
setTimeout(() => {
  seen.axes = { whole: words(queue), responses: words(chart("responses-0")), schedule: chart("gantt-0").dataset.unit };
  for (let n = 0; n < 8; n++) chart("closer").click();
  chart("position").value = 0; chart("position").dispatchEvent(new Event("input"));
}, 2000);
setTimeout(() => {
  seen.axes.near = words(queue);
  out.textContent = JSON.stringify(seen);
}, 4000);
"""


def test_time_axes_have_the_unit_that_suits_what_they_show(tmp_path):
    run = read_run(record(tmp_path / "run.parquet", "serving/tiny", "infaas", family="serving"))
    axes = drive(page([run], "x"), AXES, tmp_path)[0]["axes"]
    assert run.family.time_unit == axes["schedule"] == "s"
    assert axes["whole"][0] == "time (s)"
    assert axes["near"][0] == "time (ms)"
    assert axes["responses"][0] == "time from arrival to finish (ms)"
    for _, marks in axes["whole"], axes["near"], axes["responses"]:
        assert len(marks) >= 3
        assert all(float(mark.replace(",", "")) == 0 or float(mark.replace(",", "")) >= 1 for mark in marks)
