"""`slipstream library`: choose among trained models, improve them, and go back."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.common import (
    JsonOption,
    ScenarioArgument,
    check_seed,
    console,
    errors,
    figure_path,
    print_json,
    progress_bar,
    write_figure,
)
from slipstream.cli.console import line
from slipstream.cli.help_text import OUTPUT, SIMULATION, TRAINING, Group
from slipstream.cli.outputs import ForceOption
from slipstream.cli.train import WarmStartOption, parse_settings, print_limits

if TYPE_CHECKING:
    from slipstream.library import Library
    from slipstream.library.updating import Outcome

app = typer.Typer(cls=Group, no_args_is_help=True)

FAILED = 1
"""Exit code of a command that ran but did not reach its purpose."""

LibraryOption = Annotated[Path, typer.Option("--library", "-L", help="Folder of the library.")]
EpisodesOption = Annotated[
    int,
    typer.Option("--episodes", "-n", help="Episodes by which versions are judged.", min=2, rich_help_panel=SIMULATION),
]
OracleOption = Annotated[
    float,
    typer.Option(
        help="Measure regret against the optimum, solving each episode for about this many seconds; 0: against the "
        "best reward of any policy.",
        min=0.0,
        rich_help_panel=SIMULATION,
    ),
]
ModelArgument = Annotated[str, typer.Argument(help="Name of a model.", metavar="MODEL")]
VersionArgument = Annotated[
    str, typer.Argument(help="A version, as in cholesky@v3; a model alone means its version in use.", metavar="VERSION")
]
ToleranceOption = Annotated[
    float, typer.Option(help="Regret that may be lost, as a share: 0.02 is 2%.", min=0.0, rich_help_panel=SIMULATION)
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Seed of the training: arrivals and sampled actions.",
        min=0,
        callback=check_seed,
        rich_help_panel=TRAINING,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any training setting, such as ppo.clip_range=0.1; repeatable.",
        metavar="KEY=VALUE",
        rich_help_panel=TRAINING,
    ),
]
ScenariosOption = Annotated[
    list[str] | None, typer.Option("--scenario", help="A workload that the model owns; repeatable.")
]
HERE = Path("library")
DEFAULT_MINUTES = 2.0
"""Of training, for an update."""


@app.callback()
def _about() -> None:
    """Manage many trained models: choose one for a workload, update, merge, split and roll back.

    Example: slipstream library choose edge/light
    """


@contextmanager
def _open(
    folder: Path, create: bool = False, episodes: int = 20, oracle: float = 0.0, silent: bool = False
) -> Iterator[Library]:
    """Open the library in `folder`; unless `silent`, show on the terminal which policy is being played."""
    from slipstream.library import Library

    with ExitStack() as closing:
        progress = None
        if not silent:
            status = closing.enter_context(errors.status("reading the library"))

            def progress(text: str) -> None:
                status.update(line(f"simulating {text}"))

        library = Library(folder, create, episodes, oracle, progress)
        closing.callback(library.store.close)
        yield library


def _print_outcome(outcome: Outcome, as_json: bool) -> None:
    """Print whether a version was accepted; exit with 1 if it was not."""
    from slipstream.reports.terminal.library import shifts_table

    data = outcome.to_dict()
    if as_json:
        print_json(data)
    else:
        console.print(shifts_table(data))
        console.print(f"{outcome.version.label} {_verdict(outcome)}: {outcome.reason}.", soft_wrap=True, markup=False)
    if outcome.verdict != "accepted":
        raise typer.Exit(FAILED)


def _verdict(outcome: Outcome) -> str:
    if outcome.verdict == "split":
        return "rejected, but worth a model of its own (slipstream library split)"
    return outcome.verdict


@app.command()
def add(
    model: ModelArgument,
    policy: Annotated[
        str, typer.Argument(help="Folder of a trained policy, or the name of one that is built in.", metavar="POLICY")
    ],
    scenario: ScenariosOption = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(help="A workload that it was not trained on, to evaluate it on; repeatable.", metavar="SCENARIO"),
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Put this version in use without any check.")] = False,
    reason: Annotated[str, typer.Option(help="Reason, for the history.")] = "",
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Add a trained policy as a new model, or as a further version of one; a new model is in use at once.

    Example: slipstream library add heavy learned-heavy
    """
    from slipstream.library.library import fitting_scenarios, policy_folder
    from slipstream.library.storage.records import check_name
    from slipstream.policies.learned import load_policy

    # Bad input is found before a library is created.
    check_name(model)
    fitting_scenarios(load_policy(policy_folder(policy)), (*(scenario or ()), *(held_out or ())))
    with _open(library, True, episodes, oracle) as opened:
        version = opened.add(model, policy, scenario or (), held_out or (), use, reason)
        shown = opened.show(version.label)
    if as_json:
        print_json(shown)
        return
    used = "in use" if shown["in_use"] == version.label else "kept, not in use"
    console.print(f"{version.label} added, {used}.", markup=False)
    for one in shown["regret"][version.label]:
        console.print(
            f"  {one['scenario']} ({one['role']}): regret {one['regret']:.2%} against the {one['reference']}",
            markup=False,
        )


