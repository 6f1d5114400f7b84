"""How a device reads and drives a lane of the edge family."""

from __future__ import annotations

import numpy as np

from slipstream.families.edge.scenario import EdgeScenario


class EdgeEngineLane:
    """Streams of a lane that follows a device: what they run, and the ends of their runs."""

    def __init__(self, _scenario: EdgeScenario, arrays: dict[str, np.ndarray]) -> None:
        # Views of what every iteration reads: a record of NumPy takes longer than all the rest.
        streams = arrays["streams"][0]
        self._ended, self._failed = streams["ended"], streams["failed"]
        self._task, self._job, self._variant = streams["task"], streams["job"], streams["variant"]

    def running(self, resource: int) -> tuple[int, int, int] | None:
        """Return task, job and variant of the stream's job, None if it is idle."""
        task = self._task.item(resource)
        return None if task < 0 else (task, self._job.item(resource), self._variant.item(resource))

    def end(self, resource: int, time: int, failed: bool) -> None:
        """Report that the run of a stream ended at `time`, or failed then."""
        self._ended[resource], self._failed[resource] = time, failed
