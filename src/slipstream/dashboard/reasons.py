"""Choices of recorded runs as a section of the report, with scores, mask and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.dashboard.decisions import Decisions
from slipstream.dashboard.replay import Recording
from slipstream.files.markup import escape
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.terminal.tables import figure

MOST_ALTERNATIVES = 8
"""Candidates of a choice in the table: the chosen one, and those with the highest scores."""
TRIED = 4
"""Moments examined for each choice shown: the one with most candidates is taken."""


def reasons(paths: Sequence[Path], labels: Sequence[str], count: int) -> str:
    """Return a section with `count` choices of each run, spread over its time."""
    parts = [_of_run(path, label, count) for path, label in zip(paths, labels, strict=True)]
    return f"""<section aria-labelledby="reasons"><h2 id="reasons">Decisions</h2>
<p>Some decisions of each run, replayed: the candidates, and the chosen one (bold). Where a policy gives scores, the
highest wins; where it picks a row directly, the rank is the order in which it would pick.
Only columns in which the candidates differ are shown.</p>
{"".join(parts)}</section>"""


def _of_run(path: Path, label: str, count: int) -> str:
    recording = Recording(path)
    decisions = Decisions(recording)
    end = recording.timeline.end / recording.unit
    choice: dict[int, dict[str, Any]] = {}
    for number in range(count):
        moments = [end * (number + (try_ + 0.5) / TRIED) / count for try_ in range(TRIED)]
        found = max((decisions.at(moment) for moment in moments), key=lambda one: len(one["candidates"]))
        choice[int(found["number"])] = found
    shown = [one for one in choice.values() if one["candidates"]]
    if not shown:
        return f"<h3>{escape(label)}</h3><p>No decision was made in this run.</p>"
    about = escape(f"{shown[0]['policy']}: {shown[0]['rule']}")
    tables = "".join(_table(one, recording.family.time_unit) for one in shown)
    return f'<h3>{escape(label)}</h3><p class="note">{about}</p>{tables}'


def _table(choice: dict[str, Any], unit: str) -> str:
    candidates = choice["candidates"]
    shown = candidates[:MOST_ALTERNATIVES]
    if not any(one["chosen"] for one in shown):
        shown = [*shown[:-1], next(one for one in candidates if one["chosen"])]
    columns = [
        index
        for index in range(len(choice["columns"]))
        if len({one["values"][index] for one in shown if one["name"] != "wait"}) > 1
    ]
    judged = [name for name in ("rank", "score") if any(one[name] is not None for one in shown)][:1]
    rows = []
    for one in shown:
        texts = [_judged(one)] if judged else []
        texts += [f"{one['values'][index]:g}" for index in columns]
        rows.append((one["name"], cells(texts, [one["chosen"]] * len(texts))))
    heads = [f"{choice['columns'][index]['name']} ({choice['columns'][index]['unit']})" for index in columns]
    hidden = len(candidates) - len(shown)
    allowed = f"{choice['legal']} of {choice['rows']} rows allowed" + (f", {hidden} not shown" if hidden > 0 else "")
    caption = f"Decision {choice['number']:,} at {figure(choice['time'])} {unit}, {allowed}"
    return table_of(escape(caption), ["candidate", *judged, *heads], rows)


def _judged(candidate: dict[str, Any]) -> str:
    """Return the score of a candidate, or its rank where the policy gives no scores."""
    if candidate["rank"] is not None:
        return str(candidate["rank"])
    return "" if candidate["score"] is None else figure(candidate["score"])
