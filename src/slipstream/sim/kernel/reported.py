"""Ends that an engine reports to a lane whose resources have the first slots of its heap.

`ReportedEnds` is for engines that are driven from Python; the compiled functions are for one that calls them from C.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry
from slipstream.sim.kernel.heap import NEVER, earliest_time, schedule, set_time, times_of
from slipstream.sim.kernel.lanes import LOG_FULL, PENDING


class ReportedEnds:
    """The slots of the resources: NEVER until the end of what one runs is reported and while none is."""

    def __init__(self, arrays: dict[str, np.ndarray], resources: str | None = None) -> None:
        self._heap, self._now = arrays["heap"][0], arrays["lanes"]["now"]
        self._times = times_of(self._heap)
        self._failed = None if resources is None else arrays[resources][0]["failed"]

    def waits(self, resource: int) -> bool:
        """Return whether an end was reported that is not applied yet."""
        return bool(self._times.item(resource) < NEVER)

    def end(self, resource: int, time: int, failed: bool) -> None:
        """Report that what a resource runs ended at `time`, or failed then.

        Where failures are not in the state, the engine repeats the work, and nothing is reported.
        An end that is reported after later events were applied is applied now: the clock never runs backwards.
        """
        if self._failed is not None:
            self._failed[resource] = failed
        elif failed:
            return
        set_time(self._heap, resource, max(time, self._now.item()))


@entry
def report_end(spec, state, lane, resource, time):
    """Report that what a resource runs ended at `time`, as `ReportedEnds.end` does; return 0."""
    schedule(state.heap, lane, resource, max(time, state.lanes[lane].now))
    return 0


@entry
def set_clock(spec, state, lane, time):
    """Set the clock of a lane, up to which it resumes when it waits for its engine; return 0."""
    header = state.lanes[lane]
    header.clock = max(time, header.clock)
    if header.status == PENDING:
        header.status = LOG_FULL  # resumes like a lane whose log was flushed
    return 0


@entry
def next_timer(spec, state, lane):
    """Return the time of the next event that the engine does not report, NEVER if there is none."""
    return earliest_time(state.heap, lane)
