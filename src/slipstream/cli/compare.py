"""`slipstream compare`: policies side by side on the same arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.common import JsonOption, RayOption, ScenarioArgument, SeedOption, console, print_json, progress_bar
from slipstream.cli.help_text import OUTPUT, SIMULATION

if TYPE_CHECKING:
    from slipstream.families.contract import Family
    from slipstream.policies.base import Policy


PoliciesOption = Annotated[
    str,
    typer.Option(
        "--policies",
        "-p",
        help="Policies separated by commas: names, folders of trained policies, 'heuristics' for every heuristic, or "
        "'all' for `auto` as well.",
        rich_help_panel=SIMULATION,
    ),
]
EpisodesOption = Annotated[
    int, typer.Option("--episodes", "-n", help="Episodes per policy.", min=1, rich_help_panel=SIMULATION)
]
OracleOption = Annotated[
    float | None,
    typer.Option(
        help="Bound the best possible reward of every episode, solving each for about this many seconds.",
        min=0.0,
        rich_help_panel=SIMULATION,
    ),
]
WhatIfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Also simulate a variant of the scenario with keys changed, such as nodes.0.count=16,backfill=strict; "
        "repeatable.",
        metavar="KEY=VALUE[,...]",
        rich_help_panel=SIMULATION,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option("--metrics", "-m", help="Columns of the table, separated by commas.", rich_help_panel=OUTPUT),
]


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
    """Simulate several policies on the same arrivals and print their metrics with 95% intervals.

    Example: slipstream compare edge/heavy --policies edf,edf-fit --episodes 100 --seed 10000
    """
    from slipstream.cli.choosing import choice_json, choice_line, choice_of
    from slipstream.errors import InputError
    from slipstream.evaluation import chosen_policies
    from slipstream.evaluation import compare as play
    from slipstream.evaluation import what_if as play_changes
    from slipstream.reports.terminal.tables import comparison_table
    from slipstream.scale.executor import executor_at
    from slipstream.scenario import load

    if what_if and oracle is not None:
        raise InputError("--what-if with --oracle: expected one of them")
    family, columns = _columns(scenario, metrics, bool(what_if))
    loaded, listed = load(scenario), _with_auto(policies, family.name)
    choices = [found for one in chosen_policies(listed, loaded) if (found := choice_of(one, loaded)) is not None]
    with progress_bar("simulating episodes") as progress, executor_at(ray) as executor:
        if what_if:
            comparison = play_changes(scenario, what_if, listed, episodes, seed, progress=progress, executor=executor)
        else:
            comparison = play(
                scenario, listed, episodes, seed, progress=progress, oracle_seconds=oracle, executor=executor
            )
    if as_json:
        print_json({**comparison.to_dict(), **choice_json(choices[0] if choices else None)})
        return
    console.print(comparison_table(comparison, columns, family.counts))
    for choice in choices:
        console.print(choice_line(choice), markup=False)
    if comparison.optimum_bounds:
        found = comparison.to_dict()["oracle"]
        console.print(
            f"Best possible reward with all arrivals known: between {found['best_known']['mean']:,.1f} (reached) and "
            f"{found['bound']['mean']:,.1f} (bound); exact in {found['exact']} of {episodes} episodes, "
            f"solved in {found['seconds']:.1f} s."
        )


def _with_auto(policies: str, family: str) -> list[str | Policy]:
    """Return the names that commas separate; `auto` comes first where all policies are meant, not only heuristics."""
    from slipstream.policies.auto import QUICK, Auto

    names = [name.strip() for name in policies.split(",")]
    listed: list[str | Policy] = ["all" if name == "heuristics" else name for name in names]
    return [Auto(family, QUICK), *listed] if "all" in names else listed


def _columns(scenario: str, metrics: str | None, changed: bool) -> tuple[Family, tuple[str, ...]]:
    """Return the family and the names of the metrics to show, checked before anything is compiled or played.

    By default these are the headline metrics; unless the scenario is `changed`, those that it models.
    """
    import numpy as np

    from slipstream.errors import InputError
    from slipstream.families.contract import family_of
    from slipstream.scenario import load
    from slipstream.sim.eventlog import EVENT

    loaded = load(scenario)
    family = family_of(loaded)
    if metrics is None:
        unmodelled = set() if changed else family.unmodelled_metrics(loaded)
        return family, tuple(metric for metric in family.headline if metric not in unmodelled)
    columns, known = tuple(metrics.split(",")), family.metrics(loaded, np.empty(0, EVENT), None)
    for column in columns:
        if column not in known:
            raise InputError(f"--metrics: unknown metric '{column}': expected one of {', '.join(known)}")
    return family, columns
