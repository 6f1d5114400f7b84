"""Options, JSON output, progress bars and file writing that the commands share."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from slipstream.cli.console import PlainConsole
from slipstream.cli.help_text import OUTPUT, SIMULATION
from slipstream.cli.outputs import PICTURE, check_outputs

if TYPE_CHECKING:
    from slipstream.families.contract import Scenario


BAD_INPUT = 2

console = PlainConsole()
errors = PlainConsole(stderr=True, highlight=False)

MOST_SEED = 2**62 - 1


def check_seed(seed: int) -> int:
    """Return `seed`; raise an InputError if it is too large, before anything is compiled, raced or played."""
    from slipstream.errors import InputError

    if seed > MOST_SEED:
        raise InputError(f"seed {seed}: expected a number from 0 to 2**62 - 1")
    return seed


ScenarioArgument = Annotated[
    str, typer.Argument(help="Name of a built-in scenario, or a JSON file.", metavar="SCENARIO")
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Seed of the first episode; episode k uses seed + k.",
        min=0,
        callback=check_seed,
        rich_help_panel=SIMULATION,
    ),
]
EpisodeSeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Seed of the episode's arrivals.",
        min=0,
        callback=check_seed,
        rich_help_panel=SIMULATION,
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Distribute the work over a Ray cluster: 'auto', HOST:PORT, or 'local' for one on this machine.",
        rich_help_panel=SIMULATION,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", "-j", help="Print JSON instead of text.", rich_help_panel=OUTPUT)]


def print_json(data: Any) -> None:
    """Print data as JSON on standard output."""
    print_json_text(json.dumps(data, indent=2, allow_nan=False) + "\n")


def print_json_text(text: str) -> None:
    """Print the JSON `text` on standard output, with unprintable characters as JSON escapes."""
    sys.stdout.write("\n".join(map(_escaped_json, text.split("\n"))))
    sys.stdout.flush()  # the output of a server is read while it runs


def _escaped_json(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else _json_escape(one) for one in line)


def _json_escape(character: str) -> str:
    """Return the JSON escape of a character: one or two UTF-16 code units."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar called `label` on standard error; yield the callback `(done, total)` that updates it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(label, total=None)

        def move(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield move


def describe_run(source: str, scenario: Scenario, policy: str, seed: int, plays: str | None = None) -> dict[str, Any]:
    """Return the metadata of an event log; `source` is the scenario as the user named it, `plays` what `auto` plays."""
    from slipstream import __version__
    from slipstream.scenario import digest, dump

    return {
        "version": __version__,
        "command": shlex.join(["slipstream", "run", source, "--policy", plays or policy, "--seed", str(seed)]),
        "policy": policy,
        **({} if plays is None else {"plays": plays}),
        "seed": seed,
        "split": "test",
        "scenario": dump(scenario),
        "scenario_digest": digest(scenario),
    }


def print_written(written: dict[str, Path | None]) -> None:
    """Print label and path of each file that was written."""
    for label, path in written.items():
        if path is not None:
            console.print(f"{label}: {path}", soft_wrap=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    from slipstream.files.atomic import write_files

    write_files({path: text.encode()}, overwrite=True)


def figure_path(path: Path | None, force: bool = False) -> None:
    """Check that a still figure can be drawn and written to `path`, if not None."""
    from slipstream.errors import InputError

    if path is None:
        return
    check_outputs((path, PICTURE), force=force)
    if find_spec("matplotlib") is None:
        raise InputError("the picture needs matplotlib: run `pip install 'slipstream[figures]'`")


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure as a PNG file, whole or not at all."""
    from slipstream.files.atomic import write_files
    from slipstream.reports.figures.plotting import png

    write_files({path: png(figure)}, overwrite=True)
