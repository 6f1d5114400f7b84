"""Dag: jobs arrive as graphs of stages; executors serve their tasks and take time to move from job to job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members

if TYPE_CHECKING:
    from slipstream.families.dag.scenario import DagScenario


class DagFamily(Family):
    """Names and units of the dag family."""

    name = "dag"
    default_scenario = "dag/stream-10x50"
    reward_terms = ("job_seconds", "makespan")
    default_policy = "fair"
    headline = ("avg_jct_s", "jct_p95_s", "makespan_s", "utilisation", "moving_share")
    summary = ("avg_jct_s", "jct_p95_s", "makespan_s", "utilisation", "moving_share", "moves", "jobs_done", "reward")
    counts = ("moves", "jobs_in_system_max", "tasks", "stage_failures", "jobs_arrived", "jobs_done")

    @property
    def scenario_type(self) -> type[DagScenario]:
        from slipstream.families.dag.scenario import DagScenario

        return DagScenario

    def load_members(self) -> Members[DagScenario]:
        from slipstream.families.dag.members import MEMBERS

        return MEMBERS


FAMILY = DagFamily()
