"""`slipstream demo`: a tour through the main commands, each run as it is shown."""

from __future__ import annotations

import io
import os
import shlex
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.markup import escape

from slipstream.cli.common import JsonOption, SeedOption, console, print_json

SCENARIO, EPISODES = "edge/cpu-mini", 20
HEURISTIC, BASELINE = "lookahead", "edf-fit"
WHOLE_S = 115.0
"""Time limit of the whole tour, with compilation."""
AFTERWARDS_S = 30.0
"""Share of it for the run on the device and the report."""
LEAST_TRAINING_S, MOST_TRAINING_S = 12.0, 60.0
INTERRUPTED = 130
"""Exit code that typer returns for a command ended by a signal."""

OpenOption = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the report in the browser, where there is a screen.")
]
TrainingOption = Annotated[
    float | None, typer.Option(help="Seconds of training; if absent, what is left of the tour's time limit.", min=1.0)
]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", help="New folder for what the tour writes; numbered if there is one already.")
]


def demo(
    seed: SeedOption = 10_000,
    out: OutOption = Path("slipstream-demo"),
    training_seconds: TrainingOption = None,
    open_it: OpenOption = True,
    as_json: JsonOption = False,
) -> None:
    """Take the tour: simulate, compare every policy, train one, run it for real on this machine, open the report.

    Every step says what it does, and which command did it. It takes a minute and a half, under two the
    first time, which compiles, and writes one folder.

    Example: slipstream demo
    """
    tour = Tour(_new_folder(out), seed, as_json)
    tour.run(training_seconds)
    report = tour.folder / "report.html"
    if as_json:
        print_json({"scenario": SCENARIO, "steps": tour.steps, "report": str(report.resolve())})
        return
    console.print()
    console.print(
        f"Next: [bold]slipstream dashboard {escape(str(tour.folder))}[/bold] replays these runs choice by choice; "
        f"[bold]slipstream scenarios {SCENARIO} > mine.json[/bold] begins a scenario of your own.",
        soft_wrap=True,
        markup=True,
    )
    if open_it and sys.stdout.isatty() and _has_screen():
        webbrowser.open(report.resolve().as_uri())
    line = f"The report, to look at: [bold]{escape(str(report.resolve()))}[/bold]"
    console.print(line, soft_wrap=True, markup=True)


class Tour:
    """Runs the steps in order; a step that lacks an extra is skipped, and the later ones do without its result."""

    def __init__(self, folder: Path, seed: int, quiet: bool) -> None:
        self.folder = folder
        self.seed = seed
        self.steps: list[dict[str, Any]] = []
        self._quiet = quiet
        self._began = perf_counter()

    def run(self, training_seconds: float | None) -> None:
        """Run all steps."""
        seed, folder = str(self.seed), self.folder
        logs = [folder / f"{BASELINE}.parquet", folder / f"{HEURISTIC}.parquet"]
        self._step(
            f"Simulate. Four small networks share two streams of a device; every job has a deadline. Ten simulated "
            f"seconds under the rule {BASELINE}:",
            ["run", SCENARIO, "--policy", BASELINE, "--seed", seed, "--log", str(logs[0])],
        )
        self._step(
            f"Compare. Every policy on the same {EPISODES} episodes. A job in time earns the accuracy of the variant "
            "that ran; a late one costs:",
            ["compare", SCENARIO, "--episodes", str(EPISODES), "--seed", seed],
        )
        self._step(
            f"Simulate again, under the rule {HEURISTIC}, to see the two side by side:",
            ["run", SCENARIO, "--policy", HEURISTIC, "--seed", seed, "--log", str(logs[1])],
            show=False,
        )
        chosen, training = HEURISTIC, folder / "trained"
        left = WHOLE_S - AFTERWARDS_S - (perf_counter() - self._began)
        minutes = (training_seconds or min(max(left, LEAST_TRAINING_S), MOST_TRAINING_S)) / 60.0
        words = ["train", SCENARIO, "--warm-start", HEURISTIC, "--minutes", f"{minutes:.2f}", "--out", str(training)]
        if self._step(
            f"Train. A network first imitates {HEURISTIC}, then learns by itself, in hundreds of simulated devices:",
            words,
            optional=True,
        ):
            chosen = str(training / "best")
        logs.append(folder / "device.parquet")
        words = ["execute", SCENARIO, "--policy", chosen, "--seed", seed, "--log", str(logs[-1])]
        if not self._step(
            "Run it for real. The same scenario, the same policy, but the networks run on two streams of this "
            "machine's processor, for ten seconds of its own clock. The scenario says how long they took on another "
            "machine: where this one is slower, jobs come late, until `slipstream profile` has measured it:",
            [*words, "--out", str(folder / "device.html")],
            optional=True,
        ):
            logs.pop()
        self._step(
            "Report. Who ran when, side by side, in one page:",
            ["report", *map(str, logs), "--out", str(folder / "report.html")],
        )

    def _step(self, text: str, words: Sequence[str], optional: bool = False, show: bool = True) -> bool:
        """Run the command `words` as a user would; return whether it ran. An `optional` one may lack an extra."""
        from slipstream.cli.application import app
        from slipstream.errors import InputError

        command = shlex.join(["slipstream", *words])
        self._print("")
        self._print(f"[bold]{len(self.steps) + 1}. {text}[/bold]")
        self._print(f"[cyan]$ {escape(command)}[/cyan]")
        began, skipped, output = perf_counter(), "", io.StringIO()
        arguments, sys.argv = sys.argv, ["slipstream", *words]
        try:
            if self._quiet or not show:
                with redirect_stdout(output):
                    code = app(list(words), standalone_mode=False)
            else:
                code = app(list(words), standalone_mode=False)
            if code == INTERRUPTED:
                raise KeyboardInterrupt  # which typer turns into a number
        except InputError as error:
            if not (optional and "pip install" in str(error)):
                raise
            skipped = str(error)
            self._print(f"Left out: {escape(skipped)}. The tour goes on without it.")
        finally:
            sys.argv = arguments
        seconds = perf_counter() - began
        self.steps.append({"command": command, "seconds": round(seconds, 1), "left_out": skipped or None})
        if not skipped:
            self._print(f"[dim]({seconds:.1f} s)[/dim]")
        return not skipped

    def _print(self, text: str) -> None:
        if not self._quiet:
            console.print(text, soft_wrap=True, highlight=False, markup=True)


def _new_folder(wanted: Path) -> Path:
    """Create the folder `wanted`, or the first of `wanted-2`, `wanted-3`, ... that is free; return its path."""
    from slipstream.errors import InputError, unwritable

    for number in range(1, 1000):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({unwritable(error)}): expected a writable place") from None
        return folder
    raise InputError(f"{wanted}: is there a thousand times: expected a new name, by --out")


def _has_screen() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
