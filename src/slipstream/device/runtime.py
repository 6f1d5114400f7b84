"""Runtime of a device: the models of an edge scenario on its streams, see `engine.EngineRuntime`."""

from __future__ import annotations

from typing import Any

from slipstream.device.backends.streams import Completion, RunRequest, Streams
from slipstream.device.engine import LEAST_WATCHDOG_MS, WATCHDOG_FACTOR, EngineRuntime, Execution, Tally, Watcher
from slipstream.device.lane import DeviceLane
from slipstream.device.workload import Workload, check_device
from slipstream.errors import DeviceError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds


def watchdog_ms(scenario: EdgeScenario) -> float:
    """Return the time in ms after which the watchdog aborts a run of the scenario."""
    longest: float = max(variant.latency_ms for task in scenario.tasks for variant in task.ladder)
    return max(LEAST_WATCHDOG_MS, WATCHDOG_FACTOR * longest)


class Runtime(EngineRuntime[EdgeScenario]):
    """Executes a scenario under a policy, on streams that are ready."""

    def __init__(
        self,
        scenario: EdgeScenario,
        workload: Workload,
        streams: Streams,
        watchdog: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        check_device(scenario)
        if streams.count != scenario.device.streams:
            raise DeviceError(f"the device has {streams.count} streams: expected {scenario.device.streams} of them")
        super().__init__(scenario, streams, watchdog_ms(scenario) if watchdog is None else watchdog, watcher)
        self._scenario = without_decision_time(scenario)
        self._workload = workload
        self._streams = streams
        self._horizon = nanoseconds(scenario.horizon_ms)
        self._samples = [workload.samples(task) for task in range(len(scenario.tasks))]
        """Number of samples of each task."""
        self._labelled = any(samples.labels is not None for samples in workload.sets)

    def _submit(self, resource: int, work: tuple[int, ...]) -> None:
        """Submit the run of a job."""
        task, job, variant = work
        request = RunRequest(
            self._workload.model_of[task][variant], self._workload.set_of[task], self._sample(task, job)
        )
        self._streams.submit(resource, request)

    def _sample(self, task: int, job: int) -> int:
        """Return the index of a job's sample among those of its task."""
        return job % self._samples[task]

    def _record_completion(self, lane: DeviceLane[Any], completion: Completion, execution: Execution) -> None:
        """Record the completion of a run: apply it to the lane, and add its time, error or answer to the result."""
        stream = completion.stream
        task, job, variant = self._jobs.pop(stream)
        if completion.ended - self._zero > self._horizon:
            return  # after the horizon: in the log this job is still running
        lane.end(stream, max(1, completion.ended - self._zero), failed=bool(completion.error))
        if completion.error:
            execution.faults.append((task, job, completion.error))
            return
        execution.service_ns.append((task, variant, completion.device_ns))
        label = self._workload.label(task, job) if self._labelled else None
        if label is not None:
            tally = execution.accuracy.setdefault((task, variant), Tally())
            tally.judged += 1
            tally.right += int(self._streams.output(stream).argmax()) == label


def without_decision_time(scenario: EdgeScenario) -> EdgeScenario:
    """Return the scenario with a decision time of 0: on a device, decisions take real time."""
    device = scenario.device.model_copy(update={"decision_time_ms": 0.0})
    return scenario.model_copy(update={"device": device})
