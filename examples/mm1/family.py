"""The family object of the queue: names and units, and nothing that is slow to import."""

from typing import Any

from slipstream.families.contract import Family, Members


class QueueFamily(Family):
    """An M/M/1 queue whose server can hurry."""

    name = "mm1"
    default_scenario = "mm1/busy"
    reward_terms = ("waiting", "energy")
    default_policy = "hurry"
    headline = ("reward", "waiting_mean_s", "energy_j")

    @property
    def scenario_type(self) -> Any:
        from mm1.scenario import QueueScenario

        return QueueScenario

    def load_members(self) -> Members[Any]:
        from mm1.members import MEMBERS

        return MEMBERS


FAMILY = QueueFamily()
