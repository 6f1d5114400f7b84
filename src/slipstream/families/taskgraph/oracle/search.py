"""Least makespan from a state by branch and bound over the compiled simulator.

The kernel itself executes the decisions, so no model of links, memories or noise is needed. Lane d + 1 is a copy of
lane d after one more decision. A branch is pruned if its lower bound is not below the best end, or if its state is in
the transposition table with a proven end that is not below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.branch_and_bound import FRAME, TABLE_ENTRY, run_branch_and_bound
from slipstream.families.taskgraph.kernel.lower_bound import bound_first_lane
from slipstream.families.taskgraph.oracle.hindsight import Episode
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.kernel.snapshot import lane_bytes
from slipstream.sim.simulator import Simulator

DEPTH = 700
"""Most decisions on one branch of a search."""
TABLE_BITS = 22
"""Base-2 logarithm of the size of the transposition table, of which a quarter stays free."""


@dataclass(frozen=True)
class SearchResult:
    """Result of a search; times in ns."""

    makespan: int
    """Least makespan found, otherwise the given `best`."""
    action: int
    """First action towards it; -1 if none is below the given `best`."""
    complete: bool
    """Whether the search completed: then the makespan is optimal."""
    expanded: int
    """Number of decisions tried."""


class Search:
    """Branch and bound from states of one episode; the transposition table is shared by all runs."""

    def __init__(self, simulator: Simulator[TaskgraphScenario], episode: Episode, depth: int = DEPTH) -> None:
        """Allocate lanes for branches of up to `depth` decisions; a depth of 1 allows bounds only."""
        scenario = simulator.scenario
        self.simulator, self.spec = simulator, simulator.spec
        self.arrays = simulator.family.state_arrays(scenario, depth, 0)
        self.state = simulator.family.make_state(self.arrays)
        self.rows = lane_bytes(self.arrays)
        kinds = np.array([kind.count for kind in compiled_scenario(scenario).library.kinds], np.int64)
        self.instance = (
            episode.durations,
            episode.tails,
            episode.by_speedup,
            episode.arrivals,
            episode.longest_paths,
            kinds,
        )
        self.frames = np.zeros(depth, FRAME)
        self.actions = np.zeros((depth, simulator.family.all_rows(scenario)), np.int32)
        self.free_at = np.zeros(len(simulator.arrays["processors"][0]), np.int64)
        self.table = np.zeros(1 << TABLE_BITS if depth > 1 else 1, TABLE_ENTRY)
        self.filled = np.zeros(1, np.int64)

    def bound(self) -> int:
        """Return a lower bound of the end of the episode from the simulator's state, in ns."""
        self._begin()
        return int(bound_first_lane(self.spec, self.state, self.instance, self.free_at))

    def run(self, best: int, target: int, limit: int) -> SearchResult:
        """Search for an end before `best` from the simulator's state, with at most `limit` decisions.

        The search stops at `target`, a proven lower bound. The state of the simulator does not change.
        """
        assert len(self.frames) > 1
        self._begin()
        if self.filled[0] > 3 << (TABLE_BITS - 2):
            self.table[:] = 0
            self.filled[0] = 0
        makespan, action, expanded, complete = run_branch_and_bound(
            self.spec,
            self.state,
            self.rows,
            self.instance,
            self.free_at,
            self.frames,
            self.actions,
            self.table,
            self.filled,
            best,
            target,
            limit,
        )
        return SearchResult(int(makespan), int(action), bool(complete), int(expanded))

    def _begin(self) -> None:
        for name, array in self.simulator.arrays.items():
            if name != "log":
                self.arrays[name][0] = array[0]
