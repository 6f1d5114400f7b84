"""`slipstream run`: one episode, its metrics, its event log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.common import JsonOption, ScenarioArgument, SeedOption, console, describe_run, print_json, writable

PolicyOption = Annotated[str, typer.Option(help="Name of a policy (`slipstream policies` lists them).")]
LogOption = Annotated[Path | None, typer.Option(help="Write the event log to this Parquet file.")]


def run(
    scenario: ScenarioArgument,
    policy: PolicyOption = "edf",
    seed: SeedOption = 0,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play one episode and print its metrics.

    Example: slipstream run edge/heavy --policy edf-fit --seed 7 --log run.parquet
    """
    import numpy as np

    from slipstream.core.eventlog import LogWriter, digest
    from slipstream.core.family import family_of
    from slipstream.core.simulator import Simulator
    from slipstream.policies import find
    from slipstream.scenario import load

    loaded: Any = load(scenario)
    family = family_of(loaded)
    player = find(policy, family.name)
    about = describe_run(scenario, loaded, player.name, seed)
    writer = LogWriter(writable(log), about) if log is not None else None
    pieces: list[np.ndarray] = []

    def keep(events: np.ndarray) -> None:
        pieces.append(events)
        if writer is not None:
            writer.write(events)

    try:
        Simulator(loaded).play(player, seed, sink=keep)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    if writer is not None:
        writer.close()
    events = np.concatenate(pieces)
    figures = family.metrics(loaded, events)
    if as_json:
        print_json(
            {"scenario": scenario, "policy": player.name, "seed": seed, "digest": digest(events), "metrics": figures}
        )
        return
    from slipstream.report.tables import metrics_table

    console.print(metrics_table(f"{scenario} under {player.name}, seed {seed}", figures))
    if log is not None:
        console.print(f"Event log: {log} ({len(events):,} rows, digest {digest(events)[:12]})")