@app.command("list")
def list_models(library: LibraryOption = HERE, episodes: EpisodesOption = 20, as_json: JsonOption = False) -> None:
    """List the models: version in use, own workloads, mean regret on them, and generality.

    Generality is the additional regret of a model on workloads of other models, compared with their owners; 0% is best.

    Example: slipstream library list
    """
    from slipstream.reports.terminal.library import models_table

    with _open(library, episodes=episodes) as opened:
        rows = opened.models()
    if as_json:
        print_json(rows)
        return
    console.print(models_table(rows))
    for row in rows:
        if "error" in row:
            console.print(f"{row['model']}: {row['error']}", soft_wrap=True)


@app.command()
def show(
    version: VersionArgument, library: LibraryOption = HERE, episodes: EpisodesOption = 20, as_json: JsonOption = False
) -> None:
    """Show a model or one of its versions: its origin, its regret and its history.

    Example: slipstream library show heavy
    """
    from slipstream.reports.terminal.library import events_table, versions_table

    with _open(library, episodes=episodes) as opened:
        shown = opened.show(version)
    if as_json:
        print_json(shown)
        return
    console.print(versions_table(shown))
    console.print(events_table(shown["events"]))
    for one in shown["versions"]:
        console.print(f"{one['version']}: {one['folder']}", soft_wrap=True, markup=False)


