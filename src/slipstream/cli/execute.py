"""`slipstream execute`: a scenario run for real, on the streams of a device or on worker processes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.addresses import TokenOption, listen, parse_address, token_for, url_of
from slipstream.cli.common import (
    EpisodeSeedOption,
    JsonOption,
    ScenarioArgument,
    console,
    describe_run,
    errors,
    print_json,
    print_written,
)
from slipstream.cli.device import (
    CodeOption,
    DataOption,
    DeviceOption,
    LiveFile,
    LiveTable,
    ProfileOption,
    WatchdogOption,
    device_command,
    device_scenario,
    device_streams,
    device_summary,
    device_workload,
    labelled_figures,
    measured_metrics,
)
from slipstream.cli.help_text import OUTPUT, REQUESTS
from slipstream.cli.outputs import EVENT_LOG, LIVE_STATE, PAGE, ForceOption, check_outputs
from slipstream.cli.run import AllOption, LogOption, PolicyOption, print_metrics
from slipstream.cli.slurm import (
    CapCommandOption,
    DriveOptions,
    DryRunOption,
    EngineOption,
    GraceOption,
    IntervalOption,
    PartitionOption,
    SlurmConfigOption,
    StateOption,
    TakeOption,
    drive_slurm,
    refuse_options,
)
from slipstream.cli.tasks import (
    SpinOption,
    TaskOptions,
    TileSideOption,
    TimeScaleOption,
    execute_tasks,
    refuse_device_options,
    refuse_task_options,
    runs_on_processes,
)

if TYPE_CHECKING:
    from slipstream.device.backends.streams import Streams
    from slipstream.device.engine import Execution, Watcher
    from slipstream.device.lane import DeviceLane
    from slipstream.device.runtime import Runtime
    from slipstream.device.workload import Workload
    from slipstream.families.edge.scenario import EdgeScenario
    from slipstream.policies.base import Policy


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="HTML file for the report; default: report.html, or none with --json.",
        rich_help_panel=OUTPUT,
    ),
]
LiveOption = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of the device to this file, NAME.live.jsonl, for `slipstream dashboard` to follow.",
        rich_help_panel=OUTPUT,
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        help="Accept requests at HOST:PORT: for tasks of arrival 'external', or for all tasks if none has it.",
        metavar="ADDRESS",
        rich_help_panel=REQUESTS,
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        help="With --listen or --engine slurm: stop after this many seconds; default: at Ctrl-C.",
        min=0.001,
        max=8.64e6,
        rich_help_panel=REQUESTS,
    ),
]


def execute(
    scenario: ScenarioArgument,
    policy: PolicyOption = None,
    device: DeviceOption = "cpu",
    seed: EpisodeSeedOption = 0,
    profile: ProfileOption = None,
    data: DataOption = None,
    allow_code: CodeOption = False,
    watchdog_ms: WatchdogOption = None,
    time_scale: TimeScaleOption = None,
    spin: SpinOption = False,
    tile_side: TileSideOption = None,
    log: LogOption = None,
    out: OutOption = None,
    live: LiveOption = None,
    listen_at: ListenOption = None,
    seconds: SecondsOption = None,
    token: TokenOption = None,
    show_all: AllOption = False,
    engine: EngineOption = "device",
    slurm_conf: SlurmConfigOption = None,
    partition: PartitionOption = None,
    dry_run: DryRunOption = False,
    take: TakeOption = False,
    cap_command: CapCommandOption = None,
    interval_s: IntervalOption = 2.0,
    grace_s: GraceOption = 60.0,
    state: StateOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario's models or tasks on this machine, under a policy; print the metrics, write log and report.

    Models of edge run on the streams of a device. Tasks of dag, taskgraph and serving run on a worker process for each
    executor, processor or accelerator: programs, kernels, networks, or stand-ins that take their drawn times.

    The first Ctrl-C starts no further jobs, waits for those running, and writes all outputs. With --listen, requests
    arrive by POST /v1/tasks/NAME until Ctrl-C, regardless of the horizon. With --engine slurm, held jobs of a Slurm
    cluster are released where and when the policy starts them. With --engine starpu, the kernels of a tiled graph of
    taskgraph run on StarPU's workers, and the policy decides inside its scheduler.

    Example: slipstream execute edge/cpu-mini --policy edf-fit --device cpu --log run.parquet
    """
    from slipstream.cli.choosing import choice_json, choice_line, choice_of, played_by
    from slipstream.cli.recording import RunFiles
    from slipstream.device.engine import on_device
    from slipstream.errors import InputError
    from slipstream.families.contract import family_of
    from slipstream.policies.base import find_for
    from slipstream.sim.eventlog import digest

    if engine == "slurm":
        given = {"--profile": profile, "--data": data, "--watchdog-ms": watchdog_ms, "--listen": listen_at}
        refuse_options(engine, {**given, "--live": live})
        options = DriveOptions(
            slurm_conf, partition or [], dry_run, take, cap_command, interval_s, grace_s, state, seconds
        )
        drive_slurm(scenario, policy, seed, options, log, out, force, as_json)
        return
    if engine == "starpu" or runs_on_processes(scenario):
        given = {"--profile": profile, "--data": data, "--listen": listen_at, "--live": live, "--seconds": seconds}
        refuse_device_options(given, device)
        chosen = TaskOptions(time_scale, spin, tile_side, allow_code, watchdog_ms, engine)
        execute_tasks(scenario, policy, seed, chosen, log, out, show_all, force, as_json)
        return
    refuse_task_options({"--time-scale": time_scale, "--spin": spin or None, "--tile-side": tile_side})
    loaded = _for_listening(device_scenario(scenario, profile), listen_at, seconds)
    player = on_device(_listener(loaded) if listen_at is not None and policy is None else find_for(policy, loaded))
    workload = device_workload(loaded, data, allow_code)
    target = Path("report.html") if out is None and not as_json else out
    check_outputs((log, EVENT_LOG), (target, PAGE), (live, LIVE_STATE), force=force)
    if listen_at is not None and player.name == "auto":
        raise InputError("--policy auto with --listen: requests cannot be raced on: expected another policy")
    choice = choice_of(player, loaded)
    watchers: list[Watcher] = [] if as_json else [LiveTable(loaded)]
    file = None if live is None else LiveFile(loaded, live)
    if file is not None:
        watchers.append(file)

    def watch(time: int, lane: DeviceLane[Any]) -> None:
        for watcher in watchers:
            watcher(time, lane)

    opened = (
        _alone(device, loaded, workload, watchdog_ms, watch)
        if listen_at is None
        else _listening(device, loaded, workload, watchdog_ms, watch, listen_at, token, as_json)
    )
    with opened as (runtime, streams):
        name = streams.device
        about = _about(scenario, loaded, player.name, played_by(choice), seed, device, profile, streams)
        files = RunFiles(loaded, about, log, target)
        try:
            execution = runtime.play(player, seed)
        except BaseException:
            files.save(runtime.pieces())
            raise
        finally:
            if file is not None:
                file.close()
        failed = files.write([execution.events])
    if file is not None and file.problem:
        errors.print(f"{live}: incomplete: writing failed ({file.problem})", soft_wrap=True, markup=False)
    figures = family_of(loaded).metrics(loaded, execution.events)
    if as_json:
        head = {"scenario": scenario, "policy": player.name, **choice_json(choice), "seed": seed, "device": name}
        metrics = {"metrics": figures, "measured_metrics": measured_metrics(loaded, execution)}
        about_run = {"hardware": about["hardware"], "digest": digest(execution.events)}
        print_json({**head, **about_run, **metrics, **device_summary(loaded, execution)})
    else:
        _print_summary(scenario, loaded, player.name, seed, name, figures, execution, show_all)
        if choice is not None:
            console.print(choice_line(choice), markup=False)
    if failed:
        raise failed[0]
    if not as_json:
        print_written({"Report": target, "Event log": log})


