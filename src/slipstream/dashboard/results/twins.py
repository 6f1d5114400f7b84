"""Answers of `slipstream twin slurm`, read from the files that it writes with --out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.families.cluster.twin.words import KIND
from slipstream.files.inputs import as_object, read_json, show

WRITER = "what `slipstream twin slurm --out` writes"
MOST_JOBS = 500
"""Most waiting jobs that the page lists."""
NUMBERS = ("gpus", "gpus_in_use", "running", "waiting")
FIGURES = ("wait_mean_s", "slowdown_mean", "energy_kwh")


def is_twin(data: Any) -> bool:
    """Return whether the content of a JSON file is such an answer."""
    return isinstance(data, dict) and data.get("kind") == KIND


def about_twin(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return what a list of files says about an answer."""
    found = checked_twin(path, data)
    return {"policy": found["policy"], "taken_at": found["taken_at"], "waiting": found["cluster"]["waiting"]}


def read_twin(path: Path) -> dict[str, Any]:
    """Return a checked answer, with at most MOST_JOBS jobs and the number of those left out as `more`.

    Raises:
        InputError: The file is something else.
    """
    data = read_json(path, WRITER)
    if not is_twin(data):
        raise InputError(f"{path}: expected {WRITER}")
    found = checked_twin(path, data)
    jobs = found["jobs"] + found["left_out"]
    return {**found, "jobs": jobs[:MOST_JOBS], "more": max(0, len(jobs) - MOST_JOBS)}


def checked_twin(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an answer that the page shows, each of the type that it expects."""
    cluster = as_object(data.get("cluster"), f"{path}: cluster")
    return {
        "policy": _text(path, data, "policy"),
        "taken_at": None if data.get("taken_at") is None else _text(path, data, "taken_at"),
        "futures": _number(path, data, "futures"),
        "interval": _number(path, data, "interval"),
        "past_jobs": _number(path, as_object(data.get("history"), f"{path}: history"), "jobs"),
        "cluster": {name: _number(path, cluster, name) for name in NUMBERS},
        "jobs": [_job(path, job) for job in _list(path, data, "jobs")],
        "left_out": [_job(path, job) for job in _list(path, data, "left_out")],
        "what_if": [_row(path, row) for row in _list(path, data, "what_if")],
    }


def _job(path: Path, job: Any) -> dict[str, Any]:
    found = as_object(job, f"{path}: jobs")
    starts = found.get("starts_in_s")
    if starts is not None:
        ends = as_object(starts, f"{path}: starts_in_s")
        starts = {name: _number(path, ends, name) for name in ("low", "median", "high")}
    waited = None if found.get("waited_s") is None else _number(path, found, "waited_s")
    texts = {name: _text(path, found, name) for name in ("job", "user", "why")}
    return {**texts, "gpus": _number(path, found, "gpus"), "waited_s": waited, "starts_in_s": starts}


def _row(path: Path, row: Any) -> dict[str, Any]:
    found = as_object(row, f"{path}: what_if")
    figures: dict[str, Any] = {}
    for name in FIGURES:
        difference = as_object(found.get(f"{name}_difference"), f"{path}: what_if: {name}_difference")
        figures[name] = _number(path, found, name)
        figures[f"{name}_difference"] = {
            "mean": _number(path, difference, "mean"),
            **{end: None if difference.get(end) is None else _number(path, difference, end) for end in ("low", "high")},
        }
    texts = {name: _text(path, found, name) for name in ("what_if", "policy")}
    return {**texts, **figures, "never_start": _number(path, found, "never_start")}


def _text(path: Path, data: dict[str, Any], key: str) -> str:
    if not isinstance(data.get(key), str):
        raise InputError(f"{path}: {key}: expected a text, got {show(data.get(key))}")
    return str(data[key])


def _number(path: Path, data: dict[str, Any], key: str) -> float:
    value = data.get(key)
    if type(value) not in (int, float):
        raise InputError(f"{path}: {key}: expected a number, got {show(value)}")
    return value  # type: ignore[return-value]


def _list(path: Path, data: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(data.get(key), list):
        raise InputError(f"{path}: {key}: expected a list, got {show(data.get(key))}")
    return list(data[key])
