"""Still figures: what they draw, what they call it, and the PNG files made of them."""

import json
import struct
import sys
import zlib

import pytest

from slipstream.cli.common import figure_path, write_figure
from slipstream.errors import InputError
from slipstream.reports.figures.plotting import DPI, label, png
from slipstream.reports.figures.suite import HIGHEST, suite_figure
from slipstream.reports.figures.sweep_panels import sweep_figure
from slipstream.reports.figures.tradeoff import tradeoff_figure
from slipstream.reports.html.sweep import reward_range, write_pictures
from slipstream.suite.catalogue import load_suite
from slipstream.suite.submission import baselines


def value(text, rewards, default=False, half_width=1.5):
    mean = sum(rewards) / len(rewards)
    more = {"to_default": 0.0, "to_default_half_width": 1.0, "to_heuristic": 0.0, "best": False}
    return {"label": text, "rewards": rewards, "mean": mean, "half_width": half_width, "default": default, **more}


def sweep_result(count=2, scenario="edge/heavy"):
    values = [value("0.05", [8.0, 9.0]), value("0.2", [10.0, 11.0], default=True), value("0.5", [9.5, 10.5])]
    return {
        "scenario": scenario,
        "scenario_digest": "0" * 64,
        "command": "",
        "steps": 800_000,
        "seeds": [0, 1],
        "episodes": 10,
        "heuristic": {"policy": "lookahead", "reward": 10.2},
        "knobs": [{"knob": f"ppo.setting{number}", "values": values} for number in range(count)],
    }


def curve(family, held_out=None):
    points = [
        {"count": count, "mean": 0.2 / count, "worst": 0.5 / count, "held_out_mean": held_out} for count in range(1, 6)
    ]
    return {"family": family, "points": points, "enough": 3, "heuristic_mean": 0.1}


def suite_results(title="mine"):
    whole = load_suite()
    stored = {
        family: {name: one.to_dict() for name, one in baselines(whole, family).items()} for family in ("edge", "dag")
    }
    families = {}
    for family, scores in stored.items():
        best = max((name for name in scores if not name.startswith("learned")), key=lambda name: scores[name]["mean"])
        families[family] = {"best_rule": best, "ceiling": 108.0, "score": {"mean": 80.0, "low": 71.0, "high": 88.0}}
    return {"title": title, "suite": {"version": "v2"}, "families": families}, stored


