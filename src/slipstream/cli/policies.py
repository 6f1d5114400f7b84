"""`slipstream policies`: list the policies of every family, trained ones included."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, console, print_json

FamilyArgument = Annotated[
    str | None, typer.Argument(help="Family whose policies are listed; all families if absent.", metavar="FAMILY")
]

SIMULATING = {
    "auto": "The best of all rules, trained policies and `rollout` in a race on training episodes of the scenario.",
    "rollout": "Continues each candidate in simulated futures and takes the best; `rollout(NAME)` continues with NAME.",
}
"""Policies of every family that simulate ahead, by name."""


def policies(family: FamilyArgument = None, as_json: JsonOption = False) -> None:
    """List the policies of every family, or of one: heuristics, planners and trained policies.

    Example: slipstream policies edge
    """
    from slipstream.errors import InputError
    from slipstream.families.contract import FAMILIES
    from slipstream.reports.terminal.tables import figure_table

    if family is not None and family not in FAMILIES:
        raise InputError(f"unknown family '{family}': expected one of {', '.join(FAMILIES)}")
    rows = [row for one in (FAMILIES if family is None else [family]) for row in _rows(one)]
    if as_json:
        print_json(rows)
        return
    shown = ("family", "name", "kind", "description") if family is None else ("name", "kind", "description")
    table = figure_table(None, shown, ())
    for row in rows:
        table.add_row(*(row[column] for column in shown))
    console.print(table)


def _rows(family: str) -> list[dict[str, str]]:
    """Return family, name, kind and description of each policy of `family`.

    A heuristic sees the candidates of a decision; a model-based policy also knows the laws of the scenario.
    """
    from slipstream.policies.base import describe, find
    from slipstream.policies.kinds import MODEL_BASED, TRAINED, kind_of
    from slipstream.policies.learned import describe_shipped

    known = [(name, MODEL_BASED, text) for name, text in SIMULATING.items()]
    known += [(name, kind_of(find(name, family)), text) for name, text in describe(family).items()]
    trained = [(name, TRAINED, text) for name, text in describe_shipped(family).items()]
    return [{"family": family, "name": n, "kind": kind, "description": text} for n, kind, text in (*known, *trained)]