def _for_listening(scenario: EdgeScenario, listen_at: str | None, seconds: float | None) -> EdgeScenario:
    """Return `scenario`; with `listen_at`, for `seconds` or as long as possible, and with tasks that take requests.

    Where no task has arrival 'external', all of them take requests.
    """
    from slipstream.errors import InputError
    from slipstream.families.edge.scenario import LONGEST_MS, External
    from slipstream.families.edge.workload.replay import with_external_arrivals

    if listen_at is None:
        if seconds is not None:
            raise InputError("--seconds: is for --listen only: expected both, or neither")
        return scenario
    if not any(isinstance(task.arrival, External) for task in scenario.tasks):
        scenario = with_external_arrivals(scenario)
        errors.print("note: no task has arrival 'external': all tasks take requests, and release nothing themselves")
    return scenario.model_copy(update={"horizon_ms": LONGEST_MS if seconds is None else seconds * 1e3})


@contextmanager
def _alone(
    device: str, scenario: EdgeScenario, workload: Workload, watchdog_ms: float | None, watch: Watcher
) -> Iterator[tuple[Runtime, Streams]]:
    """Yield the runtime of a scenario without requests, and its streams."""
    from slipstream.device.runtime import Runtime

    with device_streams(device, scenario, workload) as streams:
        yield Runtime(scenario, workload, streams, watchdog_ms, watch), streams