def pixels(content):
    """Return width and height of a PNG file, and its pixel bytes; reads the file itself, without a library."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    place, data = 8, b""
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        kind, chunk = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", chunk[:8])
        data += chunk if kind == b"IDAT" else b""
        place += 12 + length
    return width, height, zlib.decompress(data)


def texts(figure):
    return {text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))}


FIGURES = {
    "sweep": lambda: sweep_figure(sweep_result()),
    "tradeoff": lambda: tradeoff_figure([curve("edge"), curve("dag", 0.3), curve("taskgraph")]),
    "suite": lambda: suite_figure(*suite_results()),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_becomes_a_png_file_of_its_size_that_is_not_blank(name):
    figure = FIGURES[name]()
    width, height, data = pixels(png(figure))
    assert (width, height) == pytest.approx(figure.get_size_inches() * DPI, abs=1)
    assert len(set(data)) > 50


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_data_give_the_same_file(name):
    assert png(FIGURES[name]()) == png(FIGURES[name]())


def test_the_figure_of_a_sweep_has_a_panel_per_setting_on_one_reward_axis():
    result = sweep_result(count=5)
    figure = sweep_figure(result)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [f"ppo.setting{number}" for number in range(5)]
    assert [ax.get_ylabel() for ax in figure.axes] == ["reward", "", "", "reward", ""]
    for ax in figure.axes:
        assert ax.get_ylim() == pytest.approx(reward_range(result))
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.05", "0.2", "0.5"]
        shown = sorted(float(y) for line in ax.lines for y in line.get_ydata())
        assert {8.0, 8.5, 9.0, 9.5, 10.0, 10.2, 10.5, 11.0} <= set(shown)
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["one training", "mean of the seeds, 95% interval", "default", "best heuristic (lookahead)"]
    assert "800,000 steps" in figure.legends[0].get_title().get_text()


def test_the_figure_of_a_tradeoff_draws_each_series_that_has_values():
    figure = tradeoff_figure([curve("edge"), curve("dag", 0.3)])
    edge, dag = figure.axes
    assert [ax.get_title(loc="left") for ax in (edge, dag)] == [
        "edge: 5 models; 3 are enough",
        "dag: 5 models; 3 are enough",
    ]
    drawn = [{line.get_label() for line in ax.lines if not line.get_label().startswith("_")} for ax in (edge, dag)]
    assert drawn == [{"mean", "worst"}, {"mean", "worst", "mean, held-out workloads"}]
    mean = next(line for line in edge.lines if line.get_label() == "mean")
    assert list(mean.get_ydata()) == pytest.approx([0.2 / count for count in range(1, 6)])
    assert edge.get_xlabel() == dag.get_xlabel() == "number of models"
    assert edge.get_ylabel() == "regret"


def test_the_figure_of_the_suite_has_a_row_per_family_and_scores_off_the_scale_at_its_edge():
    found, stored = suite_results()
    stored["edge"]["absurd"] = {"mean": 10_000.0, "low": 0.0, "high": 0.0}
    figure = suite_figure(found, stored)
    (ax,) = figure.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["edge", "dag"]
    assert ax.get_xlabel() == "score: 0 random, 100 best known"
    assert ax.get_xlim()[1] == HIGHEST
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == ">"] == [HIGHEST]
    assert {"80.0", found["families"]["edge"]["best_rule"], "upper bound", "this policy"} <= texts(figure)
    assert "mine on Slipstream-Bench v2" in texts(figure)
    policies = sum(len(one) for one in stored.values())
    assert sum(line.get_marker() in "o<>" for line in ax.lines) == policies + 2


@pytest.mark.parametrize("name", ["$\\frac{", "\x1b[31mred", "名前", "w" * 5_000, "a\nb"])
def test_any_name_can_be_drawn(name):
    for figure in (sweep_figure(sweep_result(scenario=name)), suite_figure(*suite_results(name))):
        assert all(line.isprintable() for one in texts(figure) for line in one.split("\n"))
        width, height, _ = pixels(png(figure))
        assert width < 2_000
        assert height < 2_000


def test_a_long_name_keeps_its_beginning_and_its_end():
    assert label("begin" + "x" * 1_000 + "end").startswith("begin")
    assert label("begin" + "x" * 1_000 + "end").endswith("end")
    assert len(label("x" * 1_000)) <= 40
    assert label("short") == "short"


def test_without_matplotlib_a_sweep_writes_its_page_and_other_commands_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("slipstream.reports.html.sweep.find_spec", lambda name: None)
    monkeypatch.setattr("slipstream.cli.common.find_spec", lambda name: None)
    assert write_pictures(sweep_result(), tmp_path) == [tmp_path / "sweep.html"]
    with pytest.raises(InputError, match=r"needs matplotlib: run `pip install 'slipstream\[figures\]'`"):
        figure_path(tmp_path / "some.png")
    figure_path(None)


def test_a_figure_is_written_whole(tmp_path):
    write_figure(tmp_path / "some.png", FIGURES["tradeoff"]())
    assert pixels((tmp_path / "some.png").read_bytes())[0] > 500
    assert write_pictures(sweep_result(), tmp_path) == [tmp_path / "sweep.html", tmp_path / "sweep.png"]
    assert pixels((tmp_path / "sweep.png").read_bytes())[0] > 500


def test_commands_import_matplotlib_only_to_draw():
    import subprocess

    code = (
        "import sys, json, slipstream.cli.application, slipstream.reports.html.sweep, slipstream.cli.bench;"
        "print(json.dumps('matplotlib' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
