"""`slipstream run`: one episode, its metrics, its event log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.common import (
    JsonOption,
    ScenarioArgument,
    SeedOption,
    all_writable,
    console,
    describe_run,
    print_json,
)

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.contract import Scenario
    from slipstream.families.shared.labels import RunLabels
    from slipstream.families.shared.timeline import Timeline
    from slipstream.policies.base import Policy


PolicyOption = Annotated[
    str | None,
    typer.Option(help="Name of a policy (`slipstream policies` lists them); a usual one if absent."),
]
LogOption = Annotated[Path | None, typer.Option(help="Write the event log to this Parquet file.")]
RenderOption = Annotated[
    bool, typer.Option("--render", help="Draw streams and queues in the terminal as the run goes.")
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        help="With --render: simulated time per second of watching, in the scenario's unit (ms in edge). "
        "Unless given, a run takes 20 seconds, or longer if its jobs would be a blur.",
        min=1e-6,
    ),
]

GifOption = Annotated[Path | None, typer.Option(help="Write the run as an animated GIF: its Gantt chart over time.")]

LIVE_ROWS = 64
"""Rows of the log that are simulated ahead of the drawing."""


def run(
    scenario: ScenarioArgument,
    policy: PolicyOption = None,
    seed: SeedOption = 0,
    log: LogOption = None,
    render: RenderOption = False,
    speed: SpeedOption = None,
    gif: GifOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play one episode and print its metrics; with --render, watch it first. Drawing never changes a run.

    Example: slipstream run edge/heavy --policy edf-fit --seed 7 --log run.parquet --render
    """
    import numpy as np

    from slipstream.errors import InputError
    from slipstream.families.contract import family_of
    from slipstream.policies import find
    from slipstream.scenario import load
    from slipstream.sim.eventlog import LogWriter, digest
    from slipstream.sim.simulator import Simulator

    if render and as_json:
        raise InputError("--render with --json: both write to standard output: expected one of them")
    if speed is not None and not render:
        raise InputError("--speed without --render: expected both, or neither")
    loaded = load(scenario)
    family = family_of(loaded)
    player = find(family.default_policy if policy is None else policy, family.name)
    all_writable(log, gif)
    about = describe_run(scenario, loaded, player.name, seed)
    writer = LogWriter(log, about) if log is not None else None
    pieces: list[np.ndarray] = []

    def keep(events: np.ndarray) -> None:
        pieces.append(events)
        if writer is not None:
            writer.write(events)

    try:
        if render:
            keep(_watch(scenario, loaded, player, seed, speed))
        else:
            Simulator(loaded).play(player, seed, sink=keep)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    if writer is not None:
        writer.close()
    events = np.concatenate(pieces)
    figures = family.metrics(loaded, events, seed)
    if gif is not None:
        _write_animation(gif, family.run_labels(loaded), family.timeline(loaded, events))
    if as_json:
        print_json(
            {"scenario": scenario, "policy": player.name, "seed": seed, "digest": digest(events), "metrics": figures}
        )
        return
    from slipstream.reports.terminal.tables import metrics_table

    console.print(metrics_table(f"{scenario} under {player.name}, seed {seed}", figures))
    if log is not None:
        console.print(f"Event log: {log} ({len(events):,} rows, digest {digest(events)[:12]})")


def _write_animation(path: Path, labels: RunLabels, timeline: Timeline) -> None:
    """Write a run as an animated GIF."""
    from slipstream.errors import InputError
    from slipstream.files.atomic import write_files

    try:
        from slipstream.render.animation import animation
    except ImportError:
        raise InputError("--gif needs Pillow: run `pip install 'slipstream[render]'`") from None
    write_files({path: animation(labels, timeline)}, overwrite=True)


def _watch(source: str, scenario: Scenario, player: Policy, seed: int, speed: float | None) -> np.ndarray:
    """Play an episode and draw it; return its event log."""
    import numpy as np

    from slipstream.families.contract import family_of
    from slipstream.render.live import LiveView
    from slipstream.sim.simulator import Simulator

    family = family_of(scenario)
    labels = family.run_labels(scenario)
    pace = None if speed is None else speed * labels.nanoseconds_per_unit
    pieces: list[np.ndarray] = []
    with LiveView(labels, f"{source} under {player.name}, seed {seed}", console, pace) as view:

        def take(events: np.ndarray) -> None:
            pieces.append(events)
            view.show(events)

        Simulator(scenario, family.log_margin(scenario) + LIVE_ROWS).play(player, seed, sink=take)
    if view.stopped:
        console.print("Drawing stopped; the rest of the run was played without it.")
    return np.concatenate(pieces)
