"""Trial on a real Slurm: the jobs of a scenario as sleeps on a local cluster, beside their simulation.

The same jobs run once for each side: released by a policy, or by Slurm's own backfill. All sides are simulated before.
"""

from __future__ import annotations

import math
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.device.slurm.decisions import warm_up
from slipstream.device.slurm.driver import Driver, DriverSettings, checked_rules, chosen_policy
from slipstream.device.slurm.driver_simulation import LONGEST_S, HeldJob, simulate_driver
from slipstream.device.slurm.local import (
    BACKFILL_INTERVAL_S,
    LocalCluster,
    VirtualNodes,
    local_cluster,
    missing_programs,
)
from slipstream.device.slurm.recording import Recorder, Run, SeenJob
from slipstream.errors import DeviceError, InputError
from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.invariants import check
from slipstream.families.cluster.metrics import jobs_of, metrics
from slipstream.families.cluster.scenario import ClusterScenario, ListedJob
from slipstream.families.cluster.slurm.backfill import QueuedJob, simulate_backfill
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.snapshot import SlurmJob, SlurmNode, Snapshot
from slipstream.policies.base import Policy
from slipstream.sim.simulator import Simulator

LEAST_RUN_S = 3.0
"""Least time that a job sleeps: Slurm starts jobs once a second."""
MEAN_RUN_S = 8.0
"""Mean time that jobs sleep by default."""
MOST_NODES = 64
SLURM = "slurm"
"""Name of the side of Slurm's own backfill."""
COMPARED = ("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "slowdown_mean", "makespan_s")
CLOSE_S = 1.0
"""Starts that lie closer together may come in either order."""


@dataclass(frozen=True)
class TrialSettings:
    """How a trial is played."""

    jobs: int = 30
    """Most jobs, the first of the episode."""
    time_scale: float | None = None
    """Seconds of a trial per second of the scenario; so that the mean job takes 8 s if absent."""
    overhead_s: float = 0.1
    """Time that the simulation adds to every run, for the way to the node and back."""
    interval_s: float = 0.3
    """Time between the beginnings of two cycles of the driver."""
    rounding_s: float = 0.5
    """Time by which the starts that the simulated driver reads are too early: Slurm's times are whole seconds."""
    seed: int = 0


def run_trial(
    scenario: ClusterScenario,
    policies: Sequence[Policy | None],
    settings: TrialSettings,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Return the metrics of each of `policies`, simulated and real, as JSON data; None is Slurm's own backfill.

    If it is among them, the differences of the others from it are there too.

    Raises:
        DeviceError: One line: Slurm is not installed, or its daemons do not start.
    """
    if reason := missing_programs():
        raise DeviceError(reason)
    rules, jobs = trial_of(scenario, settings)
    sides = {name_of(policy): policy for policy in (policy and chosen_policy(policy, scenario) for policy in policies)}
    result: dict[str, Any] = {"seed": settings.seed, "jobs": len(jobs), "sides": {}}
    for name, policy in sides.items():
        tell(f"{name}: simulating")
        simulated = simulated_trial(rules, jobs, policy, settings)
        tell(f"{name}: running {len(jobs)} jobs on a local Slurm cluster")
        played, overhead = _real(rules, jobs, policy, settings)
        result["sides"][name] = {**_compared(simulated, played), "overhead": overhead}
    if SLURM in sides:
        theirs = result["sides"][SLURM]
        result["differences"] = {
            name: {
                metric: {side: ours[side][metric] - theirs[side][metric] for side in ("simulated", "real")}
                for metric in COMPARED
            }
            for name, ours in result["sides"].items()
            if name != SLURM
        }
    return result


def name_of(policy: Policy | None) -> str:
    """Return the name of a side of a trial."""
    return SLURM if policy is None else policy.name


def trial_of(scenario: ClusterScenario, settings: TrialSettings) -> tuple[ClusterScenario, list[ListedJob]]:
    """Return the rules of a trial, with kinds of nodes named as Slurm takes them, and its jobs.

    Raises:
        InputError: One line: the scenario has rules that a real cluster cannot follow, or too many nodes.
    """
    rules = checked_rules(scenario)
    if (count := sum(kind.count for kind in rules.nodes)) > MOST_NODES:
        raise InputError(f"{count} nodes: expected at most {MOST_NODES} on this machine")
    renamed = [kind.model_copy(update={"name": _word(kind.name)}) for kind in rules.nodes]
    return rules.model_copy(update={"nodes": renamed}), timed_jobs(scenario, settings)


def timed_jobs(scenario: ClusterScenario, settings: TrialSettings) -> list[ListedJob]:
    """Return the first jobs of an episode in the time of a trial."""
    simulator = Simulator(scenario)
    simulator.reset(settings.seed)
    first, count = int(simulator.header["first"]), int(simulator.header["jobs"])
    found = compiled_scenario(scenario).workload
    chosen = slice(first, first + min(count, settings.jobs))
    run, requested, submit = (getattr(found, name)[chosen] / 1e9 for name in ("run", "requested", "submit"))
    scale = settings.time_scale or MEAN_RUN_S / float(run.mean())
    return [
        ListedJob(
            submit_s=float((submit[job] - submit[0]) * scale),
            gpus=int(found.gpus[chosen][job]),
            run_s=max(LEAST_RUN_S, float(run[job]) * scale),
            requested_s=max(LEAST_RUN_S, float(requested[job]) * scale),
            user=found.users[int(found.user[chosen][job])],
        )
        for job in range(len(run))
    ]


def _word(name: str) -> str:
    """Return a name of a kind of node as Slurm takes it."""
    return re.sub(r"[^a-z0-9]", "", name.lower()) or "gpu"


def _requested_s(job: ListedJob) -> float:
    return job.requested_s or job.run_s


def _minutes(job: ListedJob) -> int:
    """Return the time limit of a job: Slurm counts in minutes."""
    return max(1, math.ceil(_requested_s(job) / 60.0))


Played = tuple[ClusterScenario, np.ndarray]


def simulated_trial(
    rules: ClusterScenario, jobs: Sequence[ListedJob], policy: Policy | None, settings: TrialSettings
) -> Played:
    """Return a scenario of the timed jobs and the log of their simulation, driven; without a policy, by Slurm alone."""
    nodes = [(kind.name, kind.gpus) for kind in rules.nodes for _ in range(kind.count)]
    named = [SlurmNode(f"n{number + 1}", kind, gpus, True) for number, (kind, gpus) in enumerate(nodes)]
    limits = [60.0 * _minutes(job) for job in jobs]
    ends = [job.run_s + settings.overhead_s for job in jobs]
    if policy is None:
        queued = [
            QueuedJob(job.submit_s, int(job.gpus), limit, run)
            for job, limit, run in zip(jobs, limits, ends, strict=True)
        ]
        found = simulate_backfill([gpus for _, gpus in nodes], queued, BACKFILL_INTERVAL_S)
        runs = [
            [Run(run.start_s, tuple((named[node].name, gpus) for node, gpus in run.held.items()), run.end_s)]
            for run in found
        ]
    else:
        held = [
            HeldJob(job.submit_s, int(job.gpus), limit, _requested_s(job), run)
            for job, limit, run in zip(jobs, limits, ends, strict=True)
        ]
        runs = simulate_driver(rules, named, held, policy, settings.interval_s, settings.rounding_s)
    recorder = Recorder()
    recorder.nodes = {node.name: node for node in named}
    for number, (job, limit, its) in enumerate(zip(jobs, limits, runs, strict=True)):
        seen = SlurmJob(
            *(str(number), job.user, "", "COMPLETED", "", int(job.gpus), limit),
            submit=job.submit_s,
            start=its[-1].start,
            end=its[-1].end,
        )
        recorder.jobs[seen.id] = SeenJob(seen, job.submit_s, its, has_ended=True)
    scenario, events = recorder.result(rules, {str(number): _requested_s(job) for number, job in enumerate(jobs)})
    check(events, scenario)
    return scenario, events


def _real(
    rules: ClusterScenario, jobs: Sequence[ListedJob], policy: Policy | None, settings: TrialSettings
) -> tuple[Played, dict[str, float]]:
    """Return a scenario of the jobs as they ran on a real cluster with the log, and what the driver's work took.

    Without a policy, Slurm alone runs them.
    """
    kinds = [VirtualNodes(kind.count, kind.gpus, kind.name) for kind in rules.nodes]
    requested: dict[str, float] = {}
    done = threading.Event()
    if policy is not None:
        warm_up(rules, policy)
    # Not elsewhere: the path of a socket may have about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, local_cluster(Path(folder), kinds) as cluster:
        driven = DriverSettings(interval_s=settings.interval_s, requested=requested)
        driver = None if policy is None else Driver(cluster.slurm, rules, policy, driven)
        recorder = Recorder() if driver is None else driver.recorder
        first = [job for job in jobs if not job.submit_s]
        submit = partial(_submit, cluster, policy is not None, requested, done)
        submitter = threading.Thread(target=submit, args=(jobs[len(first) :],))
        limit = time.monotonic() + LONGEST_S

        def ended(snapshot: Snapshot) -> bool:
            if time.monotonic() > limit:
                raise InputError(f"the trial took longer than {LONGEST_S:g} s: expected fewer or shorter jobs")
            return len(recorder.jobs) == len(jobs) and not any(job.runs or job.waits for job in snapshot.jobs)

        # The policy sees the whole queue that is there at the beginning.
        submit(first)
        submitter.start()
        try:
            if driver is not None:
                driver.run(ended, tell=lambda _: None)
            while driver is None:
                snapshot = read_snapshot(cluster.slurm)
                recorder.observe(snapshot)
                if ended(snapshot):
                    break
                time.sleep(settings.interval_s)
        finally:
            done.set()
            submitter.join()
    if recorder.ended < len(jobs):
        raise DeviceError(
            f"{len(jobs) - recorder.ended} of {len(jobs)} jobs were not seen to run: expected all of them"
        )
    scenario, events = recorder.result(rules, requested)
    check(events, scenario)
    return (scenario, events), {} if driver is None else driver.overhead()


def _submit(
    cluster: LocalCluster, holds: bool, requested: dict[str, float], done: threading.Event, jobs: Sequence[ListedJob]
) -> None:
    """Submit the jobs as sleeps, each at its time, unless `done` is set."""
    began = time.monotonic()
    for job in jobs:
        while time.monotonic() < began + job.submit_s and not done.is_set():
            time.sleep(max(0.0, min(0.1, began + job.submit_s - time.monotonic())))
        if done.is_set():
            return
        words = [f"--gpus={job.gpus}", f"--time={_minutes(job)}", "--output=/dev/null", "--chdir=/", "--requeue"]
        held = ["--hold"] if holds else []
        number = cluster.slurm.submit(f"#!/bin/sh\nexec sleep {job.run_s:.3f}\n", *words, *held)
        requested[str(number)] = _requested_s(job)


def _compared(simulated: Played, real: Played) -> dict[str, Any]:
    """Return the metrics of both sides, and the share of pairs of starts that came in the same order."""
    figures = {name: metrics(*played) for name, played in (("simulated", simulated), ("real", real))}
    starts = [jobs_of(*played).first_start / 1e9 for played in (simulated, real)]
    return {
        **{name: {metric: found[metric] for metric in COMPARED} for name, found in figures.items()},
        "relative_difference": {
            metric: figures["real"][metric] / figures["simulated"][metric] - 1.0
            for metric in COMPARED
            if figures["simulated"][metric]
        },
        "starts_out_of_order": out_of_order(*starts),
    }


def out_of_order(first: np.ndarray, second: np.ndarray) -> int:
    """Return the number of pairs of starts that came in opposite orders, unless they lie within a second on a side."""
    one, other = first[:, None] - first[None, :], second[:, None] - second[None, :]
    apart = (np.abs(one) > CLOSE_S) & (np.abs(other) > CLOSE_S)
    return int((apart & (np.sign(one) != np.sign(other))).sum()) // 2
