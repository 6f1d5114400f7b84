"""LLM: requests for text wait at engines that batch them step by step; who is admitted, evicted, and sent where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members, RolloutDefaults

if TYPE_CHECKING:
    from slipstream.families.llm.scenario import LlmScenario


class LlmFamily(Family):
    """Names and units of the family of LLM engines."""

    name = "llm"
    default_scenario = "llm/chat"
    reward_terms = ("time", "violations")
    default_policy = "shortest-prompt"
    rollout = RolloutDefaults(futures=8, candidates=8, arrivals=8)
    headline = ("e2e_mean_s", "ttft_mean_s", "ttft_p99_s", "tpot_mean_ms", "slo_attainment", "tokens_per_s")
    summary = (
        *("reward", "e2e_mean_s", "ttft_mean_s", "ttft_p99_s", "tpot_mean_ms", "slo_attainment"),
        *("tokens_per_s", "preemptions", "kv_use", "requests"),
    )
    counts = ("preemptions", "rejected", "steps", "requests")
    tradeoffs = (("e2e_mean_s", "e2e_p99_s"), ("ttft_mean_s", "tpot_mean_ms"))

    @property
    def scenario_type(self) -> type[LlmScenario]:
        from slipstream.families.llm.scenario import LlmScenario

        return LlmScenario

    def load_members(self) -> Members[LlmScenario]:
        from slipstream.families.llm.members import MEMBERS

        return MEMBERS


FAMILY = LlmFamily()
