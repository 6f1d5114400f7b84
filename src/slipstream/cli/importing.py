"""`slipstream import`: scenarios from task lists, traces, measurements and recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json, print_json_text
from slipstream.cli.help_text import OUTPUT, Group
from slipstream.cli.outputs import ForceOption, writable
from slipstream.files.atomic import folder_of, write_files

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.edge.scenario import EdgeScenario


OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="JSON file to write; default: standard output.", rich_help_panel=OUTPUT),
]
TraceOption = Annotated[
    Literal["csv", "parquet"] | None,
    typer.Option(help="Write release times to such files beside the scenario, not into it.", rich_help_panel=OUTPUT),
]
HorizonOption = Annotated[
    float | None, typer.Option(help="Length of an episode, if another one is wanted.", min=1e-6, max=8.64e9)
]
BaseOption = Annotated[str, typer.Option("--scenario", help="Name of a built-in scenario, or a JSON file.")]

app = typer.Typer(cls=Group, no_args_is_help=True)


@app.callback()
def _about() -> None:
    """Turn files of other tools into scenarios: task lists, arrival traces, measured latencies, recorded runs.

    Example: slipstream import log run.parquet --out same-arrivals.json
    """


@app.command()
def tasklist(
    file: Annotated[Path, typer.Argument(help="A JSON file with a task_list.")],
    gaps: Annotated[
        Literal["exponential", "integer-poisson"],
        typer.Option(help="Random gaps: those of a Poisson process, or Poisson-distributed whole milliseconds."),
    ] = "exponential",
    seed: Annotated[int, typer.Option("--seed", "-s", help="Seed of integer-poisson gaps.", min=0)] = 0,
    horizon_ms: HorizonOption = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="MODEL=LADDER: the built-in ladder of a model; may be repeated.")
    ] = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a task list: models, periods or Poisson means, deadlines; latencies come from built-in ladders.

    Example: slipstream import tasklist config_hw.json --gaps integer-poisson --seed 7 --out hw.json
    """
    from slipstream.errors import InputError
    from slipstream.families.edge.workload.importers.tasklist import TaskList, scenario_of
    from slipstream.files.validation import read_model

    tasks = read_model(file, TaskList)
    if horizon_ms is not None:
        tasks = tasks.model_copy(update={"total_time_ms": horizon_ms})
    try:
        scenario = scenario_of(tasks, file.stem, gaps, seed, pairs("--profile", profile))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    _output(scenario, {}, out, None, force, as_json)


