"""`slipstream execute` and `validate` of scenarios whose tasks run on worker processes, or inside StarPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.common import console, describe_run, errors, print_json, print_written, write_text
from slipstream.cli.device import execution_summary
from slipstream.cli.help_text import DEVICE
from slipstream.cli.outputs import EVENT_LOG, PAGE, PROFILE, check_outputs
from slipstream.cli.run import print_metrics

if TYPE_CHECKING:
    import numpy as np

    from slipstream.device.engine import Execution
    from slipstream.device.starpu.machine import StarpuMachine
    from slipstream.device.tasks.processes import TaskProcesses
    from slipstream.families.contract import Scenario
    from slipstream.policies.base import Policy
    from slipstream.reports.runs import Run

TimeScaleOption = Annotated[
    float | None,
    typer.Option(
        help="Where stand-ins run in place of tasks or jobs: seconds per second of the scenario; default: so that the "
        "episode takes 10 s, or with --engine slurm a job 8 s.",
        min=1e-6,
        max=1e3,
        rich_help_panel=DEVICE,
    ),
]
SpinOption = Annotated[
    bool,
    typer.Option("--spin", help="Stand-ins of tasks keep a core busy in place of sleeping.", rich_help_panel=DEVICE),
]
TileSideOption = Annotated[
    int | None,
    typer.Option(
        help="For a tiled graph of taskgraph: run its kernels with BLAS on tiles of N x N numbers in shared "
        "memory, and check the result; they are timed first. Default with --engine starpu: 256.",
        min=2,
        max=8192,
        rich_help_panel=DEVICE,
    ),
]


@dataclass(frozen=True)
class TaskOptions:
    """Options of what worker processes or StarPU's workers run."""

    time_scale: float | None
    spins: bool
    tile_side: int | None
    allow_code: bool
    watchdog_ms: float | None
    engine: str = "device"


def runs_on_processes(source: str) -> bool:
    """Return whether the tasks of a scenario run on worker processes."""
    from slipstream.families.contract import family_of
    from slipstream.scenario import load

    return family_of(load(source)).members.processes is not None


def refuse_device_options(given: dict[str, Any], device: str) -> None:
    """Raise an error where an option of devices is given, which run models."""
    from slipstream.errors import InputError

    for option, value in {**given, "--device": None if device == "cpu" else device}.items():
        if value is not None:
            raise InputError(f"{option}: is for models on a device: expected it without tasks on worker processes")


def refuse_task_options(given: dict[str, Any]) -> None:
    """Raise an error where an option of tasks on worker processes is given."""
    from slipstream.errors import InputError

    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option}: is for tasks on worker processes: expected it without models on a device")


