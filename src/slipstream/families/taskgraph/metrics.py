"""Metrics of one episode, computed from its event log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import TO_HOST
from slipstream.families.taskgraph.oracle.bounds import least_makespan
from slipstream.families.taskgraph.scenario import NoNoise, TaskgraphScenario
from slipstream.sim.eventlog import ARRIVAL, DONE, END, EVICT, FAIL, FINISH, MOVE, READY, START, TAKE


@dataclass(frozen=True)
class Spans:
    """Time intervals of tasks on processors or of transfers on links; times in ns."""

    job: np.ndarray
    task: np.ndarray
    """Task that ran or tile that was transferred."""
    resource: np.ndarray
    variant: np.ndarray
    start: np.ndarray
    end: np.ndarray
    """End of the episode if the interval was not over by then."""

    @property
    def total_ms(self) -> float:
        """Sum of all intervals, in milliseconds."""
        return float((self.end - self.start).sum() / 1e6)


def spans_of(events: np.ndarray, begin: int, finish: int) -> Spans:
    """Return the intervals between events of kind `begin` and `finish` on each resource, by start time.

    An attempt of a task that failed, which only happens on an engine, is an interval of its own.
    """
    rows = events[np.isin(events["kind"], (begin, finish, FAIL) if begin == START else (begin, finish))]
    rows = rows[np.argsort(rows["resource"], kind="stable")]
    starts = np.flatnonzero(rows["kind"] == begin)
    ends = np.full(len(starts), end_of(events), np.int64)
    ended = (starts + 1 < len(rows)) & np.isin(np.roll(rows["kind"], -1)[starts], (finish, FAIL))
    ends[ended] = rows["time"][starts[ended] + 1]
    taken = rows[starts]
    order = np.argsort(taken["time"], kind="stable")
    job, task, resource, variant, start = (
        taken[name][order].astype(np.int64) for name in ("job", "task", "resource", "variant", "time")
    )
    return Spans(job, task, resource, variant, start, ends[order])


def tasks_of(events: np.ndarray) -> Spans:
    """Return the tasks of an episode."""
    return spans_of(events, START, FINISH)


def transfers_of(events: np.ndarray) -> Spans:
    """Return the transfers of an episode; the variant is the kind of link."""
    return spans_of(events, MOVE, READY)


def end_of(events: np.ndarray) -> int:
    """Return the end of the episode in ns."""
    ends = events[events["kind"] == END]
    return int(ends["time"][-1]) if len(ends) else int(events["time"][-1]) if len(events) else 0


def union_ns(start: np.ndarray, end: np.ndarray) -> int:
    """Return the length of the union of intervals in ns."""
    order = np.argsort(start, kind="stable")
    total, until = 0, 0
    for begin, stop in zip(start[order].tolist(), end[order].tolist(), strict=True):
        total += max(0, stop - max(begin, until))
        until = max(until, stop)
    return total


def overlap_ns(tasks: Spans, transfers: Spans) -> int:
    """Return the time in ns in which a transfer and a task overlap."""
    both_start = np.concatenate((tasks.start, transfers.start))
    both_end = np.concatenate((tasks.end, transfers.end))
    apart = union_ns(tasks.start, tasks.end) + union_ns(transfers.start, transfers.end)
    return apart - union_ns(both_start, both_end)


def stall_ms(events: np.ndarray) -> float:
    """Return the total time in ms in which processors held a task but waited for its tiles."""
    total = 0
    rows = events[np.isin(events["kind"], (TAKE, START, FINISH))]
    for processor in np.unique(rows["resource"]):
        held, runs, since = 0, False, 0
        for time, kind in zip(
            *(rows[rows["resource"] == processor][name].tolist() for name in ("time", "kind")), strict=True
        ):
            if held and not runs:
                total += time - since
            since = time
            held += 1 if kind == TAKE else -1 if kind == FINISH else 0
            runs = kind == START or (runs and kind == TAKE)
    return total / 1e6


def metrics(scenario: TaskgraphScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    parts = compiled_scenario(scenario)
    tasks, transfers = tasks_of(events), transfers_of(events)
    end = end_of(events)
    arrivals, done = events[events["kind"] == ARRIVAL], events[events["kind"] == DONE]
    arrived = dict(zip(arrivals["job"].tolist(), arrivals["time"].tolist(), strict=True))
    stayed = [time - arrived[job] for job, time in zip(done["job"].tolist(), done["time"].tolist(), strict=True)]
    capacity = end * parts.sizes.processors / 1e6
    busy, stall = tasks.total_ms, stall_ms(events)
    bound = least_makespan(scenario, arrivals)
    sizes = _sizes(scenario, arrivals, transfers)
    carried = union_ns(transfers.start, transfers.end)
    return {
        "reward": -scenario.reward.makespan * end / 1e6,
        "makespan_ms": end / 1e6,
        "bound_ms": bound / 1e6,
        "ratio_to_bound": end / bound if bound else 1.0,
        "job_ms": float(np.mean(stayed) / 1e6) if stayed else 0.0,
        "moved_mb": float(sizes.sum() / 1e6),
        "sent_back_mb": float(sizes[transfers.variant == TO_HOST].sum() / 1e6),
        "transfers": float(len(transfers.job)),
        "evictions": float((events["kind"] == EVICT).sum()),
        "busy_share": busy / capacity if capacity else 0.0,
        "stall_share": stall / capacity if capacity else 0.0,
        "idle_share": max(0.0, 1.0 - (busy + stall) / capacity) if capacity else 0.0,
        "overlap_share": overlap_ns(tasks, transfers) / carried if carried else 0.0,
        "tasks": float(len(tasks.job)),
        "jobs_done": float(len(done)),
    }


def unmodelled(scenario: TaskgraphScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    if scenario.links is None or not any(kind.device for kind in scenario.processors):
        return {"moved_mb", "sent_back_mb", "transfers", "evictions", "stall_share", "overlap_share"}
    return set() if any(kind.memory_mb is not None for kind in scenario.processors) else {"evictions"}


def in_hindsight(scenario: TaskgraphScenario, events: np.ndarray, seed: int, split: str) -> dict[str, float]:
    """Return the bound metrics of the episode of `seed` from its drawn durations, which `events` has only in part."""
    from slipstream.families.taskgraph.oracle.hindsight import jobs_of_episode

    if isinstance(scenario.noise, NoNoise):
        return {}
    arrivals = events[events["kind"] == ARRIVAL]
    jobs = jobs_of_episode(scenario, arrivals, seed, split)
    bound = least_makespan(scenario, arrivals, [np.array(job.durations) for job in jobs])
    return {"bound_ms": bound / 1e6, "ratio_to_bound": end_of(events) / bound if bound else 1.0}


def _sizes(scenario: TaskgraphScenario, arrivals: np.ndarray, transfers: Spans) -> np.ndarray:
    """Return the bytes of each transfer."""
    templates = compiled_scenario(scenario).library.templates
    graph = dict(zip(arrivals["job"].tolist(), arrivals["task"].tolist(), strict=True))
    pairs = zip(transfers.job.tolist(), transfers.task.tolist(), strict=True)
    return np.array([templates[graph[job]].tile_bytes[tile] for job, tile in pairs], np.float64)
