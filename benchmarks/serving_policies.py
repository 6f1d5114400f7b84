"""The default (simulated plans, earliest finish, deadline-aware batches) against all baselines on open traces.

A system is a planner with a data plane. The published ones are there with their own batching and routing, the planners
also with ours. For every trace and fleet: accuracy-weighted on-time requests per offered request, true violations, the
accuracy of what was answered; whether ours is first, and whether any other is better in both violations and accuracy.
The last column has the means over all of them.
`--picture` draws the frontier, `--write` puts the table into a page. Without the traces, the built-in scenarios alone
are played.

    python benchmarks/serving_policies.py --data TRACES --picture frontier.png --write docs/serving.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tables import publish

import slipstream
from slipstream.families.contract import FAMILIES
from slipstream.families.serving.workload.sources import KINDS, scenario_of
from slipstream.policies import find
from slipstream.sim.simulator import Simulator

OURS = "milp-thorough + eft + deadline-aware"
PLANE = {"batching": "deadline-aware", "routing": "eft", "drop": "crowded"}
PLANNERS = (
    "milp-rehearsed",
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
    OURS: ("milp-thorough", PLANE, {}),
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
"""Accelerators of each of the four kinds; with 10 of each, for which the traces were made, every planner succeeds."""
SLO_MS, LOAD_S, INTERVAL_S = 200.0, 0.5, 5.0
BUILT_INS = ("serving/small",)
MEAN = "mean of all"
SEEDS = range(3)
SHOWN = ("on_time_accuracy", "violation_ratio", "effective_accuracy", "max_accuracy_drop", "p99_ms", "switches")
PANEL = (3.6, 2.8)
"""Inches of a scenario's panel."""
FEWEST = 0.01
"""Violations, in percent, of the left edge of a panel: there is no 0 on its scale."""
COLOURS = {"ours": "#d64550", "published": "#e0912f", "planners": "#4c8dd6"}


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


def together(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the means of every system over all scenarios: each counts the same, however many requests it has."""
    played = [result["systems"] for result in results.values()]
    return {
        system: {name: sum(rows[system][name] for rows in played) / len(played) for name in SHOWN} for system in SYSTEMS
    }


def verdict(rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the rank of the default, the best other system, and the systems that dominate the default."""
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
        "rank": 1 + sum(row["on_time_accuracy"] > ours["on_time_accuracy"] for row in others.values()),
        "ahead": ours["on_time_accuracy"] - others[best]["on_time_accuracy"],
        "best_other": best,
        "dominated_by": dominating,
    }


def table(results: dict[str, Any]) -> str:
    """Return a line per system: on-time accuracy and violations in every scenario, the best of each in bold."""
    names = list(SYSTEMS)
    lines = [f"| system | {' | '.join(results)} |", "|---" * (1 + len(results)) + "|"]
    for name in names:
        cells = []
        for result in results.values():
            row = result["systems"][name]
            best = max(one["on_time_accuracy"] for one in result["systems"].values())
            text = f"{row['on_time_accuracy']:.4f}"
            text = f"**{text}**" if row["on_time_accuracy"] == best else text
            cells.append(f"{text} ({100.0 * row['violation_ratio']:.2f}%)")
        lines.append(f"| {shown_name(name)} | {' | '.join(cells)} |")
    lines.append(f"| rank of the default | {' | '.join(str(one['rank']) for one in results.values())} |")
    dominated = [", ".join(one["dominated_by"]) or "none" for one in results.values()]
    dominated = [shown_name(one) for one in dominated]
    lines.append(f"| it is dominated by | {' | '.join(dominated)} |")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw violations against accuracy, a panel for each scenario; systems have numbers."""
    from slipstream.reports.figures.plotting import handle, head, panels, plot_style, png

    with plot_style():
        figure, axes = panels(len(results), 3, PANEL)
        figure.set_size_inches(3 * PANEL[0], figure.get_figheight() + 1.2)
        entries = [
            handle(f"{number} {shown_name(name)}", *mark_of(name)[:2], size=mark_of(name)[2])
            for number, name in enumerate(SYSTEMS)
        ]
        head(figure, "Accuracy of answers against violations; the line joins the Pareto-optimal systems", entries, 3)
        for ax, (name, result) in zip(axes, results.items(), strict=True):
            draw_panel(ax, name, result["systems"])
    path.write_bytes(png(figure))


def shown_name(system: str) -> str:
    """Return the name of a system as table and figure show it."""
    return system.replace(" + eft + deadline-aware", ", our data plane")


def mark_of(system: str) -> tuple[str, str, float]:
    """Return colour, marker and size of the mark of a system."""
    if system == OURS:
        return COLOURS["ours"], "D", 8.0
    return COLOURS["planners" if system.endswith("deadline-aware") else "published"], "o", 5.0


def draw_panel(ax: Any, title: str, rows: dict[str, dict[str, float]]) -> None:
    """Draw the systems of a scenario; violations have a logarithmic scale."""
    points = {name: (100.0 * row["violation_ratio"], 100.0 * row["effective_accuracy"]) for name, row in rows.items()}
    ax.set_title(title)
    ax.set_xscale("log")
    ax.set_xlim(0.7 * FEWEST, 130.0)
    ticks = (FEWEST, 0.1, 1.0, 10.0, 100.0)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xlabel(f"violations, % (left: {FEWEST:g} or less)")
    ax.set_ylim(min(accuracy for _, accuracy in points.values()) - 0.7, 101.5)
    ax.set_ylabel("accuracy, %")
    ax.grid(axis="y")
    ax.plot(*zip(*pareto_front(points), strict=True), color="#5a6475", linewidth=1.0)
    # Systems with the same figures share a mark: their numbers are listed there once.
    same: dict[tuple[float, float], list[int]] = {}
    for number, name in reversed(list(enumerate(SYSTEMS))):
        violations, accuracy = max(points[name][0], FEWEST), points[name][1]
        colour, marker, size = mark_of(name)
        ax.plot([violations], [accuracy], color=colour, marker=marker, markersize=size)
        same.setdefault((round(violations, 3), round(accuracy, 2)), []).insert(0, number)
    for point, numbers in same.items():
        ax.annotate(",".join(map(str, numbers)), point, (4, 3), textcoords="offset points", fontsize=7)


def pareto_front(points: dict[str, tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the Pareto front as a step function of the violations."""
    corners: list[tuple[float, float]] = []
    best = -1.0
    for violations, accuracy in sorted(points.values(), key=lambda one: (one[0], -one[1])):
        if accuracy > best:
            x = max(violations, FEWEST)
            corners += [(x, best)] * (best >= 0.0) + [(x, accuracy)]
            best = accuracy
    return [*corners, (100.0, best)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--data", type=Path, help="folder with profile.csv, variants and trace_*")
    parser.add_argument("--picture", type=Path, help="where to draw the frontier, as PNG")
    parser.add_argument("--write", type=Path, help="page whose table to fill in")
    options = parser.parse_args()
    results = {}
    for name, data in scenarios(options.data).items():
        rows = {system: play(data, system) for system in SYSTEMS}
        results[name] = {"systems": rows, **verdict(rows)}
        line = f"{name}: rank {results[name]['rank']}, dominated by {results[name]['dominated_by'] or 'none'}"
        print(line, file=sys.stderr, flush=True)
    if options.picture is not None:
        draw(results, options.picture)
    mean = together(results)
    results[MEAN] = {"systems": mean, **verdict(mean)}
    publish(results, {"serving-baselines": table(results)}, options.json, options.write)


if __name__ == "__main__":
    main()
