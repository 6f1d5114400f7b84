"""Elastic: jobs whose kind and number of GPUs are chosen anew, in rounds or at events, on GPUs of unlike kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members, RolloutDefaults

if TYPE_CHECKING:
    from slipstream.families.elastic.scenario import ElasticScenario


class ElasticFamily(Family):
    """Names and units of the family of elastic jobs."""

    name = "elastic"
    default_scenario = "elastic/three-kinds"
    reward_terms = ("time", "restarts")
    default_policy = "srpt"
    rollout = RolloutDefaults(futures=8, candidates=8, arrivals=16)
    headline = ("jct_mean_s", "jct_p99_s", "makespan_s", "rho_mean", "unfair_share", "busy_share")
    summary = (
        *("reward", "jct_mean_s", "jct_p99_s", "makespan_s", "wait_mean_s", "rho_mean", "rho_max"),
        *("unfair_share", "restarts", "busy_share", "jobs"),
    )
    counts = ("restarts", "jobs")
    tradeoffs = (("jct_mean_s", "rho_max"), ("jct_mean_s", "makespan_s"))

    @property
    def scenario_type(self) -> type[ElasticScenario]:
        from slipstream.families.elastic.scenario import ElasticScenario

        return ElasticScenario

    def load_members(self) -> Members[ElasticScenario]:
        from slipstream.families.elastic.members import MEMBERS

        return MEMBERS


FAMILY = ElasticFamily()
