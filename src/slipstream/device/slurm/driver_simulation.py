"""Simulation of a driven cluster: the driver's cycles, on a Slurm that starts jobs at whole seconds.

The policy is asked as the driver asks it: in a lane that begins at the moment of the cycle, with the queue and what
runs, and without what is still to be submitted. So one that simulates ahead knows no more here than on the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.device.slurm.decisions import Decision, StartOf, decide
from slipstream.device.slurm.recording import Run
from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.backfill import TICK_S
from slipstream.families.cluster.slurm.scenario import live_scenario
from slipstream.families.cluster.slurm.snapshot import HELD, SlurmJob, SlurmNode, Snapshot
from slipstream.policies.base import Policy

USER = "user"
"""One user submits all jobs of a trial."""
LONGEST_S = 3600.0
"""Longest time that a trial may take before it is given up."""


COMMANDS_S = 0.03
"""Time that the commands of a start take on a quiet machine; one start is sent after the other."""


@dataclass(frozen=True)
class HeldJob:
    """A job that is submitted held: what the driver knows of it, and how long it really runs."""

    submit_s: float
    gpus: int
    limit_s: float
    """Time limit."""
    requested_s: float
    run_s: float


def simulate_driver(
    rules: ClusterScenario,
    nodes: Sequence[SlurmNode],
    jobs: Sequence[HeldJob],
    policy: Policy,
    interval_s: float,
    rounding_s: float = 0.0,
) -> list[list[Run]]:
    """Return the runs of each of `jobs`, released under `policy` by a driver with a cycle every `interval_s`.

    Slurm tells starts in whole seconds: `rounding_s` earlier than they were.
    Cycles in which nothing can have changed are left out: rules of a driven cluster do not hold jobs back.

    Raises:
        InputError: One line: the jobs do not all end within an hour.
    """
    cluster = _Cluster(rules, nodes, jobs, rounding_s)
    cycle, now = 0, 0.0
    while not cluster.is_over(now):
        decisions = cluster.decisions(now, policy)
        for decision in decisions:
            now += COMMANDS_S
            cluster.carry_out(decision, now)
        event = now if decisions else cluster.next_event(now)
        if event > LONGEST_S:
            raise InputError(f"the trial takes longer than {LONGEST_S:g} s: expected fewer or shorter jobs")
        cycle = max(cycle + 1, math.ceil(event / interval_s))
        now = cycle * interval_s
    return cluster.runs


class _Cluster:
    """Nodes, jobs by number, and the runs that were released; the end of a run is known here, but not to the driver."""

    def __init__(
        self, rules: ClusterScenario, nodes: Sequence[SlurmNode], jobs: Sequence[HeldJob], rounding_s: float
    ) -> None:
        self._rounding_s = rounding_s
        self.runs: list[list[Run]] = [[] for _ in jobs]
        self._rules = rules
        self._nodes = tuple(nodes)
        self._jobs = jobs
        self._waiting = set(range(len(jobs)))
        """Jobs that were not released, also those that are still to be submitted."""

    def is_over(self, now: float) -> bool:
        """Whether all jobs have ended."""
        return not self._waiting and all(runs[-1].end <= now for runs in self.runs)

    def next_event(self, now: float) -> float:
        """Return when the next job after `now` is submitted or ends; infinite if none does."""
        times = [self._jobs[number].submit_s for number in self._waiting]
        times += [runs[-1].end for runs in self.runs if runs]
        return min((time for time in times if time > now), default=math.inf)

    def decisions(self, now: float, policy: Policy) -> list[Decision]:
        """Return what the policy decides in the state of `now`."""
        seen = [self._seen(number, now) for number, job in enumerate(self._jobs) if job.submit_s <= now]
        if not any(job.waits for job in seen):
            return []
        snapshot = Snapshot(now, self._nodes, tuple(seen))
        live = live_scenario(snapshot, self._rules, requested=lambda job: self._jobs[int(job.id)].requested_s)
        return decide(live, policy)

    def _seen(self, number: int, now: float) -> SlurmJob:
        """Return a job as the driver knows it; one that was released and has not started counts as running."""
        job, run = self._jobs[number], None if number in self._waiting else self.runs[number][-1]
        state = "PENDING" if run is None else "COMPLETED" if run.end <= now else "RUNNING"
        return SlurmJob(
            *(str(number), USER, "", state, HELD[0] if run is None else "", job.gpus, job.limit_s),
            submit=job.submit_s,
            start=0.0 if run is None else now if run.start > now else run.start - self._rounding_s,
            end=0.0,
            held=() if run is None else run.held,
        )

    def carry_out(self, decision: Decision, now: float) -> None:
        """Start a job in the next whole second, or requeue one, which loses what it has done."""
        number = int(decision.job.id)
        if isinstance(decision, StartOf):
            start = (math.floor(now / TICK_S) + 1) * TICK_S
            # Where placement is flat, Slurm chooses the nodes, and the log names none.
            held = decision.held or ((self._nodes[0].name, self._jobs[number].gpus),)
            self.runs[number].append(Run(start, held, start + self._jobs[number].run_s))
            self._waiting.remove(number)
        else:
            run = self.runs[number][-1]
            if run.start < now:
                run.end = now
            else:
                self.runs[number].pop()
            self._waiting.add(number)
