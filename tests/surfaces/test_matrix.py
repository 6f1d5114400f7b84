"""Every family on every surface: the command line, reports, replay, animations, traces and the dashboard.

A cell runs one surface on the smallest built-in scenario of a family and looks at what it says, not only whether it
runs. What is wrong for one family tends to be right for the one that a surface was first written for.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

import slipstream as package
from slipstream.dashboard.app import create_app
from slipstream.dashboard.replay import Recording
from slipstream.families.contract import FAMILIES
from slipstream.files.wording import metric_title
from slipstream.policies import names
from tests.dashboard.conftest import serving
from tests.dashboard.test_browser import PAGES, browser, visit, visiting  # noqa: F401
from tests.reports.test_report import data_of
from tests.surfaces.checks import (
    LARGEST,
    WORDS,
    check_family_words,
    check_no_foreign_words,
    check_no_sentinel,
    check_numbers,
    resources_of,
    visible,
    without_description,
)

HAS_DEADLINES = {"edge", "serving"}


class Cell:
    """One family on one surface: the commands, and a recorded run of the family."""

    def __init__(self, family, slipstream, folder, request, monkeypatch):
        self.family, self.folder, self.request = family, folder, request
        self.scenario = f"{family}/tiny"
        self.about = FAMILIES[family]
        self._slipstream, self._monkeypatch = slipstream, monkeypatch

    def output(self, *arguments, width=120):
        """Return what a command prints, after a check that it succeeds."""
        self._monkeypatch.setattr("slipstream.cli.common.console._width", width)
        code, output, errors = self._slipstream(*arguments)
        assert code == 0, errors
        assert "Traceback" not in errors
        return output

    def record(self, policy=None):
        """Return the path of a recorded run."""
        path = self.folder / f"{policy or 'usual'}.parquet"
        return (
            path
            if path.exists()
            else package.run(self.scenario, policy or self.about.default_policy, seed=1).save(path)
        )


def check_run(cell):
    output = cell.output("run", cell.scenario)
    check_no_sentinel(output)
    check_no_foreign_words(cell.family, output)
    words = output.replace("_", " ")
    shown = [metric for metric in cell.about.headline if metric.replace("_", " ") in words]
    assert shown[0] == cell.about.headline[0]
    assert len(shown) >= 4, "what the scenario does not model may be left out"
    assert "simulated" in output.lower()
    rows = [line for line in output.splitlines() if re.search(r"[a-z].*\s-?[\d,.]+\s*[│|]?\s*$", line)]
    assert 5 <= len(rows) <= 10, "the figures that matter in the family, and no others"


def check_run_json(cell):
    figures = json.loads(cell.output("run", cell.scenario, "--json"))["metrics"]
    assert set(cell.about.headline) <= set(figures)
    check_numbers(figures)


def check_render(cell):
    output = cell.output("run", cell.scenario, "--render")
    check_no_sentinel(output)
    check_no_foreign_words(cell.family, output)
    for resource in resources_of(cell.family):
        assert resource.split()[0] in output
    assert re.search(rf"ended at [\d,.]+ {cell.about.time_unit}\b", output)
    for line in output.splitlines():
        assert len(line) <= 120


def check_render_of_links(cell):
    """Transfers are drawn on the links where they happen."""
    scenario = "taskgraph/tight-memory"
    events = package.run(scenario, seed=0)
    moved = {events._recorded.timeline.resources[one] for one in events._recorded.timeline.slice_resource}
    frames = cell.output("run", scenario, "--render")
    for link in sorted(name for name in moved if name.startswith(("load", "send", "peer"))):
        lines = [line for line in frames.splitlines() if line.strip().startswith(link)]
        assert lines, link
        assert not all("idle" in line for line in lines), f"{link} is drawn as idle all the time"


def check_render_of_kernels(cell):
    """Letters stand for kernels where a run is one graph, with the colours of the report's bars."""
    scenario = "taskgraph/tight-memory"
    groups = package.run(scenario, seed=0)._recorded.timeline.groups
    frames = cell.output("run", scenario, "--render")
    for letter, group in zip("ABCDEFGH", groups, strict=False):
        assert re.search(rf"^{letter} {group} +\d", frames, re.MULTILINE), f"{group} is in no list of kernels"
        if group != "transfer":
            assert re.search(rf"  {letter} {group}, for ", frames), f"no processor runs {group}"
    assert "A job 0" not in frames


