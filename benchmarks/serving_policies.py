"""How the default (rehearsed MILP, earliest finish, deadline-aware batches) does next to every baseline on open traces.

A system is a planner with a data plane. The published ones are there with their own batching and routing, the planners
also with ours. For every trace and fleet: accuracy-weighted on-time requests per offered request, true violations, the
accuracy of what was answered; whether ours is first, and whether any other is better in both violations and accuracy.
`--picture` draws the frontier. Without the traces, the built-in scenarios alone are played.

    python benchmarks/serving_policies.py --json --data ../shared/data/serving/open --picture frontier.html
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import slipstream
from slipstream.core.family import FAMILIES
from slipstream.core.simulator import Simulator
from slipstream.policies import find
from slipstream.serving.sources import KINDS, scenario_of

OURS = "milp-rehearsed + eft + deadline-aware"
PLANE = {"batching": "deadline-aware", "routing": "eft", "drop": "crowded"}
PLANNERS = (
    "milp",
    "milp-throughput",
    "sommelier",
    "infaas",
    "clipper-ha",
    "clipper-ht",
    "load-proportional",
    "lfu",
    "static",
    "random",
)
PROTEUS = {"batching": "accscale", "routing": "random", "drop": "batch"}
CLIPPER = {"batching": "aimd", "routing": "weighted", "drop": "expired"}
HARD = {"headroom": 1.05, "shortage": 1000.0}
"""Headroom as a must, as in Proteus."""
SYSTEMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    OURS: ("milp-rehearsed", PLANE, {}),
    "Proteus": ("milp", PROTEUS, HARD),
    "Sommelier": ("sommelier", PROTEUS, HARD),
    "Clipper-HA": ("clipper-ha", CLIPPER, {}),
    "Clipper-HT": ("clipper-ht", CLIPPER, {}),
    "INFaaS": ("infaas", {"batching": "aimd", "routing": "infaas", "drop": "expired"}, {}),
    "Nexus": ("load-proportional", {"batching": "nexus", "routing": "weighted", "drop": "batch"}, {}),
    **{f"{name} + eft + deadline-aware": (name, PLANE, {}) for name in PLANNERS},
}
"""Planner, data plane, and settings of the planner."""
TRACES = ("low", "diurnal", "bursty")
FLEETS = (2, 3)
"""Accelerators of each of the four kinds; with 10 of each, for which the traces were made, nobody has to choose."""
SLO_MS, LOAD_S, INTERVAL_S = 200.0, 0.5, 5.0
BUILT_INS = ("serving/small",)
SEEDS = range(3)
SHOWN = ("on_time_accuracy", "violation_ratio", "effective_accuracy", "max_accuracy_drop", "p99_ms", "switches")


def scenarios(data: Path | None) -> dict[str, dict[str, Any]]:
    """Return what is played, by name."""
    found: dict[str, dict[str, Any]] = {}
    for name in BUILT_INS:
        scenario: Any = slipstream.load(name)
        found[name] = scenario.model_dump(mode="json")
    for trace in TRACES if data is not None else ():
        assert data is not None
        for count in FLEETS:
            found[f"{trace}, {4 * count} accelerators"] = scenario_of(
                data / "profile.csv",
                data / "variants",
                data / f"trace_{trace}",
                SLO_MS,
                LOAD_S,
                dict.fromkeys(KINDS, count),
                planning={"interval_s": INTERVAL_S},
            )
    return found


def play(data: dict[str, Any], system: str) -> dict[str, float]:
    """Return the mean figures of a system on a scenario; a trace has one episode."""
    planner, plane, planning = SYSTEMS[system]
    scenario: Any = slipstream.load({**data, **plane, "planning": {**data["planning"], **planning}})
    simulator, policy = Simulator(scenario), find(planner, "serving")
    seeds = SEEDS if scenario.duration_s is not None else range(1)
    rows = [FAMILIES["serving"].metrics(scenario, simulator.play(policy, seed)) for seed in seeds]
    return {name: sum(row[name] for row in rows) / len(rows) for name in SHOWN}


def verdict(rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the place of ours, the best of the others, and who is better than ours in both respects."""
    ours = rows[OURS]
    others = {name: row for name, row in rows.items() if name != OURS}
    best = max(others, key=lambda name: others[name]["on_time_accuracy"])
    dominating = [
        name
        for name, row in others.items()
        if row["violation_ratio"] <= ours["violation_ratio"]
        and row["effective_accuracy"] >= ours["effective_accuracy"]
        and (row["violation_ratio"], row["effective_accuracy"]) != (ours["violation_ratio"], ours["effective_accuracy"])
    ]
    return {
        "place": 1 + sum(row["on_time_accuracy"] > ours["on_time_accuracy"] for row in others.values()),
        "ahead": ours["on_time_accuracy"] - others[best]["on_time_accuracy"],
        "best_other": best,
        "dominated_by": dominating,
    }


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw violations against accuracy, a panel for each scenario."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    columns = 3
    figure = make_subplots(-(-len(results) // columns), columns, subplot_titles=list(results))
    for place, result in enumerate(results.values()):
        for number, (name, row) in enumerate(result["systems"].items()):
            figure.add_trace(
                go.Scatter(
                    x=[100.0 * row["violation_ratio"]],
                    y=[row["effective_accuracy"]],
                    name=name,
                    legendgroup=name,
                    showlegend=place == 0,
                    mode="markers",
                    marker={"size": 14 if name == OURS else 9, "symbol": number % 40},
                ),
                row=place // columns + 1,
                col=place % columns + 1,
            )
    figure.update_xaxes(title_text="violations, %")
    figure.update_yaxes(title_text="accuracy of answers, %")
    figure.update_layout(height=360 * -(-len(results) // columns), title="Accuracy against violations")
    figure.write_html(path, include_plotlyjs=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--data", type=Path, help="folder with profile.csv, variants and trace_*")
    parser.add_argument("--picture", type=Path, help="where to draw the frontier, as HTML")
    options = parser.parse_args()
    results = {}
    for name, data in scenarios(options.data).items():
        rows = {system: play(data, system) for system in SYSTEMS}
        results[name] = {"systems": rows, **verdict(rows)}
        if not options.json:
            print(f"\n{name}: place {results[name]['place']}, dominated by {results[name]['dominated_by'] or 'none'}")
            for system, row in sorted(rows.items(), key=lambda one: -one[1]["on_time_accuracy"]):
                print(f"  {system:42}", "  ".join(f"{value:9.4f}" for value in row.values()), flush=True)
    if options.picture is not None:
        draw(results, options.picture)
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
