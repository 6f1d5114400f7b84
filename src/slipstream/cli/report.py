"""`slipstream report`: recorded runs as one page to look at, or as a trace for Perfetto."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json, writable, write_text

RunsArgument = Annotated[
    list[Path], typer.Argument(help="Event logs written by `slipstream run --log`.", metavar="RUN...")
]
OutOption = Annotated[Path | None, typer.Option(help="Write the page here; report.html unless only a trace is wanted.")]
PerfettoOption = Annotated[
    Path | None, typer.Option(help="Write a trace for ui.perfetto.dev or chrome://tracing here.")
]


def report(
    runs: RunsArgument, out: OutOption = None, perfetto: PerfettoOption = None, as_json: JsonOption = False
) -> None:
    """Write recorded runs into one HTML page that opens offline; several runs are compared.

    Example: slipstream report edf.parquet lookahead.parquet --out report.html
    """
    from slipstream.report.page import page
    from slipstream.report.perfetto import trace
    from slipstream.report.runs import read_run

    target = Path("report.html") if out is None and perfetto is None else out
    words = ["slipstream", "report", *map(str, runs)]
    for option, path in (("--out", target), ("--perfetto", perfetto)):
        if path is not None:
            writable(path)
            words += [option, str(path)]
    with errors.status("drawing"):
        loaded = [read_run(path) for path in runs]
        texts = {}
        if target is not None:
            texts[target] = page(loaded, shlex.join(words))
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
        console.print(f"Written: {path} ({len(text.encode()) / 1e6:.1f} MB)", soft_wrap=True)
