"""`slipstream compare`: policies side by side on the same arrivals."""

from __future__ import annotations

from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, RayOption, ScenarioArgument, SeedOption, console, print_json, progress_bar

PoliciesOption = Annotated[str, typer.Option(help="Names separated by commas, or 'all'.")]
EpisodesOption = Annotated[int, typer.Option(help="Episodes per policy.", min=1)]
OracleOption = Annotated[
    float | None,
    typer.Option(
        help="Bracket the best possible reward of every episode, with about this many seconds of solving each.", min=0.0
    ),
]
WhatIfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Also play a variant of the scenario with keys changed, such as nodes.0.count=16,backfill=strict; "
        "repeat the option for further variants."
    ),
]
MetricsOption = Annotated[str | None, typer.Option(help="Columns of the table, separated by commas.")]


def compare(
    scenario: ScenarioArgument,
    policies: PoliciesOption = "all",
    episodes: EpisodesOption = 100,
    seed: SeedOption = 0,
    metrics: MetricsOption = None,
    oracle: OracleOption = None,
    what_if: WhatIfOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play several policies on the same arrivals and print their metrics with 95% intervals.

    Example: slipstream compare edge/heavy --policies edf,edf-fit --episodes 100 --seed 10000
    """
    from slipstream.errors import InputError
    from slipstream.evaluation import compare as play
    from slipstream.evaluation import what_if as play_changes
    from slipstream.reports.terminal.tables import comparison_table
    from slipstream.scale.executor import executor_at

    if what_if and oracle is not None:
        raise InputError("--what-if with --oracle: expected one of them")
    columns = _columns(scenario, metrics, seed)
    with progress_bar("playing episodes") as progress, executor_at(ray) as executor:
        if what_if:
            comparison = play_changes(scenario, what_if, policies, episodes, seed, progress=progress, executor=executor)
        else:
            comparison = play(
                scenario, policies, episodes, seed, progress=progress, oracle_seconds=oracle, executor=executor
            )
    if as_json:
        print_json(comparison.to_dict())
        return
    console.print(comparison_table(comparison, columns))
    if comparison.optimum_bounds:
        found = comparison.to_dict()["oracle"]
        console.print(
            f"Best possible reward, all arrivals known: between {found['best_known']['mean']:,.1f} (reached) and "
            f"{found['bound']['mean']:,.1f} (bound); exact in {found['exact']} of {episodes}, {found['seconds']:.1f} s."
        )


def _columns(scenario: str, metrics: str | None, seed: int) -> tuple[str, ...]:
    """Return the names of the metrics to show, checked against one episode before all are played."""
    from slipstream.errors import InputError
    from slipstream.evaluation import evaluate
    from slipstream.families.contract import family_of
    from slipstream.policies.base import default_for
    from slipstream.scenario import load

    loaded = load(scenario)
    family = family_of(loaded)
    if metrics is None:
        return family.headline
    columns, known = tuple(metrics.split(",")), evaluate(loaded, default_for(loaded), 1, seed).values
    for column in columns:
        if column not in known:
            raise InputError(f"--metrics: unknown metric '{column}': expected one of {', '.join(known)}")
    return columns
