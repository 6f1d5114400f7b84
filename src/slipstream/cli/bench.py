"""`slipstream bench`: how good a policy is on the frozen suite, and how fast this machine simulates."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.common import (
    JsonOption,
    RayOption,
    console,
    errors,
    figure_path,
    print_json,
    print_written,
    progress_bar,
    write_figure,
    write_text,
)
from slipstream.cli.help_text import OUTPUT, SIMULATION, Group
from slipstream.cli.outputs import PAGE, SUITE_RESULTS, ForceOption, check_outputs

if TYPE_CHECKING:
    from slipstream.scale.executor import Executor
    from slipstream.suite.catalogue import Suite
    from slipstream.suite.players import Player

FAILED = 1
"""Exit code of a command that ran but did not reach its purpose."""

SecondsOption = Annotated[
    float, typer.Option(help="Seconds per measurement.", min=0.1, max=600.0, rich_help_panel=SIMULATION)
]
ScenarioOption = Annotated[str, typer.Argument(help="Name of a built-in scenario, or a JSON file.", metavar="SCENARIO")]
PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy",
        "-p",
        help="A heuristic, 'auto', 'rollout', 'learned', the folder of a trained policy, or code such as "
        "mine.py:policy; repeatable, at most one per family.",
        rich_help_panel=SIMULATION,
    ),
]
OtherPolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        help="Where the policies are now, if not beside the file; repeatable.",
        rich_help_panel=SIMULATION,
    ),
]
FamilyOption = Annotated[
    list[str] | None,
    typer.Option("--family", help="Only scenarios of this family; repeatable.", rich_help_panel=SIMULATION),
]
ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="JSON file for the results, to submit; an interrupted run is resumed from it.",
        rich_help_panel=OUTPUT,
    ),
]
PictureOption = Annotated[Path | None, typer.Option(help="PNG file for a picture.", rich_help_panel=OUTPUT)]
TitleOption = Annotated[
    str,
    typer.Option(help="Name on a leaderboard; default: the names of the policies.", rich_help_panel=OUTPUT),
]
PracticeOption = Annotated[
    bool,
    typer.Option(
        "--practice",
        help="Simulate practice episodes instead, by which a policy may be chosen.",
        rich_help_panel=SIMULATION,
    ),
]
FreshOption = Annotated[
    int | None,
    typer.Option(
        help="Also simulate episodes with unpublished seeds, from this seed on.",
        min=0,
        metavar="SEED",
        rich_help_panel=SIMULATION,
    ),
]


class _Bench(Group):
    """Command group with a default command: `bench edge/heavy` is `bench speed edge/heavy`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["speed", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Bench)


@app.callback()
def _about() -> None:
    """Measure a policy on the frozen suite of scenarios, or the simulation speed of this machine.

    Without a command, the speed is measured.

    Example: slipstream bench edge/heavy --seconds 5
    """


@app.command()
def speed(scenario: ScenarioOption = "edge/heavy", seconds: SecondsOption = 2.0, as_json: JsonOption = False) -> None:
    """Measure the simulator on this machine: compiled episodes, vector steps, single steps.

    Example: slipstream bench speed edge/heavy --seconds 5
    """
    from slipstream.envs import speed
    from slipstream.families.contract import family_of
    from slipstream.policies import find
    from slipstream.reports.terminal.tables import metrics_table
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


