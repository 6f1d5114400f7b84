"""Build the kernel's arrays from a scenario."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from slipstream.families.edge import features as f
from slipstream.families.edge.kernel import state as k
from slipstream.families.edge.scenario import (
    Bursty,
    Closed,
    EdgeScenario,
    ExponentialLatency,
    External,
    LognormalLatency,
    Matrix,
    Periodic,
    Poisson,
    Roofline,
    Share,
    Task,
    Trace,
)
from slipstream.families.edge.workload.arrivals import task_trace_times
from slipstream.families.shared.schema import nanoseconds
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.heap import NEVER, empty_heap
from slipstream.sim.kernel.lanes import LOG_MARGIN

INTERFERENCE = {Share: k.SHARE, Roofline: k.ROOFLINE, Matrix: k.MATRIX}
PREEMPTION = {"none": k.NO_PREEMPTION, "stage": k.STAGE, "restart": k.RESTART, "resume": k.RESUME}


def kilobytes(megabytes: float) -> int:
    """Return `megabytes` rounded to whole kilobytes, the kernel's unit of memory."""
    return round(megabytes * 1000)


def candidate_rows(scenario: EdgeScenario) -> int:
    """Return the number of candidate rows of an observation, the wait row included."""
    return _first_drop(scenario) + len(scenario.tasks) + 1


def runs_of(task: Task) -> list[tuple[int, int]]:
    """Return rank and position among its `runs` of every kind of run: all variants, then all for each batch size."""
    return [(rank, number) for number in range(len(task.batch_sizes)) for rank in range(task.num_variants)]


def row_width(scenario: EdgeScenario) -> int:
    """Return the number of dispatch rows of a task: its kinds of runs, of the task with most of them."""
    return max(task.num_variants * len(task.batch_sizes) for task in scenario.tasks)


def log_margin(scenario: EdgeScenario) -> int:
    """Return the most log rows of one event with the decision before it; a start may evict all weights."""
    evictions = sum(task.num_variants for task in scenario.tasks) if scenario.device.memory_mb is not None else 0
    # A run ends, another is interrupted, a third starts: a row for each of their jobs.
    return LOG_MARGIN + evictions + 3 * (scenario.most_jobs - 1)


def timescale(scenario: EdgeScenario) -> int:
    """Return the mean relative deadline of a job, in ns; tasks are weighted by their release rate."""
    tasks = spec_arrays(scenario)["tasks"]
    # A trace may hold more releases than nanoseconds; its mean gap is then rounded to 0.
    return round(float(np.average(tasks["deadline"], weights=1.0 / np.maximum(tasks["period"], 1))))


def known_spec(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the specification as policies know it: every run takes its profiled latency on the average."""
    variants = arrays["variants"].copy()
    variants["actual"] = variants["latency"]
    return {**arrays, "variants": variants}


def _first_drop(scenario: EdgeScenario) -> int:
    starts = len(scenario.tasks) * row_width(scenario)
    return starts * (1 + (scenario.device.streams if scenario.device.preemption.kind != "none" else 0))


def spec_arrays(scenario: EdgeScenario) -> dict[str, np.ndarray]:
    """Return the arrays of the specification, constant during an episode."""
    width = row_width(scenario)
    tasks = np.zeros(len(scenario.tasks), k.TASK)
    variants = np.zeros((len(scenario.tasks), width), k.VARIANT)
    traces: list[np.ndarray] = []
    for index, task in enumerate(scenario.tasks):
        for column, (rank, number) in enumerate(runs_of(task)):
            variant = task.ladder[rank]
            run = variant.runs[number]
            variants[index, column] = (
                nanoseconds(run.latency_ms),
                nanoseconds(variant.solo_run_ms(run)),
                variant.accuracy,
                variant.demand,
                variant.compute_share,
                variant.bandwidth_share,
                scenario.device.power_of(variant, run),
                variant.stages,
                nanoseconds(variant.load_ms),
                kilobytes(variant.memory_mb),
                nanoseconds(variant.solo_run_ms(run)),
                task.batch_sizes[number],
                rank,
            )
        _fill_task(tasks[index], task, scenario, traces)
    return {
        "device": _device(scenario, variants),
        "streams": _streams(scenario),
        "tasks": tasks,
        "variants": variants,
        "slowdowns": _slowdowns(scenario, width),
        "trace": np.concatenate([np.zeros(0, np.int64), *traces]),
        "static_rows": _static_rows(scenario, tasks, variants),
    }


def state_arrays(scenario: EdgeScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return zeroed state for `lanes` lanes, each with an event log of `log_rows` rows."""
    tasks, streams = len(scenario.tasks), scenario.device.streams
    max_variants = max(task.num_variants for task in scenario.tasks)
    preemptive = scenario.device.preemption.kind != "none"
    # Preempted jobs return to their queue even if it is full.
    queue_capacity = scenario.device.queue_limit + (streams * scenario.most_jobs if preemptive else 0)
    batches = scenario.most_jobs > 1
    # The first positions of all rings are adjacent: most queues are short, so few cache lines are in use.
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "tasks": np.zeros((lanes, tasks), k.TASK_STATE),
        "streams": np.zeros((lanes, streams), k.STREAM_STATE),
        "runs": np.zeros((lanes, streams), k.RUN),
        "members": np.zeros((lanes, streams + 1, scenario.most_jobs if batches else 0), k.JOB),
        "queue": np.zeros((lanes, queue_capacity, tasks), k.JOB),
        "checkpoints": np.zeros((lanes, queue_capacity if preemptive else 0, tasks), k.CHECKPOINT),
        "weights": np.zeros((lanes, tasks, max_variants if _loads(scenario) else 0), k.WEIGHTS),
        "heap": empty_heap(lanes, streams + (3 if batches else 2) * tasks + 2),
        "terms": np.zeros((lanes, 5)),
        "log": np.zeros((lanes, log_rows), EVENT),
        "corunners": np.zeros((lanes, streams), k.CORUNNER),
    }


