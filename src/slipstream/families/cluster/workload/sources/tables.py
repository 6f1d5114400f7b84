"""Traces of GPU clusters in CSV: Philly, Helios and Lucid, and Alibaba's openb."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from slipstream.families.cluster.workload.arrivals import RawJobs
from slipstream.files.tables import Table, read_table

MOST = 2**53
"""Largest number up to which floats represent all integers."""
WHOLE_GPU = 1000
"""Thousandths of a GPU."""


def philly(path: Path) -> RawJobs:
    """Return the jobs of a table with timestamp, duration, num_gpus and cluster."""
    table = read_table(path, ["timestamp", "duration", "num_gpus", "cluster"])
    submit, run = _times(table, "timestamp"), _numbers(table, "duration")
    gpus, users = _whole(table, "num_gpus"), table.texts("cluster")
    # Jobs have no identifier here: rows that agree in everything count as one job.
    keys = list(zip(submit.tolist(), run.tolist(), gpus.tolist(), users, strict=True))
    return RawJobs(keys, submit, run, np.full(len(table), np.nan), gpus, users)


def helios(path: Path) -> RawJobs:
    """Return the jobs of a table with job_id, submit_time, gpu_num, duration and vc."""
    table = read_table(path, ["job_id", "submit_time", "gpu_num", "duration", "vc"])
    columns = (_times(table, "submit_time"), _numbers(table, "duration"))
    nothing = np.full(len(table), np.nan)
    return RawJobs(table.texts("job_id"), *columns, nothing, _whole(table, "gpu_num"), table.texts("vc"))


def openb(path: Path) -> RawJobs:
    """Return the pods with GPUs, or fractions of one; a pod runs from its scheduling to its deletion."""
    names = ["name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time", "scheduled_time"]
    table = read_table(path, names)
    scheduled = np.array([cell not in ("", None) for cell in table.columns["scheduled_time"]], bool)
    dropped = {} if scheduled.all() else {"that were never scheduled": int((~scheduled).sum())}
    table = table.chosen(scheduled)
    run = _numbers(table, "deletion_time") - _numbers(table, "scheduled_time")
    users = ["none" if cell in ("", None) else str(cell) for cell in table.columns["qos"]]
    nothing = np.full(len(table), np.nan)
    submit, whole, part = _numbers(table, "creation_time"), _whole(table, "num_gpu"), _whole(table, "gpu_milli")
    gpus = np.where((whole == 1) & (part < WHOLE_GPU), part / WHOLE_GPU, whole)
    return RawJobs(table.texts("name"), submit, run, nothing, gpus, users, dropped)


def _numbers(table: Table, column: str) -> np.ndarray:
    values = table.numbers(column)
    if not np.isfinite(values).all():
        index = int((~np.isfinite(values)).argmax())
        raise table.error(index, f"{column}: expected a number, got {values[index]}")
    return values


def _whole(table: Table, column: str) -> np.ndarray:
    values = _numbers(table, column)
    wrong = (values != np.floor(values)) | (np.abs(values) > MOST)
    if wrong.any():
        index = int(wrong.argmax())
        raise table.error(index, f"{column}: expected a whole number, got {values[index]:g}")
    return values.astype(np.int64)


def _times(table: Table, column: str) -> np.ndarray:
    """Return a column of seconds, or of dates as seconds since 1970."""
    cells = table.columns[column]
    try:
        seconds = np.array([float(cell) for cell in cells])
    except (TypeError, ValueError):
        return np.array([_seconds(table, column, index, cell) for index, cell in enumerate(cells)])
    if not np.isfinite(seconds).all():
        index = int((~np.isfinite(seconds)).argmax())
        raise table.error(index, f"{column}: expected seconds or a date, got {seconds[index]}")
    return seconds


def _seconds(table: Table, column: str, index: int, cell: str) -> float:
    try:
        return datetime.fromisoformat(str(cell)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        shown = f"'{str(cell)[:40]}'" if cell not in ("", None) else "nothing"
        raise table.error(index, f"{column}: expected seconds or a date, got {shown}") from None
