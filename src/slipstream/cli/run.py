"""`slipstream run`: one episode, its metrics, its event log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.common import EpisodeSeedOption, JsonOption, ScenarioArgument, console, describe_run, print_json
from slipstream.cli.help_text import OUTPUT, SIMULATION
from slipstream.cli.outputs import ANIMATION, EVENT_LOG, ForceOption, check_outputs, signed_gif

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.contract import Family, Scenario
    from slipstream.families.shared.labels import RunLabels
    from slipstream.families.shared.timeline import Timeline
    from slipstream.policies.base import Policy


PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        help="Name of a policy (see `slipstream policies`), or the folder of a trained one; default: `auto`, after a "
        "short race.",
        rich_help_panel=SIMULATION,
    ),
]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", "-l", help="Write the event log to this Parquet file.", rich_help_panel=OUTPUT),
]
AllOption = Annotated[
    bool, typer.Option("--all", "-a", help="Print all metrics, not only the main ones.", rich_help_panel=OUTPUT)
]
RenderOption = Annotated[
    bool,
    typer.Option(
        "--render", "-r", help="Draw resources and queues in the terminal during the run.", rich_help_panel=OUTPUT
    ),
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        help="With --render: simulated time per second, in the scenario's unit (ms in edge); default: such that the "
        "run takes 20 seconds, or longer if its jobs are short.",
        min=1e-6,
        rich_help_panel=OUTPUT,
    ),
]
GifOption = Annotated[
    Path | None,
    typer.Option(help="Write the run as an animated GIF: its Gantt chart over time.", rich_help_panel=OUTPUT),
]

LIVE_ROWS = 64
"""Rows of the log that are simulated ahead of the drawing."""
MOST_FIGURES = 8
"""Most metrics that are printed without --all."""


def run(
    scenario: ScenarioArgument,
    policy: PolicyOption = None,
    seed: EpisodeSeedOption = 0,
    log: LogOption = None,
    render: RenderOption = False,
    speed: SpeedOption = None,
    gif: GifOption = None,
    show_all: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate one episode and print its metrics; --render draws it meanwhile, which does not change the result.

    Example: slipstream run edge/heavy --policy edf-fit --seed 7 --log run.parquet
    """
    import numpy as np

    from slipstream.cli.choosing import choice_json, choice_line, choice_of, played_by
    from slipstream.errors import InputError
    from slipstream.families.contract import family_of
    from slipstream.policies.base import find_for
    from slipstream.scenario import load
    from slipstream.sim.eventlog import LogWriter, digest
    from slipstream.sim.simulator import Simulator

    if render and as_json:
        raise InputError("--render with --json: both write to standard output: expected one of them")
    if speed is not None and not render:
        raise InputError("--speed without --render: expected both, or neither")
    loaded = load(scenario)
    family = family_of(loaded)
    player = find_for(policy, loaded)
    check_outputs((log, EVENT_LOG), (gif, ANIMATION), force=force)
    choice = choice_of(player, loaded)
    about = describe_run(scenario, loaded, player.name, seed, played_by(choice))
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
        head = {"scenario": scenario, "policy": player.name, **choice_json(choice), "seed": seed}
        print_json({**head, "digest": digest(events), "metrics": figures})
        return
    print_metrics(f"{scenario} under {player.name}, seed {seed}, simulated", family, loaded, figures, show_all)
    if choice is not None:
        console.print(choice_line(choice), markup=False)
    if log is not None:
        console.print(f"Event log: {log} ({len(events):,} rows, digest {digest(events)[:12]})", soft_wrap=True)


def print_metrics(
    title: str,
    family: Family,
    scenario: Scenario,
    figures: dict[str, float],
    show_all: bool,
    label: Callable[[dict[str, float]], dict[str, float]] = dict,
) -> None:
    """Print the main metrics of an episode, or all; those of what the scenario does not model are left out.

    `label` gives the metrics that are printed other names.
    """
    from slipstream.reports.terminal.tables import metrics_table

    unmodelled = family.unmodelled_metrics(scenario)
    modelled = {name: value for name, value in figures.items() if name not in unmodelled}
    main = [name for name in family.summary or family.headline if name in modelled][:MOST_FIGURES]
    shown = modelled if show_all else {name: modelled[name] for name in main}
    console.print(metrics_table(title, label(shown), family.counts))
    if len(shown) < len(modelled):
        console.print(f"{len(modelled) - len(shown)} more metrics with --all")


def _write_animation(path: Path, labels: RunLabels, timeline: Timeline) -> None:
    """Write a run as an animated GIF."""
    from slipstream.errors import InputError
    from slipstream.files.atomic import write_files

    try:
        from slipstream.render.animation import animation
    except ImportError:
        raise InputError("--gif needs Pillow: run `pip install 'slipstream[render]'`") from None
    write_files({path: signed_gif(animation(labels, timeline))}, overwrite=True)


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
        console.print("Drawing stopped; the rest of the run was simulated without it.")
    return np.concatenate(pieces)