def _loads(scenario: EdgeScenario) -> bool:
    """Return whether the scenario limits memory or has load times, so that residency of weights matters."""
    return scenario.device.memory_mb is not None or scenario.has_load_times


def _streams(scenario: EdgeScenario) -> np.ndarray:
    streams = np.zeros(scenario.device.streams, k.STREAM)
    priorities = scenario.device.stream_priorities
    if priorities is not None:
        distinct = sorted(set(priorities), reverse=True)
        streams["rank"] = [distinct.index(priority) for priority in priorities]
        streams["priority"] = priorities
    return streams


def _slowdowns(scenario: EdgeScenario, width: int) -> np.ndarray:
    """Return the slowdown of each (task, run) beside each (task, run); 1 for runs that do not exist."""
    interference = scenario.device.interference
    if not isinstance(interference, Matrix):
        return np.ones((0, 0))
    entries = np.array(interference.slowdowns)
    count = len(scenario.tasks)
    by_task = len(entries) == count
    first = np.cumsum([0, *(task.num_variants for task in scenario.tasks)])
    run_rows = [
        (index * width + column, index, first[index] + rank)
        for index, task in enumerate(scenario.tasks)
        for column, (rank, _) in enumerate(runs_of(task))
    ]
    table = np.ones((count * width, count * width))
    rows = np.array([row for row, _, _ in run_rows])
    chosen = np.array([task if by_task else variant for _, task, variant in run_rows])
    table[np.ix_(rows, rows)] = entries[np.ix_(chosen, chosen)]
    return table


def _device(scenario: EdgeScenario, variants: np.ndarray) -> np.ndarray:
    device = scenario.device
    record = np.zeros(1, k.DEVICE)
    row = record[0]
    row["horizon"] = nanoseconds(scenario.horizon_ms)
    row["streams"] = device.streams
    row["interference"] = INTERFERENCE.get(type(device.interference), k.NO_INTERFERENCE)
    if isinstance(device.interference, Share):
        row["throughput"] = device.interference.total_throughput
    row["priority_ranks"] = len(set(device.stream_priorities or [0]))
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
    row["preemption"] = PREEMPTION[device.preemption.kind]
    row["switch_cost"] = nanoseconds(device.preemption.cost_ms)
    row["loads"] = _loads(scenario)
    row["memory"] = kilobytes(device.memory_mb) if device.memory_mb is not None else NEVER
    row["first_drop"] = _first_drop(scenario)
    row["log_margin"] = log_margin(scenario)
    row["batches"] = scenario.most_jobs > 1
    row["idle_power"] = device.idle_w
    row["metered"] = variants["power"].any()
    row["simple"] = (
        row["interference"] in (k.NO_INTERFERENCE, k.SHARE)
        and not any(device.stream_priorities or [])
        and row["preemption"] == k.NO_PREEMPTION
        and not row["loads"]
        and not row["metered"]
        and not row["batches"]
    )
    for term in ("on_time_accuracy", "lateness", "drops", "utilisation", "energy"):
        row[term] = getattr(scenario.reward, term)
    return record


