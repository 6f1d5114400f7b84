"""`slipstream sweep`: which settings of training matter, one at a time."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from slipstream.cli.common import JsonOption, RayOption, check_seed, console, errors, print_json
from slipstream.cli.train import LENGTH, METHOD, OUTPUT, WarmStartOption, parse_settings, print_limits, print_note

if TYPE_CHECKING:
    from slipstream.learn.study.sweep import SweepProgress

SEARCH = "Search space"
"""Panel of the help."""
OutOption = Annotated[
    Path,
    typer.Option("--out", "-o", help="Folder for the trainings, sweep.json and the pictures.", rich_help_panel=OUTPUT),
]
DEFAULT_STEPS = 1_000_000
StepsOption = Annotated[
    int | None,
    typer.Option(
        help="Decisions that each training learns from, to the end of a rollout; 1,000,000 unless given.",
        min=1,
        show_default=False,
        rich_help_panel=LENGTH,
    ),
]
SeedsOption = Annotated[int, typer.Option(help="Trainings of every value.", min=1, rich_help_panel=LENGTH)]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Seed of the first training of every value.",
        min=0,
        callback=check_seed,
        rich_help_panel=METHOD,
    ),
]
EpisodesOption = Annotated[
    int, typer.Option(help="Held-out episodes that score a training.", min=1, rich_help_panel=LENGTH)
]
UsualOption = Annotated[
    str | None,
    typer.Option(
        "--knobs",
        help="Settings to vary over their usual values, separated by commas: ppo.clip_range, ppo.vf_coef, "
        "ppo.ent_coef, ppo.learning_rate, n_steps; all of them unless --knob names others.",
        rich_help_panel=SEARCH,
    ),
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--knob",
        metavar="NAME=VALUE,...",
        help="Any setting over values of your own, such as ppo.gae_lambda=0.8,0.9,1.0; repeatable.",
        rich_help_panel=SEARCH,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of all trainings, such as n_envs=64; repeatable.",
        rich_help_panel=METHOD,
    ),
]
ScenariosArgument = Annotated[
    list[str], typer.Argument(help="Names of built-in scenarios, or JSON files.", metavar="SCENARIO")
]
SchedulerOption = Annotated[
    str,
    typer.Option(
        help="Scheduler of Ray Tune that stops inferior trainings early, with --ray: asha, hyperband, median, or none.",
        rich_help_panel=LENGTH,
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the sweep in --out; it may get more settings, values and seeds.",
        rich_help_panel=LENGTH,
    ),
]


def sweep(
    scenarios: ScenariosArgument,
    out: OutOption,
    steps: StepsOption = None,
    seeds: SeedsOption = 3,
    usual: UsualOption = None,
    grid: GridOption = None,
    warm_start: WarmStartOption = "none",
    settings: SetOption = None,
    seed: SeedOption = 0,
    episodes: EpisodesOption = 100,
    resume: ResumeOption = False,
    ray: RayOption = None,
    scheduler: SchedulerOption = "none",
    as_json: JsonOption = False,
) -> None:
    """Train with one setting changed at a time, and show in a table and a picture which of them matter.

    With several scenarios, each gets a folder of its own in OUT.

    Example: slipstream sweep edge/heavy --out runs/sweep --knobs ppo.clip_range,n_steps --knob ppo.gae_lambda=0.8,0.9
    """
    from slipstream.errors import InputError

    try:
        from slipstream.learn.settings import TrainSettings
        from slipstream.learn.study.search_space import make_search_space
        from slipstream.learn.study.sweep import sweep as study
    except ImportError as error:
        raise InputError(f"training needs {error.name}: run `pip install 'slipstream[learn]'`") from None
    from slipstream.reports.html.sweep import sweep_table, write_pictures
    from slipstream.scale.executor import executor_at

    start = None if warm_start == "none" else warm_start
    changes = {"seed": seed, "warm_start": start, "steps": DEFAULT_STEPS, **parse_settings("--set", settings, steps)}
    base = TrainSettings().with_changes(changes)
    grids = {name: values.split(",") for name, values in parse_settings("--knob", grid).items()}
    chosen = make_search_space(base, None if usual is None else usual.split(","), grids)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    folders = [out] if len(scenarios) == 1 else [out / quote(name, safe="") for name in scenarios]
    command = shlex.join(["slipstream", *sys.argv[1:]])
    results = []
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress, executor_at(ray) as executor:
        for scenario, folder in zip(scenarios, folders, strict=True):
            bar = progress.add_task("playing the heuristics", total=None)

            def show(now: SweepProgress, bar: TaskID = bar) -> None:
                text = f"training {now.number} of {now.trainings}: {now.training}"
                progress.update(bar, description=text, completed=now.steps, total=now.planned_steps)

            # A scenario that an interrupted sweep of several had not reached is started afresh.
            go_on = resume and (len(scenarios) == 1 or folder.exists())
            options = (seeds, episodes, go_on, command, show, executor, scheduler, print_limits, print_note)
            results.append(study(scenario, folder, chosen, base, *options))
    pictures = [write_pictures(result, folder) for result, folder in zip(results, folders, strict=True)]
    if as_json:
        print_json(results[0] if len(results) == 1 else results)
        return
    for result, folder, drawn in zip(results, folders, pictures, strict=True):
        console.print(sweep_table(result))
        console.print(f"Written: {', '.join(str(path) for path in (folder / 'sweep.json', *drawn))}", soft_wrap=True)
