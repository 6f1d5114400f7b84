"""How fast the twin of a Slurm queue answers, and whether its intervals hold what they promise.

Keys: jobs, policies, what_ifs (of the question that is timed: 1,000 queued jobs on 64 nodes of 8 GPUs under best-fit
placement and EASY), one_future_ms (from the queue, as it was read, to the whole answer: intervals, reasons and the
table what-if x policy, with one future), goal_ms (what was aimed at), futures_ms (the same with 32 drawn futures),
published (what a published twin of a queue reports for one cycle). The median of the repetitions is given, and the
least.

coverage: for each trace the share of starts inside the nominal 90% intervals, every moment alike, with a bootstrap
95% interval over the moments: `not_widened` as the futures give them, `shipped` wider by shipped_factor, `calibrated`
wider by factor_of_first_part, with which 90% of the starts at moments of the first part of the trace are held,
by_factor with others; reported are moments of the last part. wait_median_s; width_median_s (not widened);
error_median_s of the median prediction, and of the start that the time limits alone predict (limits_error_median_s).
Starts are simulated under EASY, first come, first served. At each moment the twin gets the jobs that run and wait,
with requested times, and with true run times that it does not read, and as history the jobs that have ended by then.
RICC has its users' estimates; in Lublin and Philly each size class (power of two of GPUs) has one time limit, which
99% of the jobs in the first tenth of the trace keep, and at which jobs end. All settings were chosen on moments of
the first part of each trace.

    python benchmarks/slurm_twin.py --json
    python benchmarks/slurm_twin.py --json --moments 0        # speed only
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from options import print_figures

from slipstream.evaluation import bootstrap_interval
from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.twin.answer import MOST_TO_COME, WIDEN, TwinSettings, ask
from slipstream.families.cluster.twin.history import History, history_of
from slipstream.families.cluster.twin.present import Present, recorded_present
from slipstream.families.cluster.twin.run_times import RunTimes, RunTimeSettings
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import START
from slipstream.sim.simulator import Simulator

POLICIES = ("fifo", "sjf", "saf", "smallest", "f1", "f2", "f3", "f4", "wfp3", "unicep", "finish-time-fair", "first-fit")
WHAT_IFS = ("nodes=+10", "power=70%")
"""Besides the present rules."""
GOAL_MS = 100.0
PUBLISHED = "SchedTwin (arXiv 2512.18894): a few seconds per scheduling cycle"
DATA = Path(__file__).parents[1] / "../shared/data/cluster"
LIMITS_S = np.array([900, 3600, 4 * 3600, 12 * 3600, 86_400, 2 * 86_400, 4 * 86_400, 7 * 86_400, 28 * 86_400], float)
"""Time limits that a size class may have."""
MOST_JOBS_OF_A_MOMENT = 40
FACTORS = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
"""Factors of intervals whose coverage is shown too."""
PARTS = {"first": (0.1, 0.45), "last": (0.55, 0.95)}
"""Parts of the time of each trace that moments are taken from."""


# The time of an answer


def queue_of(jobs: int) -> dict[str, Any]:
    """Return a scenario of a full cluster of 64 nodes with `jobs` waiting jobs."""
    rng = np.random.Generator(np.random.Philox(7))
    limits = rng.choice([1800.0, 3600.0, 14400.0, 43200.0, 86400.0], size=64 + jobs)
    rows = [
        {"submit_s": float(node), "started_s": node + 60.0, "gpus": 8, "run_s": 1e6, "requested_s": float(limits[node])}
        | {"user": f"user{node % 23}", "held": [{"kind": "a100", "node": node, "gpus": 8}]}
        for node in range(64)
    ]
    sizes = rng.choice([1, 2, 4, 8, 16, 32, 64], size=jobs, p=[0.45, 0.15, 0.12, 0.15, 0.07, 0.04, 0.02])
    for job in range(jobs):
        rows.append(
            {"submit_s": 100.0 + job, "gpus": int(sizes[job]), "run_s": 1e6, "requested_s": float(limits[64 + job])}
            | {"user": f"user{job % 61}"}
        )
    nodes = [{"name": "a100", "count": 64, "gpus": 8}]
    return {
        **{"family": "cluster", "nodes": nodes, "placement": "best-fit", "backfill": "easy", "hold": False},
        **{"jobs": {"kind": "list", "jobs": rows}, "begins_s": 5000.0},
    }


def past_of(jobs: int) -> History:
    """Return `jobs` past jobs of the users of `queue_of`."""
    rng = np.random.Generator(np.random.Philox(8))
    requested = rng.choice([1800.0, 3600.0, 14400.0, 43200.0, 86400.0], size=jobs)
    submit = np.sort(rng.random(jobs)) * 30 * 86_400.0 - 31 * 86_400.0
    run = requested * rng.random(jobs)
    gpus = rng.choice([1, 2, 4, 8, 16], size=jobs).astype(float)
    return history_of(submit, submit, run, requested, gpus, [f"user{number % 61}" for number in range(jobs)])


def times_ms(jobs: int, futures: int, repetitions: int, to_come: int) -> list[float]:
    """Return the milliseconds of each answer to the same question about `jobs` waiting jobs."""
    scenario, past = queue_of(jobs), RunTimes(past_of(20_000))
    settings = TwinSettings(POLICIES, WHAT_IFS, futures, most_to_come=to_come)
    present = recorded_present(load(scenario))
    found = []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        ask(present, past, settings)
        found.append((time.perf_counter() - began) * 1e3)
    return sorted(found[1:])  # the first one may compile


# Coverage


@dataclass(frozen=True)
class Trace:
    """Jobs of a trace, by submission, with the starts that EASY gave them; times in seconds."""

    name: str
    gpus_in_all: int
    submit: np.ndarray
    run: np.ndarray
    requested: np.ndarray
    gpus: np.ndarray
    user: list[str]
    start: np.ndarray

    @property
    def rules(self) -> dict[str, Any]:
        """The scenario without jobs."""
        return {"family": "cluster", "nodes": [{"name": "node", "count": 1, "gpus": self.gpus_in_all}]}


def simulated(name: str, source: dict[str, Any], gpus_in_all: int, limits: bool, first: int, count: int) -> Trace:
    """Return `count` jobs of a source from number `first` on, started under EASY on `gpus_in_all` GPUs."""
    rules = {"family": "cluster", "nodes": [{"name": "node", "count": 1, "gpus": gpus_in_all}]}
    found = compiled_scenario(load({**rules, "jobs": {**source, "skip_jobs": first, "most_jobs": count}})).workload
    run, requested = found.run / 1e9, found.requested / 1e9
    if limits:
        sizes = np.floor(np.log2(found.gpus)).astype(int)
        for size in np.unique(sizes):
            here = sizes == size
            early = run[here][: max(20, int(here.sum()) // 10)]
            requested[here] = LIMITS_S[min(len(LIMITS_S) - 1, int(np.searchsorted(LIMITS_S, np.quantile(early, 0.99))))]
        run = np.minimum(run, requested)
    users = [found.users[index] for index in found.user.tolist()]
    submit = found.submit / 1e9
    rows = [
        {"submit_s": submit[job], "gpus": int(found.gpus[job]), "run_s": run[job], "requested_s": requested[job]}
        for job in range(len(submit))
    ]
    scenario = load({**rules, "jobs": {"kind": "list", "jobs": rows}})
    events = Simulator(scenario).play(find("fifo", "cluster"), 0)
    starts = events[events["kind"] == START]
    start = np.zeros(len(submit))
    start[starts["job"]] = starts["time"] / 1e9
    return Trace(name, gpus_in_all, submit, run, requested, found.gpus.astype(int), users, start)


def traces(folder: Path) -> Iterator[Trace]:
    """Yield the three traces; jobs and GPUs are such that there is a queue."""
    swf = {"kind": "swf", "path": str(folder / "swf/RICC-2010-2.swf.gz")}
    yield simulated("ricc", swf, 8192, False, 0, 60_000)
    swf = {"kind": "swf", "path": str(folder / "swf/lublin_256.swf")}
    yield simulated("lublin", swf, 256, True, 0, 10_000)
    philly = {"kind": "philly", "path": str(folder / "philly/philly.csv")}
    yield simulated("philly", philly, 560, True, 0, 60_000)


def moments_of(trace: Trace, part: str, count: int) -> Iterator[float]:
    """Yield moments of a part of the trace at which at least five jobs wait: at most `count`, evenly spaced."""
    low, high = (share * trace.submit[-1] for share in PARTS[part])
    times = np.linspace(low, high, 4 * count)
    waiting = [((trace.submit <= moment) & (trace.start > moment)).sum() for moment in times]
    good = times[np.array(waiting) >= 5]
    yield from good[np.unique(np.linspace(0, len(good) - 1, count).astype(int))] if len(good) else []


def present_at(trace: Trace, moment: float) -> tuple[Present, np.ndarray, History]:
    """Return the present at a moment, the indices of its jobs in the trace, and what has ended by then."""
    end = trace.start + trace.run
    here = np.flatnonzero((trace.submit <= moment) & (end > moment))
    first = float(trace.submit[here].min())
    rows = []
    for job in here.tolist():
        row: dict[str, Any] = {"submit_s": trace.submit[job] - first, "gpus": int(trace.gpus[job])}
        row |= {"run_s": trace.run[job], "requested_s": trace.requested[job], "user": trace.user[job]}
        if trace.start[job] <= moment:
            row["started_s"] = trace.start[job] - first
        rows.append(row)
    data = {**trace.rules, "jobs": {"kind": "list", "jobs": rows}, "begins_s": moment - first}
    ended = np.flatnonzero(end <= moment)
    columns = (trace.submit, trace.start, trace.run, trace.requested, trace.gpus)
    past = history_of(*(column[ended] for column in columns), user=[trace.user[job] for job in ended.tolist()])
    return recorded_present(load(data), moment), here, past


@dataclass
class Found:
    """What was found at one moment, by waiting job; times in seconds from then."""

    true: np.ndarray
    low: np.ndarray
    median: np.ndarray
    high: np.ndarray
    """Of the futures, not widened."""
    limits: np.ndarray
    """The start that the time limits alone predict."""

    def holds(self, widen: float) -> np.ndarray:
        """Return whether the interval, `widen` times as wide, holds the true start."""
        low = np.maximum(0.0, self.median - widen * (self.median - self.low))
        high = self.median + widen * (self.high - self.median)
        # Times of the simulation are whole ns; those here are floats.
        return np.asarray((self.true >= low - 1e-3) & (self.true <= high + 1e-3))

    @property
    def needed(self) -> np.ndarray:
        """Return how much wider each interval would have to be to hold its start; 0 if the median is right."""
        side = np.where(self.true > self.median, self.high - self.median, self.median - self.low)
        away = np.abs(self.true - self.median)
        return np.divide(away, side, out=np.where(away > 1e-3, np.inf, 0.0), where=side > 0.0)


def asked(trace: Trace, moment: float, settings: RunTimeSettings, futures: int, seed: int, to_come: int) -> Found:
    """Ask the twin about a moment of the trace."""
    present, here, past = present_at(trace, moment)
    rng = np.random.Generator(np.random.Philox(seed))
    waiting = np.flatnonzero(trace.start[here] > moment)
    waiting = np.sort(rng.permutation(waiting)[:MOST_JOBS_OF_A_MOMENT])
    question = TwinSettings(("fifo",), (), futures, seed, to_come, widen=1.0)
    low, median, high = ask(present, RunTimes(past, settings), question).interval()[:, waiting]
    limits = ask(present, settings=TwinSettings(("fifo",), (), 1)).starts[0, waiting]
    return Found(trace.start[here][waiting] - moment, low, median, high, limits)


def answers(
    trace: Trace, part: str, moments: int, settings: RunTimeSettings, futures: int = 32, to_come: int = MOST_TO_COME
) -> list[Found]:
    """Return what the twin says at moments of a part of the trace."""
    return [
        asked(trace, moment, settings, futures, number, to_come)
        for number, moment in enumerate(moments_of(trace, part, moments))
    ]


def factor_for(found: list[Found]) -> float:
    """Return by what factor intervals must be wider so that nine of ten hold their starts, every moment alike."""
    needed = np.concatenate([one.needed for one in found])
    weights = np.concatenate([np.full(len(one.needed), 1.0 / len(one.needed)) for one in found])
    order = np.argsort(needed)
    return float(needed[order][np.searchsorted(np.cumsum(weights[order]), 0.9 * len(found))])


def coverage(found: list[Found], widen: float) -> dict[str, Any]:
    """Return how often the intervals hold the start, every moment alike."""
    by_moment = np.array([one.holds(widen).mean() for one in found])
    low, high = bootstrap_interval(by_moment)
    return {"share": float(by_moment.mean()), "low": low, "high": high}


def about(trace: Trace, moments: int) -> dict[str, Any]:
    """Return the coverage of a trace: intervals as they are, as they are shipped, and calibrated on its first part."""
    settings = RunTimeSettings()
    factor = factor_for(answers(trace, "first", moments, settings))
    found = answers(trace, "last", moments, settings)

    def median(values: list[np.ndarray]) -> float:
        return float(np.median(np.concatenate(values)))

    return {
        "moments": len(found),
        "starts": int(sum(len(one.true) for one in found)),
        "factor_of_first_part": factor,
        "calibrated": coverage(found, factor),
        "shipped": coverage(found, WIDEN),
        "not_widened": coverage(found, 1.0),
        "by_factor": {str(factor): coverage(found, factor)["share"] for factor in FACTORS},
        "wait_median_s": median([one.true for one in found]),
        "width_median_s": median([one.high - one.low for one in found]),
        "error_median_s": median([np.abs(one.median - one.true) for one in found]),
        "limits_error_median_s": median([np.abs(one.limits - one.true) for one in found]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jobs", type=int, default=1000, help="waiting jobs of the question that is timed")
    parser.add_argument("--repetitions", type=int, default=15, help="answers that are timed")
    parser.add_argument("--moments", type=int, default=60, help="moments of each trace; 0 leaves coverage out")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the traces")
    given = parser.parse_args()
    one = times_ms(given.jobs, 1, given.repetitions, 0)
    many = times_ms(given.jobs, 32, max(1, given.repetitions // 5), 0)
    figures: dict[str, Any] = {
        "jobs": given.jobs,
        "policies": len(POLICIES),
        "what_ifs": 1 + len(WHAT_IFS),
        "one_future_ms": one[len(one) // 2],
        "one_future_least_ms": one[0],
        "goal_ms": GOAL_MS,
        "futures": 32,
        "futures_ms": many[len(many) // 2],
        "futures_least_ms": many[0],
        "published": PUBLISHED,
    }
    if given.moments and given.data.is_dir():
        found = {trace.name: about(trace, given.moments) for trace in traces(given.data)}
        figures |= {"shipped_factor": WIDEN, "coverage": found if given.json else json.dumps(found)}
    print_figures(figures, given.json)


if __name__ == "__main__":
    main()
