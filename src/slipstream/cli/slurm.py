"""Options of the commands that read or drive a Slurm cluster, and `slipstream execute --engine slurm`."""

from __future__ import annotations

import hashlib
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from slipstream.cli.common import console, describe_run, errors, print_json, print_written
from slipstream.cli.outputs import EVENT_LOG, PAGE, check_outputs

if TYPE_CHECKING:
    from slipstream.device.slurm.driver import Driver
    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.families.cluster.slurm.commands import Slurm
    from slipstream.families.cluster.slurm.snapshot import Snapshot
    from slipstream.policies.base import Policy

SLURM = "Slurm"

EngineOption = Annotated[
    Literal["device", "slurm", "starpu"],
    typer.Option(
        help="What runs the jobs: the streams of a device (edge) or worker processes (dag, taskgraph, serving), a "
        "Slurm cluster (cluster), or StarPU (taskgraph)."
    ),
]
SlurmConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--slurm-conf",
        help="Configuration of the Slurm cluster; default: what Slurm's own commands use.",
        rich_help_panel=SLURM,
    ),
]
RestOption = Annotated[
    Path | None,
    typer.Option(
        "--rest", help="Socket of slurmrestd to read from, in place of Slurm's commands.", rich_help_panel=SLURM
    ),
]
PartitionOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this partition of the Slurm cluster; repeatable.", rich_help_panel=SLURM),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what the policy would do now, and send nothing.", rich_help_panel=SLURM),
]
TakeOption = Annotated[
    bool,
    typer.Option(
        "--take", help="Hold waiting jobs that are not held, and decide about them too.", rich_help_panel=SLURM
    ),
]
CapCommandOption = Annotated[
    str | None,
    typer.Option(
        help="Command that sets the power cap of a node when a job starts there, with {node} and {watts} in it, and "
        "{job} and {gpus} if wanted; it is not read by a shell. The scenario's kinds of nodes list the caps.",
        metavar="COMMAND",
        rich_help_panel=SLURM,
    ),
]
IntervalOption = Annotated[
    float,
    typer.Option(help="Seconds between two readings of the queue.", min=0.1, max=3600.0, rich_help_panel=SLURM),
]
GraceOption = Annotated[
    float,
    typer.Option(
        help="Seconds that another driver has to take over after this one was killed, before held jobs are released.",
        min=0.0,
        max=86_400.0,
        rich_help_panel=SLURM,
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the lock that keeps a second driver off the same partitions; default: one in the home folder.",
        rich_help_panel=SLURM,
    ),
]


@dataclass(frozen=True)
class DriveOptions:
    """Options of a driven cluster."""

    config: Path | None
    partitions: list[str]
    dry_run: bool
    takes: bool
    cap_command: str | None
    interval_s: float
    grace_s: float
    state: Path | None
    seconds: float | None

    @property
    def folder(self) -> Path:
        """The folder of the lock that keeps a second driver off the same partitions."""
        if self.state is not None:
            return self.state
        name = hashlib.sha256(repr((str(self.config), sorted(self.partitions))).encode()).hexdigest()[:16]
        return Path.home() / ".local" / "state" / "slipstream" / f"slurm-{name}"


def live_snapshot(config: Path | None, rest: Path | None, partitions: list[str]) -> Snapshot:
    """Return the state of the live controller, read by Slurm's commands or from the socket `rest`."""
    from slipstream.families.cluster.slurm.commands import Slurm
    from slipstream.families.cluster.slurm.controller import read_snapshot
    from slipstream.families.cluster.slurm.rest import read_rest_snapshot

    return read_snapshot(Slurm(config), partitions) if rest is None else read_rest_snapshot(rest, partitions)


def refuse_options(engine: str, given: dict[str, Any]) -> None:
    """Raise an error where an option is given that another engine than `engine` has."""
    from slipstream.errors import InputError

    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option}: is for --engine device only: expected it without --engine {engine}")


