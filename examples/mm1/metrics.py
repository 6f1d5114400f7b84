"""The figures of an episode, and what no policy can exceed in it."""

import numpy as np

from mm1.scenario import QueueScenario
from slipstream.families.shared.runs import jobs_of
from slipstream.policies.base import find
from slipstream.sim.simulator import Simulator


def metrics(scenario: QueueScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of an episode from its event log; a job that did not start has waited to the end."""
    jobs = jobs_of(events, [None])
    waited_s = (np.where(jobs.start < 0, jobs.end, jobs.start) - jobs.release) / 1e9
    energy_j = scenario.fast_energy_j * float((jobs.variant == 1).sum())
    waiting_mean_s = float(waited_s.sum()) / max(1, len(waited_s))
    return {"reward": -float(waited_s.sum()) - energy_j, "waiting_mean_s": waiting_mean_s, "energy_j": energy_j}


def reward_bound(scenario: QueueScenario, events: np.ndarray, seed: int, split: str) -> float:
    """Return the reward if fast services took no energy, and so all were fast: no policy has a greater one."""
    relaxed = scenario.model_copy(update={"fast_energy_j": 0.0})
    return metrics(relaxed, Simulator(relaxed).play(find("fast", "mm1"), seed, split))["reward"]
