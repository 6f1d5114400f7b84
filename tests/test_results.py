"""Evaluations and comparisons show themselves, become data frames and figures, and come back from their files."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import slipstream
from slipstream.display import with_interval
from slipstream.errors import InputError
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.results import Comparison, Evaluation

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def compared():
    return slipstream.compare("edge/tiny", "stf,edf", episodes=3, seed=5, oracle_seconds=1.0)


def by_hand(**rewards):
    """Return a comparison with the given rewards."""
    evaluations = tuple(Evaluation(name, {"reward": np.array(values)}) for name, values in rewards.items())
    return Comparison("mine.json", len(evaluations[0].of("reward")), 10, evaluations, title="edge/mine")


def test_a_saved_comparison_comes_back_the_same(compared, tmp_path):
    path = compared.save(tmp_path / "new" / "comparison.json")
    loaded = Comparison.load(path)
    assert loaded.to_dict() == compared.to_dict()
    assert loaded.optimum_bounds == compared.optimum_bounds
    assert loaded.difference("edf", "stf", "reward") == compared.difference("edf", "stf", "reward")


def test_a_saved_evaluation_comes_back_the_same(compared, tmp_path):
    evaluation = compared.of("edf")
    assert Evaluation.load(evaluation.save(tmp_path / "edf.json")).to_dict() == evaluation.to_dict()


def test_a_metric_without_a_value_is_not_saved(tmp_path):
    evaluation = Evaluation("edf", {"reward": np.array([np.nan, 1.0]), "jobs": np.array([3.0, 4.0])})
    assert set(Evaluation.load(evaluation.save(tmp_path / "edf.json")).values) == {"jobs"}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("episodes", "3", "episodes: expected a whole number"),
        ("title", 3, "title: expected a text"),
        ("policies", [], "policies: expected a list of policies"),
        ("policies", [{"policy": 3, "metrics": {}}], r"policies\[0\].policy: expected a text, got 3"),
        ("policies", [{"policy": "a", "metrics": {}}], r"policies\[0\].metrics: expected at least one metric"),
        (
            "policies",
            [{"policy": "a", "metrics": {"reward": {"values": ["1"]}}}],
            r"policies\[0\].metrics.reward.values: expected numbers, one for each episode",
        ),
        ("episodes", 4, "policies: expected a value for each of 4 episodes in every metric"),
        ("episodes", 0, "episodes: expected a whole number from 1 on"),
        (
            "policies",
            [{"policy": "a", "metrics": {"reward": {"values": [1]}, "jobs": {"values": [1, 2]}}}],
            r"policies\[0\].metrics: expected at least one metric, and as many episodes in each",
        ),
        ("oracle", {"bounds": []}, "oracle.bounds: expected the bounds of each episode"),
        ("oracle", {"bounds": [{"best_known": "1"}]}, r"oracle.bounds\[0\].best_known: expected a number"),
    ],
)
def test_a_file_that_is_no_comparison_is_told_in_one_line(compared, tmp_path, key, value, message):
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps({**compared.to_dict(), key: value}))
    with pytest.raises(InputError, match=f"^{path}: {message}"):
        Comparison.load(path)


def test_reprs_are_short_and_name_the_best(compared):
    best = compared.ranked()[0]
    assert repr(compared) == f"Comparison('edge/tiny', 2 policies, 3 episodes from seed 5, best {best.policy!r})"
    assert repr(best) == f"Evaluation({best.policy!r}, 3 episodes, reward {best.mean('reward'):.4g} ± 0)"
    assert repr(by_hand(edf=[2.0])) == "Comparison('edge/mine', 1 policy, 1 episode from seed 10, best 'edf')"
    assert repr(OptimumBounds(1.5, 2.0, False, "edf", "search", 0.1)) == (
        "OptimumBounds(optimum in 1.5 to 2, reached by 'edf')"
    )


def test_the_highest_mean_reward_comes_first_and_none_at_all_last():
    found = by_hand(low=[1.0, 2.0], unknown=[np.nan, 9.0], high=[3.0, 2.0])
    assert [one.policy for one in found.ranked()] == ["high", "low", "unknown"]


def test_tables_of_a_notebook_are_escaped_and_hold_every_policy(compared):
    page = compared._repr_html_()
    assert page.count("<tr>") == 3
    assert "<caption" in page
    assert "edge/tiny: 3 episodes from seed 5, mean ± half the 95% interval" in page
    for word in ("edf", "stf", "miss rate", "of bound"):
        assert f">{word}<" in page
    for shown in (
        by_hand(**{HOSTILE: [1.0, 2.0]}),
        Evaluation(HOSTILE, {HOSTILE: np.array([1.0])}),
        OptimumBounds(1.0, 1.0, True, HOSTILE, HOSTILE, 0.1),
    ):
        assert HOSTILE not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1557.94, 1546.0, 1568.0), "1,558 ± 11"),
        ((0.013367, 0.0119, 0.0149), "0.0134 ± 0.0015"),
        ((942.21, 933.6, 950.8), "942.2 ± 8.6"),
        ((0.5, 0.5, 0.5), "0.5 ± 0"),
        ((0.5, 0.5 - 1e-12, 0.5 + 1e-12), "0.500000 ± 0.000000"),
    ],
)
def test_a_mean_is_shown_to_the_digit_of_its_interval(values, text):
    assert with_interval(*values, episodes=20) == text


def test_one_episode_has_no_interval():
    page = by_hand(edf=[2.0])._repr_html_()
    assert "±" not in page
    assert "interval" not in page


def test_a_comparison_shows_the_metrics_that_all_its_policies_have():
    values = {"reward": np.array([1.0]), "extra": np.array([2.0])}
    found = Comparison("x", 1, 0, (Evaluation("a", values), Evaluation("b", {"reward": np.array([3.0])})))
    assert "extra" not in found._repr_html_()
    assert list(found.to_pandas().columns) == ["policy", "seed", "reward"]


def test_data_frames_have_a_row_per_episode(compared):
    frame = compared.to_pandas()
    assert frame[["policy", "seed"]].to_numpy().tolist() == [[p, s] for p in ("stf", "edf") for s in (5, 6, 7)]
    assert frame.groupby("policy")["reward"].mean()["edf"] == compared.of("edf").mean("reward")
    alone = compared.of("edf").to_pandas()
    assert alone["reward"].tolist() == compared.of("edf").of("reward").tolist()
    assert compared.optimum_bounds[0].to_pandas()["bound"].tolist() == [compared.optimum_bounds[0].bound]


def test_without_pandas_the_command_that_installs_it_is_named(compared, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"to_pandas\(\) needs pandas: run `pip install 'slipstream\[notebook\]'`"):
        compared.to_pandas()


def test_figures_show_means_intervals_and_the_bound():
    found = by_hand(edf=[1.0, 2.0, 6.0], stf=[0.0, 0.5, 1.0])
    (dots,) = found.plot().data
    low, high = found.of("edf").interval("reward")
    assert (list(dots.y), list(dots.x)) == (["edf", "stf"], [3.0, 0.5])
    assert dots.error_x.array[0] == pytest.approx(high - 3.0)
    assert dots.error_x.arrayminus[0] == pytest.approx(3.0 - low)
    (box,) = found.of("edf").plot().data
    assert list(box.x) == [1.0, 2.0, 6.0]
    assert by_hand(**{HOSTILE: [1.0]}).plot().data[0].y[0].startswith("&lt;")


def test_the_figure_of_the_reward_has_a_line_at_the_bound(compared):
    (line,) = compared.plot().layout.shapes
    assert line.x0 == line.x1 == pytest.approx(np.mean([one.bound for one in compared.optimum_bounds]))
    assert not compared.plot("miss_rate").layout.shapes


def test_the_oracle_can_be_asked_from_python(tmp_path):
    found = slipstream.oracle("edge/tiny", seconds=1.0)
    assert (found.bound, found.exact) == (5.0, True)
    assert json.loads(found.save(tmp_path / "bounds.json").read_text()) == found.to_dict()
