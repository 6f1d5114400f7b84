"""Import of task lists: JSON files of tasks with model, period or Poisson mean, and deadline, but no latencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.errors import InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.profiles import PROFILES
from slipstream.families.edge.workload.replay import MOST_INLINE, replay
from slipstream.families.shared.schema import NANOSECONDS_PER_MS, Name, PositiveMs, StrictModel

Gaps = Literal["exponential", "integer-poisson"]

LADDERS = {
    "vgg16": "vgg@xavier-trt",
    "resnet50": "resnet@xavier-trt",
    "mobilenet_v3_large": "mobile@xavier-trt",
    "vit_b_16": "vit@xavier-trt",
}
"""The built-in ladder for each model that such lists name; the latencies they were run with were not published."""

ADDRESSES = {"mobile": "mobilenet"}
"""Addresses of built-in models that differ from the names of their ladders."""


class ListedTask(StrictModel):
    """One task of a list."""

    name: Name
    model: Name
    address: str = ""
    """Where the list's own program kept the weights; not used."""
    data: Name
    if_periodic: bool
    period_ms: PositiveMs | None = None
    possion_lambda: PositiveMs | None = None
    """Mean gap in ms; the format spells it so."""
    deadline_ms: PositiveMs | None = None
    """The period if absent."""

    @model_validator(mode="after")
    def _has_its_times(self) -> ListedTask:
        needed = ["period_ms"] if self.if_periodic else ["possion_lambda", "deadline_ms"]
        for key in needed:
            if getattr(self, key) is None:
                text = "{key} is missing: expected it where if_periodic is {value}"
                raise PydanticCustomError("times", text, {"key": key, "value": str(self.if_periodic).lower()})
        return self


class TaskList(StrictModel):
    """The whole file."""

    num_tasks: int
    num_variants: int = Field(ge=1, le=64)
    total_time_ms: PositiveMs
    task_list: Annotated[list[ListedTask], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _count_holds(self) -> TaskList:
        if self.num_tasks != len(self.task_list):
            text = "num_tasks is {stated} but 'task_list' has {found}: expected the same number"
            raise PydanticCustomError("count", text, {"stated": self.num_tasks, "found": len(self.task_list)})
        return self


def scenario_of(
    tasks: TaskList, name: str, gaps: Gaps = "exponential", seed: int = 0, profiles: Mapping[str, str] | None = None
) -> EdgeScenario:
    """Return the scenario that a task list describes; `profiles` adds to or replaces the ladders of models.

    With integer-poisson gaps the random tasks become traces drawn from the seed: the first release at 0, each next one
    a Poisson-distributed whole number of ms later. Such gaps are far more regular than those of a Poisson process.
    """
    ladders = {**LADDERS, **(profiles or {})}
    rows = [_row(tasks, index, ladders) for index in range(tasks.num_tasks)]
    scenario = EdgeScenario.model_validate(
        {
            "family": "edge",
            "name": name[:200],
            "horizon_ms": tasks.total_time_ms,
            "periodic_tasks": sum(task.if_periodic for task in tasks.task_list),
            "poisson_tasks": sum(not task.if_periodic for task in tasks.task_list),
            "tasks": [{**row, "name": unique} for row, unique in zip(rows, _unique_names(tasks), strict=True)],
        }
    )
    if gaps == "exponential":
        return scenario
    draws = np.random.default_rng(seed)
    means = {index: task.possion_lambda for index, task in enumerate(tasks.task_list) if not task.if_periodic}
    return replay(scenario, {i: _integer_poisson(draws, m, tasks.total_time_ms) for i, m in means.items() if m})


def _row(tasks: TaskList, index: int, ladders: Mapping[str, str]) -> dict[str, Any]:
    task = tasks.task_list[index]
    ladder = ladders.get(task.model)
    if ladder is None:
        known = ", ".join(ladders)
        raise InputError(
            f"task_list[{index}].model: no ladder for '{task.model}': expected one of {known}; --profile adds others"
        )
    if ladder not in PROFILES:
        raise InputError(f"--profile: unknown ladder '{ladder}': expected one of {', '.join(PROFILES)}")
    variants = PROFILES[ladder].variants
    if tasks.num_variants > len(variants):
        raise InputError(f"num_variants is {tasks.num_variants}: expected at most {len(variants)}, as '{ladder}' has")
    family = ladder.partition("@")[0]
    row: dict[str, Any] = {
        "model": f"builtin:{ADDRESSES.get(family, family)}",
        "dataset": task.data.lower()[:200],
        "num_variants": tasks.num_variants,
        "deadline_ms": task.deadline_ms or task.period_ms,
    }
    if task.if_periodic:
        row["arrival"] = {"kind": "periodic", "period_ms": task.period_ms}
    else:
        row["arrival"] = {"kind": "poisson", "mean_gap_ms": task.possion_lambda}
    if tasks.num_variants == len(variants):
        return {**row, "profile": ladder}
    return {**row, "variants": [variant.model_dump() for variant in variants[: tasks.num_variants]]}


def _unique_names(tasks: TaskList) -> list[str]:
    """Return unique names: a repeated one is replaced by the number of its task in the list."""
    names: list[str] = []
    for index, task in enumerate(tasks.task_list):
        name, number = task.name, index + 1
        others = {other.name for other in tasks.task_list} | set(names)
        if name in names:
            name = f"task{number}"
            while name in others:
                name = f"{name}-{number}"
        names.append(name)
    return names


def _integer_poisson(draws: np.random.Generator, mean_ms: float, horizon_ms: float) -> np.ndarray:
    """Return release times in ns: 0, then gaps of a Poisson-distributed number of ms, up to the horizon."""
    if horizon_ms / mean_ms > MOST_INLINE:
        raise InputError(f"possion_lambda {mean_ms:g}: gives over {MOST_INLINE:,} releases: expected a longer mean gap")
    times = np.zeros(1, np.int64)
    while times[-1] < horizon_ms:
        more = draws.poisson(mean_ms, size=1 + int(horizon_ms / mean_ms))
        times = np.append(times, times[-1] + np.cumsum(more))
    return times[times < horizon_ms] * NANOSECONDS_PER_MS
