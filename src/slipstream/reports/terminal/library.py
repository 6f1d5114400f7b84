"""Tables of the model library for the terminal; all from JSON-ready data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.reports.terminal.tables import figure, figure_table


def share(value: float | None, signed: bool = False) -> str:
    """Return a regret as per cent; nothing where it is not known."""
    if value is None:
        return ""
    return f"{value:+.2%}" if signed else f"{value:.2%}"


def models_table(rows: Sequence[dict[str, Any]]) -> PlainTable:
    """Return a row per model."""
    table = figure_table(
        None,
        ("model", "in use", "own workloads"),
        ("versions", "regret", "generality"),
        {"versions": 3, "own workloads": 2, "generality": 1},
    )
    for row in rows:
        if "error" in row:
            table.add_row(row["model"], "unreadable", "", "", "", "")
            continue
        own = ", ".join(row["scenarios"]) + (f" (+{len(row['held_out'])} held out)" if row["held_out"] else "")
        figures = (str(row["versions"]), share(row["regret"]), share(row["generality"], signed=True))
        table.add_row(row["model"], row["in_use"] or "none", own, *figures)
    return table


def versions_table(shown: dict[str, Any]) -> PlainTable:
    """Return a row per version, with its regret on every workload of the model."""
    table = figure_table(
        f"{shown['model']} ({shown['family']})", ("version", "made by", "from", "regret"), (), {"from": 1}
    )
    for version in shown["versions"]:
        label = version["version"]
        regrets = "; ".join(f"{one['scenario']} {share(one['regret'])}" for one in shown["regret"][label])
        mark = f"{label} (in use)" if label == shown["in_use"] else label
        table.add_row(mark, version["operation"], ", ".join(version["parents"]), regrets)
    return table


def events_table(events: Sequence[dict[str, Any]]) -> PlainTable:
    """Return a row per event."""
    table = figure_table("History", ("time", "event", "in use", "why"), (), {"time": 1})
    for event in events:
        moved = "" if event["after"] is None else f"{event['before'] or 'none'} → {event['after']}"
        table.add_row(event["time"][:19], event["operation"], moved, event["reason"])
    return table


def race_table(choice: dict[str, Any]) -> PlainTable:
    """Return a row per policy of a race, best first; regret is measured against what the title says.

    How many episodes each played is a column where some played more than others.
    """
    title = f"{choice['scenario']}: regret against the {choice['reference']}"
    heats = len({racer["episodes"] for racer in choice["racers"]}) > 1
    figures = ("reward", "regret", "distance", *(["episodes"] if heats else []))
    table = figure_table(title, ("policy",), figures, {"episodes": 2, "distance": 1})
    for racer in choice["racers"]:
        distance = "rule" if racer["distance"] is None else f"{racer['distance']:.2f}"
        texts = [figure(racer["reward"]), share(racer["regret"]), distance, str(racer["episodes"])]
        table.add_row(racer["policy"], *texts[: 4 if heats else 3])
    return table


def shifts_table(outcome: dict[str, Any]) -> PlainTable:
    """Return a row per workload: regret before and after, and the interval of the paired difference."""
    columns = ("before", "after", "difference", "95% interval")
    table = figure_table(outcome["version"], ("workload", "role"), columns, {"before": 2, "after": 1})
    for one in outcome["shifts"]:
        interval = f"[{share(one['low'], True)}, {share(one['high'], True)}]"
        figures = (share(one["before"]), share(one["after"]), share(one["difference"], True), interval)
        table.add_row(one["scenario"], one["role"], *figures)
    return table


def drifts_table(check: dict[str, Any]) -> PlainTable:
    """Return a row per workload: the regret that was accepted and the recent one."""
    figures = ("runs", "accepted", "recent", "difference")
    table = figure_table(f"{check['before']}: recent runs", ("workload",), figures, {"runs": 1})
    for one in check["drifts"]:
        regrets = (share(one["accepted"]), share(one["recent"]), share(one["recent"] - one["accepted"], True))
        table.add_row(one["scenario"], str(one["runs"]), *regrets)
    return table
