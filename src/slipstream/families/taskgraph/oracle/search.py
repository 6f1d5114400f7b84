"""The least makespan that can still be reached, by trying choices in compiled code: branch and bound over the machine.

Whatever the machine does, its kernel does it, so this needs no model of links, memories or luck. Every lane is a copy
of the one before it after one more choice. A branch is cut if it cannot end sooner than the best even if each task that
is left goes where it is fastest, or if its state was seen before: all that could follow from there is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.branch_and_bound import FRAME, KNOWN, explore
from slipstream.families.taskgraph.kernel.lower_bound import bound_of_first
from slipstream.families.taskgraph.oracle.hindsight import Episode
from slipstream.sim.kernel.snapshot import lane_bytes
from slipstream.sim.simulator import Simulator

DEPTH = 700
"""Choices that one search may make one after the other."""
TABLE_BITS = 22
"""States that are remembered: two to this, less a quarter that stays free."""


@dataclass(frozen=True)
class Found:
    """What a search came to; times in ns."""

    makespan: int
    """The least, or the one to beat."""
    action: int
    """The first choice on the way there, -1 if nothing beats it."""
    complete: bool
    """Whether everything was tried: then nothing is better."""
    tried: int
    """How many choices."""


class Search:
    """Searches from states of one episode; what is known of a state serves all searches."""

    def __init__(self, simulator: Simulator, episode: Episode, depth: int = DEPTH) -> None:
        """With a depth of 1 there is room for bounds only."""
        scenario = simulator.scenario
        self.simulator, self.spec = simulator, simulator.spec
        self.arrays = simulator.family.state_arrays(scenario, depth, 0)
        self.state = simulator.family.make_state(self.arrays)
        self.rows = lane_bytes(self.arrays)
        kinds = np.array([kind.count for kind in compiled_scenario(scenario).library.kinds], np.int64)
        self.facts = (episode.times, episode.tails, episode.by_bent, episode.arrivals, episode.longest, kinds)
        self.frames = np.zeros(depth, FRAME)
        self.actions = np.zeros((depth, simulator.family.all_rows(scenario)), np.int32)
        self.free = np.zeros(len(simulator.arrays["processors"][0]), np.int64)
        self.table = np.zeros(1 << TABLE_BITS if depth > 1 else 1, KNOWN)
        self.filled = np.zeros(1, np.int64)

    def bound(self) -> int:
        """Return a time before which the episode of the simulator cannot end from where it is."""
        self._begin()
        return int(bound_of_first(self.spec, self.state, self.facts, self.free))

    def run(self, best: int, floor: int, most: int) -> Found:
        """Look for an end before `best` from where the simulator is, in at most so many choices.

        It is over when `floor` is reached, which nothing can beat. The simulator stays where it is.
        """
        assert len(self.frames) > 1
        self._begin()
        if self.filled[0] > 3 << (TABLE_BITS - 2):
            self.table[:] = 0
            self.filled[0] = 0
        makespan, action, tried, complete = explore(
            self.spec,
            self.state,
            self.rows,
            self.facts,
            self.free,
            self.frames,
            self.actions,
            self.table,
            self.filled,
            best,
            floor,
            most,
        )
        return Found(int(makespan), int(action), bool(complete), int(tried))

    def _begin(self) -> None:
        for name, array in self.simulator.arrays.items():
            if name != "log":
                self.arrays[name][0] = array[0]
