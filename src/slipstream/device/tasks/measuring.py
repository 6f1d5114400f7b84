"""Times of kernels and networks, measured on worker processes that are otherwise idle."""

from __future__ import annotations

import numpy as np

from slipstream.device.tasks.processes import TaskProcesses, TaskRequest
from slipstream.errors import DeviceError
from slipstream.families.contract import NO_PROGRAM, Scenario
from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.engine.fitting import with_times
from slipstream.families.serving.engine.lane import program_of
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.files.validation import validated

SWEEPS = 3
"""Runs of all tasks of a job that kernels are timed in."""
LEAST_MS = 1e-6
"""Least time of a kernel: one nanosecond."""
BATCH_RUNS = 5
"""Runs of a batch of one size that its time is the median of, after one that warms up."""


def _time_of(processes: TaskProcesses, resource: int, request: TaskRequest, what: str) -> int:
    """Return the time in ns that an idle resource needs for a request; `what` names it in an error."""
    processes.submit(resource, request)
    while not (ended := processes.wait(None)):
        continue
    if ended[0].error:
        raise DeviceError(f"{what}: {ended[0].error}: expected one that runs")
    return ended[0].device_ns


def measured(scenario: Scenario, processes: TaskProcesses) -> Scenario:
    """Return the scenario with the measured times of its kernels on tiles, or of its networks, if it has any."""
    if processes.tiles is not None:
        return measured_kernels(scenario, processes)
    return measured_networks(scenario, processes) if isinstance(scenario, ServingScenario) else scenario


def measured_kernels(scenario: Scenario, processes: TaskProcesses) -> TaskgraphScenario:
    """Return a scenario of kernels on tiles with their times as measured on one worker: medians over a whole job."""
    tiles = processes.tiles
    assert tiles is not None
    assert isinstance(scenario, TaskgraphScenario)
    times: dict[str, list[int]] = {}
    for sweep in range(1 + SWEEPS):
        tiles.fill()
        for number, kernel in enumerate(tiles.setup.kernels):
            time = _time_of(processes, 0, TaskRequest(0, 0, number, 0, 1, 0, 0), kernel)
            if sweep:  # the first one warms up
                times.setdefault(kernel, []).append(time)
    return with_kernel_times(scenario, {kernel: float(np.median(values)) / 1e6 for kernel, values in times.items()})


def with_kernel_times(scenario: Scenario, times_ms: dict[str, float]) -> TaskgraphScenario:
    """Return a scenario with the time of each kernel as measured, on processors of every kind, and without noise."""
    assert isinstance(scenario, TaskgraphScenario)
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["durations"] = {
        "kind": "table",
        "kernels_ms": {
            kernel: {kind.name: max(time, LEAST_MS) for kind in scenario.processors}
            for kernel, time in times_ms.items()
        },
    }
    data.pop("noise", None)
    return validated(data, TaskgraphScenario, "the measured kernels")


def measured_networks(scenario: ServingScenario, processes: TaskProcesses) -> ServingScenario:
    """Return a scenario with measured times of batches and loads of each network on an accelerator of each kind."""
    parts = compiled_scenario(scenario)
    kinds = [scenario.kinds[kind].name for kind in parts.spec["kinds"].tolist()]
    batches: dict[tuple[str, str, int], float] = {}
    loads: dict[str, float] = {}
    for number, (variant, program) in enumerate(zip(parts.variants, program_of(scenario), strict=True)):
        if program == NO_PROGRAM:
            continue
        for kind, times in variant.latency_ms.items():
            resource = kinds.index(kind)
            load = _time_of(processes, resource, TaskRequest(program, 0, number, 0, 0, 0, 0), variant.name)
            loads[variant.name] = max(loads.get(variant.name, 0.0), load / 1e9)
            for size in scenario.batch_sizes[: len(times)]:
                request = TaskRequest(program, 0, number, 0, size, 0, 0)
                runs = [_time_of(processes, resource, request, variant.name) for _ in range(1 + BATCH_RUNS)]
                batches[variant.name, kind, size] = max(LEAST_MS, float(np.median(runs[1:])) / 1e6)
    return with_times(scenario, batches, loads)
