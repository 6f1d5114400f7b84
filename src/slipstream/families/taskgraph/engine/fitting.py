"""Durations of a taskgraph scenario from the event log of a run."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.durations import kernel_table
from slipstream.files.validation import validated
from slipstream.sim.eventlog import ARRIVAL, FAIL, FINISH, START


def fitted(scenario: TaskgraphScenario, events: np.ndarray) -> TaskgraphScenario:
    """Return the scenario with the mean durations that kernels had in `events`, by kind of processor.

    Kernels keep their durations on kinds of processors where none of them finished, and so do tasks without a kernel.
    """
    library = compiled_scenario(scenario).library
    arrivals = events[events["kind"] == ARRIVAL]
    template = dict(zip(arrivals["job"].tolist(), arrivals["task"].tolist(), strict=True))
    rows = events[np.isin(events["kind"], (START, FINISH, FAIL))]
    rows = rows[np.argsort(rows["resource"], kind="stable")]
    ends = np.flatnonzero(rows["kind"] == FINISH)
    found: dict[tuple[str, str], list[float]] = {}
    for start, end in zip(rows[ends - 1], rows[ends], strict=True):
        graph, number = library.templates[template[int(end["job"])]], int(end["task"])
        if number not in graph.base_ms:
            key = graph.kernels[int(graph.kernel_of[number])], library.kinds[int(end["variant"])].name
            found.setdefault(key, []).append(float(end["time"] - start["time"]) / 1e6)
    table = {kernel: dict(times) for kernel, times in kernel_table(scenario).items()}
    for (kernel, kind), times in found.items():
        table.setdefault(kernel, {})[kind] = max(1e-6, float(np.mean(times)))
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["durations"] = {"kind": "table", "kernels_ms": table}
    return validated(data, TaskgraphScenario, "the measured durations")
