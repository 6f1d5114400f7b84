"""`slipstream profile`: measure latency and slowdown of a scenario's variants on a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.common import (
    JsonOption,
    ScenarioArgument,
    console,
    errors,
    print_json,
    progress_bar,
    write_text,
)
from slipstream.cli.device import CodeOption, DataOption, DeviceOption, device_scenario, device_workload
from slipstream.cli.help_text import DEVICE, OUTPUT
from slipstream.cli.outputs import PROFILE, ForceOption, check_outputs, writable

if TYPE_CHECKING:
    from slipstream.families.edge.workload.measured import MeasuredProfile, Noise
    from slipstream.reports.terminal.plain_table import PlainTable


OutOption = Annotated[Path, typer.Option("--out", "-o", help="JSON file for the profile.", rich_help_panel=OUTPUT)]
RunsOption = Annotated[
    int, typer.Option("--runs", "-n", help="Runs of each variant alone.", min=3, rich_help_panel=DEVICE)
]
SecondsOption = Annotated[
    float, typer.Option(help="Seconds for which each pair runs side by side.", min=0.01, rich_help_panel=DEVICE)
]
PatienceOption = Annotated[
    float,
    typer.Option(
        help="Minutes for which solo runs are repeated until the machine is quiet.", min=0.0, rich_help_panel=DEVICE
    ),
]
AfreshOption = Annotated[
    bool,
    typer.Option(
        "--afresh", help="Start over: discard the results of an interrupted measurement.", rich_help_panel=DEVICE
    ),
]


def profile(
    scenario: ScenarioArgument,
    device: DeviceOption = "cpu",
    out: OutOption = Path("profile.json"),
    runs: RunsOption = 60,
    pair_seconds: SecondsOption = 0.4,
    patience_minutes: PatienceOption = 0.0,
    data: DataOption = None,
    allow_code: CodeOption = False,
    afresh: AfreshOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure every variant of a scenario on a device, alone and beside every other; write a profile.

    An interrupted measurement is resumed. A scenario uses a profile by naming it: "profile": "profile.json". The
    profile records whether the machine was quiet enough for it to be trusted.

    Example: slipstream profile edge/cpu-mini --device cpu --out profile.json
    """
    from slipstream.device.backends.registry import open_streams
    from slipstream.device.measurement.profiler import Effort, Profiler

    loaded = device_scenario(scenario, None)
    workload = device_workload(loaded, data, allow_code)
    check_outputs((out, PROFILE), force=force)
    kept_in = writable(out.with_name(out.name + ".cells"))
    if afresh:
        kept_in.unlink(missing_ok=True)
    with errors.status("loading models"):
        streams = open_streams(device, workload, max(2, loaded.device.streams), loaded.device.stream_priorities)
    with streams, progress_bar("measuring") as progress:
        profiler = Profiler(loaded, workload, streams, device, Effort(runs, pair_seconds, 60 * patience_minutes))
        found = profiler.measure(kept_in, progress)
    write_text(out, found.model_dump_json(indent=2) + "\n")
    if as_json:
        print_json({"written": str(out), "device": found.device, "noise": found.noise.model_dump(mode="json")})
        return
    console.print(profile_table(found))
    print_noise(found.noise)
    console.print(f"Written: {out}", soft_wrap=True)


def profile_table(profile: MeasuredProfile) -> PlainTable:
    """Return a table of `profile` with a row per variant."""
    from rich.box import SIMPLE_HEAD

    from slipstream.reports.terminal.plain_table import PlainTable

    table = PlainTable("variant", title=profile.device, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    ranks = {"W": 1, "MB": 2, "cv": 3, "p50": 4}
    powered = any(found.power_w is not None for found in profile.variants)
    for column in ("mean ms", "p50", "p99", "cv", "slowdown", "MB", *(["W"] if powered else [])):
        table.add_column(column, justify="right", rank=ranks.get(column, 0))
    for found, row in zip(profile.variants, profile.slowdowns, strict=True):
        times = (found.latency_ms, found.p50_ms, found.p99_ms)
        cells = [*(f"{time:.2f}" for time in times), f"{found.cv:.2f}", f"{min(row):.2f}-{max(row):.2f}"]
        power = ["?" if found.power_w is None else f"{found.power_w:.1f}"] if powered else []
        table.add_row(f"{found.model} {found.variant}", *cells, f"{found.memory_mb:.1f}", *power)
    return table


def print_noise(noise: Noise) -> None:
    """Print whether other load disturbed the measurement."""
    from slipstream.device.measurement.noise import MOST_OTHERS, MOST_SPREAD

    figures = (
        f"other processes used {noise.others:.0%} of the processor (peak {noise.others_worst:.0%}), latencies vary "
    )
    figures += f"by {noise.spread:.0%} of their median"
    if noise.machine_spread is not None:
        figures += f" (those of a fixed computation, which show the machine alone, by {noise.machine_spread:.0%})"
    if noise.quiet:
        console.print(f"The machine was quiet: {figures}.")
    else:
        limits = f"the limits are {MOST_OTHERS:.0%} and {MOST_SPREAD:.0%}"
        line = f"[bold]The machine was not quiet[/bold]: {figures}; {limits}. Measure again when nothing else runs."
        console.print(line, markup=True)
