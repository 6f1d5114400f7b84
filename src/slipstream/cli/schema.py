"""`slipstream schema`: the JSON Schema of scenario files, for editors."""

from __future__ import annotations

from slipstream.cli.common import JsonOption, print_json


def schema(as_json: JsonOption = True) -> None:
    """Print the JSON Schema of scenario files.

    Example: slipstream schema > slipstream.schema.json
    """
    from slipstream.scenario import schema as build

    print_json(build())
