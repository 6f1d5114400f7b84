"""Imitating the oracle: what each candidate would have earned, had all that follows been chosen as well as possible.

The network plays short episodes; at every choice on its way the rest is solved once per candidate. That is DAgger with
an expert that knows the future, so it is only for scenarios whose episodes the oracle can solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.core.family import family_of
from slipstream.core.simulator import Simulator
from slipstream.learn.choices import Choices
from slipstream.learn.rollout import LanePool
from slipstream.learn.situations import Situations
from slipstream.policies.compiled import CompiledPolicy


class Oracle:
    """Looks at every choice of short episodes that a network plays."""

    def __init__(self, scenario: Any, policy: Callable[[], CompiledPolicy], episodes: int, seed: int) -> None:
        """`policy` gives the network as it is when asked."""
        self.scenario, self.policy, self.episodes, self.seed = scenario, policy, episodes, seed
        self.family = family_of(scenario)
        self.simulator = Simulator(scenario, log_rows=0)
        # What cannot be solved is refused before anything is trained.
        self.family.still_to_earn(scenario, seed, "train")

    def look_around(self, pool: LanePool, round_number: int) -> Situations:
        """Return the choices of some training episodes; the lanes of the pool have no part in it."""
        seeds = np.random.default_rng([self.seed, 3, round_number]).integers(2**61, size=self.episodes)
        policy, seen, earned = self.policy(), [], []
        for seed in seeds.tolist():
            still_to_earn = self.family.still_to_earn(self.scenario, seed, "train")
            self.simulator.reset(seed, "train")
            while self.simulator.asking:
                sight = tuple(array.copy() for array in self.simulator.observe())
                if sight[2].sum() > 1:
                    seen.append(policy.shown(*sight))
                    earned.append(self._try_all(np.flatnonzero(sight[2]), still_to_earn))
                self.simulator.step(policy.choose(*sight))
        rows = np.concatenate([rows[legal] for rows, _, legal in seen])
        global_rows = np.stack([global_row for _, global_row, _ in seen])
        counts = np.array([len(legal) for _, _, legal in seen], np.int32)
        begin = (np.cumsum(counts) - counts).astype(np.int64)
        return Situations.of(Choices(rows, global_rows, begin, counts), np.concatenate(earned))

    def _try_all(self, actions: np.ndarray, still_to_earn: Callable[[Simulator], float]) -> np.ndarray:
        """Return the most that every action can lead to; the simulator stays where it is."""
        arrays = self.simulator.arrays
        here = {name: array.copy() for name, array in arrays.items()}
        earned = np.zeros(len(actions))
        for index, action in enumerate(actions.tolist()):
            self.simulator.step(action)
            reward = float(self.simulator.header["reward"])
            earned[index] = reward + still_to_earn(self.simulator)
            for name, array in here.items():
                arrays[name][...] = array
        return earned
