"""`slipstream scenarios`: list the built-in scenarios, or print one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipstream.cli.common import JsonOption, console, print_json, print_json_text

ShowArgument = Annotated[
    str | None,
    typer.Argument(
        help="A family, to list its scenarios only; or a scenario, to print its JSON.", metavar="FAMILY|SCENARIO"
    ),
]


def scenarios(show: ShowArgument = None, as_json: JsonOption = False) -> None:
    """List the built-in scenarios, of one family or of all, or print one as JSON to start your own from.

    Example: slipstream scenarios edge/heavy > mine.json
    """
    from slipstream.families.contract import FAMILIES
    from slipstream.reports.terminal.tables import figure_table
    from slipstream.scenario import builtin_names, digest, dump, load

    if show is not None and show not in FAMILIES:
        print_json_text(dump(load(show)) + "\n")
        return
    names = [name for name in builtin_names() if show is None or name.startswith(f"{show}/")]
    loaded: dict[str, Any] = {name: load(name) for name in names}
    if as_json:
        print_json([{"name": n, "description": s.description, "digest": digest(s)} for n, s in loaded.items()])
        return
    table = figure_table(None, ("name", "digest", "description"), (), {"digest": 1})
    for name, scenario in loaded.items():
        table.add_row(name, digest(scenario)[:12], scenario.description)
    console.print(table)
