"""`slipstream policies`: list the policies of every family, heuristics and trained ones."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, console, print_json

FamilyArgument = Annotated[
    str | None, typer.Argument(help="Family whose policies are listed; all families if absent.", metavar="FAMILY")
]


def policies(family: FamilyArgument = None, as_json: JsonOption = False) -> None:
    """List the policies of every family, or of one: heuristics and the trained policies that come with the package.

    Example: slipstream policies edge
    """
    from slipstream.errors import InputError
    from slipstream.families.contract import FAMILIES
    from slipstream.policies.base import describe
    from slipstream.policies.learned import describe_shipped
    from slipstream.reports.terminal.tables import figure_table

    if family is not None and family not in FAMILIES:
        raise InputError(f"unknown family '{family}': expected one of {', '.join(FAMILIES)}")
    kinds = {"heuristic": describe, "trained": describe_shipped}
    rows = [
        {"family": one, "name": name, "kind": kind, "description": text}
        for one in (FAMILIES if family is None else [family])
        for kind, list_policies in kinds.items()
        for name, text in list_policies(one).items()
    ]
    if as_json:
        print_json(rows)
        return
    shown = ("family", "name", "kind", "description") if family is None else ("name", "kind", "description")
    table = figure_table(None, shown, ())
    for row in rows:
        table.add_row(*(row[column] for column in shown))
    console.print(table)
