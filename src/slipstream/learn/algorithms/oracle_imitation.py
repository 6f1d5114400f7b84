"""Imitation of the oracle: return of each candidate if all later choices are optimal.

The network plays short episodes; at every choice the rest of the episode is solved once per candidate. That is DAgger
with an expert that knows the future, so it needs scenarios whose episodes the oracle can solve.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.errors import InputError
from slipstream.families.contract import Scenario
from slipstream.families.shared.regret import Hindsight, ValueBounds, hindsight_of
from slipstream.learn.algorithms.states import States
from slipstream.learn.compiled.branches import observe_states
from slipstream.learn.compiled.collect import make_rollout
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import Group, LanePool, Rollout
from slipstream.policies.compiled.networks import make_network
from slipstream.sim.simulator import Simulator


class Oracle:
    """Evaluates every choice of short episodes that a network plays."""

    def __init__(
        self, scenario: Scenario, learner: Learner, episodes: int, seed: int, seconds: float = math.inf
    ) -> None:
        """The oracle spends up to `seconds` per candidate."""
        self.scenario, self.learner, self.episodes, self.seed, self.seconds = scenario, learner, episodes, seed, seconds
        self.simulator = Simulator(scenario, log_rows=0)
        self.lane = Group(scenario, 0, 1, learner.network.reads_graph)
        # A scenario that cannot be solved is refused before training.
        refusal = hindsight_of(scenario, seed, "train", seconds).refusal
        if refusal:
            raise InputError(refusal)

    def evaluate_states(self, pool: LanePool, round_number: int) -> States | None:
        """Return the choices of `episodes` training episodes, evaluated; the lanes of the pool are not used."""
        seeds = np.random.default_rng([self.seed, 3, round_number]).integers(2**61, size=self.episodes)
        parts = []
        for seed in seeds.tolist():
            hindsight = hindsight_of(self.scenario, seed, "train", self.seconds)
            self.simulator.reset(seed, "train")
            reward_before = 0.0
            while self.simulator.asking:
                seen, actions, logits = self._observe()
                if len(actions) > 1:
                    parts.append(States.of(seen, self._solve_all(actions, reward_before, hindsight)))
                self.simulator.step(int(actions[logits.argmax()]))
                reward_before += float(self.simulator.header["reward"])
        return States.joined(parts) if parts else None

    def _observe(self) -> tuple[Choices, np.ndarray, np.ndarray]:
        """Return the current choice as the network sees it, its legal rows, and their logits."""
        lane, layout = self.lane, self.learner.layout
        for name, array in self.simulator.save().items():
            lane.arrays[name][...] = array
        rollout = Rollout.empty(1, 1, lane.candidates, layout.widths[:2], lane.graph)
        actions = np.zeros((1, lane.candidates), np.int64)
        logits = np.full(actions.shape, -np.inf)
        network = make_network(layout, self.learner.weights)
        structs = (lane.spec, lane.state, lane.buffer, network)
        observe_states(*structs, make_rollout(rollout.arrays), lane.raw, actions, logits)
        count = int(rollout.count[0, 0])
        return rollout.choices().picked(np.zeros(1, np.int64)), actions[0, :count], logits[0, :count]

    def _solve_all(self, actions: np.ndarray, reward_before: float, hindsight: Hindsight) -> np.ndarray:
        """Return the optimal return after every action; the simulator's state is restored."""
        here = self.simulator.save()
        returns = np.zeros(len(actions))
        for index, action in enumerate(actions.tolist()):
            self.simulator.step(action)
            reward = reward_before + float(self.simulator.header["reward"])
            returns[index] = hindsight.value_bounds(self.simulator, reward, ValueBounds(-math.inf, math.inf)).best
            self.simulator.restore(here)
        return returns
