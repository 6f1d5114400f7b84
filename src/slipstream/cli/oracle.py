"""`slipstream oracle`: bounds of the optimal reward of an episode, and the regret of each decision of a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.common import (
    EpisodeSeedOption,
    JsonOption,
    console,
    errors,
    print_json,
    progress_bar,
    write_text,
)
from slipstream.cli.help_text import OUTPUT, SIMULATION
from slipstream.cli.outputs import PAGE, ForceOption, check_outputs

if TYPE_CHECKING:
    from slipstream.families.shared.regret import Regret

ScenarioArgument = Annotated[
    str | None,
    typer.Argument(help="Name of a built-in scenario, or a JSON file; not with --regret.", metavar="SCENARIO"),
]
SecondsOption = Annotated[
    float,
    typer.Option(
        help="Seconds of solving; with --regret, per decision.", min=0.1, max=86_400.0, rich_help_panel=SIMULATION
    ),
]
RegretOption = Annotated[
    Path | None,
    typer.Option(
        help="Event log written by `slipstream run --log`: report what its decisions cost.",
        metavar="RUN",
        rich_help_panel=SIMULATION,
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        help="With --regret: the policy that was run, if the log's name for it is not known.",
        rich_help_panel=SIMULATION,
    ),
]
TopOption = Annotated[
    int, typer.Option(help="With --regret: number of decisions to show.", min=1, rich_help_panel=OUTPUT)
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="With --regret: HTML file for a page that marks the decisions.", rich_help_panel=OUTPUT
    ),
]

PROOFS = {
    "schedule": "CP-SAT",
    "search": "exhaustive search",
    "relaxation": "a relaxation",
    "end": "the end of the run",
}
"""Methods of proof in words, where the name of a module does not say enough."""


def oracle(
    scenario: ScenarioArgument = None,
    seed: EpisodeSeedOption = 0,
    seconds: SecondsOption = 10.0,
    regret: RegretOption = None,
    policy: PolicyOption = None,
    top: TopOption = 10,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bound the best possible reward of one episode with all arrivals known, or report what each decision cost.

    Example: slipstream oracle edge/tiny
    """
    from slipstream.errors import InputError

    if regret is not None:
        if scenario is not None:
            raise InputError(f"oracle {scenario} --regret: a run names its scenario: expected one of the two")
        _regret(regret, policy, seconds, top, out, force, as_json)
        return
    if scenario is None:
        raise InputError("oracle: expected a scenario, or --regret and the event log of a run")
    if policy is not None or out is not None:
        raise InputError(f"{'--policy' if policy is not None else '--out'} without --regret: expected both, or neither")
    _bounds(scenario, seed, seconds, as_json)


def _bounds(scenario: str, seed: int, seconds: float, as_json: bool) -> None:
    """Print lower and upper bound of the optimal reward of an episode."""
    from slipstream.families.contract import family_of
    from slipstream.scenario import load

    loaded = load(scenario)
    with errors.status("solving"):
        found = family_of(loaded).oracle(loaded, seed, "test", seconds)
    if as_json:
        print_json({"scenario": scenario, "seed": seed, **found.to_dict()})
        return
    proof = PROOFS.get(found.method, found.method)
    if found.exact:
        console.print(
            f"{scenario}, seed {seed}: the optimum is {found.bound:,.4f}, reached by {found.source} "
            f"(proven by {proof})."
        )
    else:
        console.print(
            f"{scenario}, seed {seed}: the optimum lies between {found.best_known:,.2f}, reached by {found.source}, "
            f"and {found.bound:,.2f}, which no policy can exceed (proven by {proof})."
        )
    console.print(f"Solved in {found.seconds:.1f} s.")


def _regret(
    path: Path, policy: str | None, seconds: float, top: int, out: Path | None, force: bool, as_json: bool
) -> None:
    """Print the regret of the decisions of a recorded run, largest first."""
    from slipstream.reports.html.regret import page_of_regret, regret_of_run, regret_table
    from slipstream.reports.runs import read_recording, run_of

    check_outputs((out, PAGE), force=force)
    events, about, scenario = read_recording(path)
    with progress_bar("computing regret") as move:
        found = regret_of_run(path, events, about, scenario, policy, seconds, move)
    run = run_of(events, about, scenario)
    if out is not None:
        command = shlex.join(["slipstream", *sys.argv[1:]])
        write_text(out, page_of_regret(run, found, top, command))
    if as_json:
        print_json(_as_data(path, about, found, out))
        return
    console.print(regret_table(run, found, top))
    if out is not None:
        console.print(f"Written: {out}", soft_wrap=True)


def _as_data(path: Path, about: dict[str, Any], found: Regret, out: Path | None) -> dict[str, Any]:
    """Return the regret of a run as JSON-ready data."""
    return {
        "run": str(path),
        "policy": about["policy"],
        "seed": about["seed"],
        "reached": found.reached,
        "best_known": found.best_known,
        "bound": found.bound,
        "exact": found.exact,
        "regret": found.total,
        "decisions": [one.to_dict() for one in found.decisions],
        "report": None if out is None else str(out),
    }
