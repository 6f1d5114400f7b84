"""`slipstream demo`: the main job in one command."""

from __future__ import annotations

from slipstream.cli.common import JsonOption, SeedOption, console, print_json, progress_bar

SCENARIO, EPISODES = "edge/heavy", 20


def demo(seed: SeedOption = 10_000, as_json: JsonOption = False) -> None:
    """Compare every policy on a heavily loaded edge device and print the table.

    Example: slipstream demo
    """
    from slipstream.core.family import family_of
    from slipstream.core.jit import cache_folder
    from slipstream.evaluation import compare
    from slipstream.report.tables import comparison_table
    from slipstream.scenario import load

    scenario = load(SCENARIO)
    if not as_json:
        console.print(f"Scenario [bold]{SCENARIO}[/bold]: {scenario.description}")
        if not any(cache_folder().iterdir()):
            console.print("Compiling the simulator; this happens once on a machine and takes about 20 seconds.")
    with progress_bar("playing episodes") as progress:
        comparison = compare(SCENARIO, "all", EPISODES, seed, progress=progress)
    if as_json:
        print_json(comparison.to_dict())
        return
    console.print(comparison_table(comparison, family_of(scenario).headline))
    best = max(comparison.evaluations, key=lambda evaluation: evaluation.mean("reward"))
    console.print(
        f"Every policy saw the same arrivals. [bold]{best.policy}[/bold] earns the most reward: jobs that meet their "
        "deadline pay their variant's accuracy, late and dropped ones cost."
    )
    console.print(f"The same table: [bold]slipstream compare {SCENARIO} --episodes {EPISODES} --seed {seed}[/bold]")
