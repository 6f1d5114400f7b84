"""The state of a live Slurm controller, read by `sinfo` and `squeue`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from slipstream.errors import DeviceError
from slipstream.families.cluster.slurm.commands import Slurm
from slipstream.families.cluster.slurm.snapshot import (
    MARK,
    RUNNING,
    SlurmJob,
    SlurmNode,
    Snapshot,
    array_tasks,
    gpus_of_tres,
    gres_of,
    nodes_of,
)

AVAILABLE = ("idle", "mixed", "allocated", "completing", "planned")
"""States in which jobs may start on a node."""
PLANNED = "-"
"""Mark of a node on which Slurm's backfill plans a job for later."""


def read_snapshot(slurm: Slurm, partitions: Sequence[str] = ()) -> Snapshot:
    """Return the nodes and jobs of `partitions`, of all of them if none is named.

    Raises:
        DeviceError: One line: the controller did not answer, or not in a form that is known.
    """
    nodes = _nodes(slurm.query("sinfo", "--noheader", "--Node", "--format=%N|%T|%G|%R"), partitions)
    text = slurm.query("squeue", "--json")
    try:
        records = json.loads(text)["jobs"]
    except (ValueError, KeyError, TypeError) as error:
        raise _not_understood("squeue --json", error) from None
    jobs = jobs_of_records("squeue --json", records)
    return Snapshot(time.time(), nodes, tuple(job for job in jobs if not partitions or job.partition in partitions))


def jobs_of_records(source: str, records: list[dict[str, Any]]) -> tuple[SlurmJob, ...]:
    """Return the jobs in the records of `squeue --json` or of slurmrestd, which are the same."""
    try:
        return tuple(job for record in records for job in _jobs(record))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise _not_understood(source, error) from None


def _not_understood(source: str, error: Exception) -> DeviceError:
    return DeviceError(f"{source}: not understood ({type(error).__name__}: {error})")


def _nodes(text: str, partitions: Sequence[str]) -> tuple[SlurmNode, ...]:
    found: dict[str, SlurmNode] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) != 4:
            raise DeviceError(f"sinfo: expected node, state, resources and partition, got '{line[:80]}'")
        name, state, gres, partition = words
        if partitions and partition not in partitions:
            continue
        kind, gpus = gres_of(gres)
        # With other marks, such as '*', a node does not answer, is powered down or reserved.
        found[name] = SlurmNode(name, kind, gpus, state.removesuffix(PLANNED) in AVAILABLE)
    missing = [name for name in partitions if f"|{name}\n" not in f"{text}\n"]
    if missing:
        raise DeviceError(f"partition '{missing[0]}': the controller has none of that name with nodes")
    return tuple(found.values())


def _jobs(record: dict[str, Any]) -> Iterator[SlurmJob]:
    """Yield the jobs of a record: one, or the tasks of an array that wait together."""
    number, array, tasks = str(record["job_id"]), _number(record.get("array_job_id")), record.get("array_task_string")
    names = [number]
    if array:
        task = _number(record.get("array_task_id"))
        names = [f"{array:.0f}_{one}" for one in array_tasks(tasks)] if tasks else [f"{array:.0f}_{task or 0:.0f}"]
    state = record["job_state"]
    held = tuple(_held(record))
    gpus = sum(count for _, count in held) or _wanted(record)
    limit = _number(record.get("time_limit"))
    state_word = str(state[0] if isinstance(state, list) else state).split(" ")[0]
    ours = str(record.get("admin_comment") or "") == MARK
    required = any(record.get(key) for key in ("features", "excluded_nodes"))
    for name in names:
        yield SlurmJob(
            id=name,
            user=str(record["user_name"]) or str(record["user_id"]),
            partition=str(record["partition"]),
            state=state_word,
            reason=str(record.get("state_reason", "")),
            gpus=gpus,
            limit_s=math.inf if not limit else limit * 60.0,
            submit=_number(record["submit_time"]) or 0.0,
            # Of jobs that have not started or ended, these are predictions.
            start=0.0 if state_word == "PENDING" else _number(record["start_time"]) or 0.0,
            end=0.0 if state_word in ("PENDING", *RUNNING) else _number(record["end_time"]) or 0.0,
            held=held,
            restarts=int(_number(record.get("restart_cnt")) or 0),
            on_nodes=None if record.get("tres_per_job") else int(_number(record.get("node_count")) or 1),
            constrained=required or (bool(record.get("required_nodes")) and not ours),
            is_placed=ours,
        )


def _number(value: Any) -> float | None:
    """Return a number as different versions write it: plain, or with whether it is set; None if it is not."""
    if isinstance(value, dict):
        return float(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else float(value)


def _held(record: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield node and number of GPUs, for each node on which a running job holds some."""
    details = record.get("gres_detail") or []
    for name, detail in zip(nodes_of(str(record.get("nodes") or "")), details, strict=False):
        _, count = gres_of(detail)
        if count:
            yield name, count


def _wanted(record: dict[str, Any]) -> int:
    """Return the GPUs that a waiting job wants."""

    def gpus(key: str) -> int:
        return gpus_of_tres(str(record.get(key) or ""))

    nodes, tasks = (max(1, int(_number(record.get(key)) or 1)) for key in ("node_count", "tasks"))
    by_part = gpus("tres_per_job") or gpus("tres_per_node") * nodes or gpus("tres_per_task") * tasks
    return by_part or gpus("tres_req_str")
