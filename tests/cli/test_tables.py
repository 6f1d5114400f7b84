"""Tables fit into the terminal: whole columns are hidden before a figure is cut or a word is broken."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from slipstream.cli import common
from slipstream.cli.console import PIPED_WIDTH, PlainConsole
from slipstream.cli.profile import profile_table
from slipstream.evaluation import Comparison, Evaluation
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.workload.measured import MeasuredProfile
from slipstream.files.wording import metric_title
from slipstream.reports.html.sweep import sweep_table
from slipstream.reports.terminal.library import (
    drifts_table,
    events_table,
    models_table,
    race_table,
    shifts_table,
    versions_table,
)
from slipstream.reports.terminal.suite import each_table, practice_table, suite_table
from slipstream.reports.terminal.tables import comparison_table, figure, metrics_table
from slipstream.reports.terminal.tradeoff import tradeoff_table
from slipstream.suite.catalogue import load_suite
from slipstream.suite.submission import baselines

SCENARIOS = {
    "edge": ("edge/tiny", "edf,edf-degrade,learned-heavy"),
    "dag": ("dag/tiny", "fair,fifo,random"),
    "taskgraph": ("taskgraph/tight-memory", "mct,random"),
    "serving": ("serving/tiny", "milp-thorough,static"),
    "cluster": ("cluster/tiny", "saf,fifo,random"),
    "llm": ("llm/tiny", "fcfs,shortest-prompt,random"),
}
"""Of every family a small scenario, and policies to compare."""
WIDE = 1000


def rendered(table, width):
    console = PlainConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
    console.print(table)
    return console.file.getvalue()


def whole_words(text):
    """Return the words of a table without its lines and without the note on hidden columns."""
    note = r"\d+ columns? hidden \(.*?\): widen the terminal or use --\w+".replace(" ", r"\s+")
    shown = re.sub(note, " ", text, flags=re.DOTALL)
    return set(re.sub(r"[│┃━─┏┓┗┛┡┩┳╇┴]", " ", shown).split())


def check(narrow, wide, width):
    assert max(map(len, narrow.splitlines())) <= width
    assert "…" not in narrow
    assert whole_words(narrow) <= whole_words(wide)


@pytest.fixture
def at_width(slipstream, monkeypatch):
    """Return a function that runs a command in a terminal of a width and returns what it prints."""

    def run(width, *arguments):
        monkeypatch.setattr(common.console, "_width", width)
        code, output, error = slipstream(*arguments)
        assert code == 0, error
        return output

    return run


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("family", SCENARIOS)
def test_no_table_of_a_family_cuts_a_figure_or_breaks_a_word(at_width, family, width):
    scenario, policies = SCENARIOS[family]
    commands = [("compare", scenario, "-p", policies, "-n", "2"), ("run", scenario), ("run", scenario, "--all")]
    for words in (*commands, ("policies", family), ("scenarios", family)):
        check(at_width(width, *words), at_width(WIDE, *words), width)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("family", SCENARIOS)
def test_large_figures_of_a_comparison_stay_whole(family, width):
    metrics = FAMILIES[family].headline
    rng = np.random.default_rng(0)
    evaluations = tuple(
        Evaluation(policy, {metric: rng.uniform(1e5, 9e7, 5) for metric in metrics})
        for policy in ("learned-batch-50x20-compat", "saf", "first-come-first-served")
    )
    table = comparison_table(Comparison(f"{family}/large", 5, 0, evaluations), metrics)
    narrow, wide = rendered(table, width), rendered(table, WIDE)
    check(narrow, wide, width)
    assert metric_title(metrics[0]).split()[0] in narrow
    assert "columns hidden (" in rendered(table, 60)


PLAYERS = ("random", "edf-fit-with-a-long-name", "learned-batch-50x20-compat", "best-fit", "eft")


def suite_results():
    whole = load_suite()
    score = {"mean": -10.25, "low": -11.5, "high": 100.0}
    families = {
        family: {
            "score": baselines(whole, family)["random"].to_dict(),
            "ceiling": 100.0,
            "best_rule": "milp-thorough",
            "gain": score,
            "scenarios": {entry.name: {"policy": PLAYERS[2], "score": 99.5} for entry in whole.entries[:3]},
        }
        for family in whole.families
    }
    players = {
        family: {"policy": name, "kind": "model-based", "sha256": ""}
        for family, name in zip(families, PLAYERS, strict=True)
    }
    return {"title": " + ".join(PLAYERS), "suite": {"version": 1}, "players": players, "families": families}


def sweep_results():
    row = {"label": "0.0003", "mean": -12345.678, "half_width": 234.5, "best": True, "default": False}
    row |= {"to_default": -1234.5, "to_default_half_width": 123.4, "to_heuristic": -12345.6}
    knobs = [{"knob": knob, "values": [row, {**row, "default": True}]} for knob in ("ppo.learning_rate", "n_steps")]
    heuristic = {"policy": "lookahead", "reward": 123456.0}
    about = {"scenario": "edge/heavy", "steps": 1_000_000, "seeds": [0, 1, 2], "episodes": 100}
    return {**about, "heuristic": heuristic, "knobs": knobs}


def profile():
    noise = {"others": 0.1, "others_worst": 0.2, "spread": 0.1, "quiet": False}
    variant = {"model": "builtin:mobilenet-large", "dataset": "imagenet-1k", "variant": 3, "latency_ms": 12345.678}
    variant |= {"p50_ms": 12345.678, "p95_ms": 12345.678, "p99_ms": 23456.789, "cv": 0.25, "runs": 60}
    variant |= {"memory_mb": 1234.5, "power_w": 250.0}
    data = {"device": "a processor", "backend": "cpu", "streams": 2, "noise": noise, "variants": [variant]}
    return MeasuredProfile.model_validate({**data, "slowdowns": [[12.25]]})


def library_tables():
    shift = {"scenario": "edge/overload", "role": "held out", "before": 0.1234, "after": 0.2345, "difference": -0.1}
    shift |= {"low": -0.1234, "high": 0.1234}
    outcome = {"version": "heavy@v12", "shifts": [shift]}
    drift = {"scenario": "edge/overload", "runs": 1000, "accepted": 0.1234, "recent": 0.2345}
    model = {"model": "a-model-with-a-long-name", "in_use": "a-model-with-a-long-name@v12", "versions": 12}
    model |= {"scenarios": ["edge/overload", "edge/heavy"], "held_out": ["edge/light"]}
    model |= {"regret": 0.1234, "generality": -0.1}
    version = {"version": "a-model-with-a-long-name@v12", "operation": "update", "parents": ["heavy@v11"]}
    regret = {"a-model-with-a-long-name@v12": [{"scenario": "edge/overload", "regret": 0.1}]}
    shown = {"model": "heavy", "family": "edge", "in_use": "heavy@v12", "versions": [version], "regret": regret}
    event = {"time": "2026-01-01T00:00:00.000", "operation": "rollback", "before": "heavy@v12", "after": "heavy@v11"}
    racers = [
        {"policy": name, "reward": -1234.5, "regret": 0.1234, "distance": 1.25, "episodes": 8 * (index + 1)}
        for index, name in enumerate(PLAYERS)
    ]
    point = {"count": 3, "models": ["a-model-with-a-long-name", "heavy", "medium"]}
    point |= dict.fromkeys(("mean", "worst", "held_out_mean", "held_out_worst"), 1.2345)
    curve = {"family": "edge", "scenarios": ["a"], "held_out": ["b"], "heuristic": "edf", "heuristic_mean": 0.1}
    return {
        "models": models_table([model]),
        "versions": versions_table(shown),
        "events": events_table([{**event, "reason": "recent runs are worse than was accepted"}]),
        "race": race_table({"scenario": "edge/overload", "reference": "optimum", "racers": racers}),
        "shifts": shifts_table(outcome),
        "drifts": drifts_table({"before": "heavy@v12", "drifts": [drift]}),
        "tradeoff": tradeoff_table({**curve, "points": [point], "enough": 3}),
    }


def other_tables():
    results = suite_results()
    scores = {family: one["score"] for family, one in results["families"].items()}
    return {
        "suite": suite_table(results),
        "suite, scenario by scenario": each_table(results, "edge"),
        "practice": practice_table(scores),
        "sweep": sweep_table(sweep_results()),
        "profile": profile_table(profile()),
        **library_tables(),
    }


@pytest.mark.parametrize("width", [80, 120])
def test_no_other_table_cuts_a_figure_or_breaks_a_word(width):
    for table in other_tables().values():
        check(rendered(table, width), rendered(table, WIDE), width)


def test_a_narrow_table_says_which_columns_it_hides():
    text = " ".join(rendered(suite_table(suite_results()), 80).split())
    assert "columns hidden (policy, kind, ceiling): widen the terminal or use --json" in text
    assert "hidden" not in rendered(suite_table(suite_results()), 200)


def test_one_episode_has_no_interval_and_whole_counts(slipstream):
    words = ("compare", "taskgraph/tight-memory", "-p", "mct", "-m", "makespan_ms,evictions")
    code, output, _ = slipstream(*words, "--episodes", "1")
    assert code == 0
    assert "±" not in output
    assert "1 episode, seed 0" in output
    assert re.fullmatch(r"mct +heuristic +[\d.,]+ +[\d,]+", output.splitlines()[-1].strip())
    assert "mean ± 95% interval" in slipstream(*words, "--episodes", "2")[1]


def test_a_number_that_is_rounded_to_zero_has_no_sign():
    assert [figure(value) for value in (-0.0004, -0.0006, 0.0, -12.34)] == ["0.000", "-0.001", "0.000", "-12.3"]


def test_counts_are_whole_numbers():
    assert figures_of(rendered(metrics_table("", {"jobs": 1234.0}, ("jobs",)), 80)) == [("jobs", "1,234")]
    assert figures_of(rendered(metrics_table("", {"jobs": 7.0}, ("jobs",)), 80)) == [("jobs", "7")]
    assert figures_of(rendered(metrics_table("", {"wait_s": 7.0}, ("jobs",)), 80)) == [("wait_s", "7.000")]


def test_output_that_is_no_terminal_is_wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert PlainConsole(file=io.StringIO()).width == PIPED_WIDTH > 120
    assert PlainConsole(file=io.StringIO(), width=90).width == 90
    monkeypatch.setenv("COLUMNS", "70")
    assert PlainConsole(file=io.StringIO()).width == 70


def test_a_name_longer_than_the_terminal_is_folded_not_lost():
    name = "runs/" + "x" * 150
    comparison = Comparison("edge/heavy", 1, 0, (Evaluation(name, {"reward": np.array([1.5])}),))
    text = rendered(comparison_table(comparison, ["reward"]), 80)
    assert name in "".join(line.split(" ")[0] for line in text.splitlines())
    assert "1.500" in text


# Which metrics `run` prints


def figures_of(text):
    """Return the rows (metric, value) of the table that `run` prints."""
    return re.findall(r"^(\S+) +(-?[\d,.]+) *$", text.partition("───\n")[2], re.MULTILINE)


@pytest.mark.parametrize("family", SCENARIOS)
def test_run_prints_the_main_metrics_of_the_family_and_all_on_request(slipstream, family):
    scenario, _ = SCENARIOS[family]
    short, full = (slipstream("run", scenario, *more)[1] for more in ((), ("--all",)))
    metrics = [name for name, _ in figures_of(short)]
    assert 5 <= len(metrics) <= 8
    assert set(metrics) <= set(FAMILIES[family].summary)
    more = int(re.search(r"^(\d+) more metrics with --all$", short, re.MULTILINE)[1])
    everything = figures_of(full)
    assert len(everything) == len(metrics) + more
    for name, value in everything:
        assert name not in FAMILIES[family].counts or re.fullmatch(r"[\d,]+", value), name


def test_every_metric_that_a_family_names_exists():
    from slipstream.evaluation import evaluate
    from slipstream.scenario import load

    for name, (scenario, policies) in SCENARIOS.items():
        family = FAMILIES[name]
        known = set(evaluate(scenario, policies.split(",")[0], 1).values)
        assert {*family.headline, *family.summary, *family.counts} <= known
        assert family.unmodelled_metrics(load(scenario)) <= known


UNMODELLED = {
    "edge/tiny": ("energy_j", "preemptions"),
    "dag/tiny": ("stage_failures",),
    "taskgraph/cholesky-4-2g2c": ("evictions", "moved_mb"),
    "serving/tiny": ("proteus_violation_ratio",),
    "cluster/tiny": ("interruptions", "fragmentation"),
    "llm/chat": ("fairness",),
}


@pytest.mark.parametrize("scenario", UNMODELLED)
def test_what_a_scenario_does_not_model_is_in_the_json_only(slipstream, scenario):
    text, data = slipstream("run", scenario, "--all")[1], slipstream("run", scenario, "--json")[1]
    for metric in UNMODELLED[scenario]:
        assert metric not in dict(figures_of(text))
        assert f'"{metric}":' in data


def test_a_profile_has_a_column_of_powers_only_where_one_was_measured():
    measured = profile()
    unmeasured = measured.variants[0].model_copy(update={"power_w": None})
    headings = [
        rendered(profile_table(one), WIDE).splitlines()[2].split()
        for one in (measured, measured.model_copy(update={"variants": [unmeasured]}))
    ]
    assert headings[0] == [*headings[1], "W"]