@app.command()
def trace(
    files: Annotated[list[Path], typer.Argument(help="CSV or Parquet files with a release in each row.")],
    scenario: BaseOption,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Task whose releases a file holds, once per file; without it each row names its task."),
    ] = None,
    task_column: Annotated[str, typer.Option(help="The column that names the task.")] = "task",
    column: Annotated[str, typer.Option(help="The column of release times.")] = "arrival_ms",
    unit: Annotated[Literal["s", "ms", "us", "ns"], typer.Option(help="The unit of that column.")] = "ms",
    horizon_ms: HorizonOption = None,
    trace: TraceOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import arrivals: a scenario whose tasks are released as the files say; the other tasks stay as they are.

    Example: slipstream import trace camera.csv --scenario edge/light --task task1 --out replay.json
    """
    from slipstream.errors import InputError
    from slipstream.families.edge.workload.importers.trace import UNITS_MS, read_releases
    from slipstream.families.edge.workload.replay import with_horizon

    base = _edge(scenario)
    if task and len(task) != len(files):
        raise InputError(f"--task is given {len(task)} times for {len(files)} files: expected once per file, or never")
    releases: dict[int, np.ndarray] = {}
    names: list[str | None] = [*task] if task else [None] * len(files)
    for file, name in zip(files, names, strict=True):
        with errors.status(f"reading {file}"):
            found = read_releases(file, base, name, task_column, column, UNITS_MS[unit])
        for index in found.keys() & releases.keys():
            raise InputError(f"{file}: task '{base.tasks[index].name}' has releases in another file: expected one file")
        releases |= found
    if horizon_ms is not None:
        base = with_horizon(base, horizon_ms)
    _output(base, releases, out, trace, force, as_json)


@app.command()
def profile(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a measured variant in each row.")],
    where: Annotated[list[str] | None, typer.Option(help="COLUMN=VALUE: take only such rows; may be repeated.")] = None,
    device: Annotated[str | None, typer.Option(help="The same as --where device=VALUE.")] = None,
    name_column: Annotated[str, typer.Option(help="The column of the variants' names.")] = "model",
    latency_column: Annotated[str, typer.Option(help="The column of latencies in ms.")] = "latency_ms",
    accuracy_column: Annotated[
        str, typer.Option(help="The column of accuracies: shares, or percents if any is above 1.")
    ] = "accuracy",
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Leave out what is not more accurate than every faster row.")
    ] = False,
    scenario: Annotated[
        str | None, typer.Option(help="Put the ladder into this scenario; without it only the ladder is written.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task of the scenario that gets the ladder.")] = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import measured latencies and accuracies as a ladder, fastest first: a list for the key `variants`.

    Example: slipstream import profile profiles.csv --device jetson_nano --where family=resnet --out ladder.json
    """
    from slipstream.errors import InputError
    from slipstream.families.edge.workload.importers.ladder import read_ladder, rows_of, with_ladder
    from slipstream.families.edge.workload.importers.trace import task_index

    wanted = pairs("--where", where) | ({"device": device} if device is not None else {})
    if (scenario is None) != (task is None):
        raise InputError("--scenario and --task go together: expected both or none")
    base = None if scenario is None else _edge(scenario)
    index = 0 if base is None or task is None else task_index(base, task)
    ladder = read_ladder(file, wanted, name_column, latency_column, accuracy_column, pareto)
    if base is not None:
        _output(with_ladder(base, index, ladder), {}, out, None, force, as_json)
        return
    text = json.dumps(rows_of(ladder), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        print_json_text(text)
        return
    write_files({writable(out): text.encode()}, overwrite=force)
    if as_json:
        print_json({"written": [str(out)], "variants": len(ladder)})
        return
    console.print(f"Written: {out} ({len(ladder)} variants)", soft_wrap=True)


@app.command()
def log(
    run: Annotated[Path, typer.Argument(help="An event log written by `slipstream run --log`.")],
    trace: TraceOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a recorded run: its scenario, with the arrivals of every task replaced by those recorded.

    With the seed of the run, jobs also take as long as they did, so another policy gets exactly the same work.

    Example: slipstream import log run.parquet --out same-arrivals.json
    """
    from slipstream.errors import InputError
    from slipstream.families.edge.scenario import EdgeScenario
    from slipstream.families.edge.workload.importers.log import releases_of_log
    from slipstream.reports.runs import read_recording

    with errors.status(f"reading {run}"):
        events, _, scenario = read_recording(run)
        if not isinstance(scenario, EdgeScenario):
            raise InputError(f"{run}: is a run of the family '{scenario.family}': expected one of 'edge'")
        releases = releases_of_log(run, scenario, events)
    _output(scenario, releases, out, trace, force, as_json)


def _edge(source: str) -> EdgeScenario:
    """Return an edge scenario by name or path."""
    from slipstream.errors import InputError
    from slipstream.families.edge.scenario import EdgeScenario
    from slipstream.scenario import load

    scenario = load(source)
    if not isinstance(scenario, EdgeScenario):
        raise InputError(f"{source}: is of the family '{scenario.family}': expected an edge scenario")
    return scenario


def pairs(option: str, words: list[str] | None) -> dict[str, str]:
    """Return the KEY=VALUE words of `option` as a dict."""
    from slipstream.errors import InputError

    pairs = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise InputError(f"{option}: '{word}': expected two words with = between them")
        pairs[key] = value
    return pairs


def _output(
    scenario: EdgeScenario, releases: dict[int, np.ndarray], out: Path | None, trace: Any, force: bool, as_json: bool
) -> None:
    """Put `releases` (times by task index) into `scenario`; print it, or write it and its traces to `out`."""
    from slipstream.errors import InputError
    from slipstream.families.edge.workload.replay import moved, replay, replay_from_files
    from slipstream.scenario import digest, dump, load

    if out is None and trace is not None:
        raise InputError("--out is missing: a scenario with traces needs files")
    folder = Path.cwd() if out is None else writable(out).resolve().parent
    # Traces that are replaced need not be copied; those of a recorded run may no longer exist.
    files: dict[str, bytes] = {}
    if trace is not None and out is not None:
        scenario, files = replay_from_files(scenario, releases, f"{out.stem}-arrivals", trace)
    else:
        scenario = replay(scenario, releases)
    scenario = moved(scenario, folder, besides=files)
    if out is None:
        print_json_text(dump(scenario))
        _note_late(scenario, releases)
        return
    contents = {folder_of(out) / path: content for path, content in files.items()}
    write_files({**contents, out: dump(scenario).encode()}, overwrite=force)
    _note_late(scenario, releases)
    written = [str(path) for path in (*contents, out)]
    if as_json:
        print_json({"written": written, "digest": digest(load(out))})
        return
    more = f" and {len(contents)} traces in {out.stem}-arrivals" if contents else ""
    console.print(f"Written: {out}{more} (digest {digest(load(out))[:12]})", soft_wrap=True)


def _note_late(scenario: EdgeScenario, releases: dict[int, np.ndarray]) -> None:
    """Print how many releases lie at or after the horizon."""
    from slipstream.families.shared.schema import nanoseconds

    late = sum(int((times >= nanoseconds(scenario.horizon_ms)).sum()) for times in releases.values())
    if late:
        errors.print(f"note: releases at or after the horizon ({scenario.horizon_ms:g} ms) never happen: {late:,}")
