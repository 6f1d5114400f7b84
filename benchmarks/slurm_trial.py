"""How true the simulation is for a real Slurm: the same jobs, simulated beforehand, then run on a local cluster.

`policies`: 30 jobs of 1 to 8 GPUs on 16 pretended GPUs under four policies; 10 wait at the beginning. Keys by policy:
jct_error (|simulated − real| / real mean completion time) and starts_out_of_order (pairs of starts, more than a second
apart on both sides, in opposite orders). The order in which jobs start may hang on which of two jobs ends a moment
earlier; so the episode is the one of the first `--search` ones whose simulated order changes least when every run takes
up to 0.5 s more, a cycle of the driver too, and the fractions that Slurm's whole seconds omit are others, among those
in which `sjf` is a fifth ahead of `fifo`. That is decided by simulation alone.

`backfill`: a policy and Slurm's own backfill on the same jobs, in five other episodes. Keys:
difference (in the mean completion time, ours − theirs, simulated and real, in seconds, with the mean over the episodes
and its 95% interval), signs_agree, and size_error (|simulated − real| of the mean difference, as a share of the mean
completion time under Slurm). The policy knows run times, Slurm time limits of whole minutes.

decision_p50_ms and decision_p99_ms are the times of reading the queue and asking the policy, dispatch_p50_ms and
dispatch_p99_ms those of the commands of a start. It needs Slurm, nothing else to do on the machine, and about ten
minutes, three of which are the search; `--episode` goes without it.

    python benchmarks/slurm_trial.py --json
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.slurm.trial import (
    COMPARED,
    SLURM,
    TrialSettings,
    out_of_order,
    run_trial,
    simulated_trial,
    trial_of,
)
from slipstream.evaluation import bootstrap_interval
from slipstream.families.cluster.metrics import jobs_of, metrics
from slipstream.policies import find
from slipstream.scenario import load

POLICIES = ("fifo", "sjf", "saf", "learned-general")
EPISODES = (6, 7, 8, 9, 10)
"""Of the part `backfill`; those before served to find rules of the simulation."""
MEAN_RUN_S, MEAN_GAP_S = 22.0, 5.0
"""Of the part `policies`: long, so that the second in which a start comes, which is chance, says little."""
JITTER_S = 0.5
LEAST_LEAD = 0.2
REDRAWN = 8
"""Simulations with other run times and cycles, by which an episode is judged."""
LARGEST_ERROR = 0.05
SETTINGS = TrialSettings(jobs=1000, time_scale=1.0)


def scenario_of(episode: int, jobs: int, queued: int, mean_run_s: float, mean_gap_s: float) -> dict[str, Any]:
    """Return a scenario of `jobs` jobs, the first `queued` of which wait at the beginning.

    Run times are whole seconds: Slurm starts batch jobs once a second.
    """
    rng = np.random.Generator(np.random.Philox(episode))
    rows, submit = [], 0.0
    for number in range(jobs):
        run = min(5.0 * mean_run_s, max(3.0, round(rng.exponential(mean_run_s))))
        if number >= queued:
            submit += max(1.0, round(rng.exponential(mean_gap_s)))
        rows.append(
            {"submit_s": submit + 0.5 * (number >= queued), "gpus": int(rng.choice([1, 2, 4, 8])), "run_s": run}
        )
    nodes = [{"name": "a100", "count": 4, "gpus": 4}]
    return {"family": "cluster", "placement": "best-fit", "nodes": nodes, "jobs": {"kind": "list", "jobs": rows}}


def side_of(scenario: dict[str, Any], policy: str) -> dict[str, Any]:
    """Return the figures of one side of a trial."""
    player = None if policy == SLURM else find(policy, "cluster")
    result = run_trial(load(scenario), [player], SETTINGS, tell)
    ((name, side),) = result["sides"].items()
    figures = {metric: {way: side[way][metric] for way in ("simulated", "real")} for metric in COMPARED}
    return {"policy": name, **figures, "starts_out_of_order": side["starts_out_of_order"], **side["overhead"]}


def policies_part(pool: Executor, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of every policy on one episode."""
    first, last = (0, chosen.search) if chosen.episode is None else (chosen.episode, chosen.episode + 1)
    waiting, length = chosen.jobs // 3, (MEAN_RUN_S, MEAN_GAP_S)
    scenarios = {episode: scenario_of(episode, chosen.jobs, waiting, *length) for episode in range(first, last)}
    leads = zip(scenarios, pool.map(lead, scenarios.values()), strict=True)
    ahead = [episode for episode, share in leads if share >= LEAST_LEAD or chosen.episode is not None]
    changes = dict(zip(ahead, pool.map(order_changes, [scenarios[episode] for episode in ahead]), strict=True))
    # Of equal ones the one that arrives soonest, to save time.
    episode = min(changes, key=lambda one: (changes[one], scenarios[one]["jobs"]["jobs"][-1]["submit_s"]))
    tell(f"episode {episode}: {changes[episode]} pairs of starts change their order in simulation")
    policies = chosen.policies.split(",")
    sides = list(pool.map(side_of, [scenarios[episode]] * len(policies), policies))
    for side in sides:
        side["jct_error"] = abs(side["jct_mean_s"]["simulated"] / side["jct_mean_s"]["real"] - 1.0)
    passes = all(side["jct_error"] <= LARGEST_ERROR and not side["starts_out_of_order"] for side in sides)
    return {
        "episode": episode,
        "order_changes": changes,
        "policies": {side["policy"]: side for side in sides},
        "passes": passes,
    }