def _fill_task(row: Any, task: Task, scenario: EdgeScenario, traces: list[np.ndarray]) -> None:
    row["deadline"] = nanoseconds(task.relative_deadline_ms)
    row["weight"] = task.weight
    row["variants"] = len(runs_of(task))
    row["fastest"] = nanoseconds(task.ladder[0].latency_ms)
    row["fill_time"] = nanoseconds(task.fill_ms) if task.fill_ms is not None else -1
    arrival = task.arrival
    if isinstance(arrival, Periodic):
        row["arrival"] = k.PERIODIC
        row["period"] = nanoseconds(arrival.period_ms)
        row["phase"] = nanoseconds(arrival.phase_ms)
        row["jitter"] = nanoseconds(arrival.jitter_ms)
    elif isinstance(arrival, Poisson | External):
        row["arrival"] = k.POISSON
        row["period"] = row["calm_gap"] = nanoseconds(arrival.gap_ms)
    elif isinstance(arrival, Bursty):
        row["arrival"] = k.BURSTY
        for name in ("calm_gap", "burst_gap"):
            row[name] = nanoseconds(getattr(arrival, f"{name}_ms"))
        calm, burst = nanoseconds(arrival.calm_ms), nanoseconds(arrival.burst_ms)
        row["calm_spell"], row["burst_spell"] = calm, burst
        row["period"] = round((calm + burst) / (calm / row["calm_gap"] + burst / row["burst_gap"]))
    elif isinstance(arrival, Trace):
        times = task_trace_times(scenario, scenario.tasks.index(task))
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
    """Return a stable hash of `text` in [0, 1)."""
    return zlib.crc32(text.encode()) / 2**32


def _static_rows(scenario: EdgeScenario, tasks: np.ndarray, variants: np.ndarray) -> np.ndarray:
    count, width = variants.shape
    streams, first_drop = scenario.device.streams, _first_drop(scenario)
    rows = np.zeros((candidate_rows(scenario), len(f.CANDIDATE)))
    priorities = scenario.device.stream_priorities or [0] * streams
    for index, task in enumerate(scenario.tasks):
        _put_task(rows[first_drop + index], task, tasks[index])
        rows[first_drop + index, f.DROP] = 1.0
        for column in range(len(runs_of(task))):
            pair = index * width + column
            _put_variant(rows[pair], task, tasks[index], variants[index, column])
            rows[pair, f.DISPATCH] = 1.0
            if scenario.device.preemption.kind != "none":
                first = count * width + pair * streams
                for stream in range(streams):
                    _put_variant(rows[first + stream], task, tasks[index], variants[index, column])
                    rows[first + stream, f.PREEMPT] = 1.0
                    rows[first + stream, f.STREAM_PRIORITY] = priorities[stream]
    if not _loads(scenario):
        starts = (rows[:, f.DISPATCH] == 1.0) | (rows[:, f.PREEMPT] == 1.0)
        rows[starts, f.RESIDENT] = 1.0
    rows[-1, f.WAIT] = 1.0
    return rows


def _put_task(row: np.ndarray, task: Task, record: Any) -> None:
    row[f.DEADLINE] = record["deadline"]
    row[f.PERIOD] = record["period"]
    row[f.FASTEST_LATENCY] = record["fastest"]
    row[f.WEIGHT] = task.weight
    row[f.CRITICALITY] = task.criticality
    row[f.NUM_VARIANTS] = task.num_variants
    row[f.MODEL_CODE] = _code(task.model)
    row[f.DATASET_CODE] = _code(task.dataset)
    row[f.FILL] = max(0, record["fill_time"])


def _put_variant(row: np.ndarray, task: Task, record: Any, variant: Any) -> None:
    _put_task(row, task, record)
    row[f.WEIGHT] = task.weight * variant["jobs"]
    row[f.BATCH] = variant["jobs"]
    row[f.LATENCY] = variant["latency"]
    row[f.ACCURACY] = variant["accuracy"]
    row[f.VARIANT_RANK] = variant["rank"]
    row[f.DEMAND] = variant["demand"]
    row[f.COMPUTE_SHARE] = variant["compute"]
    row[f.BANDWIDTH_SHARE] = variant["bandwidth"]
    row[f.MEMORY] = task.ladder[variant["rank"]].memory_mb
    row[f.ENERGY] = variant["power"] * variant["latency"] * 1e-9
