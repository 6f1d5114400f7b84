"""Regret over the number of models of a library, as a table, from the data of `library.tradeoff`."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD

from slipstream.reports.terminal.plain_table import PlainTable, bold


def tradeoff_table(curve: dict[str, Any]) -> PlainTable:
    """Return a row per number of models; the one that is enough is bold."""
    title = (
        f"{curve['family']}: regret by number of models, on {len(curve['scenarios'])} workloads of their own and "
        f"{len(curve['held_out'])} held out; best single rule: {curve['heuristic']}, {curve['heuristic_mean']:.2%}"
    )
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for rank, name in enumerate(("models", "mean", "worst", "held out: mean", "held out: worst")):
        table.add_column(name, justify="right", rank=max(0, rank - 1))
    table.add_column("which")
    for point in curve["points"]:
        figures = [point[name] for name in ("mean", "worst", "held_out_mean", "held_out_worst")]
        cells = [str(point["count"]), *("" if one is None else f"{one:.2%}" for one in figures)]
        row = [*cells, ", ".join(point["models"])]
        table.add_row(*(map(bold, row) if point["count"] == curve["enough"] else row))
    return table
