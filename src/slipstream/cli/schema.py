"""`slipstream schema`: the JSON Schema of scenario files, for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstream.cli.common import print_json
from slipstream.cli.help_text import OUTPUT

FamilyArgument = Annotated[
    str | None, typer.Argument(help="Family whose schema is printed; all families if absent.", metavar="FAMILY")
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", "-j", help="Accepted as in other commands; the output is always JSON.", rich_help_panel=OUTPUT
    ),
]


def schema(family: FamilyArgument = None, as_json: JsonOption = False) -> None:
    """Print the JSON Schema of scenario files, of one family or of all.

    Example: slipstream schema edge > edge.schema.json
    """
    from slipstream.scenario import schema as build

    print_json(build(family))
