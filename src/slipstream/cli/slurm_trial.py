"""`slipstream validate --engine slurm`: a policy and Slurm's own backfill on a local cluster, and their simulation."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from slipstream.cli.common import console, errors, print_json
from slipstream.cli.slurm import SLURM

TrialJobsOption = Annotated[
    int, typer.Option(help="With --engine slurm: most jobs of the episode.", min=1, max=1000, rich_help_panel=SLURM)
]


def validate_slurm(
    source: str,
    policy_name: str | None,
    seed: int,
    runs: int,
    jobs: int,
    time_scale: float | None,
    as_json: bool,
) -> None:
    """Play a trial `runs` times, each with the episode of another seed; print the metrics of both sides."""
    from slipstream.device.slurm.trial import TrialSettings, run_trial
    from slipstream.errors import InputError
    from slipstream.families.cluster.scenario import ClusterScenario
    from slipstream.policies.base import find_for
    from slipstream.scenario import load

    scenario = load(source)
    if not isinstance(scenario, ClusterScenario):
        text = f"{source}: is of the family '{scenario.family}': expected a cluster scenario for --engine slurm"
        raise InputError(text)
    policy = find_for(policy_name, scenario)
    results = []
    for run in range(runs):
        settings = TrialSettings(jobs, time_scale, seed=seed + run)
        results.append(
            run_trial(scenario, [policy, None], settings, lambda text: errors.print(text, markup=False, soft_wrap=True))
        )
    if as_json:
        print_json({"scenario": source, "policy": policy.name, "engine": "slurm", "runs": results})
        return
    for result in results:
        console.print(_table(result))
    console.print("Times are those of the trial. Starts out of order: pairs more than a second apart on both sides.")


def _table(result: dict[str, Any]) -> Table:
    """Return the metrics of one trial as a table."""
    table = Table(title=f"{result['jobs']} jobs, seed {result['seed']}")
    for column in ("metric", "released by", "simulated", "real", "difference"):
        table.add_column(column, justify="left" if column in ("metric", "released by") else "right")
    for name, side in result["sides"].items():
        for metric, simulated in side["simulated"].items():
            difference = side["relative_difference"].get(metric)
            shown = "" if difference is None else f"{difference:+.1%}"
            table.add_row(metric, name, f"{simulated:.2f}", f"{side['real'][metric]:.2f}", shown)
        table.add_row("starts out of order", name, "", str(side["starts_out_of_order"]), "")
    return table