def drive_slurm(
    source: str,
    policy_name: str | None,
    seed: int,
    options: DriveOptions,
    log: Path | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Drive a Slurm cluster under a policy by the rules of the scenario `source`, or print what would be done."""
    from slipstream.device.slurm.capping import CapCommand
    from slipstream.device.slurm.driver import Driver, DriverSettings
    from slipstream.errors import InputError
    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.families.cluster.slurm.commands import Slurm
    from slipstream.policies.base import find_for
    from slipstream.scenario import load

    base = load(source)
    if not isinstance(base, ClusterScenario):
        raise InputError(f"{source}: is of the family '{base.family}': expected a cluster scenario for --engine slurm")
    policy = find_for(policy_name, base)
    caps = None if options.cap_command is None else CapCommand(options.cap_command)
    settings = DriverSettings(tuple(options.partitions), options.interval_s, options.takes, caps=caps)
    slurm = Slurm(options.config)
    driver = Driver(slurm, base, policy, settings)
    if options.dry_run:
        _print_plan(driver, as_json)
        return
    target = Path("report.html") if out is None and not as_json else out
    check_outputs((log, EVENT_LOG), (target, PAGE), force=force)
    released = _drive(driver, slurm, options, as_json)
    figures = _write(driver, source, base, policy, seed, log, target)
    if as_json:
        head = {"scenario": source, "policy": policy.name, "engine": "slurm"}
        print_json({**head, "counts": driver.counts, "handed_back": released, "metrics": figures})
        return
    counts = ", ".join(f"{count} {what}" for what, count in driver.counts.items())
    console.print(f"Jobs: {counts}; handed back to Slurm's own scheduler: {released}.", soft_wrap=True)
    if figures:
        print_written({"Report": target, "Event log": log})
    else:
        console.print("No job has ended, so there is no log and no report.")


def _print_plan(driver: Driver, as_json: bool) -> None:
    """Print the decisions of this moment, with the commands that would carry them out."""
    live, decisions = driver.plan()
    plans = [
        {"decision": decision.words, "commands": [shlex.join(words) for words in driver.commands(decision)]}
        for decision in decisions
    ]
    waiting = 0 if live is None else sum(job.waits for job in live.jobs)
    if as_json:
        print_json({"waiting": waiting, "decisions": plans})
        return
    console.print(f"Held jobs that wait for a decision: {waiting}. What would be done now: {len(plans)} decisions.")
    if driver.problem:
        console.print(f"The policy was not asked: {driver.problem}", markup=False, soft_wrap=True)
    for plan in plans:
        console.print(str(plan["decision"]), markup=False, soft_wrap=True)
        for command in plan["commands"]:
            console.print(f"    {command}", markup=False, soft_wrap=True)


def _drive(driver: Driver, slurm: Slurm, options: DriveOptions, as_json: bool) -> int:
    """Drive until a stop signal or the end of `options.seconds`; return the number of jobs handed back at the end."""
    from slipstream.device.controlling import interruptible
    from slipstream.device.slurm.handback import HandBack, driver_lock

    # Before anything is begun: a controller that is not there ends the command here.
    driver.plan()
    end = None if options.seconds is None else time.monotonic() + options.seconds

    def tell(text: str) -> None:
        if not as_json:
            errors.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False, soft_wrap=True)

    def over(_: Snapshot) -> bool:
        switch.keep()
        return end is not None and time.monotonic() > end

    with (
        interruptible(driver.stop),
        driver_lock(options.folder),
        HandBack(options.folder, options.config, options.partitions, options.grace_s) as switch,
    ):
        if not as_json:
            console.print("Driving. Press Ctrl-C to stop; held jobs are then handed back to Slurm's own scheduler.")
        driver.run(over, tell)
    return switch.released


def _write(
    driver: Driver,
    source: str,
    base: ClusterScenario,
    policy: Policy,
    seed: int,
    log: Path | None,
    target: Path | None,
) -> dict[str, float]:
    """Write log and report of the jobs that ended; return their metrics, none if no job has ended."""
    from slipstream.cli.recording import RunFiles
    from slipstream.families.contract import family_of

    if not driver.recorder.ended:
        return {}
    recorded, events = driver.recorder.result(base)
    words = ["slipstream", "execute", source, "--engine", "slurm", "--policy", policy.name]
    about = {**describe_run(source, recorded, policy.name, seed), "command": shlex.join(words), "device": "slurm"}
    failed = RunFiles(recorded, about, log, target).write([events])
    if failed:
        raise failed[0]
    return family_of(recorded).metrics(recorded, events)