@app.command()
def choose(
    scenario: ScenarioArgument,
    nearest: Annotated[int, typer.Option(help="Number of nearest models that are compared.", min=0)] = 5,
    race: Annotated[
        int,
        typer.Option(help="Episodes per candidate; up to 8 times as many where the result is not clear.", min=1),
    ] = 8,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Choose a policy for a workload: a model that owns it, or the best of the nearest models and all heuristics.

    Example: slipstream library choose edge/light
    """
    from slipstream.reports.terminal.library import race_table

    with _open(library, episodes=episodes) as opened:
        choice = opened.choose(scenario, nearest, race)
    data = choice.to_dict()
    if as_json:
        print_json(data)
        return
    console.print(race_table(data))
    console.print(f"{choice.reason}. Chosen in {choice.seconds:.1f} s.", soft_wrap=True, markup=False)
    console.print(f"Use it: slipstream compare {scenario} --policies all,{choice.policy}", soft_wrap=True, markup=False)


@app.command()
def update(
    model: ModelArgument,
    scenario: ScenarioArgument,
    steps: Annotated[
        int | None,
        typer.Option(help="Decisions to train on, rounded up to whole rollouts.", min=1, rich_help_panel=TRAINING),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes of training; default: 2, unless --steps is given.", min=0.01, rich_help_panel=TRAINING
        ),
    ] = None,
    warm_start: WarmStartOption = "none",
    seed: SeedOption = 0,
    settings: SetOption = None,
    tolerance: ToleranceOption = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model on a workload; it is put in use if it improves there significantly and degrades no other.

    Example: slipstream library update heavy edge/medium --minutes 2
    """
    changes: dict[str, Any] = {"seed": seed, "warm_start": None if warm_start == "none" else warm_start}
    changes |= parse_settings("--set", settings, steps)
    if "steps" not in changes and minutes is None:
        minutes = DEFAULT_MINUTES
    command = shlex.join(["slipstream", *sys.argv[1:]])
    _needs_learning()
    with progress_bar("training") as move, _open(library, False, episodes, oracle, silent=True) as opened:

        def report(now: Any) -> None:
            move(now.steps, now.planned_steps)

        outcome = opened.update(model, scenario, changes, minutes, tolerance, command, report, print_limits)
    _print_outcome(outcome, as_json)


@app.command()
def merge(
    versions: Annotated[list[str], typer.Argument(help="Models or versions of one family.", metavar="VERSION")],
    into: Annotated[str, typer.Option(help="Name of the merged model.", metavar="MODEL")],
    average: Annotated[
        bool, typer.Option("--average", help="Average the weights of updates of one version, instead of distilling.")
    ] = False,
    seed: SeedOption = 0,
    settings: SetOption = None,
    tolerance: ToleranceOption = 0.05,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Merge several models into one; it is put in use if it stays close to each on its own and held-out workloads.

    Example: slipstream library merge heavy medium --into loaded
    """
    command = shlex.join(["slipstream", *sys.argv[1:]])
    _needs_learning()
    changes = {"seed": seed, **parse_settings("--set", settings)}
    with progress_bar("distilling") as move, _open(library, False, episodes, oracle, silent=True) as opened:
        outcome = opened.merge(versions, into, average, changes, tolerance, command, move)
    _print_outcome(outcome, as_json)


@app.command()
def split(
    version: VersionArgument,
    name: Annotated[str, typer.Argument(help="Name of the new model.", metavar="MODEL")],
    scenario: ScenariosOption = None,
    tolerance: ToleranceOption = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Make a version a model of its own, where it improves on its target and degrades another workload.

    Example: slipstream library split heavy@v2 light
    """
    with _open(library, episodes=episodes) as opened:
        outcome = opened.split(version, name, scenario or (), tolerance)
    _print_outcome(outcome, as_json)


@app.command()
def rollback(
    model: ModelArgument,
    to: Annotated[
        str | None,
        typer.Option(help="Version to roll back to, as in v1; default: the previous one.", metavar="VERSION"),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, for the history.")] = "",
    auto: Annotated[
        bool,
        typer.Option(
            "--auto", help="Roll back only if recent runs are worse than accepted, or generality cost too much."
        ),
    ] = False,
    runs: Annotated[int, typer.Option(help="Fresh episodes of every own workload that --auto simulates.", min=1)] = 10,
    drift: Annotated[float, typer.Option(help="Additional regret that --auto tolerates.", min=0.0)] = 0.05,
    price: Annotated[float, typer.Option(help="Regret that a gain in generality may cost.", min=0.0)] = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Roll back to an earlier version; with --auto, only where recent runs call for it.

    Example: slipstream library rollback heavy --auto
    """
    from slipstream.errors import InputError
    from slipstream.reports.terminal.library import drifts_table

    if auto and to is not None:
        raise InputError("--auto with --to: expected one of them")
    with _open(library, episodes=episodes) as opened:
        found = opened.check(model, runs, drift, price) if auto else opened.rollback(model, to, reason)
    data = found.to_dict()
    if as_json:
        print_json(data)
        return
    if found.drifts:
        console.print(drifts_table(data))
    now = f"rolled back from {found.before} to {found.after}" if found.after else f"{found.before} stays in use"
    console.print(f"{model}: {now}: {found.reason}.", soft_wrap=True, markup=False)


@app.command()
def verify(library: LibraryOption = HERE, as_json: JsonOption = False) -> None:
    """Check every file and record of a library; list the damage, and exit with 1 if there is any.

    Example: slipstream library verify
    """
    from slipstream.library.storage.verifying import DAMAGE
    from slipstream.library.storage.verifying import verify as check_library

    findings = check_library(library)
    damaged = any(finding.kind == DAMAGE for finding in findings)
    if as_json:
        print_json({"whole": not damaged, "findings": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            console.print(f"{finding.kind}: {finding.place}: {finding.what}", soft_wrap=True, markup=False)
        console.print(f"{library}: {'damaged' if damaged else 'whole'}.", markup=False)
    if damaged:
        raise typer.Exit(FAILED)


@app.command()
def tradeoff(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="PNG file for a picture.", rich_help_panel=OUTPUT)
    ] = None,
    tolerance: ToleranceOption = 0.05,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how many models are needed: mean and worst regret by their number, for every family of the library.

    Example: slipstream library tradeoff --out tradeoff.png
    """
    from slipstream.errors import InputError
    from slipstream.reports.terminal.tradeoff import tradeoff_table

    figure_path(out, force)
    with _open(library, episodes=episodes, oracle=oracle) as opened:
        families = sorted(set(opened.store.models().values()))
        if not families:
            raise InputError(f"{library}: holds no model yet: expected `slipstream library add`")
        curves = [opened.tradeoff(family, tolerance).to_dict() for family in families]
    if out is not None:
        from slipstream.reports.figures.tradeoff import tradeoff_figure

        write_figure(out, tradeoff_figure(curves))
    if as_json:
        print_json(curves)
        return
    for curve in curves:
        console.print(tradeoff_table(curve))
    if out is not None:
        console.print(f"Written: {out}", soft_wrap=True, markup=False)


def _needs_learning() -> None:
    from slipstream.errors import InputError

    try:
        import slipstream.learn.training  # noqa: F401
    except ImportError as error:
        raise InputError(f"training needs {error.name}: run `pip install 'slipstream[learn]'`") from None
