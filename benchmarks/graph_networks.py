"""Whether a network that reads the graph of the work does better than one that reads rows alone, and where.

`learned-graph` of dag and of taskgraph has Decima's message passing (`network.kind=decima`), and was trained on
generated scenarios, so for other sizes, rates and kinds of jobs. Row networks that were trained by the same commands,
with the same seeds and number of steps, are the control: `--runs` is the folder that holds them as `dag/best` and
`taskgraph/best`. All play the same test episodes: generated scenarios that no training has seen, the settings in which
the specialists among the row networks fail, and the arrivals of the published simulator.

    python benchmarks/graph_networks.py --json --runs FOLDER --profile ../shared/data/dag/tpch
    python benchmarks/graph_networks.py --write docs/graph-networks.md --runs FOLDER --profile FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from dag_policies import JCT, PUBLISHED, SEED, elsewhere_scenarios, published_arrivals
from tables import publish
from taskgraph_policies import MAKESPAN, graphs_of
from taskgraph_policies import SETTINGS as GRAPH_SETTINGS

import slipstream
from slipstream.evaluation import bootstrap_interval
from slipstream.learn.generated.scenarios import GeneratedScenarios
from slipstream.learn.generated.scores import EPISODES_EACH, ScoredScenarios, rank_rules
from slipstream.policies.base import Policy, find
from slipstream.policies.learned import load_policy

FAMILIES = ("dag", "taskgraph")
GRAPH, ROWS, GENERAL = "graph", "rows, same steps", "learned-general"
RULES = {
    "dag": ("fair", "srpt", "weighted-fair", "sjf-cp", "random"),
    "taskgraph": ("mct", "peft", "heft", "darts", "random"),
}
"""The rules that the trainings imitated, the best of a race, and `random`."""
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "dag-results.md"
FIRST = 2**20
"""Number of the first generated scenario: those of the outcomes of trainings have lower ones."""
OF_PUBLISHED = {"stream-10x50": 466.0, "stream-50x200": 48.4, "batch-50x20": 96.1}
"""Average completion times of the row networks that were trained for each setting (docs/dag-results.md)."""


def players_of(family: str, runs: Path | None) -> dict[str, Policy]:
    """Return the networks that are compared."""
    found: dict[str, Policy] = {} if runs is None else {ROWS: load_policy(runs / family / "best", ROWS)}
    return {**found, GENERAL: find(GENERAL, family), GRAPH: find("learned-graph", family)}


def difference(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Return the mean of `ours` minus `theirs`, paired, and its bootstrap 95% interval."""
    low, high = bootstrap_interval(ours - theirs)
    return {"mean": float((ours - theirs).mean()), "low": low, "high": high}


def generated(family: str, players: dict[str, Policy], count: int) -> dict[str, Any]:
    """Return the mean scores of networks and rules on generated scenarios, and how far the graph is ahead of each.

    Scores are 0 for `random` and 100 for the best of the rules on a scenario, the mean of its episodes; differences are
    paired by scenario.
    """
    source, clock = GeneratedScenarios.of(family), lambda: 0.0
    scored: ScoredScenarios
    scored, racers = rank_rules(source, "outcome", FIRST, count, clock, lambda _: None, RULES[family])
    scores = {racer.name: np.array(racer.rewards) for racer in racers}
    for name, player in players.items():
        rewards, _ = scored.play(source, player, range(count * EPISODES_EACH), np.inf, clock)
        scores[name] = scored.scores(rewards)
    means = {name: one.reshape(count, EPISODES_EACH).mean(axis=1) for name, one in scores.items()}
    ours = means[GRAPH]
    return {
        name: {"score": float(one.mean()), "graph ahead by": difference(ours, one)}
        for name, one in sorted(means.items(), key=lambda item: -float(item[1].mean()))
    }


