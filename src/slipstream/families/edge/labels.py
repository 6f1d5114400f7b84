"""Labels of a run: names and expected times of an edge scenario, for rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.edge.build import candidate_rows, row_width, runs_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.labels import Nouns, RunLabels
from slipstream.families.shared.schema import nanoseconds

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


def run_labels(scenario: EdgeScenario) -> RunLabels:
    """Return the labels of a run of the scenario: resources, tasks, variants, and their expected times."""
    ladders = [task.ladder for task in scenario.tasks]
    return RunLabels(
        nouns=Nouns(resource="stream"),
        resources=tuple(f"stream {stream}" for stream in range(scenario.device.streams)),
        tasks=tuple(task.name for task in scenario.tasks),
        variants=tuple(tuple(v.name or f"variant {rank}" for rank, v in enumerate(ladder)) for ladder in ladders),
        expected=tuple(tuple(nanoseconds(variant.latency_ms) for variant in ladder) for ladder in ladders),
        deadline=tuple(nanoseconds(task.relative_deadline_ms) for task in scenario.tasks),
        accuracy=tuple(tuple(variant.accuracy for variant in ladder) for ladder in ladders),
        end=nanoseconds(scenario.horizon_ms),
        batches=scenario.most_jobs > 1,
    )


def row_name(simulator: Simulator[EdgeScenario], row: int) -> str:
    """Return what taking a row would do in the simulator's state, such as 'stream 0 runs camera as resnet18'."""
    scenario = simulator.scenario
    labels = run_labels(scenario)
    tasks, width = len(scenario.tasks), row_width(scenario)
    wait = candidate_rows(scenario) - 1
    first_drop, asked = wait - tasks, int(simulator.header["asked"])
    stream_name = labels.resources[asked] if 0 <= asked < scenario.device.streams else "the device"
    if not 0 <= row < wait:
        return f"{stream_name} waits"
    if row >= first_drop:
        return f"drop a job of {labels.tasks[row - first_drop]}"
    pair, stream = (row, -1) if row < tasks * width else divmod(row - tasks * width, scenario.device.streams)
    task, column = divmod(pair, width)
    rank, number = runs_of(scenario.tasks[task])[column]
    jobs = scenario.tasks[task].batch_sizes[number]
    what = f"{labels.tasks[task]} as {labels.variants[task][rank]}"
    if jobs > 1:
        what = f"{jobs} jobs of {what}"
    return f"{stream_name} runs {what}" if stream < 0 else f"{labels.resources[stream]} is interrupted for {what}"
