"""What the columns of an observation mean: name, unit, sentence and range, in one place per family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Feature:
    """A column: the kernel keeps it raw (float64), the observation shows clip(raw * scale, low, high) as float32."""

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
    """True for a column of rows that is not written for rules that do not read it."""


FOR_HEURISTICS = (
    Feature("rows", "rows", "rows from this one on stand for nothing, but for the last", 0, 1, observed=False),
    Feature("parameter", "number", "the number that a policy with one was given", 0, 1, observed=False),
    Feature("coin", "number", "fresh random number in (0, 1) for policies that toss one", 0, 1, observed=False),
)
"""Globals that agents do not see, last in a table: the length of a list of rows, a policy's own number, and lots."""


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
        """The columns an agent sees; hidden ones stand last, so indices agree."""
        return FeatureTable(tuple(feature for feature in self.features if feature.observed))

    @property
    def on_demand(self) -> frozenset[int]:
        """The columns that are not written for rules that do not read them."""
        return frozenset(index for index, feature in enumerate(self.features) if feature.on_demand)

    def image(self) -> np.ndarray:
        """Return rows (scale, low, high): how raw values become observed ones."""
        return np.array(
            [[f.scale for f in self.features], [f.low for f in self.features], [f.high for f in self.features]]
        )

    def identity(self) -> np.ndarray:
        """Return the image that leaves raw values as they are."""
        count = len(self.features)
        return np.array([np.ones(count), np.full(count, -np.inf), np.full(count, np.inf)])

    def markdown(self) -> str:
        """Return the table as documentation."""
        lines = ["| column | name | unit | range | meaning |", "|---|---|---|---|---|"]
        for index, feature in enumerate(self.features):
            shown = f"{feature.low:g} … {feature.high:g}" if feature.observed else "not observed"
            lines.append(f"| {index} | `{feature.name}` | {feature.unit} | {shown} | {feature.meaning} |")
        return "\n".join(lines)


@dataclass(frozen=True)
class GraphShape:
    """The room that an observation has for a graph."""

    features: FeatureTable
    """Columns of a node."""
    nodes: int
    edges: int
    jobs: int
    """Most jobs that the nodes can belong to."""
