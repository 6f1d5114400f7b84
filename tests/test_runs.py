"""`slipstream.run` is the run of the command line, and its result can be saved, drawn and reported."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import slipstream
from slipstream.errors import InputError, TraceError
from slipstream.families.contract import FAMILIES
from slipstream.policies import find
from slipstream.render.style import task_colour
from slipstream.reports.html.comparison import verdict
from slipstream.results import Comparison, Evaluation
from slipstream.runs import Run
from slipstream.sim.eventlog import ARRIVAL, digest, read
from slipstream.sim.simulator import Simulator
from tests.reports.test_report import data_of


@pytest.fixture(scope="module")
def run():
    return slipstream.run("edge/tiny", "edf-fit", seed=3)


def text_of(page):
    """Return the text of a page without scripts, styles and markup."""
    return re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL))


def test_a_run_is_the_one_the_simulator_plays(run):
    events = Simulator(slipstream.load("edge/tiny")).play(find("edf-fit", "edge"), 3)
    assert run.digest == digest(events)
    assert (run.policy, run.seed, run.split) == ("edf-fit", 3, "test")
    assert run.metrics["reward"] == slipstream.evaluate("edge/tiny", "edf-fit", 1, 3).mean("reward")
    assert slipstream.run("edge/heavy", "edf", split="train").digest != slipstream.run("edge/heavy", "edf").digest


def test_without_a_policy_auto_plays():
    assert slipstream.run("edge/tiny").policy == "auto"


def test_bad_input_is_told_in_one_line():
    with pytest.raises(InputError, match="did you mean 'edf-fit'"):
        slipstream.run("edge/tiny", "edf-fitt")
    with pytest.raises(InputError, match="seed -1: expected a number"):
        slipstream.run("edge/tiny", seed=-1)
    with pytest.raises(InputError, match="split 'tset'"):
        slipstream.run("edge/tiny", split="tset")


def test_a_saved_run_comes_back_the_same(run, tmp_path):
    path = run.save(tmp_path / "new" / "run.parquet")
    events, about = read(path)
    assert digest(events) == run.digest
    assert about["command"] == "slipstream.run('edge/tiny', 'edf-fit', seed=3)"
    loaded = Run.load(path)
    assert (loaded.digest, loaded.metrics, loaded.about) == (run.digest, run.metrics, run.about)
    assert slipstream.dump(loaded.scenario) == slipstream.dump(run.scenario)


def test_a_run_is_saved_as_parquet_only(run, tmp_path):
    with pytest.raises(InputError, match=r"run.json: expected the name of a .parquet file"):
        run.save(tmp_path / "new" / "run.json")
    assert not list(tmp_path.iterdir())


def test_a_run_shows_itself(run):
    assert re.fullmatch(r"Run\('edge/tiny', 'edf-fit', seed=3, reward \S+, \d+ events\)", repr(run))
    page = run._repr_html_()
    assert "edge/tiny under edf-fit, seed 3, simulated" in page
    assert ">miss rate<" in page


def test_a_run_on_a_device_is_not_called_simulated(run):
    about = {**run.about, "device": "cpu", "hardware": "2 cores"}
    real = Run(run.scenario, run.policy, run.seed, run.split, run.events, about)
    assert "real run on cpu (2 cores)" in real._repr_html_()
    assert "simulated" not in real._repr_html_()


def test_the_event_log_becomes_a_data_frame(run):
    frame = run.to_pandas()
    assert list(frame.columns) == ["time_ms", "kind", "task", "job", "resource", "variant"]
    assert len(frame) == len(run.events)
    assert (frame["kind"] == "arrival").sum() == run.metrics["released"]
    assert (frame["time_ms"] * 1e6).tolist() == run.events["time"].tolist()


@pytest.mark.parametrize("scenario", ["edge/heavy", "dag/tiny", "taskgraph/tiny", "serving/tiny", "cluster/tiny"])
def test_the_figure_has_a_bar_for_every_piece_of_work(scenario):
    run = slipstream.run(scenario, FAMILIES[scenario.partition("/")[0]].default_policy)
    line, family = run._recorded.timeline, run._recorded.family
    end = line.end / family.nanoseconds_per_unit
    figure = run.plot()
    bars = sorted(
        (str(y), round(base, 6)) for trace in figure.data for y, base in zip(trace.y, trace.base, strict=True)
    )
    starts = line.slice_start / family.nanoseconds_per_unit
    expected = sorted(
        (line.resources[resource], round(start, 6))
        for resource, start in list(zip(line.slice_resource, starts, strict=True))[:2000]
    )
    assert bars == expected
    colours = {trace.name: trace.marker.color for trace in figure.data}
    assert colours == {name: task_colour(line.groups.index(name)) for name in colours}, "as in reports"
    assert family.time_unit in figure.layout.xaxis.title.text
    assert "simulated" in figure.layout.title.text
    assert 0 < figure.layout.xaxis.range[1] <= end
    if len(starts) > 2000:
        assert f"the first 2,000 of {len(starts):,} bars" in figure.layout.title.text


def test_a_figure_of_a_while_shows_only_that(run):
    figure = run.plot(10.0, 20.0)
    for trace in figure.data:
        for base, length in zip(trace.base, trace.x, strict=True):
            assert base < 20.0
            assert base + length > 10.0
    assert figure.layout.xaxis.range == (10.0, 20.0)


# Reports


def test_a_report_holds_runs_and_comparisons_given_as_objects_or_paths(run, tmp_path):
    other = slipstream.run("edge/tiny", "edf", seed=3).save(tmp_path / "edf.parquet")
    compared = slipstream.compare("edge/tiny", "edf,edf-fit", episodes=2)
    path = slipstream.report(run, other, compared, compared.save(tmp_path / "c.json"), out=tmp_path / "new" / "r.html")
    page = path.read_text()
    assert len(data_of(page)["runs"]) == 2
    assert text_of(page).count("policies over 2 simulated episodes from seed 0") == 2
    assert run.report(tmp_path / "one.html").read_text().count('id="gantt-') == 1


def test_a_report_of_comparisons_alone_begins_with_the_verdict(tmp_path):
    compared = slipstream.compare("edge/heavy", "edf,edf-fit", episodes=5)
    page = slipstream.report(compared, out=tmp_path / "r.html").read_text()
    assert verdict(compared) in text_of(page)
    (figure,) = data_of(page)["figures"].values()
    assert figure["data"][0]["x"] == [one.mean("reward") for one in compared.ranked()]


def test_the_verdict_says_by_how_much_and_how_sure():
    def of(*rewards):
        pairs = zip("ab", rewards, strict=False)
        evaluations = tuple(Evaluation(name, {"reward": np.array(values)}) for name, values in pairs)
        return Comparison("x", len(rewards[0]), 0, evaluations)

    clear = verdict(of([1.0, 2.0], [3.0, 4.5]))
    assert clear == (
        "b has the highest mean reward, 3.75, 2.25 above a (95% interval 2 to 2.5, over 2 paired episodes)."
    )
    assert verdict(of([1.0, 2.0], [0.0, 4.0])).endswith("over 2 paired episodes): not a clear lead.")
    assert verdict(of([1.0], [3.0])) == "b has the highest mean reward, 3, 2 above a, in one episode."
    assert verdict(of([1.0, 3.0])) == "a has a mean reward of 2."


def test_a_comparison_without_rewards_is_reported_without_a_verdict(tmp_path):
    values = {"reward": np.array([np.nan]), "jobs": np.array([3.0])}
    page = slipstream.report(Comparison("x", 1, 0, (Evaluation("a", values),)), out=tmp_path / "r.html").read_text()
    assert data_of(page)["figures"] == {}
    assert re.search(r"a\s+n/a\s+3\b", text_of(page))
    assert "highest mean reward" not in page


def test_what_cannot_be_reported_is_told_and_nothing_is_written(run, tmp_path):
    out = tmp_path / "r.html"
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / "mine.parquet").write_text("{}")
    for results, kind, message in (
        ([], InputError, "nothing to report: expected at least one run or comparison"),
        ([3], InputError, "got an object of type int"),
        ([run, slipstream.run("dag/tiny", "fair")], InputError, "the runs are of different families"),
        ([tmp_path / "mine.json"], InputError, "mine.json: scenario: expected a text, as in a saved comparison"),
        ([tmp_path / "mine.parquet"], TraceError, "mine.parquet"),
        ([tmp_path / "nowhere.parquet"], TraceError, "nowhere.parquet: no such file"),
    ):
        with pytest.raises(kind, match=message):
            slipstream.report(*results, out=out)
        assert not out.exists()


# Importers


def test_a_recorded_run_becomes_a_scenario_with_the_same_arrivals(tmp_path):
    run = slipstream.run("edge/heavy", "edf", seed=4)
    scenario = slipstream.importers.log(run.save(tmp_path / "run.parquet"))
    other = slipstream.run(scenario, "edf-fit", seed=4)
    arrivals = [one.events[one.events["kind"] == ARRIVAL] for one in (run, other)]
    assert arrivals[0].tolist() == arrivals[1].tolist()
    assert run.digest != other.digest


def test_traces_of_several_files_become_releases(tmp_path):
    (tmp_path / "a.csv").write_text("at\n1\n2\n")
    (tmp_path / "b.csv").write_text("at\n5\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    scenario = slipstream.importers.trace(
        files, "edge/tiny", ["camera", "alarm"], column="at", unit="s", horizon_ms=9e3
    )
    assert [task.arrival.times_ms for task in scenario.tasks] == [[1000.0, 2000.0], [5000.0]]
    assert scenario.horizon_ms == 9e3
    one = slipstream.importers.trace(files[0], "edge/tiny", "alarm", column="at")
    assert one.tasks[1].arrival.times_ms == [1.0, 2.0]
    for arguments, message in (
        ((files, "edge/tiny", "camera"), "1 names for 2 files"),
        ((files, "edge/tiny", ["camera", "camera"], "task", "at"), "has releases in another file"),
        ((files[0], "edge/tiny", "camera", "task", "at", "h"), "unit 'h': expected one of s, ms, us, ns"),
    ):
        with pytest.raises(InputError, match=message):
            slipstream.importers.trace(*arguments)


def test_traces_of_other_families_become_arrivals(tmp_path):
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,gpus\n0,10,1\n5,20,2\n")
    scenario = slipstream.importers.trace(tmp_path / "jobs.csv", "cluster/tiny")
    assert [(job.submit_s, job.run_s, job.gpus) for job in scenario.jobs.jobs] == [(0.0, 10.0, 1), (5.0, 20.0, 2)]
    with pytest.raises(InputError, match="expected a scenario of the family 'edge'"):
        slipstream.importers.trace(tmp_path / "jobs.csv", "cluster/tiny", horizon_ms=5.0)


def test_measured_variants_and_task_lists_become_scenarios(tmp_path):
    (tmp_path / "measured.csv").write_text("model,latency_ms,accuracy\nbig,9,80\nsmall,3,60\n")
    scenario = slipstream.importers.profile(tmp_path / "measured.csv", "edge/tiny", "camera")
    assert [(one.name, one.accuracy) for one in scenario.tasks[0].ladder] == [("small", 0.6), ("big", 0.8)]
    task = {"name": "a", "model": "vgg16", "data": "cifar10", "if_periodic": True, "period_ms": 20}
    tasks = {"num_tasks": 1, "num_variants": 3, "total_time_ms": 1000, "task_list": [task]}
    (tmp_path / "list.json").write_text(json.dumps(tasks))
    assert slipstream.importers.tasklist(tmp_path / "list.json").horizon_ms == 1000
    (tmp_path / "list.json").write_text(json.dumps({**tasks, "task_list": [{**task, "model": "lenet"}]}))
    with pytest.raises(InputError, match=r"list.json: task_list\[0\].model: no ladder for 'lenet'"):
        slipstream.importers.tasklist(tmp_path / "list.json")
