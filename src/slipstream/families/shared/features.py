"""Columns of observations: name, unit, meaning and range, one table per family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Feature:
    """A column: raw (float64) in the kernel, clip(raw * scale, low, high) as float32 in observations."""

    name: str
    unit: str
    """Unit of the observed value."""
    meaning: str
    low: float
    high: float
    scale: float = 1.0
    observed: bool = True
    """False for columns that only compiled policies read."""
    on_demand: bool = False
    """True for a column that is written only for rules that read it."""


FOR_HEURISTICS = (
    Feature("rows", "rows", "rows from this one on stand for nothing, but for the last", 0, 1, observed=False),
    Feature("parameter", "number", "the number that a policy with one was given", 0, 1, observed=False),
    Feature("coin", "number", "fresh random number in (0, 1) for policies that toss one", 0, 1, observed=False),
)
"""Unobserved globals, last in a table: number of filled rows, the policy's parameter, and a random number."""


@dataclass(frozen=True)
class FeatureTable:
    """An ordered list of columns."""

    features: tuple[Feature, ...]

    def __len__(self) -> int:
        return len(self.features)

    def index(self, name: str) -> int:
        """Return the column of the named feature."""
        return self.names.index(name)

    @property
    def names(self) -> list[str]:
        return [feature.name for feature in self.features]

    @property
    def observed(self) -> FeatureTable:
        """The columns an agent sees; hidden columns come last, so indices agree."""
        return FeatureTable(tuple(feature for feature in self.features if feature.observed))

    @property
    def on_demand(self) -> frozenset[int]:
        """The columns that are written only for rules that read them."""
        return frozenset(index for index, feature in enumerate(self.features) if feature.on_demand)

    def image(self) -> np.ndarray:
        """Return the rows (scale, low, high) that map raw to observed values."""
        return np.array(
            [[f.scale for f in self.features], [f.low for f in self.features], [f.high for f in self.features]]
        )

    def identity(self) -> np.ndarray:
        """Return the rows (scale, low, high) that leave raw values unchanged."""
        count = len(self.features)
        return np.array([np.ones(count), np.full(count, -np.inf), np.full(count, np.inf)])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = ["| column | name | unit | range | meaning |", "|---|---|---|---|---|"]
        for index, feature in enumerate(self.features):
            shown = f"{feature.low:g} … {feature.high:g}" if feature.observed else "not observed"
            lines.append(f"| {index} | `{feature.name}` | {feature.unit} | {shown} | {feature.meaning} |")
        return "\n".join(lines)


@dataclass(frozen=True)
class GraphShape:
    """Capacity of an observation for a graph."""

    features: FeatureTable
    """Columns of a node."""
    nodes: int
    edges: int
    jobs: int
    """Greatest number of jobs among the nodes."""
