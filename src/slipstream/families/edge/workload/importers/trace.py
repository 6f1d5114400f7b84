"""Import of arrivals from tables: a column of times and, for several tasks, a column of task names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstream.errors import InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.arrivals import COLUMN, release_times, times_ms
from slipstream.families.shared.importing import read_arrivals
from slipstream.files.tables import read_table, table_error


def task_index(scenario: EdgeScenario, name: str) -> int:
    """Return the index of the task `name` in the scenario."""
    names = [task.name for task in scenario.tasks]
    if name not in names:
        raise InputError(f"no task '{name}' in the scenario: expected one of {', '.join(names)}")
    return names.index(name)


def read_releases(
    path: Path,
    scenario: EdgeScenario,
    task: str | None,
    task_column: str = "task",
    column: str = COLUMN,
    unit_ms: float = 1.0,
) -> dict[int, np.ndarray]:
    """Return the release times of a file in ns, by task: of one named task, or of those that its column names.

    The rows of a task must be in order of time; those of different tasks may be mixed.
    """
    read = read_arrivals if path.suffix.lower() == ".json" else read_table
    if task is not None:
        index = task_index(scenario, task)
        table = read(path, [column])
        return {index: release_times(table, times_ms(table, column, unit_ms))}
    table = read(path, [column, task_column])
    if not len(table):
        raise table_error(path, "no rows: expected at least one release")
    values = times_ms(table, column, unit_ms)
    indices = {one.name: index for index, one in enumerate(scenario.tasks)}
    names = np.array(table.texts(task_column), object)
    known = np.array([name in indices for name in names], bool)
    if not known.all():
        row = int((~known).argmax())
        raise table.error(row, f"no task '{names[row]}' in the scenario: expected one of {', '.join(indices)}")
    tasks = np.array([indices[name] for name in names], np.int64)
    order = np.argsort(tasks, kind="stable")
    found, first = np.unique(tasks[order], return_index=True)
    return {
        int(index): release_times(replace(table, rows=table.rows[mine], columns={}), values[mine])
        for index, mine in zip(found, np.split(order, first[1:]), strict=True)
    }
