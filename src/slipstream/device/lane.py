"""The device as a lane: the simulator's state, choices, reward and log, with the world's own clock and ends of runs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from slipstream.core import lanes
from slipstream.core.heap import BLOCK, NEVER
from slipstream.core.simulator import Simulator, check_seed, namespace_code
from slipstream.policies.base import Policy, WholeEpisodes

FIRST_TICK = 1
"""What the clock shows at the start, in ns: a lane whose clock shows 0 simulates."""


class DeviceLane(Simulator):
    """A lane that follows a device.

    `end` and `follow` tell it what happened; while it is `asking`, `decide` lets a policy choose; `running` says what
    the device is to do.
    """

    def __init__(self, scenario: Any) -> None:
        super().__init__(scenario)
        streams = len(self.arrays["streams"][0])
        self._ended = np.full(streams, NEVER, np.int64)
        """When the run of each stream ended, NEVER while it goes on."""
        self._failed = np.zeros(streams, np.int64)
        self._told: list[int] = []
        """Streams whose runs have ended since the last `follow`."""
        self._kept: list[np.ndarray] = []
        self._streams = self.arrays["streams"][0]
        # Views of what is asked for at every turn: a record or a reduction of numpy takes longer than all the rest.
        self._status, self._asked = self.arrays["lanes"]["status"], self.arrays["lanes"]["asked"]
        self._timers = self.arrays["heap"][0, : self.arrays["heap"].shape[1] // (1 + BLOCK)]

    def begin(self, seed: int, namespace: str) -> None:
        """Start an episode at the first tick of its clock."""
        self._kept.clear()
        self._forget()
        self.header["clock"] = FIRST_TICK
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), namespace_code(namespace))
        self._settle()

    def end(self, stream: int, time: int, failed: bool = False) -> None:
        """Note that the run of a stream has ended; `follow` applies it."""
        self._ended[stream], self._failed[stream] = time, failed
        self._told.append(stream)

    def follow(self, clock: int, last: bool = False) -> None:
        """Apply all that has happened up to a time; with `last`, end the episode there."""
        for stream in self._told:
            clock = max(clock, int(self._ended[stream]))
        lanes.follow_lane(self.spec, self.state, 0, clock, self._ended, self._failed, last)
        self._settle()
        self._forget()

    def _forget(self) -> None:
        """Take the ends of runs as applied. Few streams end at a time, so that is quicker one by one."""
        for stream in self._told:
            self._ended[stream], self._failed[stream] = NEVER, 0
        self._told.clear()

    def decide(self, policy: Policy) -> None:
        """Let a policy make the choice that is due: the same object, and the same code, as in a simulation."""
        if _decides_in_compiled_code(type(policy)):
            policy.run(self, 1)  # type: ignore[attr-defined]
        else:
            lanes.step_lane(self.spec, self.state, 0, int(policy.choose(*self.observe())))
        self._settle()

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
    def asked(self) -> int:
        """The stream for which a choice is due."""
        return int(self._asked.item())

    @property
    def next_timer(self) -> int:
        """When the next arrival, expiry or the horizon is due."""
        return int(min(self._timers.tolist()))

    def running(self, stream: int) -> tuple[int, int, int] | None:
        """Return task, job and variant of what the stream is to run, None if it is idle."""
        task, variant, job = self._streams[stream].item()[:3]
        return None if task < 0 else (task, job, variant)

    def events(self) -> np.ndarray:
        """Return the whole event log."""
        return np.concatenate([*self._kept, self.log()])


@cache
def _decides_in_compiled_code(kind: type) -> bool:
    """Return whether policies of a class do; asked at every dispatch, where looking at a protocol takes too long."""
    return issubclass(kind, WholeEpisodes)
