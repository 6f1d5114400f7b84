"""Jobs that already run when an episode begins: what a scenario may say about them, and the kernel's arrays of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from slipstream.families.cluster.scenario import ClusterScenario, ListedJob
    from slipstream.families.cluster.workload.arrivals import Workload


def begun_jobs(scenario: ClusterScenario) -> list[tuple[int, ListedJob]]:
    """Return the jobs that run when the episode begins, with their index in the list of the scenario."""
    from slipstream.families.cluster.scenario import Listed

    if not isinstance(scenario.jobs, Listed):
        return []
    return [(index, job) for index, job in enumerate(scenario.jobs.jobs) if job.started_s is not None]


def first_nodes(scenario: ClusterScenario) -> dict[str, int]:
    """Return the number of the first node of each kind, by the name of the kind."""
    first, numbers = 0, {}
    for kind in scenario.kinds:
        numbers[kind.name] = first
        first += kind.count
    return numbers


def check_beginning(scenario: ClusterScenario) -> None:
    """Raise an error of validation unless the jobs of `scenario` that run at its beginning fit on its nodes."""
    jobs = begun_jobs(scenario)
    if scenario.begins_s is None:
        if jobs:
            _refuse("jobs.jobs[{index}].started_s without begins_s: expected both", index=jobs[0][0])
        return
    if scenario.jobs.kind != "list" or scenario.episode is not None or scenario.compat is not None:
        _refuse("begins_s: expected jobs of kind 'list', no episode and no compat")
    if jobs and scenario.slices > 1:
        _refuse("jobs.jobs[{index}].started_s on nodes with slices: expected whole GPUs", index=jobs[0][0])
    if jobs and len({kind.name for kind in scenario.nodes}) < len(scenario.nodes):
        _refuse("nodes have equal names: with jobs that run at the beginning, expected a name for each kind")
    for index, job in jobs:
        assert job.started_s is not None
        if not job.submit_s <= job.started_s <= scenario.begins_s:
            _refuse(
                "jobs.jobs[{index}].started_s {found}: expected a time from submit_s to begins_s",
                index=index,
                found=f"{job.started_s:g}",
            )
    _check_nodes(scenario, jobs)


def _check_nodes(scenario: ClusterScenario, jobs: list[tuple[int, ListedJob]]) -> None:
    """Raise an error of validation unless the running `jobs` hold as many GPUs as they want, none of them twice."""
    sizes = {kind.name: (kind.count, kind.gpus) for kind in scenario.nodes}
    taken: Counter[tuple[str, int]] = Counter()
    for index, job in jobs:
        if scenario.placement == "flat":
            if job.held:
                _refuse("jobs.jobs[{index}].held with placement 'flat': expected none", index=index)
            taken["", 0] += int(job.gpus)
            if taken["", 0] > scenario.gpus:
                _refuse("more than {most} GPUs are held at the beginning: expected at most that", most=scenario.gpus)
            continue
        if sum(piece.gpus for piece in job.held) != job.gpus:
            found = sum(piece.gpus for piece in job.held)
            text = "jobs.jobs[{index}].held lists {found} GPUs: expected the {gpus} of the job"
            _refuse(text, index=index, found=found, gpus=job.gpus)
        for piece in job.held:
            count, size = sizes.get(piece.kind, (0, 0))
            if piece.node >= count:
                text = "jobs.jobs[{index}].held: there is no node {node} of kind '{kind}'"
                _refuse(text, index=index, node=piece.node, kind=piece.kind)
            taken[piece.kind, piece.node] += piece.gpus
            if taken[piece.kind, piece.node] > size:
                text = "jobs.jobs[{index}].held: more GPUs of node {node} of kind '{kind}' are held than it has, {size}"
                _refuse(text, index=index, node=piece.node, kind=piece.kind, size=size)


def pieces_of_beginning(scenario: ClusterScenario, workload: Workload) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each running job's index in the workload and its allocation: (node, GPUs), none if flat."""
    first = first_nodes(scenario)
    jobs = dict(begun_jobs(scenario))
    for index in np.flatnonzero(workload.started >= 0).tolist():
        yield index, [(first[piece.kind] + piece.node, piece.gpus) for piece in jobs[int(workload.row[index])].held]


def _refuse(text: str, **values: Any) -> None:
    raise PydanticCustomError("cluster", text, values)
