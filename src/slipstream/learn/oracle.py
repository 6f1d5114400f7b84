"""Imitating the oracle: what each candidate would have earned, had all that follows been chosen as well as possible.

The network plays short episodes; at every choice on its way the rest is solved once per candidate. That is DAgger with
an expert that knows the future, so it is only for scenarios whose episodes the oracle can solve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.core.family import family_of
from slipstream.core.regret import Hindsight, Rest
from slipstream.core.simulator import Simulator
from slipstream.errors import InputError
from slipstream.learn.choices import Choices
from slipstream.learn.rollout import LanePool
from slipstream.learn.situations import Situations
from slipstream.policies.compiled import CompiledPolicy


class Oracle:
    """Looks at every choice of short episodes that a network plays."""

    def __init__(
        self,
        scenario: Any,
        policy: Callable[[], CompiledPolicy],
        episodes: int,
        seed: int,
        seconds: float = math.inf,
    ) -> None:
        """`policy` gives the network as it is when asked; the oracle looks at a candidate for up to `seconds`."""
        self.scenario, self.policy, self.episodes, self.seed = scenario, policy, episodes, seed
        self.seconds = seconds
        self.family = family_of(scenario)
        self.simulator = Simulator(scenario, log_rows=0)
        # What cannot be solved is refused before anything is trained.
        refusal = self.family.hindsight(scenario, seed, "train", seconds).refusal
        if refusal:
            raise InputError(refusal)

    def look_around(self, pool: LanePool, round_number: int) -> Situations:
        """Return the choices of some training episodes; the lanes of the pool have no part in it."""
        seeds = np.random.default_rng([self.seed, 3, round_number]).integers(2**61, size=self.episodes)
        policy, seen, earned = self.policy(), [], []
        for seed in seeds.tolist():
            hindsight = self.family.hindsight(self.scenario, seed, "train", self.seconds)
            self.simulator.reset(seed, "train")
            so_far = 0.0
            while self.simulator.asking:
                sight = tuple(array.copy() for array in self.simulator.observe())
                if sight[2].sum() > 1:
                    seen.append(policy.shown(*sight))
                    earned.append(self._try_all(np.flatnonzero(sight[2]), so_far, hindsight))
                self.simulator.step(policy.choose(*sight))
                so_far += float(self.simulator.header["reward"])
        rows = np.concatenate([rows[legal] for rows, _, legal in seen])
        global_rows = np.stack([global_row for _, global_row, _ in seen])
        counts = np.array([len(legal) for _, _, legal in seen], np.int32)
        begin = (np.cumsum(counts) - counts).astype(np.int64)
        return Situations.of(Choices(rows, global_rows, begin, counts), np.concatenate(earned))

    def _try_all(self, actions: np.ndarray, so_far: float, hindsight: Hindsight) -> np.ndarray:
        """Return the most that every action can lead to; the simulator stays where it is."""
        here = self.simulator.save()
        earned = np.zeros(len(actions))
        for index, action in enumerate(actions.tolist()):
            self.simulator.step(action)
            reward = so_far + float(self.simulator.header["reward"])
            earned[index] = hindsight.look(self.simulator, reward, Rest(-math.inf, math.inf)).best
            self.simulator.restore(here)
        return earned