@app.command()
def suite(
    policy: PolicyOption,
    family: FamilyOption = None,
    out: ResultsOption = None,
    picture: PictureOption = None,
    title: TitleOption = "",
    practice: PracticeOption = False,
    ray: RayOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure a policy on the frozen suite: a score per family, 0 for `random` and 100 for the best known in hindsight.

    Example: slipstream bench suite --policy learned --family edge
    """
    from slipstream.errors import InputError
    from slipstream.reports.terminal.suite import each_table, suite_table
    from slipstream.scale.executor import executor_at
    from slipstream.suite.catalogue import load_suite
    from slipstream.suite.players import players_of
    from slipstream.suite.playing import measure
    from slipstream.suite.submission import results

    check_outputs((out, SUITE_RESULTS), force=force)
    figure_path(picture, force)
    if practice and (out is not None or picture is not None):
        raise InputError("--practice with --out or --picture: expected one of them: practice results are not submitted")
    whole = load_suite()
    part = whole.only(family) if family else whole
    players, not_played = players_of(policy, part)
    if practice:
        with executor_at(ray) as executor:
            _practice(part, players, as_json, executor)
        return
    kept = None if out is None else out.with_name(out.name + ".unfinished")
    if out is not None:
        players = {name: one.relative_to_folder(out.parent) for name, one in players.items()}
    with progress_bar("simulating scenarios") as move, executor_at(ray) as executor:
        played = measure(part, players, progress=move, checkpoint=kept, executor=executor)
    found = results(part, players, played, title)
    if out is not None and kept is not None:
        write_text(out, json.dumps(found, indent=2, allow_nan=False) + "\n")
        kept.unlink(missing_ok=True)
    if picture is not None:
        from slipstream.reports.figures.suite import suite_figure

        write_figure(picture, suite_figure(found, _baselines(list(found["families"]))))
    if as_json:
        print_json(found)
    else:
        console.print(suite_table(found))
        for one in found["families"] if family else ():
            console.print(each_table(found, one))
    for line in not_played:
        (errors if as_json else console).print(f"Not played: {line}.", markup=False)
    if as_json:
        return
    print_written({"Results": out, "Picture": picture})


def _baselines(families: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored scores of the package's own policies, by family."""
    from slipstream.suite.catalogue import load_suite
    from slipstream.suite.submission import baselines

    whole = load_suite()
    return {family: {name: one.to_dict() for name, one in baselines(whole, family).items()} for family in families}


def _practice(part: Suite, players: Mapping[str, Player], as_json: bool, executor: Executor) -> None:
    from slipstream.reports.terminal.suite import practice_table
    from slipstream.suite.playing import measure, scores_on

    with progress_bar("simulating practice episodes") as move:
        found = scores_on(measure(part, players, part.practice, move, executor=executor), part.practice)
    if as_json:
        print_json({"seeds": part.practice.to_dict(), "scores": {name: one.to_dict() for name, one in found.items()}})
        return
    console.print(practice_table({name: one.to_dict() for name, one in found.items()}))


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A JSON file written by `bench suite --out`.", metavar="FILE")],
    policy: OtherPolicyOption = None,
    fresh: FreshOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute submitted results, which must agree exactly; policies are looked for beside the file.

    Submitted code is executed, in a process of its own: verify only code that you would run.

    Example: slipstream bench verify mine.json
    """
    from slipstream.suite.submission import fresh_scores
    from slipstream.suite.submission import verify as recompute

    with progress_bar("recomputing") as move:
        findings = recompute(file, policy or (), move)
    elsewhere = {}
    if fresh is not None and not findings:
        with progress_bar("simulating fresh episodes") as move:
            elsewhere = fresh_scores(file, fresh, policy or (), move)
    holds = not findings and all(one["holds"] for one in elsewhere.values())
    if as_json:
        print_json(
            {
                "file": str(file),
                "accepted": holds,
                "findings": [vars(finding) for finding in findings],
                "fresh": elsewhere or None,
            }
        )
    else:
        for finding in findings[:20]:
            console.print(f"{file}: {finding}", soft_wrap=True, markup=False)
        if len(findings) > 20:
            console.print(f"... and {len(findings) - 20} more differences.")
        for family, one in elsewhere.items():
            verdict = "holds" if one["holds"] else "does not hold"
            claimed, found = one["claimed"], one["fresh"]
            text = f"claimed {claimed['mean']:.1f}, found {found['mean']:.1f} [{found['low']:.1f}, {found['high']:.1f}]"
            console.print(f"{family}: {text} on fresh episodes: the claim {verdict}.", markup=False)
        console.print(f"{file}: {'accepted' if holds else 'rejected'}.", soft_wrap=True, markup=False)
    if not holds:
        raise typer.Exit(FAILED)


@app.command()
def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Folder of submitted results.", metavar="FOLDER")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.", rich_help_panel=OUTPUT)] = Path(
        "leaderboard.html"
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page that ranks all results in a folder, beside the policies that come with the package.

    Example: slipstream bench leaderboard submissions --out leaderboard.html
    """
    from slipstream.errors import InputError
    from slipstream.files.confined import resolve_inside
    from slipstream.reports.html.leaderboard import leaderboard_page, ranking
    from slipstream.suite.catalogue import load_suite
    from slipstream.suite.submission import read_submission

    check_outputs((out, PAGE), force=force)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: expected one with JSON files")
    files = sorted(folder.rglob("*.json"))
    whole = load_suite()
    handed_in = []
    for file in files:
        if (file.parent / "policy.json").is_file():
            continue  # the folder of a trained policy
        resolve_inside(folder, file.relative_to(folder))
        data = read_submission(file)
        if data["suite"]["digest"] != whole.digest:
            raise InputError(f"{file}: suite.digest: {data['suite']['digest']}: expected {whole.digest}")
        handed_in.append({**data, "file": str(file.relative_to(folder))})
    if not handed_in:
        raise InputError(f"{folder}: holds no results: expected files written by `slipstream bench suite --out`")
    command = shlex.join(["slipstream", *sys.argv[1:]])
    stored = _baselines(whole.families)
    write_text(out, leaderboard_page(handed_in, stored, whole.digest, command))
    if as_json:
        print_json({"page": str(out), "ranking": ranking(handed_in, stored)})
        return
    print_written({"Leaderboard": out})