def table_rows(output, policies):
    """Return the cells of each policy's row: numbers as (value, decimals), intervals left out."""
    rows = {}
    for line in output.splitlines():
        words = line.split()
        if words and words[0] in policies:
            texts = re.findall(r"(?<![\w.,±])-?[\d,]*\d(?:\.\d+)?(?=±|\s|%|│|$)", line.partition(words[0])[2])
            plain = [text.replace(",", "") for text in texts]
            rows[words[0]] = [(float(text), len(text.partition(".")[2])) for text in plain]
    return rows


def check_compare(cell, width):
    output = cell.output("compare", cell.scenario, "--episodes", 2, width=width)
    check_no_sentinel(output)
    check_no_foreign_words(cell.family, output)
    assert all(len(line) <= width for line in output.splitlines())
    assert "…" not in output
    compared = package.compare(cell.scenario, "all", episodes=2)
    rows = table_rows(output, [one.policy for one in compared.evaluations])
    assert len(rows) >= 2
    if len(rows) < len(compared.evaluations):  # those that do not apply to the scenario are left out
        assert cell.family == "serving"
    for policy, shown in rows.items():
        evaluation = compared.of(policy)
        true = [evaluation.mean(metric) for metric in ("reward", *cell.about.headline)]
        assert shown, output
        # Whole columns may be left out where the terminal is narrow, digits never.
        for value, decimals in shown:
            near = 0.5000001 * 10**-decimals
            known = [one for mean in true for one in (mean, 100 * mean)]
            assert any(abs(value - one) <= near for one in known), f"{policy}: {value} is none of {true}"
    alone = cell.output("compare", cell.scenario, "--episodes", 1, width=width)
    assert "±" not in "".join(line for line in alone.splitlines() if line.split()[:1] and line.split()[0] in rows)


def check_compare_80(cell):
    check_compare(cell, 80)


def check_compare_120(cell):
    check_compare(cell, 120)


def check_train(cell):
    output = cell.output("train", cell.scenario, "--minutes", 1 / 3, "--out", "trained", width=200)
    check_no_sentinel(output)
    assert any(re.search(rf"\b{re.escape(name)}\b", output) for name in names(cell.family)), "the heuristic beside it"
    assert (Path("trained") / "best").is_dir()
    found = json.loads(cell.output("run", cell.scenario, "--policy", "trained/best", "--json"))
    check_numbers(found["metrics"])


def check_oracle(cell):
    output = cell.output("oracle", cell.scenario, "--seconds", 2)
    assert "optimum" in output
    check_no_sentinel(output)
    found = json.loads(cell.output("oracle", cell.scenario, "--seconds", 2, "--json"))
    check_numbers(found)
    assert found["best_known"] <= found["bound"] + 1e-9 * abs(found["bound"])


def check_regret(cell):
    output = cell.output("oracle", "--regret", cell.record(), "--seconds", 0.5, "--top", 3)
    check_no_sentinel(output)
    check_no_foreign_words(cell.family, output)
    assert not re.search(r"\brow \d+", output), "decisions are named by what they do"


def check_report(cell):
    cell.output("report", cell.record(), "--out", "report.html")
    page = Path("report.html").read_text()
    text = without_description(cell.family, visible(page))
    check_family_words(cell.family, text)
    check_no_sentinel(text)
    assert "simulated" in text.lower()
    data = data_of(page)
    check_numbers(data)
    end = data["end"]
    for name, figure in data["figures"].items():
        across = figure["layout"].get("xaxis", {})
        if "time" in across.get("title", {}).get("text", "") and "range" in across:
            assert across["range"][1] <= 1.1 * end, name
        for trace in figure["data"]:
            if "time" in across.get("title", {}).get("text", ""):
                assert max((x for x in trace["x"] if isinstance(x, int | float)), default=0) <= 1.1 * end, name
            if trace["type"] == "heatmap":
                assert trace.get("zmin", 0) == 0, f"{name}: a colour scale that begins above 0 hides what is there"
    shown = data["runs"][0]["ran"]
    assert len(shown["start"]) >= 4
    assert max(shown["end"]) <= end * (1 + 1e-9)


