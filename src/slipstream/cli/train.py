"""`slipstream train`: train a policy on a scenario."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from slipstream.cli.common import JsonOption, RayOption, ScenarioArgument, console, errors, print_json

if TYPE_CHECKING:
    from slipstream.learn.training import Report

AlgoOption = Annotated[str, typer.Option(help="'ppo' or 'reinforce'.")]
DEFAULT_MINUTES = 5.0
MinutesOption = Annotated[
    float | None,
    typer.Option(
        help="Plan as many steps as fit into this time, and stop when it is over; 5 unless --steps is given.", min=0.01
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        help="Choices to learn from, to the end of a rollout; without --minutes the same policy every time.", min=1
    ),
]
OutOption = Annotated[Path, typer.Option(help="Folder for checkpoints and history.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the training in --out.")]
WarmStartOption = Annotated[str, typer.Option(help="Heuristic to imitate first, 'oracle', or 'none'.")]
SeedOption = Annotated[int, typer.Option(help="Decides initial weights, arrivals and draws.", min=0)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting, such as ppo.clip_range=0.1 or variation.rate=0.2.")
]


def train(
    scenario: ScenarioArgument,
    out: OutOption,
    algo: AlgoOption = "ppo",
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    warm_start: WarmStartOption = "none",
    seed: SeedOption = 0,
    settings: SetOption = None,
    resume: ResumeOption = False,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a policy, evaluated on held-out seeds next to the best heuristic; every command takes OUT/best as a policy.

    Example: slipstream train edge/heavy --warm-start lookahead --minutes 5 --out runs/heavy
    """
    from slipstream.errors import InputError
    from slipstream.scale.executor import executor_at

    try:
        from slipstream.learn.settings import TrainSettings
        from slipstream.learn.training import train as learn
    except ImportError as error:
        raise InputError(f"training needs {error.name}: run `pip install 'slipstream[learn]'`") from None

    changes: dict[str, object] = {
        "algo": algo,
        "seed": seed,
        "warm_start": None if warm_start == "none" else warm_start,
    }
    chosen = TrainSettings().with_changes({**changes, **parse_settings("--set", settings, steps)})
    if chosen.steps is None and minutes is None and not resume:
        minutes = DEFAULT_MINUTES
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress, executor_at(ray) as executor:
        bar = progress.add_task("compiling", total=None)

        def show(report: Report) -> None:
            progress.update(bar, description=_line(report), completed=report.steps, total=report.planned_steps)

        command = shlex.join(["slipstream", *sys.argv[1:]])
        result = learn(scenario, chosen, out, minutes, resume, command, show, executor, print_limits)
    if as_json:
        print_json(
            {
                "out": str(out),
                "steps": result.steps,
                "seconds": result.seconds,
                "reward": result.reward,
                "heuristic": result.heuristic,
                "heuristic_reward": result.heuristic_reward,
                "history": result.history,
            }
        )
        return
    console.print(
        f"{result.steps:,} steps in {result.seconds:,.0f} s. On held-out seeds: reward {result.reward:,.1f}, "
        f"the best heuristic ({result.heuristic}) {result.heuristic_reward:,.1f}."
    )
    console.print(f"Policy: {out / 'best'} (slipstream compare {scenario} --policies all,{out / 'best'})")


def parse_settings(option: str, texts: list[str] | None, steps: int | None = None) -> dict[str, str]:
    """Return the NAME=VALUE words `texts` of `option` as a dict, with `steps` if given."""
    from slipstream.errors import InputError

    given = {} if steps is None else {"steps": str(steps)}
    for text in texts or []:
        key, found, value = text.partition("=")
        if not found:
            raise InputError(f"{option} {text}: expected a setting and its value, such as ppo.clip_range=0.1")
        if key in given:
            raise InputError(f"{option} {text}: {key} is given already, as {given[key]}: expected one value")
        given[key] = value
    return given


def print_limits(limits: str) -> None:
    """Print on standard error the limits after which a training ends."""
    errors.print(f"training ends after {limits}", soft_wrap=True, markup=False, highlight=False)


def _line(report: Report) -> str:
    """Return the text beside the progress bar."""
    speed = report.steps / max(report.seconds, 1e-9)
    held_out = f", reward {report.reward:,.1f}" if report.reward is not None else ""
    return (
        f"{report.phase}: {report.steps / 1e6:.2f} M steps, {speed / 1e3:.0f} k/s{held_out} "
        f"({report.heuristic} {report.heuristic_reward:,.1f})"
    )
