"""Metrics of one episode, computed from its event log.

A violation is a request that was offered and not answered by its own deadline. Proteus counts otherwise; its figure is
included, for comparisons with published ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.schema import nanoseconds, nanoseconds_of
from slipstream.sim.eventlog import ARRIVAL, DROP, END, EVICT, FINISH, MOVE, READY, REJECT, START

PROTEUS_LATE_MS = 1000.0
"""Proteus counts a request as late after this time, whatever its deadline."""
AVERAGING_S = 10.0
"""Length of the intervals of which the least mean accuracy is reported."""
OPEN, FINISHED, DROPPED, REJECTED = range(4)


@dataclass(frozen=True)
class Requests:
    """All requests of an episode, by arrival; times in ns, -1 where the event never happened."""

    model: np.ndarray
    number: np.ndarray
    arrival: np.ndarray
    deadline: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    left: np.ndarray
    """Time at which it was dropped or rejected."""
    variant: np.ndarray
    accelerator: np.ndarray
    fate: np.ndarray
    end: int
    """Time at which the episode ended."""

    @property
    def on_time(self) -> np.ndarray:
        """Whether each was answered by its deadline."""
        return np.asarray((self.fate == FINISHED) & (self.finish <= self.deadline))

    @property
    def response_ms(self) -> np.ndarray:
        """Response times of the answered requests."""
        done = self.fate == FINISHED
        return np.asarray((self.finish[done] - self.arrival[done]) / 1e6)


def requests_of(scenario: ServingScenario, events: np.ndarray) -> Requests:
    """Return the requests of an episode from its event log."""
    arrivals = events[events["kind"] == ARRIVAL]
    model, number = arrivals["task"].astype(np.int64), arrivals["job"].astype(np.int64)
    count = len(arrivals)
    parts = compiled_scenario(scenario)
    # Index of the request of a model and a number among all.
    totals = np.bincount(model, minlength=len(parts.models))
    first = np.concatenate(([0], np.cumsum(totals)[:-1]))
    position = np.empty(count, np.int64)
    position[first[model] + number] = np.arange(count)
    deadline = arrivals["time"] + parts.spec["models"]["slo"][model]
    for index, process in enumerate(parts.processes):
        if len(process.listed):
            own = model == index
            deadline[own] = process.listed["deadline"][number[own]]

    def column(kind: int, name: str) -> np.ndarray:
        rows = events[events["kind"] == kind]
        values = np.full(count, -1, np.int64)
        values[position[first[rows["task"]] + rows["job"]]] = rows[name]
        return values

    finish, dropped, rejected = (column(kind, "time") for kind in (FINISH, DROP, REJECT))
    fate = np.select([finish >= 0, dropped >= 0, rejected >= 0], [FINISHED, DROPPED, REJECTED], OPEN)
    ends = events[events["kind"] == END]
    return Requests(
        model=model,
        number=number,
        arrival=arrivals["time"].astype(np.int64),
        deadline=deadline,
        start=column(START, "time"),
        finish=finish,
        left=np.maximum(dropped, rejected),
        variant=column(START, "variant"),
        accelerator=column(START, "resource"),
        fate=fate,
        end=int(ends["time"][-1]) if len(ends) else int(events["time"][-1]) if len(events) else 0,
    )


@dataclass(frozen=True)
class Deployments:
    """Intervals in which accelerators hosted variants; times in ns."""

    accelerator: np.ndarray
    variant: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    """The end of the episode where it was still hosted."""
    switches: int
    """Number that began with a load, or with a change of variant that took no time."""


def deployments_of(events: np.ndarray) -> Deployments:
    """Return the intervals in which accelerators hosted variants."""
    rows: list[list[int]] = []
    hosts: dict[int, int] = {}
    holds: dict[int, int] = {}
    ready: set[int] = set()
    switches = 0
    moves = events[np.isin(events["kind"], (MOVE, READY, EVICT))]
    for time, _, _, accelerator, variant, kind in moves.tolist():
        if kind == MOVE:
            switches += time > 0 and holds.get(accelerator) != variant
            hosts[accelerator] = len(rows)
            rows.append([accelerator, variant, time, -1])
        elif kind == READY:
            holds[accelerator] = variant
            ready.add(accelerator)
        else:
            rows[hosts.pop(accelerator)][3] = time
            if accelerator not in ready:
                holds.pop(accelerator, None)
            ready.discard(accelerator)
    table = np.array(rows, np.int64).reshape(-1, 4)
    table[table[:, 3] < 0, 3] = int(events["time"][-1]) if len(events) else 0
    return Deployments(table[:, 0], table[:, 1], table[:, 2], table[:, 3], switches)


def metrics(scenario: ServingScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    requests, deployments = requests_of(scenario, events), deployments_of(events)
    accuracy = compiled_scenario(scenario).spec["variants"]["accuracy"]
    offered = max(1, len(requests.model))
    done, on_time = requests.fate == FINISHED, requests.on_time
    seconds = max(requests.end / 1e9, 1e-9)
    gained = float(accuracy[requests.variant[on_time]].sum() / 100.0)
    violations = float(len(on_time) - on_time.sum())
    response = requests.response_ms
    weights = scenario.reward
    slow = done & (requests.finish - requests.arrival > nanoseconds(PROTEUS_LATE_MS))
    dropped, rejected = (requests.fate == DROPPED), (requests.fate == REJECTED)
    lost = int(dropped.sum() + rejected.sum())
    busy = (requests.finish - requests.start)[done] / np.maximum(1, _batch_sizes(requests)[done])
    capacity = seconds * sum(kind.count for kind in scenario.accelerators)
    figures = {
        "reward": weights.accuracy * gained - weights.violations * violations - weights.switches * deployments.switches,
        "on_time_accuracy": gained / offered,
        "violation_ratio": violations / offered,
        "effective_accuracy": float(accuracy[requests.variant[done]].mean()) / 100.0 if done.any() else 0.0,
        "max_accuracy_drop": _max_drop(requests, accuracy),
        "throughput_hz": float(done.sum()) / seconds,
        "goodput_hz": float(on_time.sum()) / seconds,
        "p50_ms": _percentile(response, 50),
        "p95_ms": _percentile(response, 95),
        "p99_ms": _percentile(response, 99),
        "late_ratio": float((done & ~on_time).sum()) / offered,
        "drop_ratio": float(dropped.sum()) / offered,
        "reject_ratio": float(rejected.sum()) / offered,
        "open_requests": float((requests.fate == OPEN).sum()),
        "mean_batch": float(done.sum()) / max(1, _batches(requests)),
        "utilisation": float(busy.sum()) / 1e9 / capacity,
        "switches": float(deployments.switches),
        "requests": float(len(requests.model)),
        "proteus_violation_ratio": float(slow.sum() + lost) / max(1, int(done.sum()) + lost),
    }
    for position, model in enumerate(compiled_scenario(scenario).models):
        own = requests.model == position
        own_accuracy = float(accuracy[requests.variant[on_time & own]].sum() / 100.0)
        figures[f"on_time_accuracy/{model.name}"] = own_accuracy / max(1, int(own.sum()))
        figures[f"throughput_hz/{model.name}"] = float((done & own).sum()) / seconds
    return figures


def unmodelled(scenario: ServingScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    found = {"switches"} if scenario.mode == "route" else set()
    if scenario.drop == "never":
        found.add("drop_ratio")
    return found if scenario.compat == "proteus" else found | {"proteus_violation_ratio"}


def _batch_keys(requests: Requests) -> tuple[np.ndarray, np.ndarray]:
    """Return the requests that started, and a number that those of one batch share."""
    started = np.flatnonzero(requests.start >= 0)
    pairs = np.stack((requests.accelerator[started], requests.start[started]))
    return started, np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)


def _batch_sizes(requests: Requests) -> np.ndarray:
    """Return the batch size of each request, 0 if it never started."""
    started, batch = _batch_keys(requests)
    sizes = np.zeros(len(requests.model), np.int64)
    if len(started):
        sizes[started] = np.bincount(batch)[batch]
    return sizes


def _batches(requests: Requests) -> int:
    started, batch = _batch_keys(requests)
    return int(batch.max()) + 1 if len(started) else 0


def _max_drop(requests: Requests, accuracy: np.ndarray) -> float:
    """Return 1 less the least mean accuracy, from 0 to 1, of what was answered within an interval of 10 s."""
    done = requests.fate == FINISHED
    if not done.any():
        return 1.0
    interval = requests.finish[done] // nanoseconds_of(AVERAGING_S)
    counts = np.bincount(interval)
    means = np.bincount(interval, accuracy[requests.variant[done]])[counts > 0] / counts[counts > 0]
    return 1.0 - float(means.min()) / 100.0


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
