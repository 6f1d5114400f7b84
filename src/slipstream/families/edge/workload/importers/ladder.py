"""Import of variants from tables of measurements: CSV or Parquet files with latency and accuracy columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.profiles import Variant
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.files.tables import Table, read_table, table_error

MOST_VARIANTS = 64


def read_ladder(
    path: Path,
    where: Mapping[str, str],
    name_column: str = "model",
    latency_column: str = "latency_ms",
    accuracy_column: str = "accuracy",
    pareto: bool = False,
) -> list[Variant]:
    """Return the variants of the rows whose cells match `where`, fastest first.

    Accuracies are shares between 0 and 1, or percents where any of them is above 1. With `pareto`, a row that is not
    more accurate than every faster one is left out.
    """
    columns = list(dict.fromkeys([name_column, latency_column, accuracy_column, *where]))
    table = _chosen(read_table(path, columns), where)
    latencies = _within(table, latency_column, 1e-6, LONGEST_MS)
    shares = _within(table, accuracy_column, 0.0, 100.0)
    if shares.max() > 1.0:
        shares = shares / 100.0
    names = table.texts(name_column)
    ladder: list[Variant] = []
    for index in np.lexsort((-shares, latencies)).tolist():
        if pareto and ladder and shares[index] <= max(variant.accuracy for variant in ladder):
            continue
        accuracy = round(float(shares[index]), 6)
        ladder.append(Variant(name=names[index], latency_ms=float(latencies[index]), accuracy=accuracy))
    if len(ladder) > MOST_VARIANTS:
        raise table_error(path, f"{len(ladder)} rows: expected at most {MOST_VARIANTS} variants; --where chooses rows")
    return ladder


def with_ladder(scenario: EdgeScenario, task: int, ladder: list[Variant]) -> EdgeScenario:
    """Return the scenario with the variants of `task` replaced by `ladder`."""
    data = scenario.model_dump(mode="json", exclude_unset=True)
    row = data["tasks"][task]
    row.pop("profile", None)
    row |= {"num_variants": len(ladder), "variants": rows_of(ladder)}
    changed = EdgeScenario.model_validate(data)
    changed._folder = scenario._folder
    return changed


def rows_of(ladder: list[Variant]) -> list[dict[str, Any]]:
    """Return the value of the key `variants` for `ladder`."""
    return [variant.model_dump(mode="json", exclude_unset=True) for variant in ladder]


def _chosen(table: Table, where: Mapping[str, str]) -> Table:
    for column, value in where.items():
        cells = [f"{cell:.15g}" if isinstance(cell, float) else str(cell) for cell in table.columns[column]]
        keep = np.array([cell == value for cell in cells], bool)
        if not keep.any():
            found = ", ".join(sorted(set(cells))[:10]) or "no rows"
            raise table_error(table.path, f"{column}: no row has '{value}': expected one of {found}")
        table = table.chosen(keep)
    if not len(table):
        raise table_error(table.path, "has no rows: expected a variant in each")
    return table


def _within(table: Table, column: str, low: float, high: float) -> np.ndarray:
    values = table.numbers(column)
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        index = int(wrong.argmax())
        raise table.error(index, f"{column}: expected a number between {low:g} and {high:g}, got {values[index]:g}")
    return values
