"""How good the trained policies of the cluster family are: the tables of docs/cluster-results.md.

Four published traces, each cut once by time: policies were trained on the first part, with windows of its last quarter
to pick the best by, and are tested on windows of the second part, which no training has seen. Every heuristic that
does not interrupt plays the same windows under the same rules, with EASY backfilling. Differences are paired over
windows, with bootstrap 95% intervals. Then, on `cluster/heavy`, policies trained for other mixtures of slowdown, energy
and fairness next to heuristics with and without caps, and which of all these none beats in all three.

    python benchmarks/cluster_policies.py --scenarios runs/cluster --data FOLDER
    python benchmarks/cluster_policies.py --json --data FOLDER
    python benchmarks/cluster_policies.py --write docs/cluster-results.md --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tables import ahead, commands, plain_table, publish, rival_tables

import slipstream
from slipstream.policies import names
from slipstream.policies.learned import shipped
from slipstream.report.charts import front_of

SEED, SLOWDOWN = 10_000, "slowdown_mean"
INTERRUPTING = ("srtf", "srsf", "las", "tiresias-2q", "max-min")
WAITS = {"wait_p99_s": "99th percentile of the wait, h", "wait_max_s": "longest wait, h"}
MIXED, OBJECTIVES = "cluster/heavy", ("slowdown_mean", "energy_kwh", "jain_users")
CAPPED = ("power-aware(1.05)", "power-aware", "power-aware(1.2)", "power-aware(1.5)")


@dataclass(frozen=True)
class Trace:
    """A published trace, and where it is cut."""

    kind: str
    path: str
    nodes: int
    gpus: int
    """Of a node."""
    cut: int
    """Jobs of the part that policies are trained on; the others are for tests."""
    jobs: int
    """Of a window."""

    def scenario(self, name: str, data: Path, part: dict[str, int], held_out: float) -> dict[str, Any]:
        """Return the scenario of a part of the trace."""
        return {
            "family": "cluster",
            "name": name,
            "nodes": [{"name": "node", "count": self.nodes, "gpus": self.gpus}],
            "placement": "flat",
            "backfill": "easy",
            "hold": False,
            "jobs": {"kind": self.kind, "path": str((data / self.path).resolve()), **part},
            "episode": {"jobs": self.jobs, "held_out": held_out},
        }

    def training(self, name: str, data: Path) -> dict[str, Any]:
        """Return the scenario to train on: the first part, its last quarter held out for choosing among policies."""
        return self.scenario(name, data, {"most_jobs": self.cut}, 0.25)

    def test(self, name: str, data: Path) -> dict[str, Any]:
        """Return the scenario to test on: windows of the second part."""
        return self.scenario(name, data, {"skip_jobs": self.cut}, 0.0)


TRACES = {
    "lublin-1": Trace("swf", "swf/lublin_256.swf", 32, 8, 6_000, 256),
    "lublin-2": Trace("swf", "swf/lublin_256_new2", 32, 8, 6_000, 256),
    "philly": Trace("philly", "philly/philly.csv", 8, 8, 49_000, 256),
    "ricc": Trace("swf", "swf/RICC-2010-2.swf.gz", 1024, 8, 268_000, 256),
}


def at_home(name: str, data: Path, episodes: int) -> dict[str, Any]:
    """Return how a trained policy does next to every heuristic that does not interrupt: slowdowns, and waits."""
    scenario: Any = slipstream.load(TRACES[name].test(name, data))
    policy = f"learned-{name}"
    players = [one for one in (policy, *names("cluster")) if one not in INTERRUPTING]
    found = {one: slipstream.evaluate(scenario, one, episodes, SEED) for one in players}
    ours = found[policy].of(SLOWDOWN)
    rows = {one: {"mean": it.mean(SLOWDOWN), "ahead": ahead(ours, it.of(SLOWDOWN))} for one, it in found.items()}
    best = min((one for one in players if one != policy), key=lambda one: rows[one]["mean"])
    waits = {
        text: {
            policy: found[policy].mean(metric) / 3600.0,
            best: found[best].mean(metric) / 3600.0,
            "ahead": ahead(found[policy].of(metric) / 3600.0, found[best].of(metric) / 3600.0),
        }
        for metric, text in WAITS.items()
    }
    return {"slowdown": rows, "best": best, "waits": waits}


def verdicts(figures: dict[str, Any]) -> str:
    """Return a line per trace: the trained policy next to the best heuristic, in slowdowns and waits."""
    lines = [
        "| trace | best heuristic | its slowdown | trained | ahead by | 99% of waits, h | longest wait, h |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in figures.items():
        best, policy = found["best"], f"learned-{name}"
        rows, gap = found["slowdown"], found["slowdown"][found["best"]]["ahead"]
        cells = [name, f"`{best}`", f"{rows[best]['mean']:,.2f}", f"{rows[policy]['mean']:,.2f}"]
        cells.append(f"{gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]")
        for text in WAITS.values():
            wait = found["waits"][text]
            gap = wait["ahead"]
            cells.append(f"{wait[best]:,.1f} → {wait[policy]:,.1f} [{-gap['high']:+.1f}, {-gap['low']:+.1f}]")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mixtures(episodes: int) -> dict[str, dict[str, float]]:
    """Return slowdown, energy and fairness of heuristics and of the policies trained for mixtures of them."""
    scenario: Any = slipstream.load(MIXED)
    players = [*(one for one in names("cluster") if one not in INTERRUPTING and one != "power-aware"), *CAPPED]
    players += [one for one in shipped("cluster") if one.startswith("learned-mix")]
    points = {}
    for one in players:
        found = slipstream.evaluate(scenario, one, episodes, SEED)
        points[one] = {metric: found.mean(metric) for metric in OBJECTIVES}
    front = front_of([tuple(point.values()) for point in points.values()], OBJECTIVES)
    for place, (_, point) in enumerate(points.items()):
        point["beaten by none"] = float(place in front)
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--data", type=Path, required=True, help="folder of the traces")
    parser.add_argument("--scenarios", type=Path, help="only write the scenarios to train on into this folder")
    parser.add_argument("--episodes", type=int, default=100, help="test windows of a trace")
    parser.add_argument("--traces", default=",".join(TRACES), help="which of them")
    chosen = parser.parse_args()
    listed = [name for name in chosen.traces.split(",") if name]
    if chosen.scenarios is not None:
        chosen.scenarios.mkdir(parents=True, exist_ok=True)
        for name in listed:
            text = json.dumps(TRACES[name].training(name, chosen.data), indent=2)
            (chosen.scenarios / f"{name}.json").write_text(text + "\n")
        return
    figures: dict[str, Any] = {"traces": {}}
    for name in listed:
        if f"learned-{name}" in shipped("cluster"):
            figures["traces"][name] = at_home(name, chosen.data, chosen.episodes)
            print(f"{name}: done", file=sys.stderr)
    figures["mixtures"] = mixtures(chosen.episodes)
    slowdowns = {name: found["slowdown"] for name, found in figures["traces"].items()}
    tables = {
        "verdicts": verdicts(figures["traces"]),
        "at-home": rival_tables(slowdowns, "mean bounded slowdown", "bounded slowdown"),
        "mixtures": plain_table("policy", figures["mixtures"]),
        "commands": commands("cluster"),
    }
    publish(figures, tables, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
