"""From a scenario to the arrays the kernel works on."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from slipstream.core.eventlog import EVENT
from slipstream.core.heap import empty_heap
from slipstream.core.parts import nanoseconds
from slipstream.core.structs import make_struct
from slipstream.edge import features as f
from slipstream.edge import observation  # noqa: F401  registers the family's compiled functions
from slipstream.edge import state as k
from slipstream.edge.arrivals import trace_times
from slipstream.edge.scenario import (
    Bursty,
    Closed,
    EdgeScenario,
    ExponentialLatency,
    LognormalLatency,
    Periodic,
    Poisson,
    Share,
    Task,
    Trace,
)


def spec_arrays(scenario: EdgeScenario) -> dict[str, np.ndarray]:
    """Return what does not change during an episode."""
    longest = max(task.num_variants for task in scenario.tasks)
    tasks = np.zeros(len(scenario.tasks), k.TASK)
    variants = np.zeros((len(scenario.tasks), longest), k.VARIANT)
    traces: list[np.ndarray] = []
    for index, task in enumerate(scenario.tasks):
        for rank, variant in enumerate(task.ladder):
            variants[index, rank] = (nanoseconds(variant.latency_ms), variant.accuracy, variant.demand)
        _fill_task(tasks[index], task, scenario, traces)
    return {
        "device": _device(scenario),
        "tasks": tasks,
        "variants": variants,
        "trace": np.concatenate([np.zeros(0, np.int64), *traces]),
        "static_rows": _static_rows(scenario, tasks, variants),
    }


def make_spec(arrays: dict[str, np.ndarray]) -> Any:
    """Build the compiled specification."""
    return make_struct(k.make_spec, k.EdgeSpecType, arrays)


def state_arrays(scenario: EdgeScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for a number of lanes, each keeping up to `log_rows` rows of its event log."""
    tasks, streams = len(scenario.tasks), scenario.device.streams
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "tasks": np.zeros((lanes, tasks), k.TASK_STATE),
        "streams": np.zeros((lanes, streams), k.STREAM_STATE),
        "queue": np.zeros((lanes, tasks, scenario.device.queue_limit), k.JOB),
        "heap": empty_heap(lanes, streams + 2 * tasks + 2),
        "terms": np.zeros((lanes, 4)),
        "log": np.zeros((lanes, log_rows), EVENT),
        "probe": np.zeros((lanes, streams)),
    }


def make_state(arrays: dict[str, np.ndarray]) -> Any:
    """Build the compiled state."""
    return make_struct(k.make_state, k.EdgeStateType, arrays)


def _device(scenario: EdgeScenario) -> np.ndarray:
    device = scenario.device
    record = np.zeros(1, k.DEVICE)
    row = record[0]
    row["horizon"] = nanoseconds(scenario.horizon_ms)
    row["streams"] = device.streams
    row["interference"] = k.NO_INTERFERENCE
    if isinstance(device.interference, Share):
        row["interference"] = k.SHARE
        row["throughput"] = device.interference.total_throughput
    row["latency_kind"] = k.FIXED
    if isinstance(device.latency, LognormalLatency):
        variance = math.log(1.0 + device.latency.cv * device.latency.cv)
        row["latency_kind"], row["sigma"], row["half_variance"] = k.LOGNORMAL, math.sqrt(variance), variance / 2
    elif isinstance(device.latency, ExponentialLatency):
        row["latency_kind"] = k.EXPONENTIAL
    row["drop_late"] = device.late == "drop"
    row["queue_limit"] = device.queue_limit
    row["decision_time"] = nanoseconds(device.decision_time_ms)
    row["finite"] = all(isinstance(task.arrival, Trace) for task in scenario.tasks)
    for term in ("on_time_accuracy", "lateness", "drops", "utilisation"):
        row[term] = getattr(scenario.reward, term)
    return record


def _fill_task(row: Any, task: Task, scenario: EdgeScenario, traces: list[np.ndarray]) -> None:
    row["deadline"] = nanoseconds(task.relative_deadline_ms)
    row["weight"] = task.weight
    row["variants"] = task.num_variants
    row["fastest"] = nanoseconds(task.ladder[0].latency_ms)
    arrival = task.arrival
    if isinstance(arrival, Periodic):
        row["arrival"] = k.PERIODIC
        row["period"] = nanoseconds(arrival.period_ms)
        row["phase"] = nanoseconds(arrival.phase_ms)
        row["jitter"] = nanoseconds(arrival.jitter_ms)
    elif isinstance(arrival, Poisson):
        row["arrival"] = k.POISSON
        row["period"] = row["calm_gap"] = nanoseconds(arrival.mean_gap_ms)
    elif isinstance(arrival, Bursty):
        row["arrival"] = k.BURSTY
        for name in ("calm_gap", "burst_gap"):
            row[name] = nanoseconds(getattr(arrival, f"{name}_ms"))
        calm, burst = nanoseconds(arrival.calm_ms), nanoseconds(arrival.burst_ms)
        row["calm_spell"], row["burst_spell"] = calm, burst
        row["period"] = round((calm + burst) / (calm / row["calm_gap"] + burst / row["burst_gap"]))
    elif isinstance(arrival, Trace):
        times = trace_times(arrival, scenario._folder)
        row["arrival"] = k.TRACE
        row["trace_start"] = sum(len(earlier) for earlier in traces)
        row["trace_end"] = row["trace_start"] + len(times)
        row["period"] = nanoseconds(scenario.horizon_ms)
        if len(times) > 1 and times[-1] > times[0]:
            row["period"] = round((int(times[-1]) - int(times[0])) / (len(times) - 1))
        traces.append(times)
    elif isinstance(arrival, Closed):
        row["arrival"] = k.CLOSED
        row["phase"] = nanoseconds(arrival.phase_ms)
        row["think"], row["retry"] = nanoseconds(arrival.think_ms), nanoseconds(arrival.retry_ms)
        row["period"] = row["think"] + row["fastest"]


def _code(text: str) -> float:
    """Return a stable number in [0, 1) for a name."""
    return zlib.crc32(text.encode()) / 2**32


def _static_rows(scenario: EdgeScenario, tasks: np.ndarray, variants: np.ndarray) -> np.ndarray:
    count, longest = variants.shape
    rows = np.zeros((count * (longest + 1) + 1, len(f.CANDIDATE)))
    for index, task in enumerate(scenario.tasks):
        own = [index * longest + rank for rank in range(task.num_variants)]
        drop = count * longest + index
        for row in [*own, drop]:
            rows[row, f.DEADLINE] = tasks[index]["deadline"]
            rows[row, f.PERIOD] = tasks[index]["period"]
            rows[row, f.FASTEST_LATENCY] = tasks[index]["fastest"]
            rows[row, f.WEIGHT] = task.weight
            rows[row, f.CRITICALITY] = task.criticality
            rows[row, f.NUM_VARIANTS] = task.num_variants
            rows[row, f.MODEL_CODE] = _code(task.model)
            rows[row, f.DATASET_CODE] = _code(task.dataset)
        for rank, row in enumerate(own):
            rows[row, f.DISPATCH] = 1.0
            rows[row, f.LATENCY] = variants[index, rank]["latency"]
            rows[row, f.ACCURACY] = variants[index, rank]["accuracy"]
            rows[row, f.VARIANT_RANK] = rank
            rows[row, f.DEMAND] = variants[index, rank]["demand"]
        rows[drop, f.DROP] = 1.0
    rows[-1, f.WAIT] = 1.0
    return rows
