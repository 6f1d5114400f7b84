"""The device as a lane: the simulator's state, choices, reward and log, with the world's own clock and ends of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.core import lanes
from slipstream.core.heap import NEVER, next_time
from slipstream.core.simulator import Simulator, check_seed, namespace_code
from slipstream.policies.base import Policy, WholeEpisodes

FIRST_TICK = 1
"""What the clock shows at the start, in ns: a lane whose clock shows 0 simulates."""


class DeviceLane(Simulator):
    """A lane that follows a device.

    `follow` tells it what happened; while it is `asking`, `decide` lets a policy choose; `running` says what the device
    is to do.
    """

    def __init__(self, scenario: Any) -> None:
        super().__init__(scenario)
        streams = len(self.arrays["streams"][0])
        self.ended = np.full(streams, NEVER, np.int64)
        """When the run of each stream ended, NEVER while it goes on; the device writes it, `follow` reads it."""
        self.failed = np.zeros(streams, np.int64)
        self._kept: list[np.ndarray] = []
        self._streams = self.arrays["streams"][0]

    def begin(self, seed: int, namespace: str) -> None:
        """Start an episode at the first tick of its clock."""
        self._kept.clear()
        self.ended.fill(NEVER)
        self.failed.fill(0)
        self.header["clock"] = FIRST_TICK
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), namespace_code(namespace))
        self._settle()

    def follow(self, clock: int, last: bool = False) -> None:
        """Apply all that has happened up to a time; with `last`, end the episode there."""
        clock = max(clock, int(self.ended[self.ended < NEVER].max(initial=0)))
        lanes.follow_lane(self.spec, self.state, 0, clock, self.ended, self.failed, last)
        self._settle()
        self.ended.fill(NEVER)
        self.failed.fill(0)

    def decide(self, policy: Policy) -> None:
        """Let a policy make the choice that is due: the same object, and the same code, as in a simulation."""
        if isinstance(policy, WholeEpisodes):
            policy.run(self, 1)
        else:
            lanes.step_lane(self.spec, self.state, 0, int(policy.choose(*self.observe())))
        self._settle()

    def _settle(self) -> None:
        while self.header["status"] == lanes.LOG_FULL:
            self._flush(self._kept.append)
            lanes.resume_lane(self.spec, self.state, 0)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.header["status"] in (lanes.TERMINATED, lanes.TRUNCATED))

    @property
    def next_timer(self) -> int:
        """When the next arrival, expiry or the horizon is due."""
        return next_time(self.arrays["heap"][0])

    def running(self, stream: int) -> tuple[int, int, int] | None:
        """Return task, job and variant of what the stream is to run, None if it is idle."""
        task, variant, job = self._streams[stream].item()[:3]
        return None if task < 0 else (task, job, variant)

    def events(self) -> np.ndarray:
        """Return the whole event log."""
        return np.concatenate([*self._kept, self.log()])
