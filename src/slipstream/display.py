"""How results show themselves in a notebook: HTML tables, data frames and plotly figures; and their JSON files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.files.atomic import write_files
from slipstream.files.markup import escape

ROW_HEIGHT, FRAME_HEIGHT = 28, 190
"""Height in pixels of one row of a figure, and of all that is around the rows."""
MARGIN = {"t": 60, "b": 60, "l": 60, "r": 20}
MOST_PLACES = 6
"""Most decimals of a mean with its interval."""


def number(value: float) -> str:
    """Return `value` with about four significant digits, "n/a" for what is not a number."""
    if math.isnan(value):
        return "n/a"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def with_interval(mean: float, low: float, high: float, episodes: int) -> str:
    """Return a mean and half the width of its interval, which one episode does not have, to the same digit."""
    half = (high - low) / 2
    if episodes < 2 or math.isnan(mean):
        return number(mean)
    if half <= 0.0:
        return f"{number(mean)} ± 0"
    places = min(max(1 - math.floor(math.log10(half)), 0), MOST_PLACES)
    return f"{mean:,.{places}f} ± {half:,.{places}f}"


def html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a compact HTML table; all texts are escaped, and the first cell of a row is its name."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    title = f'<caption style="text-align:left">{escape(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def data_frame(columns: Mapping[str, Any], index: str | None = None) -> Any:
    """Return `columns` as a pandas DataFrame; `index` names the numbering of its rows.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError("to_pandas() needs pandas: run `pip install 'slipstream[notebook]'`") from None
    return pd.DataFrame(dict(columns)).rename_axis(index=index)


def save_json(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write `data` as a JSON file, whole or not at all, and return its path."""
    target = Path(path)
    write_files({target: (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()}, overwrite=True)
    return target


def interval_figure(
    title: str,
    axis: str,
    rows: Sequence[tuple[str, float, float, float]],
    limit: tuple[str, float] | None = None,
) -> Any:
    """Return a plotly figure of means with their intervals: `rows` of name, mean, low and high, from top to bottom.

    `limit` is the name and the value of a vertical line.
    """
    import plotly.graph_objects as go

    names, means, lows, highs = (list(column) for column in zip(*rows, strict=True))
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for mean, high in zip(means, highs, strict=True)],
        "arrayminus": [mean - low for mean, low in zip(means, lows, strict=True)],
    }
    figure = go.Figure(
        go.Scatter(x=means, y=[escape(name) for name in names], error_x=bars, mode="markers", marker={"size": 8})
    )
    if limit is not None:
        figure.add_vline(x=limit[1], line_dash="dash", annotation_text=limit[0])
    figure.update_layout(
        title=escape(title),
        xaxis_title=axis,
        # A policy named by a number is still a name.
        yaxis={"type": "category", "autorange": "reversed"},
        height=FRAME_HEIGHT + ROW_HEIGHT * len(names),
        margin=MARGIN,
        showlegend=False,
    )
    return figure


def distribution_figure(title: str, axis: str, values: Any) -> Any:
    """Return a plotly figure of `values`, each a point beside a box from the first to the third quartile."""
    import plotly.graph_objects as go

    figure = go.Figure(go.Box(x=values, boxpoints="all", boxmean=True, name=""))
    figure.update_layout(title=escape(title), xaxis_title=axis, height=260, margin=MARGIN, showlegend=False)
    return figure
