"""Page that compares a run on a device with its simulation: metrics of both, and the causes of the differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD

from slipstream.files.markup import escape
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.html.page import page
from slipstream.reports.runs import Run
from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.reports.terminal.tables import figure

COLUMNS = ("measured", "simulated", "difference")


def validation_page(runs: Sequence[Run], result: dict[str, Any], command: str) -> str:
    """Return the page of a measured and a simulated run with the `result` of `slipstream validate`."""
    opening = f"{_verdict(result)}\n{_side_by_side(result)}\n{_causes(result)}"
    return page(runs, command, f"Simulation against measurement: {runs[0].title}", opening, with_summary=False)


def validation_table(result: dict[str, Any]) -> PlainTable:
    """Return a table of measured and simulated metrics for the terminal."""
    title = f"{result['scenario']} under {result['policy']}, seed {result['seed']}, on {result['device']}"
    table = PlainTable("metric", title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for metric, row in result["metrics"].items():
        table.add_row(metric, *_texts(row))
    return table


def cause_lines(result: dict[str, Any]) -> list[str]:
    """Return a line for each cause of a difference between measured and simulated, largest first."""
    return [f"{cause['name']}: {_cause_text(cause)} ({cause['meaning']})" for cause in result["causes"]]


def _texts(row: dict[str, float]) -> list[str]:
    measured = figure(row["measured"])
    if row["deviation"]:
        measured += f" ± {figure(row['deviation'])}"
    gap = row["simulated"] - row["measured"]
    share = f" ({gap / row['measured']:+.1%})" if row["measured"] else ""
    return [measured, figure(row["simulated"]), f"{gap:+.3f}{share}"]


def _cause_text(cause: dict[str, Any]) -> str:
    unit = "" if cause["unit"] == "share" else f" {cause['unit']}"
    shown = (f"{cause[side]:.1%}" if cause["unit"] == "share" else figure(cause[side]) for side in COLUMNS[:2])
    measured, simulated = shown
    return f"{measured}{unit} measured, {simulated}{unit} simulated"


def _verdict(result: dict[str, Any]) -> str:
    noise = result["noise"]
    if "headline" in result:
        row = result["metrics"][result["headline"]]
        error = abs(row["simulated"] - row["measured"]) / row["measured"] if row["measured"] else 0.0
        return f"""<section aria-labelledby="verdict"><h2 id="verdict">Result</h2>
<p>The simulated {escape(result["headline"])} is off by <strong>{error:.1%}</strong>. Other programs took
{noise["others_around_runs"]:.1%} of the machine around the runs.</p></section>"""
    state = "was quiet" if noise["quiet"] else "was <strong>not quiet</strong>"
    p50, miss = result["metrics"]["response_p50_ms"], result["metrics"]["miss_rate"]
    error = abs(p50["simulated"] - p50["measured"]) / p50["measured"] if p50["measured"] else 0.0
    points = 100 * abs(miss["simulated"] - miss["measured"])
    return f"""<section aria-labelledby="verdict"><h2 id="verdict">Result</h2>
<p>The simulated median response is off by <strong>{error:.1%}</strong>, the simulated miss rate by
<strong>{points:.1f} points</strong>. The machine {state} while it was profiled: other programs took
{noise["others"]:.1%} of it, and latencies spread by {noise["spread"]:.1%} of their median.</p></section>"""


def _side_by_side(result: dict[str, Any]) -> str:
    rows = [(metric, cells(_texts(row), [False] * 3)) for metric, row in result["metrics"].items()]
    runs = result["runs"]
    note = "One real run." if runs == 1 else f"Mean of {runs} real runs, ± their standard deviation."
    table = table_of(f"{note} The same arrivals on both sides.", ["metric", *COLUMNS], rows)
    return f'<section aria-labelledby="sides"><h2 id="sides">Measured and simulated</h2>{table}</section>'


def _causes(result: dict[str, Any]) -> str:
    items = "\n".join(
        f"<li><strong>{escape(cause['name'])}</strong>: {_cause_text(cause)}; {escape(cause['meaning'])}</li>"
        for cause in result["causes"]
    )
    return f"""<section aria-labelledby="causes"><h2 id="causes">Why they differ</h2>
<p>The largest cause comes first.</p>
<ul>
{items}
</ul></section>"""
