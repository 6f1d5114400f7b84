"""Slowdown, energy and fairness at once: policies that are to be better than frugal SJF in all three, each elsewhere.

Frugal SJF is `power-aware` over the order of SJF: shortest requested time first, at the most frugal cap that takes at
most 1.1 times as long. What counts in a training is how far a policy is ahead of it in each of the three, by weights
that differ from training to training; being behind in any counts much.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cluster_search import Scorer, Windows

from slipstream.families.cluster.features import ADDED_POWER, JOB, PARAMETER, ROWS, START, TIME_FACTOR
from slipstream.families.cluster.kernel import priorities
from slipstream.families.cluster.policies import first_in_order, lowest_factor
from slipstream.policies.base import Heuristic
from slipstream.sim.simulator import Simulator

OBJECTIVES = ("slowdown_mean", "energy_kwh", "jain_users")
TYPICAL = (0.2, 0.02, 0.05)
"""By which share each of them is about as hard to better."""
BEHIND = 10.0
"""How many times what a policy is behind by counts."""
WEIGHTS = {
    "mix-all": (1.0, 1.0, 1.0),
    "mix-slowdown": (1.0, 0.1, 0.1),
    "mix-energy": (0.1, 1.0, 0.1),
    "mix-fairness": (0.1, 0.1, 1.0),
}
"""How much slowdown, energy and fairness count."""


def frugal_sjf(globals_row, rows, mask):  # type: ignore[no-untyped-def]
    """Shortest requested time first, each at the most frugal cap that takes at most 1.1 times as long."""
    first = first_in_order(globals_row, rows, mask, priorities.SJF)
    best = first
    least = lowest_factor(globals_row, rows, mask, first)
    for row in range(int(globals_row[ROWS])):
        same = mask[row] and rows[row, START] == 1.0 and rows[row, JOB] == rows[first, JOB]
        bearable = rows[row, TIME_FACTOR] <= globals_row[PARAMETER] * least
        if same and bearable and rows[row, ADDED_POWER] < rows[best, ADDED_POWER]:
            best = row
    return best


def frugal(bound: float) -> Heuristic:
    """Return frugal SJF with a bound of its own."""
    return Heuristic(f"power-aware-sjf({bound:g})", "cluster", frugal_sjf, is_rule=False, parameter=bound)


class Mixed(Windows):
    """Windows that count slowdown, energy and fairness next to frugal SJF."""

    figures = OBJECTIVES

    def __init__(self, scenario: Any, split: str, count: int, weights: tuple[float, ...]) -> None:
        self.weights, self.scenario = weights, scenario
        super().__init__(scenario, split, count, (frugal(1.1),))

    def _simulator(self, scenario: Any) -> Simulator:
        return Simulator(scenario)

    def _figures(self, policy: Any, seed: int) -> tuple[float, ...]:
        log = self.simulator.play(policy, seed, self.split)
        found = self.simulator.family.metrics(self.scenario, log, seed, self.split)
        return tuple(found[name] for name in OBJECTIVES)

    def cost(self, found: np.ndarray, places: np.ndarray) -> float:
        """Return what is to be made small; below 0 is better than frugal SJF in all three."""
        (theirs,) = (rival[places] for rival in self.rivals.values())
        gaps = np.log(costs_of(found) / costs_of(theirs)) / np.array(TYPICAL)
        return float(gaps @ np.array(self.weights) + BEHIND * np.maximum(0.0, gaps).sum())


def costs_of(found: np.ndarray) -> np.ndarray:
    """Return the means of what is to be small: slowdown, energy and what Jain's index lacks to 1."""
    slowdown, energy, jain = found.mean(axis=0)
    return np.array([slowdown, energy, 1.0 - jain])


class FrugalScorer(Scorer):
    """The network with a bar more: slower caps are better up to a time factor, and worse beyond it."""

    def __init__(self) -> None:
        super().__init__("sjf")
        self.search_space |= {
            "height": (0.0, 0.7),
            "bound": (1.1, 0.05),
            "user_share": (0.0, 2.0),
            "user_jobs": (0.0, 0.3),
        }

    def heads(self, values: dict[str, float]) -> dict[str, dict[str, float]]:
        """Return the weights of the columns, for each head."""
        users = {name: values[name] for name in ("user_share", "user_jobs")}
        return {head: {**weights, **users, "time_factor": 3.0} for head, weights in super().heads(values).items()}

    def bars(self, values: dict[str, float]) -> list[tuple[dict[str, float], float, float]]:
        """Return the bars."""
        return [*super().bars(values), ({"time_factor": 1.0}, -values["bound"], -20.0)]


def draw(points: dict[str, dict[str, float]], path: Path) -> None:
    """Draw slowdown over energy, coloured by fairness: trained policies, frugal SJF and the others."""
    import plotly.graph_objects as go

    kinds = {
        "trained": ("diamond", [one for one in points if one.startswith("learned")]),
        "power-aware over SJF": ("square", [one for one in points if one.startswith("power-aware-sjf")]),
    }
    taken = {one for _, listed in kinds.values() for one in listed}
    kinds["other heuristics"] = ("circle", [one for one in points if one not in taken])
    figure = go.Figure()
    for kind, (symbol, listed) in kinds.items():
        figure.add_scatter(
            x=[points[one]["energy_kwh"] for one in listed],
            y=[points[one]["slowdown_mean"] for one in listed],
            text=[f"{one}: Jain {points[one]['jain_users']:.3f}" for one in listed],
            mode="markers+text" if kind != "other heuristics" else "markers",
            textposition="top center",
            name=kind,
            marker={
                "symbol": symbol,
                "size": 12,
                "color": [points[one]["jain_users"] for one in listed],
                "coloraxis": "coloraxis",
            },
        )
    figure.update_layout(
        template="plotly_white",
        xaxis_title="energy, kWh a window",
        yaxis={"title": "mean bounded slowdown", "type": "log"},
        coloraxis={"colorscale": "Viridis", "colorbar": {"title": "Jain's index of the users' slowdowns"}},
        legend={"orientation": "h"},
    )
    figure.write_html(path, include_plotlyjs=True)
