"""Scores of a policy on the benchmark suite as tables for the terminal, from the data of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.reports.terminal.tables import figure_table
from slipstream.suite.players import known_to

SCALE = "0 is random, 100 the best known in hindsight"


def interval(one: Mapping[str, float], signed: bool = False) -> str:
    """Return a score with its 95% interval."""
    form = "+.1f" if signed else ".1f"
    return f"{one['mean']:{form}} [{one['low']:{form}}, {one['high']:{form}}]"


def suite_table(found: Mapping[str, Any]) -> PlainTable:
    """Return a row per family: the policy and its kind, the score, its upper bound, the gain over the best rule."""
    title = f"{found['title']} on Slipstream-Bench {found['suite']['version']}: {SCALE}"
    ranks = {"policy": 2, "kind": 4, "ceiling": 3}
    table = figure_table(title, ("family", "policy", "kind"), ("score", "ceiling"), ranks)
    table.add_column("best rule", rank=1)
    table.add_column("gain over best rule", justify="right")
    for family, one in found["families"].items():
        texts = (interval(one["score"]), f"{one['ceiling']:.1f}", one["best_rule"], interval(one["gain"], signed=True))
        player = found["players"][family]
        row = (family, player["policy"], known_to(player), *texts)
        table.add_row(*row)
    return table


def each_table(found: Mapping[str, Any], family: str) -> PlainTable:
    """Return a row per scenario of a family."""
    table = figure_table(f"{family}, scenario by scenario", ("scenario", "policy"), ("score",), {"policy": 1})
    for name, one in found["families"][family]["scenarios"].items():
        table.add_row(name, one["policy"], f"{one['score']:.1f}")
    return table


def practice_table(scores: Mapping[str, Mapping[str, float]]) -> PlainTable:
    """Return a row per family, of practice episodes."""
    table = figure_table(f"Practice episodes: {SCALE}", ("family",), ("score",))
    for family, one in scores.items():
        table.add_row(family, interval(one))
    return table
