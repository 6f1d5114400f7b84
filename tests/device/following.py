"""Lanes driven by a pretended engine, whose tasks take the times that were drawn for them."""

from __future__ import annotations

from slipstream.device.lane import DeviceLane
from slipstream.device.tasks.runtime import processes_of


def follow(scenario, policy, seed, fails=lambda work: False):
    """Return a lane whose engine ends everything after its drawn time; tasks of which `fails` is true fail then."""
    lane = DeviceLane(scenario)
    count = processes_of(scenario).count(scenario)
    ends = {}
    lane.begin(seed, "test")

    def begin():
        for resource in range(count):
            known = ends.get(resource, (0, None))[1]
            if (work := lane.running(resource)) is not None and work != known:
                ends[resource] = (int(lane.header["now"]) + work.planned, work)

    begin()
    while not lane.over:
        while lane.asking:
            lane.decide(policy)
            begin()
        if lane.over:
            break
        moment = min([lane.next_timer, *(time for time, _ in ends.values())])
        for resource, (time, work) in list(ends.items()):
            if lane.running(resource) != work:
                del ends[resource]  # cancelled
            elif time == moment:
                del ends[resource]
                lane.end(resource, time, failed=bool(work.tasks) and fails(work))
        lane.follow(moment)
        begin()
    return lane
