"""`slipstream sweep`: which settings of training matter, one at a time."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from slipstream.cli.common import JsonOption, RayOption, console, errors, print_json
from slipstream.cli.train import WarmStartOption, parse_settings, tell_limits

if TYPE_CHECKING:
    from slipstream.learn.study.sweep import SweepProgress

OutOption = Annotated[Path, typer.Option(help="Folder for the trainings, sweep.json and the pictures.")]
DEFAULT_STEPS = 1_000_000
StepsOption = Annotated[
    int | None,
    typer.Option(
        help="Choices to learn from, of every training, to the end of a rollout; 1,000,000 unless given.", min=1
    ),
]
SeedsOption = Annotated[int, typer.Option(help="Trainings of every value.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Seed of the first training of every value.", min=0)]
EpisodesOption = Annotated[int, typer.Option(help="Held-out episodes that score a training.", min=1)]
KnobsOption = Annotated[
    str | None,
    typer.Option(
        help="Knobs to turn over their usual values, separated by commas: ppo.clip_range, ppo.vf_coef, "
        "ppo.ent_coef, ppo.learning_rate, n_steps; all of them unless --knob names others."
    ),
]
KnobOption = Annotated[
    list[str] | None,
    typer.Option("--knob", help="Any setting over values of your own, such as ppo.gae_lambda=0.8,0.9,1.0; repeatable."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of all trainings, such as n_envs=64; repeatable.")
]
ScenariosArgument = Annotated[
    list[str], typer.Argument(help="Names of built-in scenarios, or JSON files.", metavar="SCENARIO...")
]
SchedulerOption = Annotated[
    str,
    typer.Option(help="Who of Ray Tune stops hopeless trainings early, with --ray: asha, hyperband, median, or none."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the sweep in --out; it may get more knobs, values and seeds.")
]


def sweep(
    scenarios: ScenariosArgument,
    out: OutOption,
    steps: StepsOption = None,
    seeds: SeedsOption = 3,
    knobs: KnobsOption = None,
    knob: KnobOption = None,
    warm_start: WarmStartOption = "none",
    settings: SetOption = None,
    seed: SeedOption = 0,
    episodes: EpisodesOption = 100,
    resume: ResumeOption = False,
    ray: RayOption = None,
    scheduler: SchedulerOption = "none",
    as_json: JsonOption = False,
) -> None:
    """Train with one setting changed at a time, and show which of them matter, in a table and a picture.

    Of several scenarios, each gets a folder of its own in OUT.

    Example: slipstream sweep edge/heavy --out runs/sweep --knobs ppo.clip_range,n_steps --knob ppo.gae_lambda=0.8,0.9
    """
    from slipstream.errors import InputError

    try:
        from slipstream.learn.settings import TrainSettings
        from slipstream.learn.study.search_space import make_search_space
        from slipstream.learn.study.sweep import sweep as study
    except ImportError as error:
        raise InputError(f"training needs {error.name}: run `pip install 'slipstream[learn]'`") from None
    from slipstream.report.html.sweep import sweep_table, write_pictures
    from slipstream.scale.executor import farm_at

    start = None if warm_start == "none" else warm_start
    changes = {"seed": seed, "warm_start": start, "steps": DEFAULT_STEPS, **parse_settings("--set", settings, steps)}
    base = TrainSettings().with_changes(changes)
    grids = {name: values.split(",") for name, values in parse_settings("--knob", knob).items()}
    chosen = make_search_space(base, None if knobs is None else knobs.split(","), grids)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    homes = [out] if len(scenarios) == 1 else [out / quote(name, safe="") for name in scenarios]
    command = shlex.join(["slipstream", *sys.argv[1:]])
    results = []
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress, farm_at(ray) as farm:
        for scenario, home in zip(scenarios, homes, strict=True):
            bar = progress.add_task("playing the heuristics", total=None)

            def show(now: SweepProgress, bar: TaskID = bar) -> None:
                text = f"training {now.number} of {now.trainings}: {now.training}"
                progress.update(bar, description=text, completed=now.steps, total=now.planned_steps)

            # What was not begun when a sweep of several was interrupted is begun now.
            go_on = resume and (len(scenarios) == 1 or home.exists())
            options = (seeds, episodes, go_on, command, show, farm, scheduler, tell_limits)
            results.append(study(scenario, home, chosen, base, *options))
    pictures = [write_pictures(result, home) for result, home in zip(results, homes, strict=True)]
    if as_json:
        print_json(results[0] if len(results) == 1 else results)
        return
    for result, home, drawn in zip(results, homes, pictures, strict=True):
        console.print(sweep_table(result))
        console.print(f"Written: {', '.join(str(path) for path in (home / 'sweep.json', *drawn))}", soft_wrap=True)
