"""The pages in a real browser: each shows what the folder holds, none complains or asks anybody else."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager

import pytest

from slipstream.dashboard.app import create_app
from slipstream.dashboard.replay import Recording
from slipstream.families.contract import FAMILIES
from slipstream.reports.terminal.tables import figure
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import START
from tests.dashboard.conftest import serving

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = ("runs", "compare", "replay", "try", "device", "queue")
PATIENCE_MS = 180_000

NARROWEST = """() => Math.min(...[...document.querySelectorAll("main input, main select, main textarea")]
  .filter((one) => one.offsetParent && one.type !== "checkbox").map((one) => one.offsetWidth))"""
"""The width of the narrowest field that is shown."""
UNLABELLED = """
() => [...document.querySelectorAll(
    "button, a, input, select, textarea, canvas, meter, [role=img], [role=region], [tabindex='0']")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.getAttribute("aria-label") || one.labels?.length || one.textContent.trim()
    || (one.tagName === "CANVAS" && one.closest("[aria-label]"))))
  .map((one) => one.outerHTML.slice(0, 200))
"""


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("there is no `chromium` on this machine to open the pages with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        found = engine.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@contextmanager
def visiting(browser, client, width=1280, scheme="light"):
    """Give a page; afterwards nothing was complained of, and nobody else was asked."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints, asked = [], set()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    yield page
    context.close()
    assert complaints == []
    assert {url for url in asked if not url.startswith((client.address, "data:", "blob:"))} == set()


def visit(page, client, place):
    page.goto(client.address + place)
    name = re.match(r"#(\w+)", place)[1]
    page.wait_for_function("name => document.documentElement.dataset.ready === name", arg=name)
    assert page.inner_text("#status") == ""


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_every_page_fits_and_every_control_has_a_name(browser, client, width, scheme):
    with visiting(browser, client, width, scheme) as page:
        places = [f"#{name}" for name in PAGES]
        places += ["#runs?training=trained", "#compare?run=all.json", "#compare?run=fit.parquet&run=deep/edf.parquet"]
        places += ["#compare?run=fit.parquet", "#compare?run=all.json&run=fit.parquet", "#device?run=real.parquet"]
        for place in places:
            visit(page, client, place)
            page.wait_for_load_state("load")
            assert page.evaluate(UNLABELLED) == [], place
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
            narrowest = page.evaluate(NARROWEST)
            assert narrowest >= 40, f"{place}: a field of {narrowest} pixels shows nothing"
            assert page.locator("main h1:visible").count() == 1
            assert page.locator("nav a[aria-current=page]").count() == 1


