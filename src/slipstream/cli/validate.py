"""`slipstream validate`: compare a run on a device with its simulation."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.common import (
    EpisodeSeedOption,
    JsonOption,
    ScenarioArgument,
    console,
    describe_run,
    errors,
    print_json,
    print_written,
    progress_bar,
    write_text,
)
from slipstream.cli.device import (
    CodeOption,
    DataOption,
    DeviceOption,
    WatchdogOption,
    device_command,
    device_scenario,
    device_streams,
    device_workload,
)
from slipstream.cli.help_text import DEVICE, OUTPUT
from slipstream.cli.outputs import PAGE, PROFILE, ForceOption, check_outputs
from slipstream.cli.profile import print_noise
from slipstream.cli.run import PolicyOption
from slipstream.cli.slurm import EngineOption, refuse_options
from slipstream.cli.slurm_trial import TrialJobsOption, validate_slurm
from slipstream.cli.tasks import (
    SpinOption,
    TaskOptions,
    TileSideOption,
    TimeScaleOption,
    refuse_device_options,
    refuse_task_options,
    runs_on_processes,
    validate_tasks,
)

if TYPE_CHECKING:
    from slipstream.device.measurement.trial import Trial
    from slipstream.reports.runs import Run


ProfileOption = Annotated[
    Path | None,
    typer.Option(
        help="A profile written by `slipstream profile`; default: one is measured first.", rich_help_panel=DEVICE
    ),
]
RunsOption = Annotated[
    int,
    typer.Option("--runs", "-n", help="Runs on the device, all with the same arrivals.", min=1, rich_help_panel=DEVICE),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="HTML file for the page.", rich_help_panel=OUTPUT)]
FitOption = Annotated[
    Path | None,
    typer.Option(
        help="JSON file for a profile that is corrected by the measured run; of tasks, for the scenario with their "
        "measured times.",
        rich_help_panel=OUTPUT,
    ),
]


def validate(
    scenario: ScenarioArgument,
    policy: PolicyOption = None,
    device: DeviceOption = "cpu",
    seed: EpisodeSeedOption = 0,
    profile: ProfileOption = None,
    runs: RunsOption = 1,
    data: DataOption = None,
    allow_code: CodeOption = False,
    watchdog_ms: WatchdogOption = None,
    out: OutOption = Path("validation.html"),
    fit: FitOption = None,
    engine: EngineOption = "device",
    jobs: TrialJobsOption = 30,
    time_scale: TimeScaleOption = None,
    spin: SpinOption = False,
    tile_side: TileSideOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario on this machine and in the simulator with the same arrivals; report how they differ, and why.

    With --engine slurm, the jobs of a cluster scenario run as sleeps on a Slurm cluster started on this machine,
    released by the policy and then by Slurm's own backfill, each beside its simulation. With --engine starpu, the
    kernels of a tiled graph run on StarPU's workers.

    Example: slipstream validate edge/cpu-mini --policy edf-fit --profile profile.json --fit fitted.json
    """
    from slipstream.cli.choosing import choice_json, choice_line, choice_of
    from slipstream.device.engine import on_device
    from slipstream.device.measurement.fitting import fit as corrected
    from slipstream.device.measurement.profiler import Profiler
    from slipstream.device.measurement.trial import run_trial
    from slipstream.families.edge.workload.measured import read_profile, variant_indices
    from slipstream.policies.base import find_for
    from slipstream.reports.html.validation import cause_lines, validation_page, validation_table

    if engine == "slurm":
        refuse_options(engine, {"--profile": profile, "--data": data, "--watchdog-ms": watchdog_ms, "--fit": fit})
        validate_slurm(scenario, policy, seed, runs, jobs, time_scale, as_json)
        return
    if engine == "starpu" or runs_on_processes(scenario):
        refuse_device_options({"--profile": profile, "--data": data}, device)
        chosen = TaskOptions(time_scale, spin, tile_side, allow_code, watchdog_ms, engine)
        validate_tasks(scenario, policy, seed, runs, chosen, out, fit, force, as_json)
        return
    refuse_task_options({"--time-scale": time_scale, "--spin": spin or None, "--tile-side": tile_side})
    loaded = device_scenario(scenario, None)
    player = on_device(find_for(policy, loaded))
    workload = device_workload(loaded, data, allow_code)
    known = None if profile is None else read_profile(profile)
    if known is not None:
        variant_indices(loaded, known)
    check_outputs((out, PAGE), (fit, PROFILE), force=force)
    with device_streams(device, loaded, workload) as streams:
        if known is None:
            with progress_bar("measuring") as progress:
                known = Profiler(loaded, workload, streams, device).measure(None, progress)
        with errors.status("running on the device"):
            trial = run_trial(loaded, known, workload, streams, player, seed, runs, watchdog_ms)
        hardware = streams.hardware
    words = device_command("validate", scenario, player.name, device, seed, profile)
    command = shlex.join([*words, "--out", str(out)])
    choice = choice_of(player, trial.scenario)
    result = {"scenario": scenario, **trial.result, **choice_json(choice)}
    sides = _sides(scenario, trial, player.name, seed, command, hardware)
    write_text(out, validation_page(sides, result, command))
    if fit is not None:
        better = corrected(trial.scenario, known, trial.executions[0].events, command)
        write_text(fit, better.model_dump_json(indent=2) + "\n")
    if as_json:
        print_json({**result, "written": [str(path) for path in (out, fit) if path is not None]})
        return
    console.print(validation_table(result))
    if choice is not None:
        console.print(choice_line(choice), markup=False)
    for line in cause_lines(result):
        console.print(f"- {line}", markup=False, soft_wrap=True)
    print_noise(known.noise)
    print_written({"Page": out, "Corrected profile": fit})


def _sides(source: str, trial: Trial, policy: str, seed: int, command: str, hardware: str) -> list[Run]:
    """Return the measured run, which names its hardware, and the simulated one, to be drawn."""
    from slipstream.reports.runs import run_of

    sides = []
    for name, events in (("measured", trial.executions[0].events), ("simulated", trial.simulated)):
        about = {**describe_run(source, trial.scenario, f"{policy}, {name}", seed), "command": command}
        if name == "measured":
            about["hardware"] = hardware
            about["device"] = str(trial.result["device"])
        sides.append(run_of(events, about, trial.scenario))
    return sides
