"""Device lane: state, decisions, reward and log of the simulator, with the clock and completions of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

import numpy as np

from slipstream.errors import DeviceError
from slipstream.policies.base import Policy, WholeEpisodes
from slipstream.sim.eventlog import END
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.heap import BLOCK, set_time
from slipstream.sim.simulator import S_co, Simulator, check_action, check_seed, split_code

FIRST_TICK = 1
"""Time of the clock at the start, in ns: a lane whose clock is 0 simulates."""
STOPPED = 0
"""Variant of the end row of an episode that was ended before its time."""


class DeviceLane(Simulator[S_co], Generic[S_co]):
    """Lane that follows an engine: a device, or worker processes.

    `end` and `follow` apply what happened; while it is `asking`, `decide` makes a policy's decision; `running` returns
    what a resource of the engine has to run.
    """

    def __init__(self, scenario: S_co) -> None:
        super().__init__(scenario)
        engine_lane = self.family.members.engine_lane
        if engine_lane is None:
            raise DeviceError(f"a scenario of the family '{self.family.name}': expected one that engines run")
        self._policy: Policy | None = None
        self._step: Callable[[int], int] | None = None
        self._last_end = 0
        """Latest reported end of a run."""
        self._flushed: list[np.ndarray] = []
        self._engine_lane = engine_lane(scenario, self.arrays)
        # Views of what every iteration reads: a record or a reduction of NumPy takes longer than all the rest.
        lane, self._heap = self.arrays["lanes"], self.arrays["heap"][0]
        self._status, self._now, self._clock = lane["status"], lane["now"], lane["clock"]
        self._timers = self._heap[: len(self._heap) // (1 + BLOCK)]

    def __getstate__(self) -> dict[str, Any]:
        raise DeviceError("a lane that follows a device cannot be copied, nor can the device: expected a Simulator")

    def begin(self, seed: int, split: str) -> None:
        """Start the episode of `seed` and `split` at the first tick of its clock."""
        self._flushed.clear()
        self._last_end = 0
        self.header["clock"] = FIRST_TICK
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        self._flush_if_full()

    def end(self, resource: int, time: int, failed: bool = False) -> None:
        """Report that the run of `resource` ended at `time`; `follow` applies it."""
        self._engine_lane.end(resource, time, failed)
        self._last_end = max(self._last_end, time)

    def follow(self, clock: int, policy: Policy | None = None, last: bool = False) -> None:
        """Apply all events up to `clock`; with `last`, end the episode there.

        If a decision is then due and `policy` decides in compiled code, it is made in the same call, since a second
        call would take longer than both.
        """
        clock = max(clock, self._last_end, self._now.item())
        self._clock[0] = clock
        step = None if policy is None else self._compiled_step(policy)
        if step is not None:
            self._status[0] = lanes.LOG_FULL  # resumes like a lane whose log was flushed
            step(1)
        else:
            lanes.resume_lane(self.spec, self.state, 0)
        self._flush_if_full()
        if last and not self.over:
            self._end_episode(clock)

    def _end_episode(self, clock: int) -> None:
        """End the episode at `clock`; what runs then is running in its log."""
        self._flush(self._flushed.append)
        self.arrays["log"][0, 0] = (clock, -1, -1, -1, STOPPED, END)
        self.header["log_rows"], self.header["now"], self._status[0] = 1, clock, lanes.TRUNCATED

    def _schedule(self, slot: int, time: int) -> None:
        """Set the time of the event `slot`."""
        set_time(self._heap, slot, time)

    def decide(self, policy: Policy) -> None:
        """Make the decision that is due by `policy`, with the same object and code as in a simulation."""
        step = self._compiled_step(policy)
        if step is not None:
            step(1)
        else:
            lanes.step_lane(self.spec, self.state, 0, check_action(policy.choose(*self.observe())))
        self._flush_if_full()

    def _compiled_step(self, policy: Policy) -> Callable[[int], int] | None:
        """Return the compiled step function of `policy`, None if it has none; looked up once per policy."""
        if policy is not self._policy:
            self._policy, self._step = policy, policy.player(self) if isinstance(policy, WholeEpisodes) else None
        return self._step

    def _flush_if_full(self) -> None:
        """Flush the log and resume while the log is full."""
        while self._status.item() == lanes.LOG_FULL:
            self._flush(self._flushed.append)
            lanes.resume_lane(self.spec, self.state, 0)

    def take_log(self) -> None:
        """Take over the rows of a full event log, for an engine that resumes the lane itself."""
        self._flush(self._flushed.append)

    @property
    def asking(self) -> bool:
        """Whether a decision is due."""
        return bool(self._status.item() == lanes.ASKING)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self._status.item() in (lanes.TERMINATED, lanes.TRUNCATED)

    @property
    def next_timer(self) -> int:
        """Time of the next arrival, or of another event that the engine does not report."""
        return int(min(self._timers.tolist()))

    def running(self, resource: int) -> tuple[int, ...] | None:
        """Return what `resource` has to run, in the fields of the family's engine; None if it is idle."""
        return self._engine_lane.running(resource)

    def pieces(self) -> list[np.ndarray]:
        """Return the event log in pieces, most of them without a copy."""
        return [*self._flushed, self.log()]

    def events(self) -> np.ndarray:
        """Return the whole event log."""
        return np.concatenate(self.pieces())
