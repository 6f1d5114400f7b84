"""A cluster scenario of a Slurm cluster: its nodes and jobs at a moment, or its accounting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slipstream.errors import ScenarioError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.snapshot import SlurmJob, SlurmNode, Snapshot, kinds_of
from slipstream.files.validation import validated

UNLIMITED_S = 7 * 86_400.0
"""Requested time of a job without a time limit."""
LEAST_LEFT_S = 1.0
"""Least time that a running job is expected to go on for, also beyond its time limit."""
RULES = {"placement": "best-fit", "backfill": "easy", "hold": False}
"""Rules of a scenario that starts from no other: like Slurm's backfill, every cycle plans anew."""

Placed = tuple[tuple[str, int, int], ...]
"""GPUs held: kind of node, number of the node among those of its kind, GPUs."""


@dataclass(frozen=True)
class LiveScenario:
    """A scenario of a moment, and which of Slurm's jobs and nodes its own stand for."""

    scenario: ClusterScenario
    jobs: tuple[SlurmJob, ...]
    """In the order of the list of jobs."""
    nodes: tuple[str, ...]
    """Names by number of node."""
    left_out: dict[str, int]
    """Number of jobs left out, by reason."""


def live_scenario(
    snapshot: Snapshot,
    base: ClusterScenario | None = None,
    runs: Callable[[SlurmJob], float] | None = None,
    chosen: Callable[[SlurmJob], bool] = lambda job: True,
    requested: Callable[[SlurmJob], float] | None = None,
) -> LiveScenario:
    """Return the scenario that begins with the state of `snapshot`, with the rules and node properties of `base`.

    Nodes on which nothing may start are left out, with what runs there. `requested` gives the requested time of a job
    in seconds, by default its time limit, and `runs` its run time, by default the requested one; `chosen` tells which
    waiting jobs count.
    """
    requested = requested or requested_s
    available = tuple(node for node in snapshot.nodes if node.available)
    kinds = kinds_of(available)
    if not kinds:
        raise ScenarioError("no node with GPUs is available: expected one at least")
    where = {node.name: (kind, number) for kind, nodes in kinds.items() for number, node in enumerate(nodes)}
    flat = base is not None and base.placement == "flat"
    left_out: dict[str, int] = {}
    jobs: list[tuple[SlurmJob, Placed]] = []
    for job in snapshot.jobs:
        placed = tuple((*where[name], gpus) for name, gpus in job.held if name in where)
        reason = _why_left_out(job, bool(placed) or (flat and not job.held), chosen)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        elif job.runs or job.waits:
            jobs.append((job, placed))
    first = min((job.submit for job, _ in jobs), default=snapshot.now)
    rows = [_row(job, placed, first, snapshot.now, requested, runs or requested) for job, placed in jobs]
    if not rows:
        raise ScenarioError("no job with GPUs runs or waits: expected one at least")
    listed = [{key: value for key, value in row.items() if not (flat and key == "held")} for row in rows]
    scenario = _with(base, kinds_in_words(kinds, base), listed, max(0.0, snapshot.now - first))
    order = [node.name for kind in scenario.by_speed for node in kinds[kind.name]]
    return LiveScenario(scenario, tuple(job for job, _ in jobs), tuple(order), left_out)


def _why_left_out(job: SlurmJob, is_here: bool, chosen: Callable[[SlurmJob], bool]) -> str:
    """Return why a job is no part of the scenario; empty if it is one, or has ended."""
    if not (job.runs or job.waits):
        return ""
    if not job.gpus:
        return "that want no GPU"
    if job.runs:
        return "" if is_here else "that run on nodes that are not available"
    if not job.can_start:
        return "that wait for other jobs or for a time"
    return "" if chosen(job) else "that are not chosen"


def kinds_in_words(kinds: Mapping[str, list[SlurmNode]], base: ClusterScenario | None) -> list[dict[str, object]]:
    """Return the kinds of nodes as a scenario lists them; those that `base` has too keep its speed, caps and power."""
    known = {} if base is None else {kind.name: kind for kind in base.nodes}
    rows = []
    for name, nodes in kinds.items():
        more = known[name].model_dump(mode="json", exclude_unset=True) if name in known else {}
        rows.append({**more, "name": name, "count": len(nodes), "gpus": nodes[0].gpus})
    return rows


def _with(
    base: ClusterScenario | None, nodes: list[dict[str, object]], jobs: list[dict[str, object]], begins_s: float
) -> ClusterScenario:
    """Return `base`, or the usual rules, with other nodes and jobs."""
    if base is None:
        data: dict[str, object] = {"family": "cluster", "name": "slurm", **RULES}
    else:
        data = base.model_dump(mode="json", exclude_unset=True)
        data.pop("episode", None)
    return validated(
        {**data, "nodes": nodes, "jobs": {"kind": "list", "jobs": jobs}, "begins_s": begins_s},
        ClusterScenario,
        "the state of the cluster",
    )


def _row(
    job: SlurmJob,
    placed: Placed,
    first: float,
    now: float,
    requested: Callable[[SlurmJob], float],
    runs: Callable[[SlurmJob], float],
) -> dict[str, object]:
    """Return a job as a scenario lists it."""
    run = runs(job)
    row: dict[str, object] = {
        "submit_s": min(job.submit, now) - first,
        "gpus": job.gpus,
        "run_s": run,
        "requested_s": requested(job),
        "user": job.user,
    }
    if job.runs:
        started = min(max(job.start, job.submit), now)
        row["started_s"] = started - first
        row["gpus"] = sum(gpus for _, _, gpus in placed) or job.gpus
        row["run_s"] = max(run, now - started + LEAST_LEFT_S)
        row["held"] = [{"kind": kind, "node": number, "gpus": gpus} for kind, number, gpus in placed]
    return row


def requested_s(job: SlurmJob) -> float:
    """Return the run time that the user of a job requested."""
    return UNLIMITED_S if math.isinf(job.limit_s) else max(LEAST_LEFT_S, job.limit_s)