def check_report_of_two(cell):
    others = [name for name in names(cell.family) if name not in (cell.about.default_policy, "random")]
    cell.output("report", cell.record(), cell.record(others[0]), "--out", "report.html")
    page = Path("report.html").read_text()
    text = without_description(cell.family, visible(page))
    check_family_words(cell.family, text)
    check_no_sentinel(text)
    data = data_of(page)
    check_numbers(data)
    assert others[0] in text
    for name, figure in data["figures"].items():
        legend = [one["name"] for one in figure["data"] if "name" in one and one.get("showlegend", True)]
        assert len(set(legend)) == len(legend), f"{name}: curves of two runs have the same name"
    for whole in cell.about.counts:
        shown = re.search(rf"\b{whole} (\S+)", text)
        assert shown is None or "." not in shown[1], f"{whole} is a count: {shown[1]}"


def check_report_of_a_real_run(cell):
    """A run on a device names its hardware, and is nowhere called simulated."""
    run = package.Run.load(cell.record())
    about = {**run.about, "device": "cpu", "hardware": "2 cores of a test machine"}
    path = package.Run(run.scenario, run.policy, run.seed, run.split, run.events, about).save("real.parquet")
    cell.output("report", path, "--out", "report.html")
    text = without_description(cell.family, visible(Path("report.html").read_text()))
    assert re.search(r"real run", text, re.IGNORECASE)
    assert "2 cores of a test machine" in text
    assert "simulated" not in text.lower()


def check_replay(cell):
    recording = Recording(cell.record())
    about = recording.about_page()
    check_numbers({key: value for key, value in about.items() if key != "fates"})
    assert about["unit"] == cell.about.time_unit
    assert list(about["resources"]) == list(resources_of(cell.family))
    window = recording.window(0.0, about["end"], 200, 300)
    check_numbers(window)
    starts = window["ran"]["start"]
    assert len(starts) >= 4
    moment = recording.moment((starts[0] + window["ran"]["end"][0]) / 2)
    check_numbers(moment)
    running = [one["job"] for one in moment["resources"] if one["job"] is not None]
    assert running
    text = json.dumps(running)
    check_no_sentinel(text)
    if cell.family not in HAS_DEADLINES:
        assert "on time" not in text
        assert "late" not in {one.get("fate") for one in running}


