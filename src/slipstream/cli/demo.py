"""`slipstream demo`: the main job in one command."""

from __future__ import annotations

from slipstream.cli.common import console, progress_bar

SCENARIO, EPISODES, SEED = "edge/heavy", 20, 10_000


def demo() -> None:
    """Compare every policy on a heavily loaded edge device and print the table.

    Example: slipstream demo
    """
    from slipstream.core.family import family_of
    from slipstream.evaluation import compare
    from slipstream.report.tables import comparison_table
    from slipstream.scenario import load

    scenario = load(SCENARIO)
    console.print(f"Scenario [bold]{SCENARIO}[/bold]: {scenario.description}")
    console.print("Compiling the simulator; this happens once on a machine and takes about 20 seconds.")
    with progress_bar("playing episodes") as progress:
        comparison = compare(SCENARIO, "all", EPISODES, SEED, progress=progress)
    console.print(comparison_table(comparison, family_of(scenario).headline))
    best = max(comparison.evaluations, key=lambda evaluation: evaluation.mean("reward"))
    console.print(
        f"Every policy saw the same arrivals. [bold]{best.policy}[/bold] earns the most reward: jobs that meet their "
        "deadline pay their variant's accuracy, late and dropped ones cost."
    )
    console.print(f"The same table: [bold]slipstream compare {SCENARIO} --episodes {EPISODES} --seed {SEED}[/bold]")
