"""`slipstream report`: recorded runs as one page to look at, or as a trace for Perfetto."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json, write_text
from slipstream.cli.help_text import OUTPUT
from slipstream.cli.outputs import PAGE, TRACE, ForceOption, check_outputs

RunsArgument = Annotated[
    list[Path], typer.Argument(help="Event logs written by `slipstream run --log`.", metavar="RUN")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="HTML file for the page; default: report.html, or none with --perfetto.",
        rich_help_panel=OUTPUT,
    ),
]
PerfettoOption = Annotated[
    Path | None,
    typer.Option(help="JSON file for a trace, to open in ui.perfetto.dev or chrome://tracing.", rich_help_panel=OUTPUT),
]
TrainingOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Add the learning curve of the training in this folder; repeatable.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]
WhyOption = Annotated[
    int,
    typer.Option(
        help="Number of decisions of each run to explain: scores, mask and alternatives.",
        min=0,
        max=50,
        rich_help_panel=OUTPUT,
    ),
]


def report(
    runs: RunsArgument,
    out: OutOption = None,
    perfetto: PerfettoOption = None,
    training: TrainingOption = None,
    why: WhyOption = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a report of recorded runs, one HTML page that opens offline; several runs are compared.

    Example: slipstream report edf.parquet lookahead.parquet --out report.html
    """
    from slipstream.reports.html.page import page
    from slipstream.reports.perfetto import trace
    from slipstream.reports.runs import labels_of, read_run

    target = Path("report.html") if out is None and perfetto is None else out
    check_outputs((target, PAGE), (perfetto, TRACE), force=force)
    words = ["slipstream", "report", *map(str, runs)]
    for option, path in (("--out", target), ("--perfetto", perfetto)):
        words += [option, str(path)] if path is not None else []
    for folder in training or []:
        words += ["--training", str(folder)]
    words += ["--why", str(why)] if why else []
    histories = {str(folder): _history(folder) for folder in training or []}
    with errors.status("drawing"):
        loaded = [read_run(path) for path in runs]
        texts = {}
        if target is not None:
            closing = _reasons(runs, labels_of(loaded), why) if why else ""
            texts[target] = page(loaded, shlex.join(words), trainings=histories, closing=closing)
        if perfetto is not None:
            texts[perfetto] = json.dumps(trace(loaded), separators=(",", ":"), allow_nan=False)
    for path, text in texts.items():
        write_text(path, text)
    if as_json:
        names = {"report": target, "perfetto": perfetto}
        about = [{"policy": r.about["policy"], "seed": r.about["seed"], "digest": r.digest} for r in loaded]
        print_json({**{key: str(path) if path else None for key, path in names.items()}, "runs": about})
        return
    for path, text in texts.items():
        console.print(f"Written: {path} ({size_of(len(text.encode()))})", soft_wrap=True)


def size_of(size: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _reasons(runs: list[Path], labels: list[str], why: int) -> str:
    from slipstream.dashboard.reasons import reasons

    return reasons(runs, labels, why)


def _history(folder: Path) -> list[dict[str, Any]]:
    """Return the evaluations of a training."""
    from slipstream.errors import InputError
    from slipstream.learn.files import read_history

    wanted = ("steps", "reward", "heuristic_reward")
    found = [{name: float(line[name]) for name in wanted} for line in read_history(folder, wanted)]
    if not found:
        raise InputError(f"{folder}: was not evaluated yet: expected a training with at least one evaluation")
    return found
