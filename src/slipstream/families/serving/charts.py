"""What a report draws of serving alone: capacity next to demand over time, and what was hosted when."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.metrics import Stays, requests_of, stays_of
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.charts import Chart, Picture
from slipstream.files.markup import escape

BINS = 120
"""Columns of a picture over time."""


def charts(scenario: ServingScenario, events: np.ndarray) -> list[Chart | Picture]:
    """Return the charts of an episode."""
    requests, stays = requests_of(scenario, events), stays_of(events)
    edges = np.linspace(0.0, max(1.0, float(requests.end)), BINS + 1)
    spec = compiled_scenario(scenario).spec
    kinds, column_of = spec["kinds"], compiled_scenario(scenario).column_of
    peaks = spec["columns"]["peak"][column_of[kinds[stays.accelerator], stays.variant]]
    lines = {
        "capacity": hosted_share(stays, edges) @ peaks,
        "demand": _rate(requests.arrival, edges),
        "answered on time": _rate(requests.finish[requests.on_time], edges),
    }
    return [_over_time(lines, edges), _hosting(scenario, stays, edges)]


def hosted_share(stays: Stays, edges: np.ndarray) -> np.ndarray:
    """Return the share of each spell (rows) in which each stay (columns) lasted."""
    begin, end = np.maximum(stays.begin, edges[:-1, None]), np.minimum(stays.end, edges[1:, None])
    return np.asarray(np.maximum(0.0, end - begin) / np.diff(edges)[:, None])


def _rate(times: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many of some times there were per second."""
    return np.asarray(np.histogram(times, edges)[0] / np.diff(edges) * 1e9)


def _seconds(edges: np.ndarray) -> list[float]:
    middle: list[float] = ((edges[:-1] + edges[1:]) / 2e9).round(3).tolist()
    return middle


def _over_time(lines: dict[str, np.ndarray], edges: np.ndarray) -> Picture:
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": _seconds(edges),
            "y": values.round(3).tolist(),
            "name": name,
            "meta": {"colour": colour},
        }
        for colour, (name, values) in enumerate(lines.items())
    ]
    axes = {"xaxis": {"title": {"text": "time (s)"}}, "yaxis": {"title": {"text": "requests/s"}, "rangemode": "tozero"}}
    caption = "Capacity is the sum of the peaks of what is hosted, loads included; what is asked for beyond it is lost."
    return Picture("Capacity and demand", caption, {"data": traces, "layout": {**axes, "showlegend": True}})


def _hosting(scenario: ServingScenario, stays: Stays, edges: np.ndarray) -> Picture:
    names = [variant.name for variant in compiled_scenario(scenario).variants]
    shown = np.unique(stays.variant)
    share = hosted_share(stays, edges)
    rows = [share[:, stays.variant == variant].sum(axis=1).round(3).tolist() for variant in shown]
    trace = {
        "type": "heatmap",
        "x": _seconds(edges),
        "y": [escape(names[variant]) for variant in shown],
        "z": rows,
        "zmin": 0,
        "colorbar": {"title": {"text": "accelerators"}, "thickness": 12},
        "hovertemplate": "%{y}: on %{z} around %{x} s<extra></extra>",
    }
    categories = {"type": "category", "autorange": "reversed", "fixedrange": True}
    layout = {"xaxis": {"title": {"text": "time (s)"}}, "yaxis": categories, "height": 130 + 22 * max(1, len(rows))}
    caption = "Each row is a variant; the stronger the colour, the more accelerators hosted it."
    return Picture("What was hosted", caption, {"data": [trace], "layout": layout})
