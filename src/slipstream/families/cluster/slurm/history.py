"""A cluster scenario from accounting: the jobs that ended as they ran, or the state of a past moment and what came."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.scenario import LEAST_LEFT_S, requested_s
from slipstream.families.cluster.slurm.snapshot import SlurmJob
from slipstream.families.cluster.workload.importing import MOST_INLINE
from slipstream.files.validation import validated

NEVER_RAN = "that never ran"


def accounted_scenario(
    jobs: Sequence[SlurmJob], base: ClusterScenario, partitions: Sequence[str] = (), at: float | None = None
) -> tuple[ClusterScenario, dict[str, int]]:
    """Return `base` with the jobs of accounting in place of its own, and the number of jobs left out by reason.

    With `at`, in seconds since 1970, the episode begins then: with the jobs that ran and those that waited. Where they
    ran is not in accounting by GPU, so they are placed anew: on the fullest nodes with enough GPUs, else on several.
    """
    left_out: dict[str, int] = {}
    kept = []
    for job in jobs:
        reason = _why_left_out(job, partitions, at)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        else:
            kept.append(job)
    if not kept:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items()) or "the files list none"
        raise InputError(f"no job is left ({why}): expected one at least")
    if len(kept) > MOST_INLINE:
        raise InputError(f"{len(kept):,} jobs: expected at most {MOST_INLINE:,}; cut the time range or the partitions")
    kept.sort(key=lambda job: job.submit)
    first = kept[0].submit
    rows = [_row(job, first, at) for job in kept]
    data = base.model_dump(mode="json", exclude_unset=True)
    data.update(name="slurm", jobs={"kind": "list", "jobs": rows})
    data.pop("begins_s", None)
    if at is not None:
        data.pop("episode", None)
        data["begins_s"] = at - first
        if base.placement != "flat":
            _place([row for row in rows if "started_s" in row], base)
    found = validated(data, ClusterScenario, "accounting")
    found._folder = base._folder
    return found, left_out


def _why_left_out(job: SlurmJob, partitions: Sequence[str], at: float | None) -> str:
    if partitions and job.partition not in partitions:
        return "of other partitions"
    if not job.gpus:
        return "that want no GPU"
    if not job.submit:
        return "without a submit time"
    ran = bool(job.start and job.end and job.end > job.start >= job.submit)
    if at is None:
        return "" if ran else NEVER_RAN
    if job.end and job.end <= at:
        return "that had ended"
    return "" if ran or (job.submit <= at and (job.runs or job.waits)) else NEVER_RAN


def _row(job: SlurmJob, first: float, at: float | None) -> dict[str, object]:
    """Return a job as a scenario lists it; one that has not ended runs as long as its user requested."""
    run = job.end - job.start if job.start and job.end > job.start else requested_s(job)
    row: dict[str, object] = {
        "submit_s": job.submit - first,
        "gpus": job.gpus,
        "run_s": run,
        "requested_s": requested_s(job),
        "user": job.user,
    }
    if at is not None and 0.0 < job.start <= at:
        row["started_s"] = job.start - first
        row["run_s"] = max(run, at - job.start + LEAST_LEFT_S)
    return row


def _place(rows: list[dict[str, object]], base: ClusterScenario) -> None:
    """Write into each of the running `rows` the GPUs that it holds."""
    free = {(kind.name, node): kind.gpus for kind in base.by_speed for node in range(kind.count)}
    for row in sorted(rows, key=lambda row: -int(str(row["gpus"]))):
        wanted = int(str(row["gpus"]))
        enough = [node for node, gpus in free.items() if gpus >= wanted]
        order = [min(enough, key=lambda node: free[node])] if enough else sorted(free, key=lambda node: -free[node])
        held = []
        for node in order:
            gpus = min(free[node], wanted)
            if gpus:
                held.append({"kind": node[0], "node": node[1], "gpus": gpus})
                free[node] -= gpus
                wanted -= gpus
        if wanted:
            raise InputError(
                "more GPUs were in use at that time than the nodes of the scenario have: expected those of the cluster"
            )
        row["held"] = held


def with_limits(scenario: ClusterScenario, limits: dict[str, int]) -> ClusterScenario:
    """Return `scenario` with `limits` as quotas, the most GPUs that each user may hold."""
    found = scenario.model_copy(update={"quotas": {**scenario.quotas, **limits}})
    found._folder = scenario._folder
    return found
