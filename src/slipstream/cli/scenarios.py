"""`slipstream scenarios`: what is built in."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipstream.cli.common import JsonOption, console, print_json, print_json_text
from slipstream.reports.terminal.plain_table import PlainTable

ShowArgument = Annotated[
    str | None, typer.Argument(help="Print this one as JSON, to start one's own from.", metavar="[SCENARIO]")
]


def scenarios(show: ShowArgument = None, as_json: JsonOption = False) -> None:
    """List the built-in scenarios, or print one of them.

    Example: slipstream scenarios edge/heavy > mine.json
    """
    from slipstream.scenario import builtin_names, digest, dump, load

    if show is not None:
        print_json_text(dump(load(show)) + "\n")
        return
    loaded: dict[str, Any] = {name: load(name) for name in builtin_names()}
    if as_json:
        print_json([{"name": n, "description": s.description, "digest": digest(s)} for n, s in loaded.items()])
        return
    table = PlainTable("name", "digest", "description")
    for name, scenario in loaded.items():
        table.add_row(name, digest(scenario)[:12], scenario.description)
    console.print(table)
