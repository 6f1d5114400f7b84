"""The device as a lane: the simulator's state, choices, reward and log, with the world's own clock and ends of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.errors import DeviceError
from slipstream.policies.base import Policy, WholeEpisodes
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.heap import BLOCK
from slipstream.sim.simulator import Simulator, check_action, check_seed, split_code

FIRST_TICK = 1
"""What the clock shows at the start, in ns: a lane whose clock shows 0 simulates."""


class DeviceLane(Simulator):
    """A lane that follows a device.

    `end` and `follow` tell it what happened; while it is `asking`, `decide` lets a policy choose; `running` says what
    the device is to do.
    """

    def __init__(self, scenario: Any) -> None:
        super().__init__(scenario)
        self._policy: Policy | None = None
        self._play: Callable[[int], int] | None = None
        self._heard = 0
        """When the last run ended that we were told of."""
        self._kept: list[np.ndarray] = []
        self._horizon_slot = scenario.device.streams + 2 * len(scenario.tasks)
        """See families/edge/kernel/slots.py."""
        # Views of what is looked at in every turn: a record or a reduction of numpy takes longer than all the rest.
        lane, streams, self._heap = self.arrays["lanes"], self.arrays["streams"][0], self.arrays["heap"][0]
        self._status, self._now, self._clock = lane["status"], lane["now"], lane["clock"]
        self._ended, self._failed = streams["ended"], streams["failed"]
        self._task, self._job, self._variant = streams["task"], streams["job"], streams["variant"]
        self._timers = self._heap[: len(self._heap) // (1 + BLOCK)]

    def __getstate__(self) -> dict[str, Any]:
        raise DeviceError("a lane that follows a device cannot be copied, nor can the device: expected a Simulator")

    def begin(self, seed: int, split: str) -> None:
        """Start an episode at the first tick of its clock."""
        self._kept.clear()
        self._heard = 0
        self.header["clock"] = FIRST_TICK
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        self._settle()

    def end(self, stream: int, time: int, failed: bool = False) -> None:
        """Note that the run of a stream has ended; `follow` applies it."""
        self._ended[stream], self._failed[stream] = time, failed
        self._heard = max(self._heard, time)

    def follow(self, clock: int, policy: Policy | None = None, last: bool = False) -> None:
        """Apply all that has happened up to a time; with `last`, end the episode there.

        If a choice is due then and there is a policy that decides in compiled code, it makes one: going there and
        back again would take longer than both.
        """
        clock = max(clock, self._heard, self._now.item())
        self._clock[0] = clock
        if last:
            self._plan(self._horizon_slot, clock)
        play = None if policy is None else self._player(policy)
        if play is not None:
            self._status[0] = lanes.LOG_FULL  # it goes on as a lane does whose log was flushed
            play(1)
        else:
            lanes.resume_lane(self.spec, self.state, 0)
        self._settle()

    def _plan(self, slot: int, time: int) -> None:
        """Set the time of an event, as `sim.kernel.heap.schedule` does in compiled code."""
        blocks, block = len(self._timers), slot // BLOCK
        self._heap[blocks + slot] = time
        self._timers[block] = self._heap[blocks + block * BLOCK : blocks + (block + 1) * BLOCK].min()

    def decide(self, policy: Policy) -> None:
        """Let a policy make the choice that is due: the same object, and the same code, as in a simulation."""
        play = self._player(policy)
        if play is not None:
            play(1)
        else:
            lanes.step_lane(self.spec, self.state, 0, check_action(policy.choose(*self.observe())))
        self._settle()

    def _player(self, policy: Policy) -> Callable[[int], int] | None:
        """Return what lets the policy decide in compiled code, None if it does not; found once for each policy."""
        if policy is not self._policy:
            self._policy, self._play = policy, policy.player(self) if isinstance(policy, WholeEpisodes) else None
        return self._play

    def _settle(self) -> None:
        while self._status.item() == lanes.LOG_FULL:
            self._flush(self._kept.append)
            lanes.resume_lane(self.spec, self.state, 0)

    @property
    def asking(self) -> bool:
        """Whether a choice is due."""
        return bool(self._status.item() == lanes.ASKING)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self._status.item() in (lanes.TERMINATED, lanes.TRUNCATED)

    @property
    def next_timer(self) -> int:
        """When the next arrival, expiry or the horizon is due."""
        return int(min(self._timers.tolist()))

    def running(self, stream: int) -> tuple[int, int, int] | None:
        """Return task, job and variant of what the stream is to run, None if it is idle."""
        task = self._task.item(stream)
        return None if task < 0 else (task, self._job.item(stream), self._variant.item(stream))

    def pieces(self) -> list[np.ndarray]:
        """Return the event log in pieces, most of them without a copy."""
        return [*self._kept, self.log()]

    def events(self) -> np.ndarray:
        """Return the whole event log."""
        return np.concatenate(self.pieces())
