"""`slipstream bench`: how fast this machine simulates."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json

SecondsOption = Annotated[float, typer.Option(help="Seconds per measurement.", min=0.1, max=600.0)]
ScenarioOption = Annotated[str, typer.Argument(help="Name of a built-in scenario, or a JSON file.")]


def bench(scenario: ScenarioOption = "edge/heavy", seconds: SecondsOption = 2.0, as_json: JsonOption = False) -> None:
    """Measure the simulator on this machine: compiled episodes, vector steps, single steps.

    Example: slipstream bench edge/heavy --seconds 5
    """
    from slipstream.core import speed
    from slipstream.core.family import family_of
    from slipstream.policies import find
    from slipstream.report.tables import metrics_table
    from slipstream.scenario import load

    loaded = load(scenario)
    family = family_of(loaded)
    policy = find(family.default_policy, family.name)
    figures = {}
    with errors.status("measuring"):
        figures["events_per_s"] = speed.events_per_second(loaded, policy, seconds)
        figures["vector_steps_per_s"] = speed.native_steps_per_second(loaded, seconds=seconds)
        figures["single_steps_per_s"] = speed.single_steps_per_second(loaded, seconds)
    if as_json:
        print_json({"scenario": scenario, "policy": policy.name, **figures})
        return
    console.print(metrics_table(f"{scenario} under {policy.name}, one thread", figures))
