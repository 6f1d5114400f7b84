"""`slipstream train`: train a policy on a scenario."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, RayOption, ScenarioArgument, check_seed, console, errors, print_json
from slipstream.cli.training_progress import training_progress

LENGTH, METHOD, OUTPUT = "Limits", "Training", "Output"
"""Panels of the help."""
MinutesOption = Annotated[
    float | None,
    typer.Option(
        help="Time limit, compilation excluded; 5 unless --steps is given.",
        min=0.01,
        show_default=False,
        rich_help_panel=LENGTH,
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        help="Decisions to learn from, to the end of a rollout. Without --minutes, the same command gives the same "
        "policy every time.",
        min=1,
        rich_help_panel=LENGTH,
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Continue the training in --out, with its settings.", rich_help_panel=LENGTH),
]
AlgoOption = Annotated[
    str | None,
    typer.Option(
        help="What improves on the warm start: 'ppo' or 'reinforce'; the family's default unless given.",
        show_default=False,
        rich_help_panel=METHOD,
    ),
]
WarmStartOption = Annotated[
    str,
    typer.Option(
        help="Policy to imitate first: the name of a heuristic, 'auto' for the best one in a race on training "
        "episodes, 'oracle' where the oracle solves the episodes, or 'none' for random weights.",
        rich_help_panel=METHOD,
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Seed of initial weights, arrivals and sampling.",
        min=0,
        callback=check_seed,
        rich_help_panel=METHOD,
    ),
]
NetworkOption = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="FILE.py:CLASS",
        help="Network of your own, a torch.nn.Module; its code is run. With --resume, that of the training.",
        rich_help_panel=METHOD,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, such as n_envs=64, ppo.clip_range=0.1 or variation.rate=0.2; repeatable.",
        rich_help_panel=METHOD,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Folder for the policy, checkpoints and history; a new one in runs/ unless given.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


GeneralOption = Annotated[
    bool,
    typer.Option(
        "--general",
        help="Train on generated scenarios of a family, given instead of a scenario, for one policy that is good on "
        "scenarios it has never seen.",
        rich_help_panel=METHOD,
    ),
]


def train(
    scenario: ScenarioArgument,
    out: OutOption = None,
    algo: AlgoOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    warm_start: WarmStartOption = "auto",
    seed: SeedOption = 0,
    settings: SetOption = None,
    network: NetworkOption = None,
    resume: ResumeOption = False,
    general: GeneralOption = False,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a policy from the best heuristic, and say whether it ends ahead of it on held-out episodes.

    The best policy is OUT/best, which every command accepts as a policy.

    Example: slipstream train edge/heavy --minutes 5 --out runs/heavy
    """
    from slipstream.errors import InputError
    from slipstream.scale.executor import executor_at

    try:
        from slipstream.learn.training import train as learn
    except ImportError as error:
        raise InputError(f"training needs {error.name}: run `pip install 'slipstream[learn]'`") from None

    if resume and out is None:
        raise InputError("--resume: expected the folder of the training to continue, by --out")
    changes: dict[str, object] = {"seed": seed, **({} if algo is None else {"algo": algo})}
    for name, value in parse_settings("--set", settings, steps).items():
        if changes.get(name) and name == "algo":
            raise InputError(f"--set {name}={value}: {name} is given already, as {changes[name]}: expected one value")
        changes[name] = value
    start = str(changes.pop("warm_start", warm_start))
    folder = default_folder(scenario) if out is None else out
    command = shlex.join(["slipstream", *sys.argv[1:]])
    with training_progress() as progress, executor_at(ray) as executor:
        result = learn(
            scenario,
            changes,
            folder,
            minutes,
            resume,
            command,
            progress.show,
            executor,
            print_limits,
            start,
            print_note,
            general,
            network,
        )
    if as_json:
        print_json(result.to_dict())
        return
    console.print(f"{result.steps:,} steps in {result.seconds:,.0f} s.", soft_wrap=True)
    for sentence in result.outcome.sentences():
        console.print(sentence, soft_wrap=True)
    best = f"{folder / 'best'}{result.code}"
    console.print(f"Policy: {best} ({command_of_use(scenario, best, general)})", soft_wrap=True)


def command_of_use(scenario: str, best: str, general: bool) -> str:
    """Return a command that compares the policy `best`; `scenario` is a family if the training was `general`."""
    from slipstream.families.contract import FAMILIES
    from slipstream.suite.catalogue import load_suite

    if general and scenario in load_suite().families:
        return f"slipstream bench suite --policy {best} --practice"
    played = FAMILIES[scenario].default_scenario if general else scenario
    return f"slipstream compare {played} --policies all,{best}"


def default_folder(scenario: str) -> Path:
    """Return the first of runs/NAME, runs/NAME-2, ... that does not exist, for the scenario's name."""
    path = Path(scenario)
    name = (path.stem if path.suffix == ".json" else scenario).replace("/", "-").strip("-.") or "training"
    number = 1
    while (folder := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return folder


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
    print_note(f"training ends after {limits}")


def print_note(note: str) -> None:
    """Print a line on standard error."""
    errors.print(note, soft_wrap=True, markup=False, highlight=False)
