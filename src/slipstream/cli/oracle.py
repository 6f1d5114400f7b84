"""`slipstream oracle`: how good anybody could have been."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipstream.cli.common import JsonOption, ScenarioArgument, SeedOption, console, errors, print_json

SecondsOption = Annotated[float, typer.Option(help="How long to solve, in seconds.", min=0.1, max=86_400.0)]


def oracle(
    scenario: ScenarioArgument,
    seed: SeedOption = 0,
    seconds: SecondsOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Bracket the best possible reward of one episode, all arrivals known.

    Example: slipstream oracle edge/tiny
    """
    from slipstream.core.family import family_of
    from slipstream.scenario import load

    loaded: Any = load(scenario)
    with errors.status("solving"):
        found = family_of(loaded).oracle(loaded, seed, "test", seconds)
    if as_json:
        print_json({"scenario": scenario, "seed": seed, **found.to_dict()})
        return
    if found.exact:
        console.print(
            f"{scenario}, seed {seed}: the optimum is {found.bound:,.4f}, reached by {found.source} "
            f"(proven by {found.method})."
        )
    else:
        console.print(
            f"{scenario}, seed {seed}: the optimum lies between {found.best_known:,.2f}, reached by {found.source}, "
            f"and {found.bound:,.2f}, which no policy can exceed (proven by {found.method})."
        )
    console.print(f"It took {found.seconds:.1f} s.")
