"""`slipstream demo`: the main job in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.cli.common import (
    JsonOption,
    SeedOption,
    console,
    describe_run,
    print_json,
    progress_bar,
    writable,
    write_text,
)

SCENARIO, EPISODES, BASELINE = "edge/heavy", 20, "edf"
PAGE = Path("slipstream-demo.html")


def demo(seed: SeedOption = 10_000, as_json: JsonOption = False) -> None:
    """Compare every policy on a heavily loaded edge device; print the table and draw the best one beside `edf`.

    The picture is slipstream-demo.html, in the folder where the command runs; with --json there is none.

    Example: slipstream demo
    """
    from slipstream.core.family import family_of
    from slipstream.core.jit import cache_folder
    from slipstream.evaluation import compare
    from slipstream.report.tables import comparison_table
    from slipstream.scenario import load

    scenario = load(SCENARIO)
    if not as_json:
        writable(PAGE)
        console.print(f"Scenario [bold]{SCENARIO}[/bold]: {scenario.description}")
        if not any(cache_folder().iterdir()):
            console.print("Compiling the simulator; this happens once on a machine and takes less than a minute.")
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
    write_text(PAGE, _picture(scenario, [best.policy, BASELINE], seed))
    console.print(
        f"The first episode of {best.policy} beside {BASELINE}, to look at: [bold]{PAGE.resolve()}[/bold]",
        soft_wrap=True,
    )


def _picture(scenario: Any, policies: list[str], seed: int) -> str:
    """Return the report of one episode under each policy."""
    from slipstream.core.simulator import Simulator
    from slipstream.policies import find
    from slipstream.report.page import page
    from slipstream.report.runs import run_of

    simulator = Simulator(scenario)
    runs = []
    for policy in dict.fromkeys(policies):
        events = simulator.play(find(policy, scenario.family), seed)
        runs.append(run_of(events, describe_run(SCENARIO, scenario, policy, seed), scenario))
    return page(runs, f"slipstream demo --seed {seed}")
