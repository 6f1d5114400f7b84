"""Results of a sweep as a table for the terminal, as a page and as a figure, from the data of `sweep.json`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD

from slipstream.files.atomic import replace_file
from slipstream.files.markup import escape
from slipstream.reports.figures.page_figures import Figure
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.html.page import document
from slipstream.reports.terminal.plain_table import PlainTable, bold
from slipstream.reports.terminal.tables import figure

COLUMNS = ("reward", "vs default", "vs heuristic")


def sweep_table(result: dict[str, Any]) -> PlainTable:
    """Return a row per setting and value; the default is marked, the best value of each setting bold."""
    title, padding = _caption(result), (0, 1, 0, 0)
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    for name in ("setting", "value"):
        table.add_column(name, no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", rank=1 if name == "vs default" else 0)
    table.add_column("")
    for setting in result["knobs"]:
        for index, row in enumerate(setting["values"]):
            texts = (row["label"], *_texts(row))
            marked = map(bold, texts) if row["best"] else texts
            table.add_row(
                "" if index else setting["knob"], *marked, _marks(row), end_section=row is setting["values"][-1]
            )
    return table


def sweep_page(result: dict[str, Any]) -> str:
    """Return the study as one HTML page that opens offline: a panel per setting, and the table."""
    low, high = reward_range(result)
    plots, panels = {}, []
    for index, setting in enumerate(result["knobs"]):
        plots[f"setting-{index}"] = _panel(setting, result["heuristic"], (low, high))
        name = escape(setting["knob"])
        plot = f'<div class="plot" id="setting-{index}" role="img" aria-label="reward over {name}"></div>'
        panels.append(f"<figure><h3>{name}</h3>{plot}</figure>")
    rows = [
        (f"{setting['knob']} = {row['label']}", cells([*_texts(row), _marks(row)], [row["best"]] * 4))
        for setting in result["knobs"]
        for row in setting["values"]
    ]
    table = table_of(escape(_caption(result)), ["setting and value", *COLUMNS, ""], rows)
    body = f"""<section aria-labelledby="panels"><h2 id="panels">Reward over each setting</h2>
<p>Each panel varies one setting and leaves the others at their defaults. All share one reward axis.</p>
<ul class="key">
<li><i style="background:var(--open)"></i>one training</li>
<li><i style="background:var(--on-time)"></i>mean of the seeds, with its 95% interval</li>
<li><i style="background:var(--full)"></i>default</li>
<li><i style="background:var(--missed)"></i>{escape(_heuristic(result))}</li>
</ul>
<div class="pair">{"".join(panels)}</div></section>
<section aria-labelledby="figures"><h2 id="figures">Figures</h2>{table}
<p class="note">This page: <code>{escape(str(result["command"]) or "not recorded")}</code>, scenario digest
<code>{escape(str(result["scenario_digest"]))}</code></p></section>"""
    return document(f"{result['scenario']}: what the settings of training do", body, {"figures": plots}, ("sweep.js",))


def write_pictures(result: dict[str, Any], folder: Path) -> list[Path]:
    """Write `sweep.html` and, where matplotlib is installed, `sweep.png` into `folder`; return the paths written."""
    page = folder / "sweep.html"
    replace_file(page, sweep_page(result).encode(), inside=folder)
    if find_spec("matplotlib") is None:
        return [page]
    from slipstream.reports.figures.plotting import png
    from slipstream.reports.figures.sweep_panels import sweep_figure

    picture = folder / "sweep.png"
    replace_file(picture, png(sweep_figure(result)), inside=folder)
    return [page, picture]


def reward_range(result: dict[str, Any]) -> tuple[float, float]:
    """Return the limits of the reward axis that all panels share: all rewards and intervals, with a margin."""
    shown = [result["heuristic"]["reward"]]
    for setting in result["knobs"]:
        for row in setting["values"]:
            half = row["half_width"] or 0.0
            shown += [*row["rewards"], row["mean"] - half, row["mean"] + half]
    margin = 0.06 * (max(shown) - min(shown)) or 1.0
    return min(shown) - margin, max(shown) + margin


def _caption(result: dict[str, Any]) -> str:
    seeds = len(result["seeds"])
    spread = f"mean of {seeds} seeds ± half the 95% interval" if seeds > 1 else "one seed"
    return (
        f"{result['scenario']}: {result['steps']:,} steps per training, {spread}, "
        f"{result['episodes']} held-out episodes; {_heuristic(result)}"
    )


def _heuristic(result: dict[str, Any]) -> str:
    return f"best heuristic: {result['heuristic']['policy']}, {figure(result['heuristic']['reward'])}"


def _texts(row: dict[str, Any]) -> list[str]:
    digits = 3 if abs(row["mean"]) < 10 else 1
    pairs = [(row["mean"], row["half_width"]), (row["to_default"], row["to_default_half_width"])]
    reward, default = (f"±{half:,.{digits}f}" if half is not None else "" for _, half in pairs)
    return [
        f"{row['mean']:,.{digits}f}{reward}",
        "" if row["default"] else f"{row['to_default']:+,.{digits}f}{default}",
        f"{row['to_heuristic']:+,.{digits}f}",
    ]


def _marks(row: dict[str, Any]) -> str:
    return ", ".join(mark for mark in ("default", "best") if row[mark])


def _panel(setting: dict[str, Any], heuristic: dict[str, Any], limits: tuple[float, float]) -> Figure:
    rows = setting["values"]
    labels = [row["label"] for row in rows]
    default = next(index for index, row in enumerate(rows) if row["default"])
    seeds = [(text, reward) for text, row in zip(labels, rows, strict=True) for reward in row["rewards"]]
    means = [row["mean"] for row in rows]
    dots, star = {"size": 6, "opacity": 0.7}, {"size": 13, "symbol": "diamond"}
    bars = {"type": "data", "array": [row["half_width"] or 0.0 for row in rows], "thickness": 1.2, "width": 4}
    line = {"x": labels, "y": [heuristic["reward"]] * len(labels), "line": {"dash": "dash", "width": 1.5}}
    traces = [
        _trace("heuristic", heuristic["policy"], mode="lines", **line),
        _trace("seed", "one training", [x for x, _ in seeds], [y for _, y in seeds], mode="markers", marker=dots),
        _trace("mean", "mean", labels, means, mode="lines+markers", error_y=bars, marker={"size": 8}),
        _trace("default", "default", [labels[default]], [means[default]], mode="markers", marker=star),
    ]
    axes = {
        "xaxis": {"type": "category", "title": {"text": escape(setting["knob"])}, "fixedrange": True},
        "yaxis": {"title": {"text": "reward"}, "range": list(limits)},
    }
    return {"data": traces, "layout": {**axes, "height": 300, "showlegend": False}}


def _trace(role: str, name: str, x: Any, y: Any, **more: Any) -> Figure:
    return {"type": "scatter", "x": x, "y": y, "name": escape(name), "meta": {"role": role}, **more}
