"""`slipstream twin`: what a live queue will do, why its jobs wait, and what other policies and machines would do."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json, print_json_text
from slipstream.cli.help_text import OUTPUT, SIMULATION, Group
from slipstream.cli.importing import cluster_scenario
from slipstream.cli.outputs import TWIN, ForceOption, check_outputs
from slipstream.cli.slurm import SLURM, PartitionOption, RestOption, SlurmConfigOption, live_snapshot

if TYPE_CHECKING:
    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.families.cluster.twin.answer import TwinSettings
    from slipstream.families.cluster.twin.present import Present
    from slipstream.families.cluster.twin.run_times import RunTimes

app = typer.Typer(cls=Group, no_args_is_help=True)


@app.callback()
def _about() -> None:
    """Ask a twin of a live queue: when jobs start, why they wait, and what other policies and machines would do.

    Example: slipstream twin slurm --job 1234
    """


PoliciesOption = Annotated[
    str | None,
    typer.Option(
        "--policies",
        "-p",
        help="Policies of the table, separated by commas; the first is the rule that holds now (Slurm without "
        "priorities: fifo).",
        rich_help_panel=SIMULATION,
    ),
]
WhatIfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Another machine or rule for the table: nodes=+10, nodes.KIND=+2, power=70% (of the draw with all GPUs at "
        "work), power_w=9000, cap_w=200 (of every GPU), backfill=strict, quota.USER=8 or none; repeatable. Default: "
        "nodes=+10 and power=70%.",
        metavar="KEY=VALUE",
        rich_help_panel=SIMULATION,
    ),
]
WidenOption = Annotated[
    float | None,
    typer.Option(
        help="Factor by which intervals are wider than those of the futures; default: 1.3, the "
        "most that three traces needed.",
        min=0.1,
        max=100.0,
        rich_help_panel=SIMULATION,
    ),
]
HistoryOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Output of `sacct --parsable2`, or a file of jobcomp/filetxt: run times and jobs to come are drawn from "
        "it; repeatable. Without one, jobs run as long as they requested, and none come.",
        rich_help_panel=SIMULATION,
    ),
]


@dataclass(frozen=True)
class Source:
    """Where the present state comes from."""

    file: Path | None
    """A recorded scenario; the live controller if absent."""
    base: ClusterScenario | None
    """Rules of the live cluster, and the law of run times where there is no history."""
    config: Path | None
    rest: Path | None
    partitions: list[str]
    held: bool
    at: str | None

    def read(self) -> Present:
        """Return the state of this moment."""
        from slipstream.errors import InputError
        from slipstream.families.cluster.slurm.accounting import time_of
        from slipstream.families.cluster.twin.present import live_present, recorded_present

        if self.file is not None:
            moment = None if self.at is None else time_of("--at", self.at)
            return recorded_present(cluster_scenario(str(self.file)), moment)
        if self.at is not None:
            raise InputError("--at: is for a recorded scenario: the live queue tells its present state")
        snapshot = live_snapshot(self.config, self.rest, self.partitions)
        return live_present(snapshot, self.base, lambda job: self.held or not job.is_held)

    @property
    def name(self) -> str:
        """What the state was read from."""
        return "the live queue" if self.file is None else self.file.name


@app.command()
def slurm(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A scenario that begins in the middle, as `slipstream import slurm` writes it; default: the live "
            "queue.",
        ),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Answer about this job only.")] = None,
    policies: PoliciesOption = None,
    what_if: WhatIfOption = None,
    history: HistoryOption = None,
    futures: Annotated[
        int, typer.Option(help="Futures that are drawn.", min=1, max=1000, rich_help_panel=SIMULATION)
    ] = 32,
    seed: Annotated[
        int, typer.Option("--seed", "-s", help="Seed of the draws.", min=0, rich_help_panel=SIMULATION)
    ] = 0,
    widen: WidenOption = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            help="Scenario with the rules (placement, backfilling, quotas) and the power of nodes; if it does not list "
            "its jobs, run times are drawn from them where there is no history.",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Time of the recorded scenario: past jobs that ended later are left out.",
            metavar="TIME",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
    config: SlurmConfigOption = None,
    rest: RestOption = None,
    partition: PartitionOption = None,
    held: Annotated[
        bool,
        typer.Option("--held", help="Plan held jobs as if they were released; default: say so.", rich_help_panel=SLURM),
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option(
            help="Answer again after this time in seconds, until Ctrl-C.", min=0.5, max=86_400.0, rich_help_panel=OUTPUT
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Waiting jobs to show.", min=1, rich_help_panel=OUTPUT)] = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="JSON file for the dashboard; rewritten by --watch.", rich_help_panel=OUTPUT),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say when each waiting job starts, why it waits, and what other policies and machines would do. Sends nothing.

    Starts have an interval that is to hold the true one in 90 of 100 cases. With --watch --json there is one line per
    answer.

    Example: slipstream twin slurm --history sacct.txt --what-if nodes=+4
    """
    from slipstream.families.cluster.twin.answer import POLICIES, WIDEN, TwinSettings
    from slipstream.families.cluster.twin.what_if import DEFAULT

    check_outputs((out, TWIN), force=force)
    names = POLICIES if policies is None else tuple(name.strip() for name in policies.split(",") if name.strip())
    asked = DEFAULT if what_if is None else tuple(one for one in what_if if one != "none")
    settings = TwinSettings(names, asked, futures, seed, widen=WIDEN if widen is None else widen)
    base = None if scenario is None else cluster_scenario(scenario)
    source = Source(file, base, config, rest, partition or [], held, at)
    asking = Asking(source, settings, history or [], job)
    if watch is None:
        _show(asking.answer(), as_json, top, out)
    else:
        _watch(asking, watch, as_json, top, out)


