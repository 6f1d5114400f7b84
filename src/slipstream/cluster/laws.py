"""What must hold in every event log of the cluster family.

Jobs come once, in order, then start, are interrupted and start again, and end once. At no time do running jobs have
more GPUs than the cluster, or those of a node, has; users keep their quotas, and the power its budget.
"""

from __future__ import annotations

import numpy as np

from slipstream.cluster.build import built
from slipstream.cluster.metrics import busy_gpus, power_w, spans_of, steps_of
from slipstream.cluster.scenario import ClusterScenario
from slipstream.core.eventlog import ARRIVAL, END, FINISH, KINDS, PREEMPT, START, TAKE
from slipstream.errors import LawError

AFTER = {ARRIVAL: (START,), START: (PREEMPT, FINISH), PREEMPT: (START,), FINISH: ()}
"""What may happen to a job next."""
WATT = 1e-3
"""Sums of watts are this exact."""


def check(events: np.ndarray, scenario: ClusterScenario) -> None:
    """Raise a LawError where the log of a whole episode breaks a law."""
    if not len(events) or events["kind"][-1] != END:
        raise LawError("the log does not end with its end")
    if (np.diff(events["time"]) < 0).any():
        row = int((np.diff(events["time"]) < 0).argmax()) + 1
        raise LawError(f"row {row}: the clock ran backwards")
    if not np.isin(events["kind"], (*AFTER, TAKE, END)).all():
        raise LawError("the log has rows of a kind that this family does not know")
    _check_courses(events, scenario)
    spans = spans_of(events)
    _at_most(*busy_gpus(spans), scenario.gpus, "GPUs are taken")
    if scenario.placement != "flat":
        _check_nodes(events, scenario)
    if scenario.power.budget_w is not None:
        _at_most(*power_w(scenario, events, spans), scenario.power.budget_w + WATT, "W are drawn")
    _check_quotas(events, scenario)


def _check_courses(events: np.ndarray, scenario: ClusterScenario) -> None:
    workload = built(scenario).workload
    last: dict[int, int] = {}
    index: dict[int, int] = {}
    for row, (kind, job, task) in enumerate(
        zip(events["kind"].tolist(), events["job"].tolist(), events["task"].tolist(), strict=True)
    ):
        if kind in (TAKE, END):
            continue
        if kind == ARRIVAL:
            if job != len(last) or not 0 <= task < len(workload):
                raise LawError(f"row {row}: arrival of job {job}: expected job {len(last)} of the workload")
            index[job] = task
        elif job not in last or kind not in AFTER[last[job]]:
            before = KINDS[last[job]] if job in last else "nothing"
            raise LawError(f"row {row}: {KINDS[kind]} of job {job} after {before}")
        elif task != workload.gpus[index[job]]:
            raise LawError(f"row {row}: {KINDS[kind]} of job {job} on {task} GPUs: expected those it wants")
        last[job] = kind
    open_jobs = [job for job, kind in last.items() if kind != FINISH]
    if open_jobs:
        raise LawError(f"job {open_jobs[0]} has not ended at the end")


def _at_most(times: np.ndarray, values: np.ndarray, most: float, what: str) -> None:
    if (values > most).any():
        at = int((values > most).argmax())
        raise LawError(f"at {times[at]} ns {values[at]:g} {what}: expected at most {most:g}")


def _check_nodes(events: np.ndarray, scenario: ClusterScenario) -> None:
    sizes = built(scenario).spec["nodes"]["gpus"]
    spans = spans_of(events)
    is_take = events["kind"] == TAKE
    owner = np.cumsum(events["kind"] == START)[is_take] - 1
    pieces = events[is_take]
    taken = np.bincount(owner, weights=pieces["task"], minlength=len(spans.job))
    if (taken != spans.gpus).any() or (pieces["job"] != spans.job[owner]).any():
        raise LawError("a place does not have the GPUs that its job wants")
    for node in np.unique(pieces["resource"]).tolist():
        here = pieces["resource"] == node
        times = np.concatenate((spans.start[owner[here]], spans.end[owner[here]]))
        changes = np.concatenate((pieces["task"][here], -pieces["task"][here]))
        _at_most(*steps_of(times, changes), int(sizes[node]), f"GPUs of node {node} are taken")


def _check_quotas(events: np.ndarray, scenario: ClusterScenario) -> None:
    if not scenario.quotas:
        return
    users = built(scenario).workload.users
    spans = spans_of(events)
    owner = events["resource"][events["kind"] == ARRIVAL][spans.job]
    for number, name in enumerate(users):
        if name in scenario.quotas and (owner == number).any():
            mine = owner == number
            times = np.concatenate((spans.start[mine], spans.end[mine]))
            changes = np.concatenate((spans.gpus[mine], -spans.gpus[mine]))
            _at_most(*steps_of(times, changes), scenario.quotas[name], f"GPUs are held by user '{name}'")
