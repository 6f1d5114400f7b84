"""Decisions of a policy at one moment of a real cluster: which jobs it starts and where, and which it interrupts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.cluster.caps import caps_of
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.scenario import LiveScenario, live_scenario
from slipstream.families.cluster.slurm.snapshot import HELD, SlurmJob, SlurmNode, Snapshot
from slipstream.policies.base import Policy, WholeEpisodes
from slipstream.sim.eventlog import PREEMPT, START, TAKE
from slipstream.sim.simulator import LOG_ROWS, Simulator, check_action


@dataclass(frozen=True)
class StartOf:
    """A start: a job, and the nodes and GPUs for it."""

    job: SlurmJob
    held: tuple[tuple[str, int], ...]
    """Node and number of GPUs; empty if placement is flat."""
    watts: tuple[float, ...] = ()
    """Power limit of its GPUs on each of these nodes; empty if the scenario has no caps."""

    @property
    def names_nodes(self) -> bool:
        """Whether the command names the nodes: the job asks neither for certain ones nor for another number of them."""
        return bool(self.held) and not self.job.constrained and self.job.on_nodes in (None, len(self.held))

    @property
    def words(self) -> str:
        """The decision in words."""
        limits = [f" at {watts:g} W" for watts in self.watts] or [""] * len(self.held)
        where = ", ".join(f"{gpus} on {node}{at}" for (node, gpus), at in zip(self.held, limits, strict=True))
        return f"start job {self.job.id} ({self.job.gpus} GPUs{': ' + where if where else ''})"


@dataclass(frozen=True)
class InterruptionOf:
    """An interruption of a running job."""

    job: SlurmJob

    @property
    def words(self) -> str:
        """The decision in words."""
        return f"requeue job {self.job.id} ({self.job.gpus} GPUs)"


Decision = StartOf | InterruptionOf


def warm_up(base: ClusterScenario, policy: Policy) -> None:
    """Make `policy` decide once about a cluster with the rules of `base`, so that compilation is done."""
    nodes = tuple(
        SlurmNode(f"{kind.name}-{number}", kind.name, kind.gpus, True)
        for kind in base.nodes
        for number in range(min(2, kind.count))
    )
    jobs = tuple(
        SlurmJob(str(number), "user", "", "PENDING", HELD[0], 1, 60.0, submit=0.0, start=0.0, end=0.0)
        for number in range(3)
    )
    decide(live_scenario(Snapshot(1.0, nodes, jobs), base), policy)


def decide(live: LiveScenario, policy: Policy, seed: int = 0) -> list[Decision]:
    """Return what `policy` does at the moment of `live`, in order.

    The lane is the simulator's: it begins in the state of the cluster, and `policy` is asked until it waits. What the
    lane would do after that moment is not looked at.
    """
    rows = max(LOG_ROWS, 8 * (len(live.jobs) + 1) + 4 * len(live.nodes))
    simulator = Simulator(live.scenario, rows)
    simulator.reset(seed)
    step = policy.player(simulator) if isinstance(policy, WholeEpisodes) else None
    while simulator.asking and simulator.header["now"] == 0:
        if step is not None:
            step(1)
        else:
            simulator.step(check_action(policy.choose(*simulator.observe())))
    events = simulator.log()
    return _decisions(live, simulator, events[events["time"] == 0])


def _decisions(live: LiveScenario, simulator: Simulator, events: np.ndarray) -> list[Decision]:
    """Return the decisions behind the `events` of the first instant; a start of what ran already is none."""
    from slipstream.families.cluster.build import compiled_scenario

    rows = compiled_scenario(live.scenario).workload.row.tolist()
    found: dict[int, Decision] = {}
    runs = {job for job, row in enumerate(rows) if live.jobs[row].runs}
    watts = _watts(live.scenario)
    columns = (events[name].tolist() for name in ("job", "task", "resource", "variant", "kind"))
    for job, count, node, level, kind in zip(*columns, strict=True):
        if kind == PREEMPT:
            runs.discard(job)
            if live.jobs[rows[job]].runs:
                found[job] = InterruptionOf(live.jobs[rows[job]])
            else:
                del found[job]
        elif job in runs:
            continue
        elif kind == START:
            found[job] = StartOf(live.jobs[rows[job]], ())
        elif kind == TAKE:
            start = found[job]
            assert isinstance(start, StartOf)
            limits = (*start.watts, watts[node][level]) if watts else ()
            found[job] = StartOf(start.job, (*start.held, (live.nodes[node], count)), limits)
    # A job that is interrupted and started anew in the same instant goes on instead.
    return [decision for decision in found.values() if isinstance(decision, InterruptionOf) or not decision.job.runs]


def _watts(scenario: ClusterScenario) -> list[list[float]]:
    """Return the power limit of GPUs by node and level; without a cap, what a busy one draws. Empty without caps."""
    if not any(kind.caps for kind in scenario.nodes):
        return []
    return [
        [kind.busy_w, *(cap.watts for cap in caps_of(kind))] for kind in scenario.by_speed for _ in range(kind.count)
    ]