def lead(scenario: dict[str, Any]) -> float:
    """Return by which share of its mean completion time `fifo` is behind `sjf` in simulation."""
    rules, jobs = trial_of(load(scenario), SETTINGS)
    fifo, sjf = (
        metrics(*simulated_trial(rules, jobs, find(name, "cluster"), SETTINGS))["jct_mean_s"] for name in POLICIES[:2]
    )
    return 1.0 - sjf / fifo


def order_changes(scenario: dict[str, Any]) -> int:
    """Return how many pairs of starts come in another order when delays are a little longer, over all policies."""
    rules, jobs = trial_of(load(scenario), SETTINGS)
    rng = np.random.Generator(np.random.Philox(1))
    total = 0
    for name in POLICIES:
        orders = []
        for draw in range(1 + REDRAWN):
            # Requested times stay what they are: a policy does not know the delays.
            more = rng.uniform(0.0, JITTER_S, len(jobs)) * (draw > 0)
            cycle = SETTINGS.interval_s + JITTER_S * rng.uniform() * (draw > 0)
            slower = replace(SETTINGS, interval_s=cycle, rounding_s=rng.uniform() if draw else SETTINGS.rounding_s)
            moved = [
                job.model_copy(update={"run_s": job.run_s + extra, "requested_s": job.requested_s or job.run_s})
                for job, extra in zip(jobs, more, strict=True)
            ]
            orders.append(jobs_of(*simulated_trial(rules, moved, find(name, "cluster"), slower)).first_start / 1e9)
        total += sum(out_of_order(orders[0], other) for other in orders[1:])
    return total


def backfill_part(pool: Executor, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one policy against Slurm's own backfill."""
    scenarios = [
        scenario_of(episode, chosen.jobs, chosen.jobs // 3, 6.0, 1.3) for episode in EPISODES[: chosen.episodes]
    ]
    sides = iter(
        pool.map(side_of, [one for one in scenarios for _ in range(2)], [chosen.policy, SLURM] * len(scenarios))
    )
    rows = [
        {"ours": ours["jct_mean_s"], SLURM: theirs["jct_mean_s"]} for ours, theirs in zip(sides, sides, strict=True)
    ]
    ways = ("simulated", "real")
    gaps = {way: np.array([row["ours"][way] - row[SLURM][way] for row in rows]) for way in ways}
    theirs = np.mean([row[SLURM]["real"] for row in rows])
    return {
        "policy": chosen.policy,
        "jct_mean_s": rows,
        "difference": {
            way: {"mean": float(gaps[way].mean()), "interval": list(bootstrap_interval(gaps[way]))} for way in ways
        },
        "signs_agree": int((np.sign(gaps["simulated"]) == np.sign(gaps["real"])).sum()),
        "size_error": float(abs(gaps["simulated"].mean() - gaps["real"].mean()) / theirs),
    }


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PARTS = {"policies": policies_part, "backfill": backfill_part}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--part", choices=tuple(PARTS), action="append", help="only this part")
    parser.add_argument("--jobs", type=int, default=30, help="jobs of an episode")
    parser.add_argument("--search", type=int, default=100, help="episodes to choose from, in the part policies")
    parser.add_argument("--episode", type=int, help="the episode that a search has found, in the part policies")
    parser.add_argument("--policies", default=",".join(POLICIES), help="those of the part policies")
    parser.add_argument("--clusters", type=int, default=2, help="clusters that run at a time")
    parser.add_argument("--policy", default="saf", help="our policy, in the part backfill")
    parser.add_argument("--episodes", type=int, default=len(EPISODES), help="episodes, in the part backfill")
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.clusters, get_context("spawn")) as pool:
        figures = {part: PARTS[part](pool, chosen) for part in chosen.part or PARTS}
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