def test_runs_are_filtered_and_selected_for_a_comparison(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#runs")
        rows = page.locator("[data-group=edge] tbody tr")
        rows.nth(2).wait_for()
        page.get_by_label("Search").fill("edf.parquet heavy")
        assert rows.count() == 1
        page.get_by_label("Select deep/edf.parquet").check()
        page.get_by_role("button", name="Clear filters").click()
        page.get_by_label("Policy", exact=True).select_option("edf-fit")
        assert set(rows.locator("th a").all_inner_texts()) >= {"fit.parquet", "real.parquet"}
        assert page.locator("[data-group=Trainings]").count() == 0
        page.get_by_label("Scenario", exact=True).select_option("edge/tiny")
        assert page.locator("[data-group=edge] tbody tr", has_text="edge/heavy").count() == 0
        page.get_by_role("button", name="Clear filters").click()
        page.get_by_label("Select fit.parquet").check()
        page.get_by_role("button", name="Compare selected (2)").click()
        page.locator("#compare-table tbody tr").nth(1).wait_for()
        assert page.locator("#compare-table tbody th").all_inner_texts() == ["edf", "edf-fit"]
        page.wait_for_function("() => document.getElementById('cdf').dataset.series === 'edf, seed 7|edf-fit, seed 7'")
        page.get_by_label("Baseline").select_option("edf-fit")
        page.locator("#compare-table tbody tr", has_text="edf-fit").locator(".difference").first.wait_for(
            state="detached"
        )
        page.get_by_label("Horizontal", exact=True).select_option("utilisation")
        page.locator("#pareto .xtitle", has_text="utilisation").wait_for()


def test_runs_are_sorted_by_a_metric_of_their_family(browser, client, runs):
    with visiting(browser, client) as page:
        visit(page, client, "#runs")
        table = page.locator("[data-group=edge] table")
        table.get_by_role("button", name="miss rate").click()
        table.locator("th[aria-sort=ascending]", has_text="miss rate").wait_for()
        place = table.locator("thead th").all_inner_texts().index("miss rate")
        cells = (
            f"[...document.querySelectorAll('[data-group=edge] tbody tr')].map((row) => row.cells[{place}].innerText)"
        )
        shown = [float(text) for text in page.evaluate(cells)]
        assert shown == sorted(shown)
        assert len(set(shown)) > 1
        measured = {
            round(Recording(runs / name).metrics["miss_rate"], 3) for name in ("fit.parquet", "deep/edf.parquet")
        }
        assert measured <= set(shown)
        table.get_by_role("button", name="miss rate").click()
        table.locator("th[aria-sort=descending]", has_text="miss rate").wait_for()
        assert [float(text) for text in page.evaluate(cells)] == shown[::-1]


def test_a_note_is_written_to_a_run_and_stays(browser, runs, tmp_path):
    shutil.copy(runs / "fit.parquet", tmp_path / "fit.parquet")
    with serving(create_app(tmp_path)) as client, visiting(browser, client) as page:
        visit(page, client, "#runs")
        page.get_by_role("button", name="Add note to fit.parquet").click()
        page.get_by_label("Note of fit.parquet").fill("<b>good</b>")
        page.get_by_label("Note of fit.parquet").press("Enter")
        page.get_by_role("button", name="Edit note of fit.parquet").wait_for()
        page.get_by_role("button", name="Edit note of fit.parquet").click()
        page.get_by_label("Note of fit.parquet").fill("never mind")
        page.get_by_label("Note of fit.parquet").press("Escape")
        page.get_by_role("button", name="Refresh").click()
        page.get_by_label("Search").fill("good")
        assert page.locator("[data-group=edge] .note-text").all_inner_texts() == ["<b>good</b>"]


def test_trainings_are_drawn_together_while_they_train(browser, runs, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(runs / "trained", tmp_path / name)
    with serving(create_app(tmp_path)) as client, visiting(browser, client) as page:
        visit(page, client, "#runs")
        page.get_by_label("Select one").check()
        page.get_by_label("Select two").check()
        page.get_by_role("button", name="Plot training curves (2)").click()
        expected = "one (PPO, seed 3)|two (PPO, seed 3)|best heuristic: 12.5"
        chart = "document.querySelector('[data-scenario=\"edge/heavy\"]')"
        page.wait_for_function(f"expected => {chart}?.dataset.series === expected", arg=expected)
        assert page.evaluate(f"{chart}.data[0].y") == [11, 12, 13]
        page.get_by_text("Latest evaluation and commands").click()
        history = tmp_path / "two" / "history.jsonl"
        with history.open("a") as file:
            file.write(json.dumps({"update": 77, "steps": 9000, "reward": 20.0, "heuristic_reward": 12.5}) + "\n")
        page.locator("#training-figures tr", has_text="update").get_by_text("77").wait_for()
        page.wait_for_function(f"() => {chart}.data[1].y.at(-1) === 20")
        page.get_by_role("button", name="Close").click()
        page.locator("#training").wait_for(state="hidden")


def test_curves_of_response_times_have_the_unit_that_suits_them(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#compare")
        for longest, unit, shown in ((0.05, "s", [50, "ms"]), (300, "s", [300, "s"]), (72_000, "s", [20, "h"])):
            curves = f"tools.timeCurves([{{ x: [0, {longest}] }}, {{ x: [] }}], '{unit}')"
            assert page.evaluate(f"(() => {{ const [[one], unit] = {curves}; return [one.x[1], unit]; }})()") == shown
        visit(page, client, "#compare?run=fit.parquet&run=deep/edf.parquet")
        page.locator("#cdf .xtitle").wait_for()
        assert page.text_content("#cdf .xtitle") == "time from arrival to finish (ms)"


def test_a_comparison_says_what_can_be_compared(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#compare")
        page.locator("#compare-guide", has_text="Nothing is selected").wait_for()
        page.get_by_role("link", name="Compare 2 policies on edge/heavy").click()
        page.locator("#compare-table tbody tr").nth(1).wait_for()
        visit(page, client, "#compare?run=fit.parquet&run=deep/edf.parquet&run=all.json&run=trained&run=gone.parquet")
        guide = page.inner_text("#compare-guide")
        assert "are of 2 scenarios" in guide
        assert "trained is a training" in guide
        assert "gone.parquet is not in this folder" in guide
        assert page.inner_text("#compare-lead").startswith("edge/heavy: 2 policies")
        page.locator("#compare-scenarios").get_by_role("link", name="edge/tiny").click()
        page.locator("#compare-lead", has_text="edge/tiny: 2 policies").wait_for()
        visit(page, client, "#compare?run=fit.parquet")
        assert "Only one run is selected" in page.inner_text("#compare-guide")
        assert page.locator("#compare-table tbody tr").count() == 1
        page.get_by_role("link", name="Add edf, seed 7").click()
        page.locator("#compare-table tbody tr").nth(1).wait_for()
        assert page.locator("#compare-guide").is_hidden()


def test_a_real_run_stands_beside_its_simulation(browser, client, runs):
    with visiting(browser, client) as page:
        visit(page, client, "#device")
        page.locator("#real-runs tr", has_text="real.parquet").locator("td", has_text="Imaginary CPU").wait_for()
        assert "Imaginary CPU" in page.inner_text("#real-about")
        cells = page.locator("#real-figures tr", has_text="reward").first.locator("td").all_inner_texts()
        both = [Recording(runs / name).metrics["reward"] for name in ("real.parquet", "fit.parquet")]
        gap = both[0] - both[1]
        assert cells == [*map(figure, both), f"+{figure(gap)}", f"{100 * gap / both[1]:+.1f}%"]
        assert page.get_attribute("#real-responses", "data-series") == "measured|simulated"


def test_a_device_is_watched_and_pages_are_linked(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#device")
        page.locator("#device-tiles .tile", has_text="finished").get_by_text("6", exact=True).wait_for()
        assert page.locator("#device-tasks th").all_inner_texts() == ["camera"]
        page.get_by_role("link", name="validation.html").click()
        page.wait_for_function("() => document.title === 'ran'")


def test_the_answer_of_a_twin_is_shown(browser, client):
    with visiting(browser, client, 390) as page:
        visit(page, client, "#runs")
        page.get_by_role("link", name="queue.json").click()
        page.locator("#queue-jobs tbody tr").nth(2).wait_for()
        assert page.locator("#queue-jobs tbody th").all_inner_texts() == ["17", "<b>18", "19"]
        assert "60 s \N{EN DASH} 2 h" in page.inner_text("#queue-jobs tbody tr:first-child")
        assert page.locator("#queue-what-if td.better").all_inner_texts() == ["-300.0 ± 100.0"]
        page.locator("#queue-starts .xtitle").wait_for()
        page.get_by_role("button", name="GPUs").click()
        assert page.locator("#queue-jobs tbody th").all_inner_texts() == ["19", "17", "<b>18"]


# Replay


def test_a_run_is_replayed_choice_by_choice(browser, client, runs):
    recording = Recording(runs / "deep" / "edf.parquet")
    starts = recording.events[recording.events["kind"] == START]
    with visiting(browser, client) as page:
        visit(page, client, "#replay?run=deep/edf.parquet")
        page.locator("#candidates tr.chosen").wait_for()
        assert page.get_attribute("#replay-gantt", "data-mode") == "jobs"
        number = int(page.inner_text("#decision-lead").split()[1])
        page.get_by_role("button", name="Next decision").click()
        page.get_by_text(re.compile(rf"^Decision {number + 1} at")).wait_for()
        told = page.inner_text("#candidates tr.chosen th")
        line = recording.timeline
        names = {f"runs {line.tasks[s['task']]} as {line.variants[s['task']][s['variant']]}" for s in starts[:4]}
        assert any(name in told for name in names) or told.startswith("wait")
        page.get_by_role("button", name="Previous decision").click()
        page.get_by_text(re.compile(rf"^Decision {number} at")).wait_for()
        page.get_by_role("button", name="Play").click()
        page.wait_for_function("() => Number(document.getElementById('cursor').value) > 1")
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("Time", exact=True).fill("5000")
        page.get_by_label("Time", exact=True).press("Enter")
        page.get_by_text(re.compile(r"^Decision [\d,]{3,} at (4,99|5,000)")).wait_for()


def test_a_policy_that_simulates_ahead_shows_what_each_candidate_would_earn(browser, simulated_runs):
    with serving(create_app(simulated_runs)) as client, visiting(browser, client) as page:
        visit(page, client, "#replay?run=edge.parquet")
        page.locator("#candidates tr.chosen").wait_for()
        while "mean reward" not in page.locator("#candidates thead th").all_inner_texts():
            number = int(page.inner_text("#decision-lead").split()[1])
            page.get_by_role("button", name="Next decision").click()
            page.get_by_text(re.compile(rf"^Decision {number + 1} at")).wait_for()
        assert page.locator("#candidates thead th").all_inner_texts()[1:3] == ["mean reward", "lead over the base"]
        assert "resampled futures" in page.inner_text("#decision-rule")
        leads = page.locator("#candidates tbody tr td:nth-of-type(2)").all_inner_texts()
        assert "0" in leads
        assert any(re.fullmatch(r"[+-]?[\d.]+ ± [\d.]+", lead) for lead in leads)


def test_a_chooser_says_that_it_picks_directly_and_in_which_order(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#replay?run=fit.parquet")
        page.locator("#candidates tr.chosen").wait_for()
        assert "picks a row directly" in page.inner_text("#decision-rule")
        assert page.locator("#candidates thead th").all_inner_texts()[1] == "rank"
        assert page.locator("#candidates tr.chosen td").first.inner_text() == "1"
        assert "\N{EN DASH}" not in page.inner_text("#candidates")
        assert page.get_attribute("#replay-gantt", "data-unit") == "ms"
        assert re.fullmatch("Showing 0\N{EN DASH}[0-9.]+ ms of 10 s", page.inner_text("#showing"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_replay_speaks_of_deadlines_only_where_there_are_any(browser, family_runs, family):
    with serving(create_app(family_runs)) as client, visiting(browser, client) as page:
        visit(page, client, f"#replay?run={family}.parquet")
        page.locator("#candidates tr.chosen").wait_for()
        page.locator("#moment tr").first.wait_for()
        words = page.inner_text("#replay-key") + page.inner_text("#moment")
        assert ("deadline" in words) == (family in ("edge", "serving"))
        if family not in ("edge", "serving"):
            assert "on time" not in words


def test_keys_buttons_and_a_hand_move_the_run(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#replay?run=fit.parquet")
        page.locator("#candidates tr.chosen").wait_for()

        def sight():
            return page.evaluate(
                "(({ from, to }) => [Number(from), Number(to)])(document.getElementById('replay-gantt').dataset)"
            )

        start = sight()
        page.focus("#replay-charts")
        page.keyboard.press("ArrowRight")
        span = start[1] - start[0]
        assert sight()[0] == pytest.approx(start[0] + 0.2 * span, rel=1e-5)
        page.keyboard.press("Home")
        page.keyboard.press("-")
        assert sight()[1] - sight()[0] == pytest.approx(2 * span, rel=1e-5)
        page.get_by_role("button", name="Whole run").click()
        page.wait_for_function("() => document.getElementById('replay-gantt').dataset.mode === 'shares'")
        assert sight() == [0, 10_000]
        assert page.inner_text("#showing").startswith("Showing the whole run (10 s). Too many bars")
        assert page.get_attribute("#replay-gantt", "data-unit") == "s"
        assert page.locator("#shares").is_visible()
        for _ in range(8):
            page.get_by_role("button", name="Zoom in").click()
        page.wait_for_function("() => document.getElementById('replay-gantt').dataset.mode === 'jobs'")
        before, box = sight(), page.locator("#replay-gantt canvas").bounding_box()
        page.mouse.move(box["x"] + 600, box["y"] + 30)
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 30)
        page.mouse.up()
        assert sight()[0] > before[0]
        page.locator("#replay-gantt canvas").click(position={"x": 700, "y": 30})
        page.wait_for_function("() => Number(document.getElementById('cursor').value) > 4000")


def test_a_real_run_is_replayed_without_decisions(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#replay?run=real.parquet")
        page.locator("#decision-lead", has_text="executed on real hardware").wait_for()
        assert "real run on cpu" in page.inner_text("#replay-about")


# Try it


def test_a_full_round_of_trying(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#try")
        page.get_by_label("Start from").select_option("edge/tiny")
        page.get_by_label("horizon ms").fill("-5")
        page.get_by_label("horizon ms").press("Tab")
        page.locator(".field .wrong", has_text="must be at least").wait_for()
        assert page.get_attribute("[id='field-horizon_ms']", "aria-invalid") == "true"
        assert page.get_by_role("button", name="Run").is_disabled()
        scenario = {**json.loads(dump(load("edge/tiny"))), "horizon_ms": 55}
        page.get_by_label("Scenario as JSON").fill("{")
        page.locator("#problems li", has_text="is not JSON").wait_for()
        page.get_by_label("Scenario as JSON").fill(json.dumps(scenario))
        page.wait_for_function("() => document.getElementById('field-horizon_ms').value === '55'")
        page.wait_for_function("() => !document.getElementById('go').disabled")
        while page.locator("#policies input:checked").count():
            page.locator("#policies input:checked").first.uncheck()
        page.get_by_label("edf", exact=True).check()
        page.get_by_label("Episodes").fill("2")
        assert page.inner_text("#command").endswith("--policies edf --episodes 2 --seed 0")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export JSON").click()
        assert json.loads(saved.value.path().read_text()) == scenario
        page.get_by_role("button", name="Run").click()
        page.locator("#result-table tbody tr").wait_for()
        assert page.locator("#result-table tbody th").all_inner_texts() == ["edf"]
        assert re.fullmatch(r"[\d.,]+ ± [\d.,]+", page.locator("#result-table tbody td").first.inner_text())
        page.get_by_role("link", name="Replay edf").click()
        page.locator("#candidates tr.chosen").wait_for()
        assert "edge/tiny under edf, seed 0" in page.inner_text("#replay-about")


def test_nothing_is_written_into_a_scenario_that_is_about_to_go(browser, client):
    with visiting(browser, client) as page:
        visit(page, client, "#try")
        held = []
        page.route("**/api/scenario?*", lambda route: held.append(route))
        page.get_by_label("Start from").select_option("edge/heavy")
        page.wait_for_function("() => document.getElementById('field-horizon_ms').disabled")
        assert page.get_by_label("Scenario as JSON").is_disabled()
        page.get_by_label("Start from").select_option("edge/tiny")
        while len(held) < 2:
            page.wait_for_timeout(10)
        first, last = held
        last.continue_()
        page.wait_for_function("() => !document.getElementById('field-horizon_ms').disabled")
        first.continue_()
        page.get_by_label("horizon ms").fill("-5")
        page.get_by_label("horizon ms").press("Tab")
        page.locator(".field .wrong", has_text="must be at least").wait_for()
        assert json.loads(page.input_value("#json"))["name"] == "tiny"
        assert page.input_value("#field-horizon_ms") == "-5"


def test_what_goes_wrong_is_told(browser, client):
    with visiting(browser, client) as page:
        page.goto(client.address + "#runs")
        page.wait_for_function("() => document.documentElement.dataset.ready === 'runs'")
        page.evaluate("tools.attempt(() => tools.ask('/api/runs', {}, { method: 'GET', signal: AbortSignal.abort() }))")
        assert page.inner_text("#status") == ""
        page.evaluate("tools.attempt(() => { throw new Error('<b>wrong</b>'); })")
        assert page.inner_text("#status") == "<b>wrong</b>"
