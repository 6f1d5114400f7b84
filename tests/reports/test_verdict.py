"""The top of a report says who won, by how much, and how sure that is."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from slipstream.evaluation import bootstrap_interval
from slipstream.reports.figures.charts import tradeoff
from slipstream.reports.html.page import page
from slipstream.reports.html.verdict import summary
from slipstream.reports.runs import labels_of, read_run
from tests.reports.test_report import record


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_run(record(tmp_path_factory.mktemp("runs") / "run.parquet", "edge/tiny", "edf"))


def runs_with(run, rewards):
    """Return runs with the given rewards, a list by policy, one for each seed from 0."""
    return [
        replace(run, about={**run.about, "policy": policy, "seed": seed}, metrics={**run.metrics, "reward": reward})
        for policy, values in rewards.items()
        for seed, reward in enumerate(values)
    ]


def test_the_best_policy_is_named_with_its_lead_and_interval(run):
    rewards = {"a": [10.0, 11.0, 12.0, 13.0], "b": [9.0, 10.5, 11.5, 12.0], "c": [1.0, 1.0, 1.0, 1.0]}
    text = summary(runs_with(run, rewards))
    low, high = bootstrap_interval(np.array(rewards["a"]) - np.array(rewards["b"]))
    assert "<strong>a</strong> is best on edge/tiny: reward 11.5, 0.750 (7.0%) above b." in text
    assert "statistically clear (ahead on 4 of 4 seeds" in text
    assert f"paired difference: {low:.3f} to {high:.3f}" in text


def test_a_difference_that_may_be_chance_is_said_to_be_unclear(run):
    text = summary(runs_with(run, {"a": [10.0, 12.0, 8.0], "b": [9.0, 8.0, 12.0]}))
    assert "The difference is not statistically clear (ahead on 2 of 3 seeds" in text


def test_one_episode_proves_nothing(run):
    assert "This is one episode, so the difference may be chance" in summary(runs_with(run, {"a": [2.0], "b": [1.0]}))


def test_equal_policies_are_level(run):
    assert "<strong>a</strong> and <strong>b</strong> are level" in summary(runs_with(run, {"a": [2.0], "b": [2.0]}))


def test_runs_without_a_common_seed_are_not_compared(run):
    first, second = runs_with(run, {"a": [1.0, 2.0]})[0], runs_with(run, {"b": [1.0, 2.0]})[1]
    text = summary([first, second])
    assert "no seed in common" in text
    assert "is best" not in text


def test_a_policy_alone_has_its_figures_and_its_misses(run):
    text = summary([run])
    line = run.timeline
    missed = int(line.missed.sum())
    told = f"{missed:,} ({missed / len(line.task):.1%})" if missed else "none"
    assert f"with 2 streams: {len(line.task)} jobs released, {told} missed their deadline." in text
    assert text.count("<dt>") == len(run.family.headline)


def test_a_real_and_a_simulated_run_of_a_policy_have_names_of_their_own(run):
    real = replace(run, about={**run.about, "device": "cpu"})
    assert labels_of([run, real]) == ["edf, simulated", "edf, real run"]


def test_points_of_a_tradeoff_have_no_more_digits_than_an_axis_shows(run):
    """Plotly writes every digit of a range that spans less than the sixth, and cuts off the points at its edge."""
    first, second = runs_with(run, {"a": [718.0517548249030142], "b": [718.0517548249030999]})
    second.metrics["miss_rate"] = 0.5
    points = [one for one in tradeoff([first, second], ("miss_rate", "reward"))["data"] if one["mode"] != "lines"]
    assert [one["y"] for one in points] == [[718.052], [718.052]]


def test_no_value_of_a_metric_without_a_direction_is_the_best(run):
    busier = replace(run, metrics={name: value + 1.0 for name, value in run.metrics.items()})
    text = page([run, busier], "x")
    head, *rows = re.findall(r"<tr>.*?</tr>", re.search(r"<caption>One row per run.*?</table>", text, re.DOTALL)[0])
    names = re.findall(r"<th[^>]*>(.*?)</th>", head)
    marked = {
        name
        for row in rows
        for name, cell in zip(names, re.findall(r"<t[hd].*?</t[hd]>", row), strict=True)
        if 'class="best"' in cell
    }
    assert any("reward" in name for name in marked)
    assert not any("utilisation" in name for name in marked)
