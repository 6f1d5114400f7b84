"""How good the trained policies of the dag family are: the tables of docs/dag-results.md.

For every setting that a policy was trained in, on synthetic jobs and, with the published profile, on TPC-H: that policy
next to every heuristic on the same test episodes, with paired differences in average job completion time and bootstrap
95% intervals. `weighted-fair` and `srpt` are there twice: as they are, and with the number that is best on training
episodes of the very scenario. Then many batches, to tell how far below weighted fair they end. Then, with the profile:
the rules and the arrivals of the published simulator, next to what is known of the model that comes with it, and the
same rules on arrivals of our own. Then every trained policy in every setting, at other rates and on other numbers of
executors.

    python benchmarks/dag_policies.py --json --profile ../shared/data/dag/tpch
    python benchmarks/dag_policies.py --write docs/dag-results.md --profile FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from dag_tuning import tune
from tables import ahead, commands, interval, plain_table, publish, rival_tables

import slipstream
from slipstream.families.dag.scenario import Tpch
from slipstream.policies import names
from slipstream.policies.learned import shipped

SEED, JCT = 10_000, "avg_jct_s"
TUNING_EPISODES = 10
MANY_EPISODES, MANY_TUNING_EPISODES = 300, 40
"""Test and tuning episodes where differences of one percent are to be significant: batches are short."""
SETTINGS = ("stream-10x50", "stream-50x200", "batch-50x20")
ON_PROFILE = {"stream-50x200": "learned-stream-50x200-tpch", "batch-50x20": "learned-batch-50x20-tpch"}
"""Settings for which another policy was trained on the jobs of the profile."""
UNDER_THEIR_RULES = {**ON_PROFILE, "batch-50x20": "learned-batch-50x20-compat"}
"""The same, under the rules of the published simulator."""
BATCH, WORKFLOW = "batch-50x20", "ml-workflow"
TABLES = ("at-home", "batches", "published", "elsewhere")
"""What can be measured by itself; the table of commands needs no measurement."""
SIZES = ["2g", "5g", "10g", "20g", "50g", "80g", "100g"]
PUBLISHED: dict[str, dict[str, Any]] = {
    "stream-10x50": {"seeds": (1234, 0, 1), "fair": 963.9, "srpt, best cap": 484.8, "Decima": 581.9},
    "stream-50x200": {"seeds": (1234, 0, 1), "fair": 57.5, "srpt, best cap": 60.4, "Decima": 50.7},
    "batch-50x20": {"seeds": range(10), "fair": 129.0, "srpt, best cap": 115.1, "Decima": 109.7},
}
"""spark-sched-sim at 2ba8d80, measured: the seeds of its arrivals, and average completion times in s there."""


def on_profile(scenario: Any, folder: Path) -> Any:
    """Return a scenario with the jobs of the published profile."""
    return slipstream.load(scenario.model_copy(update={"jobs": Tpch(kind="tpch", path=str(folder.resolve()))}))


def at_home(scenario: Any, policy: str, episodes: int) -> dict[str, Any]:
    """Return how a trained policy does next to every heuristic, those with a number tuned too."""
    tuned = [tune(scenario, one, episodes=TUNING_EPISODES) for one in ("srpt", "weighted-fair")]
    rivals = [*names("dag"), *tuned]
    ours = slipstream.evaluate(scenario, policy, episodes, SEED)
    rows = {policy: {"mean": ours.mean(JCT), "ahead": ahead(ours.of(JCT), ours.of(JCT))}}
    for rival in rivals:
        other = slipstream.evaluate(scenario, rival, episodes, SEED)
        rows[other.policy] = {"mean": other.mean(JCT), "ahead": ahead(ours.of(JCT), other.of(JCT))}
    return rows


def everywhere_at_home(folder: Path | None, episodes: int) -> dict[str, Any]:
    """Return the same for every setting, on synthetic jobs and, with the profile, on its jobs."""
    found: dict[str, Any] = {}
    for setting in (*SETTINGS, WORKFLOW):
        scenario: Any = slipstream.load(f"dag/{setting}")
        policy = f"learned-{setting}"
        sources = {f"`dag/{setting}`": (scenario, policy)}
        if folder is not None and setting != WORKFLOW:
            sources[f"`dag/{setting}`, TPC-H"] = (on_profile(scenario, folder), ON_PROFILE.get(setting, policy))
        for name, pair in sources.items():
            found[name] = at_home(*pair, episodes)
            print(f"{name}: done", file=sys.stderr)
    return found


def published_arrivals(setting: str, seed: int, folder: Path) -> Any:
    """Return the jobs that spark-sched-sim draws from a seed, under its rules."""
    scenario: Any = slipstream.load(f"dag/{setting}")
    draws = np.random.default_rng(seed)
    time, times, jobs = 0.0, [], []
    for _ in range(scenario.arrivals.jobs):
        query, size = 1 + draws.integers(22), draws.choice(SIZES)
        jobs.append(f"q{query}-{size}")
        times.append(0.0 if setting.startswith("batch") else time / 1000.0)
        time += draws.exponential(25_000.0)
    return slipstream.load(
        {
            "family": "dag",
            "executors": scenario.executors,
            "arrivals": {"kind": "trace", "times_s": times, "names": jobs},
            "jobs": {"kind": "tpch", "path": str(folder.resolve())},
            "compat": "decima",
        }
    )


def against_published(folder: Path, draws: int) -> dict[str, Any]:
    """Return average completion times under the published rules, on the published arrivals."""
    found: dict[str, Any] = {}
    for setting, known in PUBLISHED.items():
        scenarios = [published_arrivals(setting, seed, folder) for seed in known["seeds"]]
        row = found[f"`{setting}`"] = {name: value for name, value in known.items() if name != "seeds"}
        trained = UNDER_THEIR_RULES.get(setting, f"learned-{setting}")
        for name, policy in (("fair, here", "fair"), ("trained, here", trained)):
            times = [slipstream.evaluate(one, policy, draws, SEED).mean(JCT) for one in scenarios]
            row[name] = float(np.mean(times))
    return found


def other_arrivals(folder: Path, episodes: int) -> dict[str, Any]:
    """Return average completion times under the published rules, on arrivals of test episodes of our own."""
    found: dict[str, Any] = {}
    for setting in SETTINGS:
        scenario = on_profile(slipstream.load(f"dag/{setting}"), folder).model_copy(update={"compat": "decima"})
        times = {}
        for name, policy in (("fair", "fair"), ("trained", UNDER_THEIR_RULES.get(setting, f"learned-{setting}"))):
            times[name] = slipstream.evaluate(scenario, policy, episodes, SEED).of(JCT)
        gap = ahead(times["trained"], times["fair"])
        found[f"`{setting}`"] = {**{name: float(one.mean()) for name, one in times.items()}, "ahead": gap}
        print(f"`{setting}`, other arrivals: done", file=sys.stderr)
    return found


def many_batches(folder: Path | None) -> dict[str, Any]:
    """Return how far a trained policy is below tuned weighted fair, on enough batches to tell a percent."""
    found: dict[str, Any] = {}
    scenario: Any = slipstream.load(f"dag/{BATCH}")
    sources = {"synthetic": (scenario, f"learned-{BATCH}")}
    if folder is not None:
        sources["TPC-H"] = (on_profile(scenario, folder), ON_PROFILE[BATCH])
    for name, (one, policy) in sources.items():
        fair = tune(one, "weighted-fair", episodes=MANY_TUNING_EPISODES)
        ours = slipstream.evaluate(one, policy, MANY_EPISODES, SEED).of(JCT)
        theirs = slipstream.evaluate(one, fair, MANY_EPISODES, SEED).of(JCT)
        low, high = share_interval(ours, theirs)
        found[name] = {
            "policy": policy,
            "rival": fair.name,
            "rival_mean": float(theirs.mean()),
            "mean": float(ours.mean()),
            "below": float(1.0 - ours.mean() / theirs.mean()),
            "low": low,
            "high": high,
        }
        print(f"{name}, {MANY_EPISODES} batches: done", file=sys.stderr)
    return found


def share_interval(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return the bootstrap 95% interval of the share by which one mean is below another, over the same episodes."""
    picks = np.random.default_rng(0).integers(len(ours), size=(10_000, len(ours)))
    low, high = np.quantile(1.0 - ours[picks].mean(axis=1) / theirs[picks].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def batch_table(figures: dict[str, Any]) -> str:
    """Return the table of many batches."""
    lines = ["| jobs | weighted fair, tuned, s | trained, s | below by |", "|---|---|---|---|"]
    for name, row in figures.items():
        share = f"{row['below']:.1%} [{row['low']:.1%}, {row['high']:.1%}]"
        lines.append(
            f"| {name} | `{row['rival']}` {row['rival_mean']:.1f} | `{row['policy']}` {row['mean']:.1f} | {share} |"
        )
    return "\n".join(lines)


def arrivals_table(figures: dict[str, Any]) -> str:
    """Return the table of other arrivals."""
    lines = ["| average completion time, s | fair | trained | ahead by, s |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {row['fair']:,.1f} | {row['trained']:,.1f} | {interval(row['ahead'])} |"
        for name, row in figures.items()
    ]
    return "\n".join(lines)


def elsewhere_scenarios(folder: Path | None) -> dict[str, Any]:
    """Return the settings in which every trained policy is tried: other rates, numbers of executors and jobs."""
    streams = {name: slipstream.load(f"dag/{name}") for name in SETTINGS}
    scenarios: dict[str, Any] = {f"`dag/{name}`": one for name, one in streams.items()}
    for executors, jobs, gap in ((10, 50, 60.0), (25, 100, 25.0), (50, 200, 20.0), (50, 200, 45.0)):
        arrivals = {"kind": "poisson", "jobs": jobs, "mean_gap_s": gap}
        data = {"family": "dag", "executors": executors, "arrivals": arrivals, "jobs": {"kind": "synthetic"}}
        scenarios[f"{executors} executors, {jobs} jobs, one in {gap:g} s"] = slipstream.load(data)
    scenarios[f"`dag/{WORKFLOW}`"] = slipstream.load(f"dag/{WORKFLOW}")
    if folder is not None:
        for name, one in streams.items():
            scenarios[f"`dag/{name}`, TPC-H"] = on_profile(one, folder)
    return scenarios


def elsewhere(folder: Path | None, episodes: int) -> dict[str, Any]:
    """Return the mean completion times of every trained policy in settings that it may never have seen."""
    found: dict[str, Any] = {}
    for name, scenario in elsewhere_scenarios(folder).items():
        players = ["fair", tune(scenario, "srpt", episodes=TUNING_EPISODES), *shipped("dag")]
        evaluations = [slipstream.evaluate(scenario, one, episodes, SEED) for one in players]
        times = {one.policy: one.mean(JCT) for one in evaluations}
        found[name] = {"srpt, tuned" if one.startswith("srpt") else one: time for one, time in times.items()}
        print(f"{name}: done", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--profile", type=Path, help="folder of the TPC-H profile; without it, synthetic jobs only")
    parser.add_argument("--episodes", type=int, default=30, help="test episodes at home")
    parser.add_argument("--episodes-elsewhere", type=int, default=10, help="test episodes elsewhere")
    parser.add_argument("--tables", default=",".join(TABLES), help="which of them, separated by commas")
    chosen = parser.parse_args()
    wanted = chosen.tables.split(",")
    figures: dict[str, Any] = {}
    tables = {"commands": commands("dag")}
    if "at-home" in wanted:
        figures["at home"] = everywhere_at_home(chosen.profile, chosen.episodes)
        tables["at-home"] = rival_tables(figures["at home"], "average completion time, s", "s")
    if "batches" in wanted:
        figures["batches"] = many_batches(chosen.profile)
        tables["batches"] = batch_table(figures["batches"])
    if "published" in wanted and chosen.profile is not None:
        figures["published"] = against_published(chosen.profile, 5)
        figures["other arrivals"] = other_arrivals(chosen.profile, chosen.episodes)
        tables["published"] = plain_table("average completion time, s", figures["published"])
        tables["other-arrivals"] = arrivals_table(figures["other arrivals"])
    if "elsewhere" in wanted:
        figures["elsewhere"] = elsewhere(chosen.profile, chosen.episodes_elsewhere)
        tables["elsewhere"] = plain_table("scenario", figures["elsewhere"])
    publish(figures, tables, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
