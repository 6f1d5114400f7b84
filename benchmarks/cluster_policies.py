"""How good the trained policies of the cluster family are: the tables of docs/cluster-results.md.

Four published traces, each cut once by time: policies were trained on the first part, and are tested on windows of the
second, which no training has seen. Every heuristic that does not interrupt plays the same windows under the same rules,
with EASY backfilling. Differences are paired over windows, with bootstrap 95% intervals. Then, on `cluster/heavy`,
policies trained for mixtures of slowdown, energy and fairness next to heuristics with and without caps, and which of
all these none beats in all three. `cluster_search` says how a training goes, `cluster_front` what mixtures are.

    python benchmarks/cluster_policies.py --train philly --data FOLDER --out runs/cluster/philly
    python benchmarks/cluster_policies.py --train mix-all --out runs/cluster/mix-all
    python benchmarks/cluster_policies.py --scenarios runs/cluster --data FOLDER
    python benchmarks/cluster_policies.py --json --data FOLDER --runs runs/cluster --picture front.html
    python benchmarks/cluster_policies.py --write docs/cluster-results.md --data FOLDER --runs runs/cluster
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cluster_front import OBJECTIVES, WEIGHTS, FrugalScorer, Mixed, draw, frugal
from cluster_search import Scorer, Search, SearchSettings, Slowdowns
from tables import ahead, commands, publish

import slipstream
from slipstream.evaluation import Evaluation
from slipstream.families.cluster.workload.arrivals import workload_of
from slipstream.policies import names
from slipstream.policies.learned import is_policy_folder, load_policy, shipped
from slipstream.reports.figures.charts import front_of, lower_is_better

SEED, SLOWDOWN = 10_000, "slowdown_mean"
INTERRUPTING = ("srtf", "srsf", "las", "tiresias-2q", "max-min")
WAITS = ("wait_p99_s", "wait_max_s")
FIGURES = {SLOWDOWN: 1.0, **dict.fromkeys(WAITS, 3600.0)}
"""What is shown of every policy, and by what it is divided: waits are shown in hours."""
MIXED, BOUNDS = "cluster/heavy", (1.05, 1.1, 1.2, 1.5)


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
    shown: int = 256
    """Waiting jobs that a trained policy sees; heuristics see all."""
    deals: int = 0
    """How often the jobs of the first part are dealt to its submit times anew, to train on; 0: it is taken as it is.

    Only for traces that were drawn from a model in which jobs do not depend on when they come, and that are short.
    """

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
            "window": {"jobs": self.shown},
        }

    def training(self, name: str, data: Path) -> dict[str, Any]:
        """Return the scenario to train on: the first part, its last quarter held out for choosing among policies.

        Where training plays deals of it, it is all held out in its own order.
        """
        return self.scenario(name, data, {"most_jobs": self.cut}, 0.0 if self.deals else 0.25)

    def test(self, name: str, data: Path) -> dict[str, Any]:
        """Return the scenario to test on: windows of the second part."""
        return self.scenario(name, data, {"skip_jobs": self.cut}, 0.0)


TRACES = {
    "lublin-1": Trace("swf", "swf/lublin_256.swf", 32, 8, 6_000, 256, deals=8),
    "lublin-2": Trace("swf", "swf/lublin_256_new2", 32, 8, 6_000, 256, deals=8),
    "philly": Trace("philly", "philly/philly.csv", 8, 8, 49_000, 256),
    "ricc": Trace("swf", "swf/RICC-2010-2.swf.gz", 1024, 8, 268_000, 1024, 128),
}


def trained(name: str, runs: Path | None) -> Path | None:
    """Return where the trained policy of a trace is: in the package or, where it did not hold up, among trainings."""
    shipped_one = shipped("cluster").get(f"learned-{name}")
    if shipped_one is not None or runs is None:
        return shipped_one
    folder = runs / name / "best"
    return folder if is_policy_folder(str(folder)) else None


def at_home(name: str, data: Path, episodes: int, folder: Path) -> dict[str, Any]:
    """Return how a trained policy does next to every heuristic that does not interrupt: slowdowns, and waits."""
    scenario: Any = slipstream.load(TRACES[name].test(name, data))
    players: list[Any] = [one for one in names("cluster") if one not in INTERRUPTING]
    found = {one: slipstream.evaluate(scenario, one, episodes, SEED) for one in players}
    best = min(players, key=lambda one: found[one].mean(SLOWDOWN))
    ours = found["trained"] = slipstream.evaluate(scenario, load_policy(folder, "trained"), episodes, SEED)
    rows = {
        one: {
            metric: {"mean": it.mean(metric) / unit, "ahead": ahead(ours.of(metric) / unit, it.of(metric) / unit)}
            for metric, unit in FIGURES.items()
        }
        for one, it in found.items()
    }
    return {"best": best, "shipped": folder in shipped("cluster").values(), "policies": rows}


def verdicts(figures: dict[str, Any]) -> str:
    """Return a line per trace: the trained policy next to the best heuristic, in slowdowns and waits."""
    lines = [
        "| trace | best heuristic | its slowdown | trained | ahead by | 99% of waits, h | longest wait, h | shipped |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in figures.items():
        best, ours = found["policies"][found["best"]], found["policies"]["trained"]
        cells = [name, f"`{found['best']}`", f"{best[SLOWDOWN]['mean']:,.2f}", f"{ours[SLOWDOWN]['mean']:,.2f}"]
        cells.append(precise(best[SLOWDOWN]["ahead"]))
        for metric in WAITS:
            cells.append(f"{best[metric]['mean']:,.2f} → {ours[metric]['mean']:,.2f}, {precise(best[metric]['ahead'])}")
        cells.append("yes" if found["shipped"] else "no")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def trace_tables(figures: dict[str, Any]) -> str:
    """Return a table per trace: every policy, the least slowdown first."""
    lines = []
    for name, found in figures.items():
        lines += [f"### {name}", "", "| policy | slowdown | trained ahead by | 99% of waits, h | longest wait, h |"]
        lines.append("|---|---|---|---|---|")
        for policy, row in sorted(found["policies"].items(), key=lambda item: item[1][SLOWDOWN]["mean"]):
            gap = "" if policy == "trained" else precise(row[SLOWDOWN]["ahead"])
            label = "**trained**" if policy == "trained" else f"`{policy}`"
            waits = " | ".join(f"{row[metric]['mean']:,.2f}" for metric in WAITS)
            lines.append(f"| {label} | {row[SLOWDOWN]['mean']:,.2f} | {gap} | {waits} |")
        lines.append("")
    return "\n".join(lines)


def precise(gap: dict[str, float]) -> str:
    """Return a difference with its interval as text."""
    return f"{gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]"


def mixtures(episodes: int) -> dict[str, Evaluation]:
    """Return how heuristics, and the policies trained for mixtures of slowdown, energy and fairness, play."""
    scenario: Any = slipstream.load(MIXED)
    players: list[Any] = [one for one in names("cluster") if one not in INTERRUPTING and one != "power-aware"]
    players += [f"power-aware({bound:g})" for bound in BOUNDS] + [frugal(bound) for bound in BOUNDS]
    players += [one for one in shipped("cluster") if one.startswith("learned-mix")]
    played = [slipstream.evaluate(scenario, one, episodes, SEED) for one in players]
    return {one.policy: one for one in played}


def points_of(played: dict[str, Evaluation]) -> dict[str, dict[str, float]]:
    """Return slowdown, energy and fairness of every policy, and whether it is on the front."""
    points = {name: {metric: one.mean(metric) for metric in OBJECTIVES} for name, one in played.items()}
    front = front_of([tuple(point.values()) for point in points.values()], OBJECTIVES)
    for place, point in enumerate(points.values()):
        point["beaten by none"] = float(place in front)
    return points


def mixture_table(points: dict[str, dict[str, float]]) -> str:
    """Return slowdown, energy and fairness of every policy, as a table."""
    lines = [
        "| policy | slowdown | energy, kWh | Jain's index | beaten by none in all three |",
        "|---|---|---|---|---|",
    ]
    for name, point in sorted(points.items(), key=lambda item: item[1]["slowdown_mean"]):
        figures = f"{point['slowdown_mean']:,.3f} | {point['energy_kwh']:,.1f} | {point['jain_users']:.3f}"
        lines.append(f"| `{name}` | {figures} | {'yes' if point['beaten by none'] else ''} |")
    return "\n".join(lines)


def dominated(played: dict[str, Evaluation]) -> dict[str, dict[str, Any]]:
    """Return, for every bound of power-aware over SJF, by how much each trained policy is ahead in all three."""
    trained_ones = [one for one in played if one.startswith("learned-mix")]
    return {
        name: {
            one: {metric: _ahead(played[one], played[name], metric) for metric in OBJECTIVES} for one in trained_ones
        }
        for name in played
        if name.startswith("power-aware-sjf")
    }


def _ahead(ours: Evaluation, theirs: Evaluation, metric: str) -> dict[str, float]:
    sign = 1.0 if lower_is_better(metric) else -1.0
    return ahead(sign * ours.of(metric), sign * theirs.of(metric))


def domination_table(found: dict[str, dict[str, Any]]) -> str:
    """Return by how much trained policies are ahead of power-aware over SJF, as a table."""
    lines = ["| next to | policy | slowdown less by | kWh less by | Jain's index more by | dominates |"]
    lines.append("|---|---|---|---|---|---|")
    for name, rows in found.items():
        for policy, gaps in rows.items():
            cells = [f"{gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]" for gap in gaps.values()]
            better = all(gap["mean"] > 0.0 for gap in gaps.values())
            lines.append(f"| `{name}` | `{policy}` | {' | '.join(cells)} | {'yes' if better else ''} |")
    return "\n".join(lines)


def train(name: str, data: Path | None, settings: SearchSettings, out: Path, command: str) -> None:
    """Train the policy of a trace, or of a mixture."""
    if name in WEIGHTS:
        scenario: Any = slipstream.load(MIXED)
        weights = WEIGHTS[name]
        parts = [Mixed(scenario, space, count, weights) for space, count in settings.parts]
        search = Search(scenario, FrugalScorer(), settings, *parts)
        search.run(out, command)
        return
    if data is None:
        raise SystemExit("--data: expected the folder of the traces")
    trace = TRACES[name]
    scenario = slipstream.load(trace.training(name, data))
    played = dealt(scenario, trace, out, settings.seed) if trace.deals else scenario
    windows = Slowdowns(played, "train", settings.pool)
    held_out = Slowdowns(scenario, "eval", settings.held_out).judged_as(windows)
    search = Search(scenario, Scorer(), settings, windows, held_out)
    search.begin()
    search.run(out, command)


def dealt(scenario: Any, trace: Trace, out: Path, seed: int) -> Any:
    """Return the scenario with its jobs dealt to their submit times anew, again and again."""
    workload = workload_of(scenario)
    submit_s = workload.submit // 10**9
    length_s = int(submit_s[-1] - submit_s[0] + np.diff(submit_s).mean())
    rng = np.random.default_rng(seed)
    lines = []
    for deal in range(trace.deals):
        for time_s, job in zip(
            (submit_s + deal * length_s).tolist(), rng.permutation(len(workload)).tolist(), strict=True
        ):
            run_s, requested_s = workload.run[job] // 10**9, workload.requested[job] // 10**9
            gpus = workload.gpus[job]
            lines.append(f"{len(lines) + 1} {time_s} -1 {run_s} {gpus} -1 -1 {gpus} {requested_s} -1 1 1 1 1 1 1 -1 -1")
    out.mkdir(parents=True, exist_ok=True)
    path = (out / "dealt.swf").resolve()
    path.write_text("\n".join(lines) + "\n")
    data = scenario.model_dump(mode="json")
    jobs = {"kind": "swf", "path": str(path)}
    return slipstream.load({**data, "jobs": jobs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--data", type=Path, help="folder of the traces; without it, mixtures only")
    parser.add_argument("--scenarios", type=Path, help="only write the scenarios to train on into this folder")
    parser.add_argument("--train", choices=[*TRACES, *WEIGHTS], help="train the policy of a trace, or of a mixture")
    parser.add_argument("--out", type=Path, default=Path("runs/cluster"), help="folder of the training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=NUMBER", help="a setting of the training")
    parser.add_argument("--episodes", type=int, default=100, help="test windows of a trace")
    parser.add_argument("--runs", type=Path, help="folder of trainings by trace, for policies that the package has not")
    parser.add_argument("--traces", default=",".join(TRACES), help="which of them")
    parser.add_argument("--picture", type=Path, help="draw slowdown, energy and fairness into this HTML file")
    chosen = parser.parse_args()
    if chosen.train is not None:
        needs = "" if chosen.train in WEIGHTS else " --data FOLDER"
        sets = "".join(f" --set {one}" for one in chosen.set)
        command = f"python benchmarks/cluster_policies.py --train {chosen.train}{needs}{sets}"
        changes = dict(one.split("=") for one in chosen.set)
        settings = replace(
            SearchSettings(), **{key: type(getattr(SearchSettings, key))(text) for key, text in changes.items()}
        )
        train(chosen.train, chosen.data, settings, chosen.out, command)
        return
    listed = [name for name in chosen.traces.split(",") if name] if chosen.data is not None else []
    if chosen.scenarios is not None:
        chosen.scenarios.mkdir(parents=True, exist_ok=True)
        for name in listed:
            text = json.dumps(TRACES[name].training(name, chosen.data), indent=2)
            (chosen.scenarios / f"{name}.json").write_text(text + "\n")
        return
    figures: dict[str, Any] = {"traces": {}}
    for name in listed:
        folder = trained(name, chosen.runs)
        if folder is not None:
            figures["traces"][name] = at_home(name, chosen.data, chosen.episodes, folder)
            print(f"{name}: done", file=sys.stderr)
    played = mixtures(chosen.episodes)
    figures["mixtures"], figures["dominated"] = points_of(played), dominated(played)
    if chosen.picture is not None:
        draw(figures["mixtures"], chosen.picture)
    tables = {
        "verdicts": verdicts(figures["traces"]),
        "at-home": trace_tables(figures["traces"]),
        "mixtures": mixture_table(figures["mixtures"]),
        "dominated": domination_table(figures["dominated"]),
        "commands": commands("cluster"),
    }
    publish(figures, tables, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
