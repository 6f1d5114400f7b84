"""Durations of a dag scenario from the event log of a run."""

from __future__ import annotations

import numpy as np

from slipstream.errors import InputError
from slipstream.families.dag.kernel.state import FIRST, FRESH, REST
from slipstream.families.dag.metrics import jobs_of
from slipstream.families.dag.scenario import DagScenario, Inline
from slipstream.files.validation import validated
from slipstream.sim.eventlog import FAIL, FINISH, START

KEYS = {FRESH: "fresh_s", FIRST: "first_s", REST: "rest_s"}
"""Keys of measured durations, by what the executor did before."""


def fitted(scenario: DagScenario, events: np.ndarray) -> DagScenario:
    """Return the scenario with the durations that tasks had in `events`, on an executor of speed 1.

    Stages that no task of finished keep theirs. Stragglers are among what was measured, so none are drawn any more.

    Raises:
        InputError: The jobs are not written out in the scenario.
    """
    if not isinstance(scenario.jobs, Inline):
        raise InputError(f"jobs.kind is '{scenario.jobs.kind}': expected 'inline' for measured durations")
    template = jobs_of(events).template
    rows = events[np.isin(events["kind"], (START, FINISH, FAIL)) & (events["resource"] >= 0)]
    rows = rows[np.argsort(rows["resource"], kind="stable")]
    ends = np.flatnonzero(rows["kind"] == FINISH)
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for start, end in zip(rows[ends - 1], rows[ends], strict=True):
        seconds = float(end["time"] - start["time"]) / 1e9 * scenario.speeds[int(end["resource"])]
        waves = found.setdefault((int(template[end["job"]]), int(end["task"])), {})
        waves.setdefault(KEYS[int(start["variant"])], []).append(max(1e-9, seconds))
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data.pop("stragglers", None)
    for (job, stage), waves in found.items():
        row = data["jobs"]["jobs"][job]["stages"][stage]
        row.pop("duration_s", None)
        if "fresh_s" not in waves and "first_s" not in waves:
            waves["first_s"] = waves["rest_s"]
        row["waves"] = [{"executors": scenario.executors, **waves}]
    return validated(data, DagScenario, "the measured durations")
