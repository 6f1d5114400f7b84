"""Runtime that is stepped from outside: it runs to a decision, and goes on when it is given an action."""

from __future__ import annotations

import numpy as np

from slipstream.device.backends.streams import Streams, now
from slipstream.device.controlling import realtime_priority
from slipstream.device.engine import Execution
from slipstream.device.lane import DeviceLane
from slipstream.device.runtime import Runtime
from slipstream.device.workload import Workload
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.sim.kernel import lanes


class SteppedLane(DeviceLane):
    """Device lane that charges the time of each decision to the clock.

    Its choices take effect as under the scenario key `decision_time_ms`, with the measured time of each in its place.
    """

    def _bind(self) -> None:
        super()._bind()
        # The arrays of a scenario are shared by all its lanes: this one changes its own copy.
        arrays = dict(self.family.spec_arrays(self.scenario))
        self._device = arrays["device"] = arrays["device"].copy()
        self.spec = self.family.make_spec(arrays)

    def act(self, action: int, clock: int) -> None:
        """Apply `action`, decided on at `clock`; it takes effect then, if it still can."""
        self._device["decision_time"] = max(0, clock - self._now.item())
        lanes.step_lane(self.spec, self.state, 0, action)
        self._flush_if_full()


class SteppedRuntime(Runtime):
    """Runtime whose decisions come from the caller, one by one.

    The clock of an episode never stands still: while the caller thinks, jobs arrive, runs end and deadlines pass.
    """

    def __init__(
        self, scenario: EdgeScenario, workload: Workload, streams: Streams, watchdog: float | None = None
    ) -> None:
        super().__init__(scenario, workload, streams, watchdog)
        self.lane = SteppedLane(self._scenario)
        self.execution = Execution(np.empty(0))
        """Of the present episode."""
        self._restarts_before = 0

    def start(self, seed: int, split: str) -> None:
        """Wait for the runs of the last episode to end, start the episode of `seed`, and run to its first decision."""
        self._drain()
        self.execution = Execution(np.empty(0))
        self._restarts_before = self._streams.restarts
        self._zero = self._next_watchdog_check = now()
        self._lane = self.lane
        self._begin(self.lane, seed, split)
        self._run_to_decision()

    def step(self, action: int) -> None:
        """Apply `action` to the decision that is due, and run to the next one or to the end of the episode."""
        for completion in self._streams.wait(0.0):
            self._record_completion(self.lane, completion, self.execution)
        due = now()
        self.lane.act(action, due - self._zero)
        self.lane.follow(due - self._zero)
        self._begin_runs(self.lane, self.execution, due)
        self._run_to_decision()

    def _run_to_decision(self) -> None:
        with realtime_priority():
            while not (self.lane.asking or self.lane.over):
                self._catch_up(self.lane, None, self.execution)
        self.execution.mistakes = int(self.lane.header["mistakes"])
        self.execution.restarts = self._streams.restarts - self._restarts_before
        if self.lane.over:
            self._drain()
