"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""

from __future__ import annotations

from slipstream.core.family import Family


class TaskgraphFamily(Family):
    """The taskgraph house."""

    name = "taskgraph"
    env_id = "slipstream/Taskgraph-v0"
    default_scenario = "taskgraph/cholesky-4-2g2c"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("makespan",)
    default_policy = "mct"
    headline = ("makespan_ms", "ratio_to_bound", "moved_mb", "evictions", "idle_share")


FAMILY = TaskgraphFamily()