@contextmanager
def _listening(
    device: str,
    scenario: EdgeScenario,
    workload: Workload,
    watchdog_ms: float | None,
    watch: Watcher,
    address: str,
    token: str | None,
    as_json: bool,
) -> Iterator[tuple[Runtime, Streams]]:
    """Yield the runtime of a scenario that takes requests, and its streams; serve HTTP meanwhile."""
    from slipstream.errors import InputError

    try:
        from slipstream.device.controlling import interruptible
        from slipstream.device.listening import ListeningRuntime
        from slipstream.device.request_queue import RequestQueue
        from slipstream.service.app import Service, serving
        from slipstream.service.limits import raise_file_limit
    except ImportError as error:
        raise InputError(f"--listen needs {error.name}: run `pip install 'slipstream[device]'`") from None

    raise_file_limit()
    host, port = parse_address(address)
    token = token_for(host, token)
    requests = RequestQueue(scenario, workload)
    listening = listen(host, port, "port")
    url = url_of(host, listening)
    with device_streams(device, scenario, requests.workload) as streams:
        runtime = ListeningRuntime(scenario, requests, streams, watchdog_ms, watch)
        try:
            # Interruptible before the URL is printed: its reader may end the run at once.
            with interruptible(runtime.stop), serving(Service(scenario, requests, token), listening):
                if as_json:
                    print_json({"url": url, "tasks": list(requests.tasks), "token": token})
                else:
                    console.print(f"Listening: POST {url}v1/tasks/NAME for {', '.join(requests.tasks)}", soft_wrap=True)
                    if token is not None:
                        console.print(f"Token: {token}", soft_wrap=True, highlight=False)
                    console.print("Press Ctrl-C to stop.")
                yield runtime, streams
        finally:
            requests.close_sockets()


def _listener(scenario: EdgeScenario) -> Policy:
    """Return the policy of a run that takes requests, which nothing is known of: the default heuristic."""
    from slipstream.policies.base import default_for, find

    return find(default_for(scenario), scenario.family)


def _about(
    source: str,
    scenario: EdgeScenario,
    policy: str,
    plays: str | None,
    seed: int,
    device: str,
    profile: Path | None,
    streams: Streams,
) -> dict[str, Any]:
    """Return the metadata of the run's event log."""
    words = device_command("execute", source, plays or policy, device, seed, profile)
    run = describe_run(source, scenario, policy, seed, plays)
    return {**run, "command": shlex.join(words), "device": streams.device, "hardware": streams.hardware}


def _print_summary(
    source: str,
    scenario: EdgeScenario,
    policy: str,
    seed: int,
    name: str,
    figures: dict[str, float],
    execution: Execution,
    show_all: bool,
) -> None:
    from slipstream.families.contract import family_of

    measured = measured_metrics(scenario, execution)
    title = f"{source} under {policy}, seed {seed}, on {name}"
    print_metrics(
        title, family_of(scenario), scenario, figures, show_all, lambda shown: labelled_figures(shown, measured)
    )
    about = device_summary(scenario, execution)
    if execution.interrupted:
        console.print("Stopped early: running jobs were allowed to finish; the log shows the others as waiting.")
    if about["dispatch_p99_us"] is not None:
        p50, p99 = about["dispatch_p50_us"], about["dispatch_p99_us"]
        console.print(f"Decision and dispatch: {p50:.0f} µs, 99th percentile {p99:.0f} µs.")
    for variant, found in about["measured_accuracy"].items():
        console.print(f"Measured accuracy of {variant} in {found['runs']} runs: {found['accuracy']:.3f}.")
    if not execution.accuracy:
        console.print("Accuracies are those of the profile: measuring them needs labelled inputs (--data).")
    for text, count in about["faults"].items():
        console.print(f"Failed: {count} jobs: {text}", markup=False, soft_wrap=True)