def check_gif(cell):
    image = pytest.importorskip("PIL.Image")
    cell.output("run", cell.scenario, "--gif", "run.gif")
    picture = image.open(io.BytesIO(Path("run.gif").read_bytes()))
    assert picture.format == "GIF"
    assert picture.n_frames >= 10
    assert min(picture.size) >= 150
    frames = []
    for index in (0, picture.n_frames // 2, picture.n_frames - 1):
        picture.seek(index)
        frames.append(picture.convert("RGB").tobytes())
    assert len(set(frames)) == 3
    picture.seek(picture.n_frames - 1)
    assert len(picture.convert("RGB").getcolors(1 << 24)) >= 4, "work is drawn in colour"


def check_perfetto(cell):
    cell.output("report", cell.record(), "--perfetto", "trace.json")
    trace = json.loads(Path("trace.json").read_text())
    check_numbers(trace["traceEvents"], largest=1000 * LARGEST)  # in microseconds, of runs that take hours
    check_no_foreign_words(cell.family, json.dumps([one.get("args") for one in trace["traceEvents"]]))
    threads = [one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"]
    assert threads == list(resources_of(cell.family))
    slices = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    assert len(slices) >= 4
    assert all(one["dur"] >= 0 and one["ts"] >= 0 for one in slices)
    about = [{key: value for key, value in one["args"].items() if not key.endswith("_us")} for one in slices]
    labels = {(one["name"], json.dumps(own)) for one, own in zip(slices, about, strict=True)}
    assert len(labels) >= 4, "work that differs has labels that differ"


def check_dashboard(cell):
    chromium = cell.request.getfixturevalue("browser")
    others = [name for name in names(cell.family) if name not in (cell.about.default_policy, "random")]
    usual, other = cell.record(), cell.record(others[0])
    for unrelated in set(cell.folder.iterdir()) - {usual, other}:
        unrelated.unlink()
    places = [f"#{name}" for name in PAGES]
    places += [f"#compare?run={usual.name}&run={other.name}", f"#replay?run={usual.name}"]
    texts = {}
    with serving(create_app(cell.folder)) as client, visiting(chromium, client) as page:
        for place in places:
            visit(page, client, place)
            page.wait_for_load_state("networkidle")
            texts[place] = page.inner_text("main")
            check_no_sentinel(texts[place])
    assert metric_title(cell.about.headline[0]) in texts[places[-2]]
    assert others[0] in texts[places[-2]]
    replay = texts[places[-1]]
    check_no_foreign_words(cell.family, replay)
    assert cell.scenario in replay
    assert re.search(rf"\d\s?{cell.about.time_unit}\b", replay)
    assert "simulated" in replay.lower()


def check_try(cell):
    """The page compares what it suggests on a scenario of the family, with intervals, and replays the runs."""
    chromium = cell.request.getfixturevalue("browser")
    with serving(create_app(cell.folder)) as client, visiting(chromium, client) as page:
        visit(page, client, "#try")
        page.get_by_label("Start from").select_option(cell.scenario)
        page.locator(f"#policies input[value='{cell.about.default_policy}']").wait_for()
        page.get_by_label("Episodes").fill("2")
        page.wait_for_function("() => !document.getElementById('go').disabled")
        suggested = page.locator("#policies input:checked").evaluate_all("boxes => boxes.map((box) => box.value)")
        assert set(suggested) <= set(names(cell.family))
        page.get_by_role("button", name="Run").click()
        page.locator("#result-table tbody tr").first.wait_for(timeout=300_000)
        assert sorted(page.locator("#result-table tbody th").all_inner_texts()) == sorted(suggested)
        head = page.locator("#result-table thead th").all_inner_texts()
        assert head[1 : 1 + len(cell.about.headline)] == [metric_title(metric) for metric in cell.about.headline]
        for text in page.locator("#result-table tbody td").all_inner_texts():
            assert re.fullmatch(r"-?[\d.,]+ ± [\d.,]+|Replay", text), text
        check_no_sentinel(page.inner_text("main"))
        page.get_by_role("link", name=f"Replay {suggested[0]}", exact=True).click()
        page.locator("#candidates tr.chosen").wait_for(timeout=120_000)
        assert f"{cell.scenario} under {suggested[0]}, seed 0" in page.inner_text("#replay-about")


QUICK = {
    "run": check_run,
    "run-json": check_run_json,
    "render": check_render,
    "compare-80": check_compare_80,
    "compare-120": check_compare_120,
    "oracle": check_oracle,
    "regret": check_regret,
    "report": check_report,
    "report-of-two": check_report_of_two,
    "replay": check_replay,
    "gif": check_gif,
    "perfetto": check_perfetto,
}
THOROUGH = {"train": check_train, "dashboard": check_dashboard, "try": check_try}

CELLS = [
    pytest.param(family, check, id=f"{family}-{surface}", marks=marks)
    for family in WORDS
    for checks, marks in ((QUICK, ()), (THOROUGH, pytest.mark.thorough))
    for surface, check in checks.items()
]
CELLS.append(pytest.param("edge", check_report_of_a_real_run, id="edge-report-of-a-real-run"))
CELLS += [
    pytest.param("taskgraph", check_render_of_links, id="taskgraph-render-of-links", marks=pytest.mark.thorough),
    pytest.param("taskgraph", check_render_of_kernels, id="taskgraph-render-of-kernels", marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder of recorded runs for each family, which its cells share."""
    return {family: tmp_path_factory.mktemp(family) for family in WORDS}


@pytest.mark.parametrize(("family", "check"), CELLS)
def test_surface(family, check, slipstream, folders, request, monkeypatch):
    check(Cell(family, slipstream, folders[family], request, monkeypatch))


def test_every_family_of_the_package_is_in_the_matrix():
    built_in = {name for name, family in FAMILIES.items() if type(family).__module__.startswith("slipstream.")}
    assert built_in == set(WORDS)