@dataclass(frozen=True)
class Asking:
    """A question that may be asked again and again."""

    source: Source
    settings: TwinSettings
    files: list[Path]
    job: str | None

    def answer(self) -> dict[str, Any]:
        """Return the answer about this moment, as JSON-ready data."""
        from slipstream.families.cluster.twin.answer import ask, to_dict

        present = self.source.read()
        twin = ask(present, self._run_times(present), self.settings)
        return to_dict(twin, self.settings, self.source.name, self.job)

    def _run_times(self, present: Present) -> RunTimes:
        """Return what the history says, read anew: it grows while a queue is watched."""
        from slipstream.families.cluster.slurm.accounting import read_accounting
        from slipstream.families.cluster.twin.history import NO_HISTORY, accounted_history, law_of
        from slipstream.families.cluster.twin.run_times import RunTimes

        if not self.files:
            return RunTimes(NO_HISTORY if self.source.base is None else law_of(self.source.base))
        jobs = [job for path in self.files for job in read_accounting(path)[0]]
        return RunTimes(accounted_history(jobs, present.now))


def _show(answer: dict[str, Any], as_json: bool, top: int, out: Path | None) -> None:
    from slipstream.reports.terminal.twin import twin_tables

    if as_json:
        print_json(answer)
    else:
        console.print(twin_tables(answer, top))
    _write(answer, out)


def _write(answer: dict[str, Any], out: Path | None) -> None:
    from slipstream.files.atomic import write_files

    if out is not None:
        write_files({out: (json.dumps(answer, indent=1, allow_nan=False) + "\n").encode()}, overwrite=True)


def _watch(asking: Asking, seconds: float, as_json: bool, top: int, out: Path | None) -> None:
    """Answer every `seconds` until a stop signal; on a terminal in place, else one answer after the other."""
    from rich.live import Live

    from slipstream.device.controlling import interruptible
    from slipstream.errors import InputError
    from slipstream.reports.terminal.twin import twin_tables

    stopped = threading.Event()
    # The first answer is outside: what cannot be answered at all ends the command.
    answer: dict[str, Any] | None = asking.answer()
    moves = console.is_terminal and not as_json
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop") if moves else None
    with interruptible(stopped.set):
        if live is not None:
            live.start()
        try:
            while not stopped.is_set():
                if answer is not None:
                    if as_json:
                        print_json_text(json.dumps(answer, allow_nan=False) + "\n")
                    elif live is not None:
                        live.update(twin_tables(answer, top), refresh=True)
                    else:
                        console.print(twin_tables(answer, top))
                    _write(answer, out)
                if stopped.wait(seconds):
                    break
                try:
                    answer = asking.answer()
                except InputError as problem:  # the queue may be empty for a while, or the controller away
                    answer = None
                    errors.print(f"note: {problem}", soft_wrap=True)
        finally:
            if live is not None:
                live.stop()