def with_differences(times: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return mean costs by policy, and how much less the graph has than each other network and the rules."""
    found: dict[str, Any] = {name: float(own.mean()) for name, own in times.items()}
    for name in times:
        if name in (ROWS, GENERAL):
            found[f"ahead of {name}"] = difference(times[name], times[GRAPH])
    return found


def known_elsewhere(page: Path) -> dict[str, dict[str, float]]:
    """Return the table of specialists elsewhere, which `benchmarks/dag_policies.py` wrote, by setting and policy."""
    table = page.read_text().partition("<!-- elsewhere -->")[2].partition("<!-- /elsewhere -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    return {
        row[0]: {name: float(cell.replace(",", "")) for name, cell in zip(rows[0][1:], row[1:], strict=True)}
        for row in rows[1:]
    }


def in_dag(players: dict[str, Policy], folder: Path | None, episodes: int) -> dict[str, Any]:
    """Return average completion times in the settings in which row networks are compared elsewhere.

    Those of heuristics and specialists are read from the page with the results of specialists: its episodes are the
    same if there are ten.
    """
    found, known = {}, known_elsewhere(RESULTS)
    for name, scenario in elsewhere_scenarios(folder).items():
        times = {
            one: slipstream.evaluate(scenario, player, episodes, SEED).of(JCT)
            for one, player in {"fair": "fair", **players}.items()
        }
        row = known.get(name, {})
        specialists = [value for one, value in row.items() if one.startswith("learned-") and one != GENERAL]
        beside = {one: row[one] for one in ("srpt, tuned",) if one in row}
        beside |= {"specialists": [min(specialists), max(specialists)]} if specialists else {}
        found[name] = {**beside, **with_differences(times)}
        print(f"{name}: done", file=sys.stderr)
    return found


def in_taskgraph(players: dict[str, Policy]) -> dict[str, Any]:
    """Return makespans on the graphs of the settings that the specialists were trained in."""
    found = {}
    for name, (own, settings, episodes) in GRAPH_SETTINGS.items():
        scenarios = graphs_of(settings)
        rivals: dict[str, str | Policy] = {"mct": "mct", "peft": "peft", "rows, trained for it": own}
        times = {
            one: np.concatenate(
                [slipstream.evaluate(graph, player, episodes, SEED).of(MAKESPAN) for graph in scenarios.values()]
            )
            for one, player in {**rivals, **players}.items()
        }
        found[name] = with_differences(times)
        print(f"{name}: done", file=sys.stderr)
    return found


def under_published_rules(players: dict[str, Policy], folder: Path, draws: int) -> dict[str, Any]:
    """Return average completion times on the published arrivals, under the published rules."""
    found: dict[str, Any] = {}
    for setting, known in PUBLISHED.items():
        scenarios = [published_arrivals(setting, seed, folder) for seed in known["seeds"]]
        row = found[f"`{setting}`"] = {"fair": known["fair"], "Decima": known["Decima"]}
        row["rows, trained for it"] = OF_PUBLISHED[setting]
        for name, player in players.items():
            times = [slipstream.evaluate(one, player, draws, SEED).mean(JCT) for one in scenarios]
            row[name] = float(np.mean(times))
        print(f"{setting}, published: done", file=sys.stderr)
    return found


def words(gap: dict[str, float]) -> str:
    """Return a difference with its interval as text."""
    return f"{gap['mean']:+,.1f} [{gap['low']:+,.1f}, {gap['high']:+,.1f}]"


def score_table(figures: dict[str, Any]) -> str:
    """Return the table of scores on generated scenarios."""
    lines = ["| policy | score | graph ahead by |", "|---|---|---|"]
    for name, row in figures.items():
        gap = "" if name == GRAPH else words(row["graph ahead by"])
        shown = f"**{name}**" if name == GRAPH else f"`{name}`"
        lines.append(f"| {shown} | {row['score']:.1f} | {gap} |")
    return "\n".join(lines)


def setting_table(first: str, figures: dict[str, Any]) -> str:
    """Return the table of settings: heuristics, specialists from the best to the worst, and networks."""
    columns = list(dict.fromkeys(name for row in figures.values() for name in row))
    lines = [f"| {first} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name, row in figures.items():
        cells = []
        for column in columns:
            value = row.get(column, "")
            if isinstance(value, str):
                cells.append(value)
            elif isinstance(value, dict):
                cells.append(words(value))
            elif isinstance(value, list):
                cells.append(f"{value[0]:,.1f} to {value[1]:,.1f}")
            else:
                cells.append(f"{value:,.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--runs", type=Path, help="folder of the row networks of the same steps; without it, none")
    parser.add_argument("--profile", type=Path, help="folder of the TPC-H profile; without it, synthetic jobs only")
    parser.add_argument("--episodes", type=int, default=10, help="test episodes of each setting of dag")
    parser.add_argument("--scenarios", type=int, default=32, help="generated scenarios of each family")
    parser.add_argument("--families", default=",".join(FAMILIES), help="which of them, separated by commas")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    tables: dict[str, str] = {}
    for family in chosen.families.split(","):
        players = players_of(family, chosen.runs)
        figures[f"{family} generated"] = generated(family, players, chosen.scenarios)
        tables[f"{family}-generated"] = score_table(figures[f"{family} generated"])
        print(f"{family}, generated: done", file=sys.stderr)
        if family == "taskgraph":
            figures["taskgraph settings"] = in_taskgraph(players)
            tables["taskgraph-settings"] = setting_table("makespan, ms", figures["taskgraph settings"])
            continue
        figures["dag settings"] = in_dag(players, chosen.profile, chosen.episodes)
        tables["dag-settings"] = setting_table("average completion time, s", figures["dag settings"])
        if chosen.profile is not None:
            figures["published"] = under_published_rules(players, chosen.profile, 5)
            tables["published"] = setting_table("average completion time, s", figures["published"])
    publish(figures, tables, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
