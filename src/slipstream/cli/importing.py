"""`slipstream import`: scenarios from traces, task lists, measurements and recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from slipstream.cli.common import JsonOption, check_seed, console, errors, print_json, print_json_text
from slipstream.cli.help_text import OUTPUT, Group
from slipstream.cli.outputs import ForceOption, writable
from slipstream.cli.slurm import PartitionOption, RestOption, SlurmConfigOption, live_snapshot
from slipstream.files.atomic import folder_of, write_files

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.families.contract import Scenario
    from slipstream.families.edge.scenario import EdgeScenario


OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="JSON file to write; default: standard output.", rich_help_panel=OUTPUT),
]
TraceOption = Annotated[
    Literal["csv", "parquet"] | None,
    typer.Option(
        help="Write release times to files of this format beside the scenario, not into it (edge only).",
        rich_help_panel=OUTPUT,
    ),
]
HorizonOption = Annotated[
    float | None, typer.Option(help="Another length of an episode (edge only).", min=1e-6, max=8.64e9)
]

app = typer.Typer(cls=Group, no_args_is_help=True)


@app.callback()
def _about() -> None:
    """Turn files of other tools into scenarios: arrival traces, task lists, measured latencies, recorded runs.

    Every family takes `trace`, from CSV, Parquet or JSON files with a row per arrival. Its columns are:

    - edge: arrival_ms, and task

    - dag: arrival_s, and job where a trace names jobs of the source

    - taskgraph: arrival_ms, and graph where a trace names graphs

    - serving: arrival_ms, and model

    - cluster: submit_s and run_s; gpus, requested_s and user where known

    - llm: arrival_s, prompt and output; client where known

    - elastic: arrival_s; model, work, gpus and weight where known

    The edge family also takes `tasklist`, `profile` and `log`; cluster takes `slurm`.

    Scenarios name files of these formats directly, without an import:

    - dag: tpch, alibaba

    - taskgraph: stg, wfcommons, StarPU performance models

    - serving: azure-llm, lists of rates

    - cluster: swf, philly, helios, openb

    - llm: azure, mooncake, servegen, JSON lines

    - elastic: Gavel's traces and throughputs

    Example: slipstream import log run.parquet --out same-arrivals.json
    """


@app.command()
def tasklist(
    file: Annotated[Path, typer.Argument(help="A JSON file with a task_list.", metavar="FILE")],
    gaps: Annotated[
        Literal["exponential", "integer-poisson"],
        typer.Option(help="Random gaps: those of a Poisson process, or Poisson-distributed whole milliseconds."),
    ] = "exponential",
    seed: Annotated[
        int, typer.Option("--seed", "-s", help="Seed of integer-poisson gaps.", min=0, callback=check_seed)
    ] = 0,
    horizon_ms: HorizonOption = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="The built-in ladder of a model; repeatable.", metavar="MODEL=LADDER"),
    ] = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a task list: models, periods or Poisson means, deadlines; latencies come from built-in ladders.

    Example: slipstream import tasklist config_hw.json --gaps integer-poisson --seed 7 --out hw.json
    """
    from slipstream.families.edge.workload.importing import import_tasklist

    scenario = import_tasklist(file, gaps, seed, horizon_ms, pairs("--profile", profile))
    _output(scenario, {}, out, None, force, as_json)


