"""What the benchmarks that write tables into the documentation share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.evaluation import bootstrap_interval
from slipstream.policies.learned import load_policy, shipped


def interval(gap: dict[str, float]) -> str:
    """Return a difference with its interval as text."""
    return f"{gap['mean']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]"


def ahead(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Return by how much less there is of a cost, episode by episode, and the interval of that."""
    gap = theirs - ours
    low, high = bootstrap_interval(gap)
    return {"mean": float(gap.mean()), "low": low, "high": high}


def rival_tables(figures: dict[str, Any], cost: str, unit: str) -> str:
    """Return a table per scenario: a trained policy next to its rivals, the best first."""
    lines = []
    for name, rows in figures.items():
        lines += [f"### {name}", "", f"| policy | {cost} | trained policy ahead by, {unit} | |", "|---|---|---|---|"]
        ours = next(row["mean"] for policy, row in rows.items() if policy.startswith("learned"))
        for policy, row in sorted(rows.items(), key=lambda item: item[1]["mean"]):
            gap = "" if policy.startswith("learned") else interval(row["ahead"])
            share = "" if policy.startswith("learned") else f"{1.0 - ours / row['mean']:.1%}"
            lines.append(f"| `{policy}` | {row['mean']:,.1f} | {gap} | {share} |")
        lines.append("")
    return "\n".join(lines)


def plain_table(first: str, figures: dict[str, dict[str, float]]) -> str:
    """Return a table with a line per entry and a column per name."""
    columns = list(dict.fromkeys(name for row in figures.values() for name in row))
    lines = [f"| {first} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name, row in figures.items():
        lines.append(f"| {name} | {' | '.join(f'{row[one]:,.1f}' if one in row else '' for one in columns)} |")
    return "\n".join(lines)


def commands(family: str) -> str:
    """Return the table of what was trained how, from the cards of the policies."""
    lines = ["| policy | command | steps of the best | size |", "|---|---|---|---|"]
    for name, folder in shipped(family).items():
        card = load_policy(folder).card
        size = sum(path.stat().st_size for path in folder.iterdir())
        lines.append(f"| `{name}` | `{card['command']}` | {card['steps']:,} | {size / 1000:.0f} kB |")
    return "\n".join(lines)


def publish(figures: dict[str, Any], tables: dict[str, str], as_json: bool, page: Path | None) -> None:
    """Print figures or tables, and put the tables into a page if there is one."""
    print(json.dumps(figures, indent=2) if as_json else "\n\n".join(tables.values()))
    if page is not None:
        write_tables(page, tables)


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Put every table between its two markers in a page."""
    text = page.read_text()
    for marker, table in tables.items():
        begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    page.write_text(text)