def execute_tasks(
    source: str,
    policy: str | None,
    seed: int,
    options: TaskOptions,
    log: Path | None,
    out: Path | None,
    show_all: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Run the tasks of a scenario; print the metrics, write log and report."""
    from slipstream.cli.choosing import choice_json, choice_line, choice_of, played_by
    from slipstream.cli.recording import RunFiles
    from slipstream.device.tasks.trial import runtime_on
    from slipstream.families.contract import family_of
    from slipstream.scenario import load
    from slipstream.sim.eventlog import digest

    player = _player(policy, load(source))
    target = Path("report.html") if out is None and not as_json else out
    check_outputs((log, EVENT_LOG), (target, PAGE), force=force)
    with _opened(source, player, seed, options) as (loaded, processes, scale):
        choice = choice_of(player, loaded)
        runtime = runtime_on(processes, loaded, scale, options.watchdog_ms)
        about = _about("execute", source, loaded, player.name, seed, scale, processes, played_by(choice))
        files = RunFiles(loaded, about, log, target)
        try:
            with errors.status(f"running on {processes.device}"):
                execution = runtime.play(player, seed)
        except BaseException:
            files.save(runtime.pieces())
            raise
        failed = files.write([execution.events])
    figures = family_of(loaded).metrics(loaded, execution.events)
    summary = {**execution_summary(execution), "time_scale": scale, "residual": execution.residual}
    if as_json:
        head = {"scenario": source, "policy": player.name, **choice_json(choice), "seed": seed}
        about_run = {"device": about["device"], "hardware": about["hardware"], "digest": digest(execution.events)}
        print_json({**head, **about_run, "metrics": figures, **summary})
    else:
        title = f"{source} under {player.name}, seed {seed}, on {about['device']}, time scale {scale:g}"
        print_metrics(title, family_of(loaded), loaded, figures, show_all)
        _print_execution(execution, summary)
        if choice is not None:
            console.print(choice_line(choice), markup=False)
    if failed:
        raise failed[0]
    if not as_json:
        print_written({"Report": target, "Event log": log})


def validate_tasks(
    source: str,
    policy: str | None,
    seed: int,
    runs: int,
    options: TaskOptions,
    out: Path,
    fit: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run the tasks of a scenario and simulate them; write both, and why they differ, on a page."""
    from slipstream.cli.choosing import choice_json, choice_line, choice_of
    from slipstream.device.tasks.runtime import processes_of
    from slipstream.device.tasks.trial import run_task_trial
    from slipstream.reports.html.validation import cause_lines, validation_page, validation_table
    from slipstream.scenario import dump, load

    player = _player(policy, load(source))
    check_outputs((out, PAGE), (fit, PROFILE), force=force)
    with _opened(source, player, seed, options) as (loaded, processes, scale):
        with errors.status(f"running on {processes.device}"):
            trial = run_task_trial(loaded, processes, player, seed, runs, scale, options.watchdog_ms)
        about = _about("validate", source, loaded, player.name, seed, scale, processes)
    choice = choice_of(player, loaded)
    result = {"scenario": source, **trial.result, **choice_json(choice)}
    sides = _sides(loaded, about, trial.executions[0].events, trial.simulated)
    write_text(out, validation_page(sides, result, about["command"]))
    if fit is not None:
        better = processes_of(loaded).fitted(loaded, trial.executions[0].events)
        write_text(fit, dump(better))
    if as_json:
        print_json({**result, "written": [str(path) for path in (out, fit) if path is not None]})
        return
    console.print(validation_table(result))
    if choice is not None:
        console.print(choice_line(choice), markup=False)
    for line in cause_lines(result):
        console.print(f"- {line}", markup=False, soft_wrap=True)
    if result["residual"] is not None:
        console.print(f"The result is off by {result['residual']:.1e} of its largest number.")
    print_written({"Page": out, "Fitted scenario": fit})


def _player(policy: str | None, scenario: Scenario) -> Policy:
    """Return the policy that decides."""
    from slipstream.device.engine import on_device
    from slipstream.policies.base import find_for

    return on_device(find_for(policy, scenario))


@contextmanager
def _opened(
    source: str, player: Policy, seed: int, options: TaskOptions
) -> Iterator[tuple[Scenario, TaskProcesses | StarpuMachine, float]]:
    """Yield a scenario, with measured times of its kernels if they run, what runs it, and the time scale."""
    from slipstream.device.tasks.measuring import measured
    from slipstream.device.tasks.runtime import open_processes
    from slipstream.device.tasks.trial import usual_scale
    from slipstream.errors import InputError
    from slipstream.scenario import load

    loaded, scale = load(source), options.time_scale
    if options.engine == "starpu":
        with _opened_starpu(loaded, options) as (timed, machine):
            yield timed, machine, 1.0
        return
    if options.tile_side is not None and (scale is not None or options.spins):
        raise InputError("--time-scale and --spin: are for stand-ins: expected neither with --tile-side")
    with open_processes(loaded, options.allow_code, options.spins, options.tile_side) as processes:
        with errors.status("timing what runs"):
            timed = measured(loaded, processes)
        if scale is None:
            scale = 1.0 if timed is not loaded else usual_scale(loaded, player, seed)
        yield timed, processes, scale


@contextmanager
def _opened_starpu(scenario: Scenario, options: TaskOptions) -> Iterator[tuple[Scenario, StarpuMachine]]:
    """Yield a scenario with the measured times of its kernels, and StarPU's workers."""
    from slipstream.cli.slurm import refuse_options
    from slipstream.device.starpu.machine import TILE_SIDE, StarpuMachine
    from slipstream.device.tasks.measuring import SWEEPS, with_kernel_times

    given = {"--time-scale": options.time_scale, "--watchdog-ms": options.watchdog_ms}
    refuse_options("starpu", {**given, "--spin": options.spins or None, "--allow-code": options.allow_code or None})
    with StarpuMachine(scenario, options.tile_side or TILE_SIDE) as machine:
        with errors.status("timing the kernels"):
            timed = with_kernel_times(scenario, machine.kernel_times(SWEEPS))
        yield timed, machine


def _about(
    command: str,
    source: str,
    scenario: Scenario,
    policy: str,
    seed: int,
    scale: float,
    processes: TaskProcesses | StarpuMachine,
    plays: str | None = None,
) -> dict[str, Any]:
    """Return the metadata of a run's event log."""
    words = ["slipstream", command, source, "--policy", plays or policy, "--seed", str(seed)]
    tiles = processes.tiles
    words += [] if processes.engine == "device" else ["--engine", processes.engine]
    words += ["--time-scale", f"{scale:g}"] if tiles is None else ["--tile-side", str(tiles.side)]
    run = describe_run(source, scenario, policy, seed, plays)
    return {**run, "command": shlex.join(words), "device": processes.device, "hardware": processes.hardware}


def _sides(scenario: Scenario, about: dict[str, Any], measured: np.ndarray, simulated: np.ndarray) -> list[Run]:
    """Return the measured run, which names its hardware, and the simulated one, to be drawn."""
    from slipstream.reports.runs import run_of

    ours = {**about, "policy": f"{about['policy']}, measured"}
    theirs = {name: value for name, value in about.items() if name not in ("device", "hardware")}
    theirs["policy"] = f"{about['policy']}, simulated"
    return [run_of(measured, ours, scenario), run_of(simulated, theirs, scenario)]


def _print_execution(execution: Execution, summary: dict[str, Any]) -> None:
    """Print how long dispatches took, and what failed."""
    if execution.interrupted:
        console.print("Stopped early: running tasks were allowed to finish; the log ends at the stop.")
    if summary["dispatch_p99_us"] is not None:
        p50, p99 = summary["dispatch_p50_us"], summary["dispatch_p99_us"]
        console.print(f"Decision and dispatch: {p50:.0f} µs, 99th percentile {p99:.0f} µs.")
    if execution.residual is not None:
        console.print(f"The result is off by {execution.residual:.1e} of its largest number.")
    for text, count in summary["faults"].items():
        console.print(f"Failed and repeated: {count} times: {text}", markup=False, soft_wrap=True)