@app.command()
def trace(
    files: Annotated[
        list[Path], typer.Argument(help="CSV, Parquet or JSON files with an arrival in each row.", metavar="FILE")
    ],
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", help="Name of a built-in scenario, or a JSON file; --family's default if absent."),
    ] = None,
    family: Annotated[str | None, typer.Option(help="Family of the scenario.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            "--task",
            help="Task, model, job, graph or user of all rows of a file, once per file; without it each row has a "
            "name.",
        ),
    ] = None,
    name_column: Annotated[
        str | None,
        typer.Option(
            "--name-column", "--task-column", help="Column of these names; 'task' in edge, 'model' in serving."
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of the times; 'arrival_ms' in edge, 'submit_s' in cluster.")
    ] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of the times; that of the family if absent.")
    ] = None,
    horizon_ms: HorizonOption = None,
    trace: TraceOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import arrivals: a scenario with the arrivals of the files in place of its own.

    `slipstream import --help` lists the columns of each family. Tasks and models without rows keep their arrivals.

    Example: slipstream import trace camera.csv --scenario edge/light --task task1 --out replay.json
    """
    from slipstream.errors import InputError
    from slipstream.families.contract import family_of
    from slipstream.families.edge.scenario import EdgeScenario
    from slipstream.families.edge.workload.importing import read_trace
    from slipstream.families.edge.workload.replay import with_horizon
    from slipstream.families.shared.importing import TraceColumns
    from slipstream.scenario import load

    base = load(_base(scenario, family))
    importer = family_of(base).trace_importer
    if importer is None:
        raise InputError(f"import trace: the family '{base.family}' has no import of traces: expected another family")
    known = importer.columns
    columns = TraceColumns(column or known.time, unit or known.unit, name_column or known.name)
    if isinstance(base, EdgeScenario):
        with errors.status("reading traces"):
            releases = read_trace(base, files, name, columns)
        _output(base if horizon_ms is None else with_horizon(base, horizon_ms), releases, out, trace, force, as_json)
        return
    for option, given in (("--horizon-ms", horizon_ms), ("--trace", trace)):
        if given is not None:
            raise InputError(f"{option}: is for the family 'edge' only, and the scenario is of '{base.family}'")
    with errors.status("reading traces"):
        found = importer.import_trace(base, files, name, columns)
    _output_scenario(found, out, force, as_json)


def _base(scenario: str | None, family: str | None) -> str:
    """Return the scenario to start from: the named one, or the default of the named family."""
    from slipstream.errors import InputError
    from slipstream.families.contract import FAMILIES
    from slipstream.scenario import load

    if family is not None and family not in FAMILIES:
        raise InputError(f"--family: unknown family '{family}': expected one of {', '.join(FAMILIES)}")
    if scenario is None:
        if family is None:
            raise InputError("import trace: expected --scenario, or --family to start from its default scenario")
        return FAMILIES[family].default_scenario
    found = load(scenario).family
    if family is not None and found != family:
        raise InputError(f"{scenario}: is of the family '{found}': expected one of '{family}', as --family says")
    return scenario


@app.command()
def profile(
    file: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file with a measured variant in each row.", metavar="FILE")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(help="Take only rows with this value in the column; repeatable.", metavar="COLUMN=VALUE"),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Same as --where device=DEVICE.")] = None,
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
    run: Annotated[Path, typer.Argument(help="An event log written by `slipstream run --log`.", metavar="RUN")],
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


@app.command()
def slurm(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Output of `sacct --parsable2`, or files of jobcomp/filetxt; default: the live queue.", metavar="FILE"
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            help="Scenario with the rules and, where files are read, the nodes; its jobs are replaced.",
        ),
    ] = None,
    config: SlurmConfigOption = None,
    rest: RestOption = None,
    partition: PartitionOption = None,
    at: Annotated[
        str | None,
        typer.Option(help="Begin at this time, with the jobs of the files that ran or waited then.", metavar="TIME"),
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Count held jobs of the live queue as waiting; default: leave them out.")
    ] = False,
    limits: Annotated[
        Path | None,
        typer.Option(help="Output of `sacctmgr --parsable2 show associations`: its GPU limits of users as quotas."),
    ] = None,
    out: OutOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import a Slurm cluster: the state of this moment, or accounting. Nothing is sent to the controller.

    From the live controller, the episode begins now: running jobs go on, each as long as its time limit allows.

    Example: slipstream import slurm --partition gpu --out now.json
    """
    from slipstream.errors import InputError
    from slipstream.families.cluster.slurm.accounting import read_accounting, read_associations, time_of
    from slipstream.families.cluster.slurm.history import accounted_scenario, with_limits
    from slipstream.families.cluster.slurm.scenario import live_scenario

    base = None if scenario is None else cluster_scenario(scenario)
    if files:
        if rest is not None:
            raise InputError("--rest: is for the live queue: expected no files with it")
        if base is None:
            raise InputError("--scenario: is missing: accounting does not say which nodes there are")
        moment = None if at is None else time_of("--at", at)
        jobs, left_out = [], {}
        for path in files:
            more, unclear = read_accounting(path)
            jobs += more
            left_out.update(unclear)
        found, dropped = accounted_scenario(jobs, base, partition or [], moment)
        left_out.update(dropped)
    else:
        if at is not None:
            raise InputError("--at: is for files: the live controller tells its present state")
        snapshot = live_snapshot(config, rest, partition or [])
        live = live_scenario(snapshot, base, chosen=lambda job: held or not job.is_held)
        found, left_out = live.scenario, live.left_out
    if limits is not None:
        found = with_limits(found, read_associations(limits))
    for reason, count in left_out.items():
        errors.print(f"note: jobs left out {reason}: {count:,}", markup=False)
    _output_scenario(found, out, force, as_json)


def cluster_scenario(source: str) -> ClusterScenario:
    """Return a cluster scenario by name or path."""
    from slipstream.errors import InputError
    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.scenario import load

    scenario = load(source)
    if not isinstance(scenario, ClusterScenario):
        raise InputError(f"{source}: is of the family '{scenario.family}': expected a cluster scenario")
    return scenario


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


def _output_scenario(scenario: Scenario, out: Path | None, force: bool, as_json: bool) -> None:
    """Print `scenario`, or write it to `out`, with the paths that it names relative to the folder of `out`."""
    from slipstream.scenario import digest, dump, load, moved

    if out is None:
        print_json_text(dump(moved(scenario, Path.cwd())))
        return
    write_files({out: dump(moved(scenario, writable(out).resolve().parent)).encode()}, overwrite=force)
    found = digest(load(out))
    if as_json:
        print_json({"written": [str(out)], "digest": found})
        return
    console.print(f"Written: {out} (digest {found[:12]})", soft_wrap=True)


def _note_late(scenario: EdgeScenario, releases: dict[int, np.ndarray]) -> None:
    """Print how many releases lie at or after the horizon."""
    from slipstream.families.shared.schema import nanoseconds

    late = sum(int((times >= nanoseconds(scenario.horizon_ms)).sum()) for times in releases.values())
    if late:
        errors.print(f"note: releases at or after the horizon ({scenario.horizon_ms:g} ms) never happen: {late:,}")
