"""Imitating the oracle: what each candidate would have earned, had all that follows been chosen as well as possible.

The network plays short episodes; at every choice on its way the rest is solved once per candidate. That is DAgger with
an expert that knows the future, so it is only for scenarios whose episodes the oracle can solve.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipstream.errors import InputError
from slipstream.families.shared.regret import Hindsight, ValueBounds, hindsight_of
from slipstream.learn.algorithms.states import Situations
from slipstream.learn.compiled.branches import see
from slipstream.learn.compiled.collect import make_rollout
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import Group, LanePool, Rollout
from slipstream.policies.compiled.networks import make_network
from slipstream.sim.simulator import Simulator


class Oracle:
    """Looks at every choice of short episodes that a network plays."""

    def __init__(self, scenario: Any, learner: Learner, episodes: int, seed: int, seconds: float = math.inf) -> None:
        """The oracle looks at a candidate for up to `seconds`."""
        self.scenario, self.learner, self.episodes, self.seed, self.seconds = scenario, learner, episodes, seed, seconds
        self.simulator = Simulator(scenario, log_rows=0)
        self.lane = Group(scenario, 0, 1, learner.network.reads_graph)
        # What cannot be solved is refused before anything is trained.
        refusal = hindsight_of(scenario, seed, "train", seconds).refusal
        if refusal:
            raise InputError(refusal)

    def look_around(self, pool: LanePool, round_number: int) -> Situations | None:
        """Return the choices of some training episodes; the lanes of the pool have no part in it."""
        seeds = np.random.default_rng([self.seed, 3, round_number]).integers(2**61, size=self.episodes)
        parts = []
        for seed in seeds.tolist():
            hindsight = hindsight_of(self.scenario, seed, "train", self.seconds)
            self.simulator.reset(seed, "train")
            so_far = 0.0
            while self.simulator.asking:
                seen, actions, logits = self._see()
                if len(actions) > 1:
                    parts.append(Situations.of(seen, self._try_all(actions, so_far, hindsight)))
                self.simulator.step(int(actions[logits.argmax()]))
                so_far += float(self.simulator.header["reward"])
        return Situations.joined(parts) if parts else None

    def _see(self) -> tuple[Choices, np.ndarray, np.ndarray]:
        """Return the present choice as the network sees it, what it may choose, and its logits."""
        lane, layout = self.lane, self.learner.layout
        for name, array in self.simulator.save().items():
            lane.arrays[name][...] = array
        rollout = Rollout.empty(1, 1, lane.candidates, layout.widths[:2], lane.graph)
        actions = np.zeros((1, lane.candidates), np.int64)
        logits = np.full(actions.shape, -np.inf)
        network = make_network(layout, self.learner.weights)
        see(lane.spec, lane.state, lane.buffer, network, make_rollout(rollout.arrays), actions, logits)
        count = int(rollout.count[0, 0])
        return rollout.choices().picked(np.zeros(1, np.int64)), actions[0, :count], logits[0, :count]

    def _try_all(self, actions: np.ndarray, so_far: float, hindsight: Hindsight) -> np.ndarray:
        """Return the most that every action can lead to; the simulator stays where it is."""
        here = self.simulator.save()
        earned = np.zeros(len(actions))
        for index, action in enumerate(actions.tolist()):
            self.simulator.step(action)
            reward = so_far + float(self.simulator.header["reward"])
            earned[index] = hindsight.value_bounds(self.simulator, reward, ValueBounds(-math.inf, math.inf)).best
            self.simulator.restore(here)
        return earned
