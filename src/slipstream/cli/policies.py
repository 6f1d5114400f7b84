"""`slipstream policies`: list the policies of every family."""

from __future__ import annotations

from slipstream.cli.common import JsonOption, console, print_json
from slipstream.reports.terminal.plain_table import PlainTable


def policies(as_json: JsonOption = False) -> None:
    """List the policies of every family.

    Example: slipstream policies
    """
    from slipstream.families.contract import FAMILIES
    from slipstream.policies.base import describe

    rows = [(family, name, text) for family in FAMILIES for name, text in describe(family).items()]
    if as_json:
        print_json([{"family": family, "name": name, "description": text} for family, name, text in rows])
        return
    table = PlainTable("family", "policy", "what it does")
    for row in rows:
        table.add_row(*row)
    console.print(table)
