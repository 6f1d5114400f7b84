"""Why jobs wait: what keeps each of them from starting now, under the present rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.cluster.kernel.state import RUNNING
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.twin.futures import Machine
from slipstream.families.cluster.twin.words import in_words

NS = 1e9
FAR_S = 1e9
"""A time that is later than this is never reached."""


@dataclass(frozen=True)
class Reason:
    """Why a job waits."""

    kind: str
    """`starts`, `gpus`, `reserved`, `placement`, `limit`, `power`, `too-large` or `runs`."""
    text: str
    ahead: int | None = None
    """Number of waiting jobs that come before it; None if it does not wait, or never starts."""


def reasons(machine: Machine, order: int, names: tuple[str, ...]) -> list[Reason]:
    """Return why each job of the present waits, in the order of its scenario.

    The jobs of `machine` run as long as they requested: what the scheduler goes by.
    """
    arrays = machine.first_instant(order)
    scenario, header = machine.scenario, arrays["lanes"][0]
    found = [_never(machine, row) for row in range(len(machine.present_jobs))]
    row_of = machine.row.tolist()
    began = machine.workload.started >= 0
    for job, row in enumerate(row_of):
        if began[job]:
            found[row] = Reason("runs", "runs")
        elif arrays["jobs"][0, job]["status"] == RUNNING:
            found[row] = Reason("starts", "starts now: nothing keeps it")
    queue = arrays["queue"][0, : header["waiting"]]["job"].tolist()
    reserved = int(header["reserved"])
    latest = _latest(float(header["shadow"]) / NS) if scenario.backfill == "easy" else ""
    for ahead, job in enumerate(queue):
        kind, text = _why(machine, arrays, job)
        if job == reserved and latest:
            text += f"; by the requested times it starts {latest}"
        elif kind == "reserved":
            text = _passed(scenario.backfill, names[row_of[reserved]] if reserved >= 0 else "", latest)
        found[row_of[job]] = Reason(kind, text + _behind(ahead), ahead)
    return found


def _passed(backfill: str, reserved: str, latest: str) -> str:
    """Return why a job does not start that would fit: the job `reserved` comes first."""
    if not reserved:
        return "would delay jobs that come before it"
    if backfill == "strict":
        return f"may not pass job {reserved}"
    return f"would delay job {reserved}" + (f", which by the requested times starts {latest}" if latest else "")


def _behind(ahead: int) -> str:
    return f"; {ahead} {'job comes' if ahead == 1 else 'jobs come'} before it" if ahead else ""


def _latest(seconds: float) -> str:
    """Return when a reserved job starts at the latest; empty if the running jobs do not tell."""
    return "" if seconds > FAR_S else f"in {in_words(seconds)} at the latest"


def _why(machine: Machine, arrays: dict[str, np.ndarray], job: int) -> tuple[str, str]:
    """Return kind and text of what keeps a waiting job from starting, apart from its place in the queue."""
    scenario, header = machine.scenario, arrays["lanes"][0]
    own = arrays["jobs"][0, job]
    gpus, free = int(own["gpus"]), int(header["free"])
    user = machine.parts.workload.users[own["user"]]
    quota = scenario.quotas.get(user)
    held = int(arrays["users"][0, own["user"]]["held"])
    if quota is not None and held + gpus > quota:
        return "limit", f"limit of user {user}: {quota} GPUs, of which {held} are in use; it wants {gpus}"
    if gpus > free:
        return "gpus", f"not enough GPUs are free: it wants {gpus}, {free} are free"
    if _is_split(scenario, arrays["free"][0], gpus):
        return "placement", f"{free} GPUs are free, but not so that its {gpus} fit together"
    if scenario.power.budget_w is not None:
        more = int(machine.parts.spec["levels"]["power"][:, 0].max()) * gpus
        if header["power"] + more > scenario.power.budget_w * 1000.0:
            return "power", f"the power budget of {scenario.power.budget_w:g} W does not admit it now"
    return "reserved", ""


def _is_split(scenario: ClusterScenario, free: np.ndarray, gpus: int) -> bool:
    """Return whether placement wants GPUs together that are free on different nodes only."""
    if scenario.placement not in ("consolidate", "fgd"):
        return False
    sizes = np.array([kind.gpus for kind in scenario.kinds for _ in range(kind.count)])
    if gpus <= sizes.max():
        return bool(free.max() < gpus)
    return bool(free[free == sizes].sum() + free[free < sizes].max(initial=0) < gpus)


def _never(machine: Machine, row: int) -> Reason:
    """Return why a job that is no part of the workload never starts."""
    job, scenario = machine.present_jobs[row], machine.scenario
    if job.gpus > scenario.gpus:
        return Reason("too-large", f"never starts: it wants {job.gpus} GPUs, and the nodes have {scenario.gpus}")
    quota = scenario.quotas.get(job.user, scenario.gpus)
    if job.gpus > quota:
        return Reason("limit", f"never starts: it wants {job.gpus} GPUs, more than the limit of its user, {quota}")
    return Reason("too-large", f"never starts: its {job.gpus} GPUs do not fit, by placement or by the power budget")
