"""Charts of cluster episodes say what the log says; the page and the command show them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slipstream.cli.application import app
from slipstream.dashboard.reasons import reasons
from slipstream.families.cluster.charts import charts, max_min
from slipstream.families.cluster.metrics import metrics
from slipstream.families.shared.charts import Chart, envelope
from slipstream.policies.base import find
from slipstream.render.style import task_colour
from slipstream.reports.figures.charts import front_of
from slipstream.reports.html.page import page
from slipstream.reports.runs import read_run
from slipstream.reports.terminal.tables import lower_is_better
from slipstream.scenario import digest, dump, load
from slipstream.sim.eventlog import LogWriter
from slipstream.sim.simulator import Simulator

HOUR = 3_600 * 10**9
NODES = [{"name": "node", "count": 2, "gpus": 2, "idle_w": 50.0, "busy_w": 250.0, "node_w": 100.0}]
JOBS = [
    {"submit_s": 0.0, "gpus": 1, "run_s": 3600.0, "user": "ann"},
    {"submit_s": 0.0, "gpus": 2, "run_s": 7200.0, "user": "bob"},
    {"submit_s": 1800.0, "gpus": 3, "run_s": 3600.0, "user": "ann"},
]
HOURLY = {
    "family": "cluster",
    "nodes": NODES,
    "placement": "best-fit",
    "power": {"budget_w": 2000.0, "price_per_kwh": [0.1, 0.3], "co2_g_per_kwh": [100.0, 500.0]},
    "jobs": {"kind": "list", "jobs": JOBS},
}


def record(path: Path, source: Any, policy: str, seed: int = 0) -> Path:
    """Write the log of a run, as `slipstream run --log` does."""
    scenario: Any = load(source)
    about = {
        "version": "0",
        "command": "",
        "policy": policy,
        "seed": seed,
        "split": "test",
        "scenario": dump(scenario),
        "scenario_digest": digest(scenario),
    }
    writer = LogWriter(path, about)
    Simulator(scenario).play(find(policy, "cluster"), seed, sink=writer.write)
    writer.close()
    return path


@pytest.fixture(scope="module")
def hourly() -> dict[str, Chart]:
    scenario: Any = load(HOURLY)
    events = Simulator(scenario).play(find("fifo", "cluster"), 0)
    return {chart.title: chart for chart in charts(scenario, events)}


def steps(chart: Chart, line: int = 0) -> list[tuple[float, float]]:
    """Return what a chart over time shows: (hours, value), where the value changes."""
    found: list[tuple[float, float]] = []
    for time, value in zip(chart.lines[line].x / HOUR, chart.lines[line].y, strict=True):
        if not found or found[-1][1] != value:
            found.append((float(time), float(value)))
    return found


def test_demand_and_allocation_are_those_of_the_log(hourly: dict[str, Chart]) -> None:
    # One GPU is at work on the first node for an hour, two on the second for two; the third job has to wait for three
    # until then.
    assert steps(hourly["GPUs requested"]) == [(0.0, 0.0), (0.5, 3.0), (2.0, 0.0)]
    assert steps(hourly["Allocation"]) == [(0.0, 0.75), (1.0, 0.5), (2.0, 0.75), (3.0, 0.0)]
    assert steps(hourly["Allocation"], 1) == [(0.0, 0.25), (1.0, 0.0), (2.0, 0.25), (3.0, 0.0)]


def test_power_has_the_line_of_its_budget_and_adds_up_to_the_bill(hourly: dict[str, Chart]) -> None:
    assert hourly["Power"].limit == ("budget", 2000.0)
    assert steps(hourly["Power"]) == [(0.0, 1000.0), (1.0, 800.0), (2.0, 1000.0), (3.0, 400.0)]
    scenario: Any = load(HOURLY)
    figures = metrics(scenario, Simulator(scenario).play(find("fifo", "cluster"), 0))
    for title, metric in (("Energy", "energy_kwh"), ("Cost", "cost"), ("CO₂", "co2_kg")):
        line = hourly[title].lines[0]
        assert line.y[-1] == pytest.approx(figures[metric])
        assert (np.diff(line.y) >= 0.0).all()
    assert figures["cost"] == pytest.approx(1.0 * 0.1 + 0.8 * 0.3 + 1.0 * 0.1)


def test_distributions_are_of_all_jobs_and_of_classes_of_sizes(hourly: dict[str, Chart]) -> None:
    # The third job waits for an hour and a half, and runs for one.
    assert hourly["Bounded slowdown"].lines[0].x.tolist() == [1.0, 1.0, 2.5]
    assert hourly["Wait"].lines[0].x.tolist() == [1.0, 1.0, 5400.0]
    assert hourly["Wait"].lines[0].y.tolist() == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert [line.name for line in hourly["Bounded slowdown by size"].lines] == ["1 GPU", "2 GPUs", "3 GPUs"]


def test_shares_of_users_stand_next_to_what_they_deserved(hourly: dict[str, Chart]) -> None:
    held, deserved = hourly["Shares of users"].lines
    assert hourly["Shares of users"].names == ("ann", "bob")
    # Ann holds 1 GPU for an hour, none for one, 3 for one. Two of four would be fair while bob is there and she wants
    # as many: from half past; before that she wants one only, and after two hours she may have three.
    assert held.y.tolist() == pytest.approx([4 / 3, 2.0], rel=0.01)
    assert deserved.y.tolist() == pytest.approx([(0.5 * 1 + 1.5 * 2 + 3) / 3, 2.0], rel=0.01)


def test_nobody_gets_more_than_asked_for_and_who_gets_less_as_much_as_anybody() -> None:
    assert max_min(np.array([1.0, 9.0, 0.0, 4.0]), 9.0).tolist() == [1.0, 4.0, 0.0, 4.0]
    assert max_min(np.array([8.0, 8.0, 2.0]), 8.0).tolist() == [3.0, 3.0, 2.0]


def test_thinned_steps_keep_their_extremes() -> None:
    x, y = np.arange(100_000), np.zeros(100_000)
    y[[17_003, 52_001]] = (5.0, -3.0)
    times, values = envelope(x, y, 100_000, bins=100)
    assert len(times) == 200
    assert (values.min(), values.max()) == (-3.0, 5.0)


def test_the_front_holds_what_none_beats_in_both() -> None:
    points = [(1.0, 9.0), (2.0, 3.0), (3.0, 3.0), (4.0, 1.0)]
    assert front_of(points, ("slowdown_mean", "energy_kwh")) == [0, 1, 3]
    assert front_of(points, ("slowdown_mean", "jain_users")) == [0]


def test_the_page_has_every_panel(tmp_path: Path) -> None:
    logs = [record(tmp_path / f"{policy}.parquet", HOURLY, policy) for policy in ("fifo", "sjf")]
    (tmp_path / "training").mkdir()
    lines = [{"update": n, "steps": 10 * n, "reward": -5.0 + n, "heuristic_reward": -4.0} for n in range(3)]
    (tmp_path / "training" / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["report", *map(str, logs), "--out", str(tmp_path / "r.html"), "--why", "2"]
    done = CliRunner().invoke(app, [*arguments, "--training", str(tmp_path / "training")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    for heading in (
        "Schedule",
        "Cluster load",
        "Power, energy and cost",
        "Slowdown and waiting times",
        "Fairness",
        "Trade-offs",
        "Training curves",
        "Decisions",
    ):
        assert heading in text


def test_a_folder_that_is_no_training_is_told_in_one_line(tmp_path: Path) -> None:
    log = record(tmp_path / "run.parquet", HOURLY, "fifo")
    done = CliRunner().invoke(app, ["report", str(log), "--out", str(tmp_path / "r.html"), "--training", str(tmp_path)])
    assert isinstance(done.exception, Exception)
    assert (
        "history.jsonl: no such file: expected a file written by `slipstream train`"
        in str(done.exception) + done.output
    )
    assert not (tmp_path / "r.html").exists()


def test_reasons_name_jobs_scores_and_what_else_was_allowed(tmp_path: Path) -> None:
    jobs = [{"submit_s": 0.0, "gpus": 4, "run_s": 100.0}]
    jobs += [{"submit_s": 1.0 + n, "gpus": 4, "run_s": 10.0 * (n + 1)} for n in range(3)]
    source = {**HOURLY, "hold": True, "power": {}, "jobs": {"kind": "list", "jobs": jobs}}
    text = reasons([record(tmp_path / "run.parquet", source, "saf")], ["saf"], 4)
    assert "reserve for job 1 of user, 4 GPUs" in text
    assert "rows allowed" in text
    assert "Smallest area first" in text
    assert re.search(r"<caption>Decision \d+ at [\d.,]+ s, \d+ of \d+ rows allowed</caption>", text)
    # Scores are minus GPU-seconds.
    assert "-40" in text


def test_a_job_on_several_gpus_is_not_interrupted_and_has_its_owners_colour(tmp_path: Path) -> None:
    text = page([read_run(record(tmp_path / "run.parquet", HOURLY, "fifo"))], "x")
    assert "interrupted and resumed later" not in text
    assert "missed its deadline" not in text
    assert f'<li><i style="background:{task_colour(0)}"></i>ann</li>' in text
    assert "The diamond marks" not in text


def test_a_run_alone_trades_nothing(tmp_path: Path) -> None:
    log = record(tmp_path / "run.parquet", HOURLY, "fifo")
    assert "Trade-offs" not in page([read_run(log)], "x")


@pytest.mark.parametrize("metric", ["slowdown_mean", "wait_max_s", "energy_kwh", "cost", "co2_kg", "rho_mean"])
def test_less_of_a_cost_is_better(metric: str) -> None:
    assert lower_is_better(metric)
    assert not any(lower_is_better(gain) for gain in ("allocation", "jain_users", "throughput_per_h", "reward"))


def test_users_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    jobs = [{"submit_s": 0.0, "gpus": 1, "run_s": 10.0, "user": f"user {n}"} for n in (10, 2, 1)]
    run = read_run(record(tmp_path / "run.parquet", {**HOURLY, "jobs": {"kind": "list", "jobs": jobs}}, "fifo"))
    shares = next(chart for chart in run.charts if chart.title == "Shares of users")
    assert isinstance(shares, Chart)
    assert shares.names == run.timeline.tasks == ("user 1", "user 2", "user 10")
    assert [run.timeline.tasks[user] for user in run.timeline.task] == ["user 10", "user 2", "user 1"]
