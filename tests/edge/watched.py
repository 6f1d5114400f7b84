"""An edge reference that notes which of its mechanisms came into play, so that the drawn scenarios leave none out."""

from __future__ import annotations

from collections import Counter

from slipstream.families.edge.scenario import EdgeScenario
from tests.reference.edge import Log, ReferenceEdge
from tests.reference.interference import LEAST_RATE
from tests.reference.machine import Choice, Event, Job


class Watched(ReferenceEdge):
    """A reference that notes which of its mechanisms and events came into play."""

    def __init__(self, device: EdgeScenario, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(device, seed)

    def step(self, action: int) -> None:
        self.seen["the device is asked"] += self.asked == self.streams
        logged = len(self.log)
        super().step(action)
        self.seen.update(f"log {Log(row[1]).name}" for row in self.log[logged:])

    def _may_start(self, task: int, variant: int, stream: int | None) -> bool:
        legal = super()._may_start(task, variant, stream)
        exists = bool(self.tasks[task].queue) and variant < len(self.tasks[task].latencies)
        self.seen["no room to start" if stream is None else "no room to preempt"] += exists and not legal
        return legal

    def _is_stale(self, choice: Choice) -> bool:
        stale = super()._is_stale(choice)
        self.seen["a preemption is stale"] += stale and choice.victim is not None
        return stale

    def _take_effect(self, choice: Choice) -> None:
        by_device = choice.asked == self.streams
        if choice.victim is not None:
            self.seen["the device preempts" if by_device else "an idle stream preempts"] += 1
        elif choice.job is not None and choice.variant is None:
            self.seen["the device drops"] += by_device
        elif choice.job is None:
            self.seen["the device waits"] += by_device
        super()._take_effect(choice)

    def _start(self, jobs: list[Job], variant: int, stream: int, preempting: bool) -> None:
        task = self.tasks[jobs[0].task]
        if jobs[0] in self.kept:
            goes_on = self._kept_by(jobs, variant) is not None
            self.seen["a run goes on" if goes_on else "a run starts over in another variant"] += 1
            self.seen["a batch goes on"] += goes_on and len(jobs) > 1
            self.seen["a batch starts over with other jobs"] += (
                not goes_on and len(jobs) > 1 and self.kept[jobs[0]].variant == variant
            )
        weights = (jobs[0].task, task.ranks[variant])
        if weights in self.memory.there:
            self.seen["a start waits for the load of another"] += self.memory.ready_at[weights] > self.now
        self.seen["a batch"] += len(jobs) > 1
        super()._start(jobs, variant, stream, preempting)

    def _interrupt(self, stream: int) -> None:
        run = self.runs[stream]
        self.seen["a batch is interrupted"] += run is not None and len(run.jobs) > 1
        super()._interrupt(stream)

    def _apply(self, time: int, kind: Event, who: int) -> None:
        self.seen["the wait for a fuller batch ends"] += kind == Event.FILL
        self.seen["and a stream is asked again"] += kind == Event.FILL and bool(self.parked)
        super()._apply(time, kind, who)

    def _reprice(self) -> None:
        begun = [stream for stream, run in enumerate(self.runs) if run is not None and run.began]
        device = self.scenario.device
        if len(begun) > 1:
            self.seen[f"interference {device.interference.kind}"] += 1
            levels = {device.stream_priorities[stream] for stream in begun} if device.stream_priorities else {0}
            self.seen["priorities"] += len(levels) > 1
        super()._reprice()
        rates = [run.rate for run in self.running if run.began]
        self.seen["the least rate"] += LEAST_RATE in rates
        self.seen["helped by a co-runner"] += any(rate > 1.0 for rate in rates)

    def _stream_event(self, stream: int) -> None:
        super()._stream_event(stream)
        run = self.runs[stream]
        self.seen["a border"] += run is not None and run.border_at == self.now

    def _expire(self, index: int) -> None:
        self.seen["an interrupted job expires at once"] += self.tasks[index].queue[0].deadline < self.now
        super()._expire(index)


LEAST_SHARES = {
    "the device is asked": 0.1,
    "the device preempts": 0.1,
    "the device drops": 0.1,
    "the device waits": 0.1,
    "an idle stream preempts": 0.05,
    "a preemption is stale": 0.02,
    "an interrupted job expires at once": 0.02,
    "a run goes on": 0.05,
    "a run starts over in another variant": 0.05,
    "a border": 0.05,
    "no room to start": 0.05,
    "no room to preempt": 0.03,
    "a start waits for the load of another": 0.02,
    "interference none": 0.02,
    "interference share": 0.1,
    "interference roofline": 0.03,
    "interference matrix": 0.03,
    "priorities": 0.03,
    "the least rate": 0.01,
    "helped by a co-runner": 0.01,
    "a batch": 0.1,
    "a batch is interrupted": 0.02,
    "a batch goes on": 0.01,
    "a batch starts over with other jobs": 0.002,
    "the wait for a fuller batch ends": 0.05,
    "and a stream is asked again": 0.02,
    "log PREEMPT": 0.1,
    "log READY": 0.1,
    "log EVICT": 0.1,
}
"""In what share of the scenarios each mechanism comes into play at the least."""
