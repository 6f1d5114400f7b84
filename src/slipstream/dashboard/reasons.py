"""Why this one: some choices of recorded runs as a section of the report, with scores, mask and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.dashboard.decisions import Decisions
from slipstream.dashboard.replay import Recording
from slipstream.files.markup import escape
from slipstream.report.html.page import cells, table_of
from slipstream.report.terminal.tables import figure

MOST_ALTERNATIVES = 8
"""Candidates of a choice in the table: the chosen one, and those with the highest scores."""
TRIED = 4
"""Moments looked at for each choice that is shown: the one with most candidates is."""


def reasons(paths: Sequence[Path], labels: Sequence[str], count: int) -> str:
    """Return a section with so many choices of each run, spread over its time."""
    parts = [_of_run(path, label, count) for path, label in zip(paths, labels, strict=True)]
    return f"""<section aria-labelledby="reasons"><h2 id="reasons">Why this one</h2>
<p>Some choices of each run, made again: what could be chosen, what the policy thought of it, and what it took (bold).
Columns are those that tell candidates apart.</p>
{"".join(parts)}</section>"""


def _of_run(path: Path, label: str, count: int) -> str:
    recording = Recording(path)
    decisions = Decisions(recording)
    end = recording.timeline.end / recording.unit
    told: dict[int, dict[str, Any]] = {}
    for number in range(count):
        moments = [end * (number + (try_ + 0.5) / TRIED) / count for try_ in range(TRIED)]
        found = max((decisions.at(moment) for moment in moments), key=lambda one: len(one["candidates"]))
        told[int(found["number"])] = found
    tables = "".join(_table(one, recording.family.time_unit) for one in told.values() if one["candidates"])
    return f"<h3>{escape(label)}</h3>{tables or '<p>No choice was made in this run.</p>'}"


def _table(told: dict[str, Any], unit: str) -> str:
    candidates = told["candidates"]
    shown = candidates[:MOST_ALTERNATIVES]
    if not any(one["chosen"] for one in shown):
        shown = [*shown[:-1], next(one for one in candidates if one["chosen"])]
    columns = [
        place
        for place in range(len(told["columns"]))
        if len({one["values"][place] for one in shown if one["name"] != "wait"}) > 1
    ]
    rows = []
    for one in shown:
        texts = ["" if one["score"] is None else figure(one["score"])]
        texts += [f"{one['values'][place]:g}" for place in columns]
        rows.append((one["name"], cells(texts, [one["chosen"]] * len(texts))))
    heads = [f"{told['columns'][place]['name']} ({told['columns'][place]['unit']})" for place in columns]
    hidden = len(candidates) - len(shown)
    caption = (
        f"Choice {told['number']:,} at {figure(told['time'])} {unit}, {told['legal']} of {told['rows']} rows allowed: "
        f"{told['policy']}, {told['rule']}"
    )
    more = f" {hidden} more candidates are left out." if hidden > 0 else ""
    return table_of(escape(caption) + more, ["candidate", "score", *heads], rows)
