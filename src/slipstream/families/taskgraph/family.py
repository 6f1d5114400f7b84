"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members

if TYPE_CHECKING:
    from slipstream.families.taskgraph.scenario import TaskgraphScenario


class TaskgraphFamily(Family):
    """Names and units of the taskgraph family."""

    name = "taskgraph"
    default_scenario = "taskgraph/cholesky-4-2g2c"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("makespan",)
    default_policy = "mct"
    headline = ("makespan_ms", "ratio_to_bound", "moved_mb", "evictions", "idle_share")
    summary = (
        *("makespan_ms", "bound_ms", "ratio_to_bound", "busy_share", "idle_share"),
        *("moved_mb", "evictions", "tasks", "reward"),
    )
    counts = ("transfers", "evictions", "tasks", "jobs_done")

    @property
    def scenario_type(self) -> type[TaskgraphScenario]:
        from slipstream.families.taskgraph.scenario import TaskgraphScenario

        return TaskgraphScenario

    def load_members(self) -> Members[TaskgraphScenario]:
        from slipstream.families.taskgraph.members import MEMBERS

        return MEMBERS


FAMILY = TaskgraphFamily()
