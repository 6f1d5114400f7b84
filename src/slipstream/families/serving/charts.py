"""Charts of serving alone: capacity and demand over time, and the deployment over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.metrics import Deployments, deployments_of, requests_of
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.charts import Chart, Picture
from slipstream.files.markup import escape

BINS = 480
"""Time bins of a chart."""


def charts(scenario: ServingScenario, events: np.ndarray) -> list[Chart | Picture]:
    """Return the charts of an episode."""
    requests, deployments = requests_of(scenario, events), deployments_of(events)
    edges = np.linspace(0.0, max(1.0, float(requests.end)), BINS + 1)
    spec = compiled_scenario(scenario).spec
    kinds, column_of = spec["kinds"], compiled_scenario(scenario).column_of
    peaks = spec["columns"]["peak"][column_of[kinds[deployments.accelerator], deployments.variant]]
    lines = {
        "capacity": hosted_share(deployments, edges) @ peaks,
        "demand": _rate(requests.arrival, edges),
        "answered on time": _rate(requests.finish[requests.on_time], edges),
    }
    return [_over_time(lines, edges), _deployment_picture(scenario, deployments, edges)]


def hosted_share(deployments: Deployments, edges: np.ndarray) -> np.ndarray:
    """Return the share of each time bin (rows) for which each deployment (columns) lasted."""
    begin, end = np.maximum(deployments.begin, edges[:-1, None]), np.minimum(deployments.end, edges[1:, None])
    return np.asarray(np.maximum(0.0, end - begin) / np.diff(edges)[:, None])


def _rate(times: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the events at `times` per second, by bin."""
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
    caption = (
        "Capacity is the sum of the peak throughputs of the hosted variants, including those that still load; demand "
        "above it cannot be served."
    )
    return Picture("Capacity and demand", caption, {"data": traces, "layout": {**axes, "showlegend": True}}, True)


def _deployment_picture(scenario: ServingScenario, deployments: Deployments, edges: np.ndarray) -> Picture:
    names = [variant.name for variant in compiled_scenario(scenario).variants]
    shown = np.unique(deployments.variant)
    share = hosted_share(deployments, edges)
    rows = [share[:, deployments.variant == variant].sum(axis=1).round(3).tolist() for variant in shown]
    trace = {
        "type": "heatmap",
        "x": _seconds(edges),
        "y": [escape(names[variant]) for variant in shown],
        "z": rows,
        "zmin": 0,
        "zmax": max(1.0, *map(max, rows)) if rows else 1.0,  # without it plotly.js ignores zmin
        "colorbar": {"title": {"text": "accelerators"}, "thickness": 12},
        "hovertemplate": "%{y}: on %{z} around %{x} s<extra></extra>",
    }
    categories = {"type": "category", "autorange": "reversed", "fixedrange": True}
    layout = {"xaxis": {"title": {"text": "time (s)"}}, "yaxis": categories, "height": 130 + 22 * max(1, len(rows))}
    caption = "Each row is a variant; the stronger the colour, the more accelerators hosted it at that time."
    return Picture("Hosted variants", caption, {"data": [trace], "layout": layout}, True)
