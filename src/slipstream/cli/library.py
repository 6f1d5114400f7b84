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
    console,
    errors,
    figure_path,
    print_json,
    progress_bar,
    write_figure,
)
from slipstream.cli.console import line
from slipstream.cli.train import WarmStartOption, parse_settings, print_limits

if TYPE_CHECKING:
    from slipstream.library import Library
    from slipstream.library.updating import Outcome

app = typer.Typer(no_args_is_help=True)

FAILED = 1
"""Exit code of a command that ran but did not reach its purpose."""

LibraryOption = Annotated[Path, typer.Option("--library", help="Folder of the library.")]
EpisodesOption = Annotated[int, typer.Option(help="Episodes by which versions are judged.", min=2)]
OracleOption = Annotated[
    float,
    typer.Option(
        help="Measure regret against the optimum, with about this many seconds of solving an episode; 0: "
        "against the best that any policy reached.",
        min=0.0,
    ),
]
ModelArgument = Annotated[str, typer.Argument(help="Name of a model.", metavar="MODEL")]
VersionArgument = Annotated[
    str, typer.Argument(help="A version, as in cholesky@v3; a model alone means its version in use.", metavar="VERSION")
]
ToleranceOption = Annotated[float, typer.Option(help="Regret that may be lost, as a share: 0.02 is 2%.", min=0.0)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Any setting of training, such as ppo.clip_range=0.1; repeatable.")
]
ScenariosOption = Annotated[
    list[str] | None, typer.Option("--scenario", help="A workload that the model owns; repeatable.")
]
HERE = Path("library")
DEFAULT_MINUTES = 2.0
"""Of training, for an update."""


@app.callback()
def _about() -> None:
    """Keep many trained models: choose the right one for a workload, update, merge, split and roll back.

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
                status.update(line(f"playing {text}"))

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
    policy: Annotated[str, typer.Argument(help="Folder of a trained policy, or the name of one that is built in.")],
    scenario: ScenariosOption = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="A workload it was not trained on, to judge it by; repeatable.")
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Use this version from now on, past every gate.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
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

    Generality is how much more regret a model has on the workloads of others than their owners have; 0% is as good.

    Example: slipstream library list
    """
    from slipstream.reports.terminal.library import models_table

    with _open(library, episodes=episodes) as opened:
        rows = opened.models()
    if as_json:
        print_json(rows)
        return
    console.print(models_table(rows))


@app.command()
def show(
    version: VersionArgument, library: LibraryOption = HERE, episodes: EpisodesOption = 20, as_json: JsonOption = False
) -> None:
    """Show a model or one of its versions: what it was made of, how it does, and what happened to it.

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
    nearest: Annotated[int, typer.Option(help="Models that are raced.", min=0)] = 5,
    race: Annotated[
        int,
        typer.Option(
            help="Episodes that every candidate plays; up to 8 times as many where they do not decide.", min=1
        ),
    ] = 8,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Choose a policy for a workload: a model made for it, or the winner of a race of the nearest models and all rules.

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
    console.print(f"{choice.reason}. It took {choice.seconds:.1f} s to choose.", soft_wrap=True, markup=False)
    console.print(f"Use it: slipstream compare {scenario} --policies all,{choice.policy}", soft_wrap=True, markup=False)


@app.command()
def update(
    model: ModelArgument,
    scenario: ScenarioArgument,
    steps: Annotated[int | None, typer.Option(help="Choices to learn from, to the end of a rollout.", min=1)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Minutes of training; 2 unless --steps is given.", min=0.01)
    ] = None,
    warm_start: WarmStartOption = "none",
    seed: Annotated[int, typer.Option(help="Decides arrivals and draws of the training.", min=0)] = 0,
    settings: SetOption = None,
    tolerance: ToleranceOption = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a model on a workload; it is used if it gains there for sure and no other own workload loses.

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
    versions: Annotated[list[str], typer.Argument(help="Models or versions of one family.", metavar="VERSION...")],
    into: Annotated[str, typer.Option(help="Name of the merged model.")],
    average: Annotated[
        bool, typer.Option("--average", help="Average weights, of updates of one version only; else distil.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides arrivals and draws of the training.", min=0)] = 0,
    settings: SetOption = None,
    tolerance: ToleranceOption = 0.05,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Make one model of several; it is used if it stays near each of them on what that one owns and has held out.

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
    name: Annotated[str, typer.Argument(help="Name of the new model.")],
    scenario: ScenariosOption = None,
    tolerance: ToleranceOption = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Make a version that gains on its target and breaks another workload a model of its own.

    Example: slipstream library split heavy@v2 light
    """
    with _open(library, episodes=episodes) as opened:
        outcome = opened.split(version, name, scenario or (), tolerance)
    _print_outcome(outcome, as_json)


@app.command()
def rollback(
    model: ModelArgument,
    to: Annotated[str | None, typer.Option(help="Version to go back to, as in v1; default: the one before.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Only if recent runs are worse than was accepted, or generality cost too much."),
    ] = False,
    runs: Annotated[int, typer.Option(help="Fresh episodes that --auto plays of every own workload.", min=1)] = 10,
    drift: Annotated[float, typer.Option(help="Regret beyond the accepted one that --auto allows.", min=0.0)] = 0.05,
    price: Annotated[float, typer.Option(help="Regret that a gain in generality may cost.", min=0.0)] = 0.02,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Go back to an earlier version, by hand or, with --auto, where the evidence asks for it.

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
    """Check every file and record of a library; name every damage, and end with 1 if there is one.

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
    out: Annotated[Path | None, typer.Option(help="PNG file for the picture.")] = None,
    tolerance: ToleranceOption = 0.05,
    library: LibraryOption = HERE,
    episodes: EpisodesOption = 20,
    oracle: OracleOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Show how many models are needed: mean and worst regret over their number, for every family of the library.

    Example: slipstream library tradeoff --out tradeoff.png
    """
    from slipstream.errors import InputError
    from slipstream.reports.terminal.tradeoff import tradeoff_table

    figure_path(out)
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
