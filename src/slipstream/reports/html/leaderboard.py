"""A page that ranks results on the benchmark suite: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.files.markup import escape
from slipstream.policies.base import find
from slipstream.policies.kinds import kind_of
from slipstream.reports.figures.page_figures import Figure
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.html.page import document
from slipstream.reports.terminal.suite import SCALE, interval
from slipstream.suite.players import known_to

PACKAGE = "comes with the package"


def ranking(submissions: Sequence[Mapping[str, Any]], stored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of every family, best first: `submissions`, and the package's own policies `stored`."""
    found = {}
    for family, own in stored.items():
        rows = [
            {
                "title": data["title"],
                "policy": data["players"][family]["policy"],
                "kind": known_to(data["players"][family]),
                "source": data["file"],
                "score": data["families"][family]["score"],
                "own": True,
            }
            for data in submissions
            if family in data["families"]
        ]
        rows += [
            {
                "title": name,
                "policy": name,
                "kind": kind_of(find(name, family)),
                "source": PACKAGE,
                "score": score,
                "own": False,
            }
            for name, score in own.items()
        ]
        found[family] = sorted(rows, key=lambda row: -row["score"]["mean"])
    return found


def leaderboard_page(
    submissions: Sequence[Mapping[str, Any]], stored: Mapping[str, Mapping[str, Any]], digest: str, command: str
) -> str:
    """Return the page; `stored` are the scores of the package's own policies by family."""
    ranked = ranking(submissions, stored)
    version = submissions[0]["suite"]["version"]
    plots: dict[str, Figure] = {}
    sections = [_overview(submissions, list(stored))]
    for family, rows in ranked.items():
        plots[f"family-{family}"] = _panel(rows)
        sections.append(_section(family, rows))
    body = f"""<p class="lead">{escape(SCALE)}. A score is the mean over the scenarios of a family, with the bootstrap
95% interval over their episodes, which are the same for all policies.</p>
{"".join(sections)}
<p class="note">This page: <code>{escape(command)}</code>, suite digest <code>{escape(digest)}</code>. Submitted
scores are shown as they are; <code>slipstream bench verify</code> recomputes them.</p>"""
    return document(f"Slipstream-Bench {version}", body, {"figures": plots}, ("sweep.js",))


def _overview(submissions: Sequence[Mapping[str, Any]], families: Sequence[str]) -> str:
    """Return a table of all submissions, by number of families played, then by mean score."""

    def mean(data: Mapping[str, Any]) -> float:
        scores = [one["score"]["mean"] for one in data["families"].values()]
        return float(sum(scores) / len(scores))

    order = sorted(submissions, key=lambda data: (-len(data["families"]), -mean(data)))
    best = {
        family: max((d["families"][family]["score"]["mean"] for d in order if family in d["families"]), default=None)
        for family in families
    }
    rows = []
    for data in order:
        played = [data["families"].get(family) for family in families]
        texts = ["" if one is None else f"{one['score']['mean']:.1f}" for one in played]
        marks = [
            one is not None and one["score"]["mean"] == best[name] for name, one in zip(families, played, strict=True)
        ]
        rows.append((data["title"], cells([*texts, f"{mean(data):.1f}"], [*marks, False])))
    table = table_of("The best score of a family is bold.", ["submission", *families, "mean of those played"], rows)
    return f'<section aria-labelledby="all"><h2 id="all">All families</h2>{table}</section>'


def _section(family: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        (
            f"{rank}. {row['title']}",
            cells(
                [interval(row["score"]), escape(row["policy"]), row["kind"], escape(row["source"])],
                [row["own"], False, False, False],
            ),
        )
        for rank, row in enumerate(rows, 1)
    ]
    table = table_of("Submissions are bold.", ["", "score", "policy", "kind", "from"], lines)
    label = f"scores of {family}"
    plot = f'<div class="plot" id="family-{family}" role="img" aria-label="{label}"></div>'
    return f"""<section aria-labelledby="{family}"><h2 id="{family}">{family}</h2>
<div class="pair"><figure>{plot}</figure>{table}</div></section>"""


def _panel(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Return a dot with its interval for every row, best on top."""
    traces = []
    for role, own in (("seed", False), ("mean", True)):
        members = [(rank, row) for rank, row in enumerate(rows, 1) if row["own"] is own]
        means = [row["score"]["mean"] for _, row in members]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": [row["score"]["high"] - row["score"]["mean"] for _, row in members],
            "arrayminus": [row["score"]["mean"] - row["score"]["low"] for _, row in members],
            "thickness": 1.2,
            "width": 3,
        }
        labels = [f"{rank}. {escape(row['title'])}" for rank, row in members]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": means,
                "y": labels,
                "error_x": bars,
                "name": role,
                "meta": {"role": role},
                "marker": {"size": 9 if own else 7},
            }
        )
    order = [f"{rank}. {escape(row['title'])}" for rank, row in enumerate(rows, 1)][::-1]
    axes = {
        "xaxis": {"title": {"text": "score"}, "fixedrange": True},
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": order, "fixedrange": True},
    }
    return {"data": traces, "layout": {**axes, "height": 90 + 24 * len(rows), "showlegend": False}}
