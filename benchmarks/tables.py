"""What the benchmarks that write tables into the documentation share."""

from __future__ import annotations

from pathlib import Path

from slipstream.policies.learned import load_policy, shipped


def interval(gap: dict[str, float]) -> str:
    """Return a difference with its interval as text."""
    return f"{gap['mean']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]"


def commands(family: str) -> str:
    """Return the table of what was trained how, from the cards of the policies."""
    lines = ["| policy | command | steps of the best | size |", "|---|---|---|---|"]
    for name, folder in shipped(family).items():
        card = load_policy(folder).card
        size = sum(path.stat().st_size for path in folder.iterdir())
        lines.append(f"| `{name}` | `{card['command']}` | {card['steps']:,} | {size / 1000:.0f} kB |")
    return "\n".join(lines)


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Put every table between its two markers in a page."""
    text = page.read_text()
    for marker, table in tables.items():
        begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    page.write_text(text)
