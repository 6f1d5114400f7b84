"""Metrics of one episode of LLM engines, computed from its event log.

A token comes out at the end of a step. TTFT is the time from the arrival of a request to its first token, TPOT the mean
time of its further tokens, E2E the time from arrival to last token, ITL the time between two tokens of a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.scenario import LlmScenario
from slipstream.sim.eventlog import ARRIVAL, DONE, END, EVICT, FINISH, PREEMPT, READY, REJECT, START


@dataclass(frozen=True)
class RequestTimes:
    """All requests of an episode, by arrival; times in ns, -1 where the event never happened."""

    group: np.ndarray
    """Class."""
    number: np.ndarray
    """Number within the class."""
    arrival: np.ndarray
    start: np.ndarray
    """First admission."""
    first: np.ndarray
    """First token."""
    finish: np.ndarray
    """Last token."""
    prompt: np.ndarray
    """Tokens of the prompt."""
    output: np.ndarray
    """Tokens generated, 0 where it did not finish."""
    rejected: np.ndarray
    """Whether it was rejected."""
    end: int
    """Time at which the episode ended."""

    @property
    def done(self) -> np.ndarray:
        """Whether each has its last token."""
        return np.asarray(self.finish >= 0)


def requests_of(events: np.ndarray) -> RequestTimes:
    """Return the requests of an episode from its event log."""
    arrivals = events[events["kind"] == ARRIVAL]
    group, number = arrivals["task"].astype(np.int64), arrivals["job"].astype(np.int64)
    position = _positions(group, number)

    def column(kind: int, name: str = "time") -> np.ndarray:
        rows = events[events["kind"] == kind][::-1]  # the last assignment to an index wins: the first row
        values = np.full(len(group), -1, np.int64)
        values[position(rows)] = rows[name]
        return values

    ends = events[events["kind"] == END]
    return RequestTimes(
        group=group,
        number=number,
        arrival=arrivals["time"].astype(np.int64),
        start=column(START),
        first=column(READY),
        finish=column(FINISH),
        prompt=arrivals["resource"].astype(np.int64),
        output=np.maximum(0, column(EVICT, "resource")),
        rejected=column(REJECT) >= 0,
        end=int(ends["time"][-1]) if len(ends) else int(events["time"][-1]) if len(events) else 0,
    )


def _positions(group: np.ndarray, number: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from rows of a log to the indices of their requests among all arrivals."""
    totals = np.bincount(group, minlength=int(group.max(initial=-1)) + 1)
    first = np.concatenate(([0], np.cumsum(totals)))[:-1]
    index = np.empty(len(group), np.int64)
    index[first[group] + number] = np.arange(len(group))
    return lambda rows: np.asarray(index[first[rows["task"]] + rows["job"]])


def _spans(
    scenario: LlmScenario, events: np.ndarray, requests: RequestTimes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the spans in which requests got a token at the end of every step: first and last token, engine, request.

    A token that was under way when a request was preempted is part of the gap that follows.
    """
    position = _positions(requests.group, requests.number)
    rows = events[np.isin(events["kind"], (READY, PREEMPT, FINISH))]
    request = position(rows)
    order = np.argsort(request, kind="stable")
    kind, time, request = rows["kind"][order], rows["time"][order].astype(np.int64), request[order]
    engine = rows["resource"][order].astype(np.int64) // scenario.engine.seats
    begins = np.flatnonzero(kind == READY)
    follows = np.minimum(begins + 1, len(kind) - 1)
    same = (follows > begins) & (request[follows] == request[begins])
    # A first token that came after its request was preempted is a span of its own.
    end = np.where(same, np.where(kind[follows] == READY, time[begins], time[follows]), requests.end)
    return time[begins], end, engine[begins], request[begins]


def token_gaps(scenario: LlmScenario, events: np.ndarray, requests: RequestTimes) -> tuple[np.ndarray, np.ndarray]:
    """Return the gaps between consecutive tokens in ns, and how many requests had each."""
    begin, end, engine, request = _spans(scenario, events, requests)
    steps = events[events["kind"] == DONE]
    gaps, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    last = np.empty(len(begin), np.int64)
    for one in range(scenario.engines):
        own, ends = engine == one, np.sort(steps["time"][steps["resource"] == one]).astype(np.int64)
        if not own.any():
            continue
        low, high = np.searchsorted(ends, begin[own], "left"), np.searchsorted(ends, end[own], "right") - 1
        change = np.zeros(len(ends) + 1, np.int64)
        np.add.at(change, low, 1)
        np.add.at(change, np.maximum(low, high), -1)
        gaps.append(np.diff(ends))
        counts.append(np.cumsum(change)[: len(ends) - 1])
        last[own] = ends[np.maximum(low, high)]
    # Between two spans of a request it was preempted.
    again = np.flatnonzero(request[1:] == request[:-1]) if len(request) else np.zeros(0, np.int64)
    gaps.append(begin[again + 1] - last[again])
    counts.append(np.ones(len(again), np.int64))
    gap, count = np.concatenate(gaps), np.concatenate(counts)
    return gap[count > 0], count[count > 0]


def metrics(scenario: LlmScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name; means and percentiles are of the requests that finished."""
    requests = requests_of(events)
    done, count = requests.done, max(1, len(requests.group))
    seconds = max(requests.end / 1e9, 1e-9)
    ttft, tpot = requests.first - requests.arrival, requests.finish - requests.first
    e2e, further = requests.finish - requests.arrival, np.maximum(1, requests.output - 1)
    attained = done & ~violates(scenario, requests)
    stays = np.where(done, e2e, np.where(requests.rejected, 0, requests.end - requests.arrival))
    violations = float(len(attained) - attained.sum())
    gaps, weights = token_gaps(scenario, events, requests)
    multiple = done & (requests.output > 1)
    blocks = (scenario.engine.blocks - 1) * scenario.engines
    figures = {
        "reward": -(scenario.reward.time * float(stays.sum()) / 1e9 + scenario.reward.violations * violations),
        **_summary("ttft", "_s", ttft[done] / 1e9),
        **_summary("tpot", "_ms", (tpot / further)[multiple] / 1e6),
        **_weighted_summary("itl", "_ms", gaps / 1e6, weights),
        **_summary("e2e", "_s", e2e[done] / 1e9),
        "slo_attainment": float(attained.sum()) / count,
        "goodput_hz": float(attained.sum()) / seconds,
        "requests_hz": float(done.sum()) / seconds,
        "tokens_per_s": float(requests.output.sum()) / seconds,
        "s_per_token": float((e2e / np.maximum(1, requests.output))[done].mean()) / 1e9 if done.any() else 0.0,
        "preemptions": float((events["kind"] == PREEMPT).sum()),
        "kv_use": _mean_use(events, requests.end) / blocks,
        "prefix_reuse": _reuse(scenario, events, requests),
        "batch_mean": _mean_batch(events),
        "fairness": fairness(requests, len(scenario.classes)),
        "rejected": float(requests.rejected.sum()),
        "steps": float((events["kind"] == DONE).sum()),
        "requests": float(len(requests.group)),
    }
    if len(scenario.classes) > 1:
        for index, one in enumerate(scenario.classes):
            own = requests.group == index
            figures[f"e2e_mean_s/{one.name}"] = _mean(e2e[own & done] / 1e9)
            figures[f"slo_attainment/{one.name}"] = float(attained[own].sum()) / max(1, int(own.sum()))
    return figures


def violates(scenario: LlmScenario, requests: RequestTimes) -> np.ndarray:
    """Return whether each request missed a limit of its class or was rejected."""
    classes = compiled_scenario(scenario).spec["classes"][requests.group]
    late = (classes["ttft"] > 0) & (requests.first - requests.arrival > classes["ttft"])
    spread = requests.finish - requests.first
    slow = (classes["tpot"] > 0) & (spread > classes["tpot"] * np.maximum(0, requests.output - 1))
    return np.asarray(late | slow | requests.rejected)


def unmodelled(scenario: LlmScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    found = set()
    if all(one.ttft_s is None and one.tpot_ms is None for one in scenario.classes):
        found |= {"slo_attainment", "goodput_hz"}
    if not scenario.engine.prefix_cache:
        found.add("prefix_reuse")
    if len(scenario.classes) == 1:
        found.add("fairness")
    return found


def fairness(requests: RequestTimes, classes: int) -> float:
    """Return Jain's index of the mean time from arrival to last token of each class; 1 if all are equal."""
    means = [
        _mean((requests.finish - requests.arrival)[(requests.group == group) & requests.done])
        for group in range(classes)
    ]
    shares = np.array([mean for mean in means if mean > 0.0])
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if len(shares) else 1.0


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _summary(name: str, unit: str, values: np.ndarray) -> dict[str, float]:
    """Return mean and percentiles."""
    found = {f"{name}_mean{unit}": _mean(values)}
    for percent in (50, 95, 99):
        found[f"{name}_p{percent}{unit}"] = float(np.percentile(values, percent)) if len(values) else 0.0
    return found


def _weighted_summary(name: str, unit: str, values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Return mean and percentiles of values that occur several times each."""
    order = np.argsort(values, kind="stable")
    values, until = values[order], np.cumsum(weights[order])
    total = int(until[-1]) if len(until) else 0
    found = {f"{name}_mean{unit}": float((values * weights[order]).sum()) / max(1, total)}
    for percent in (50, 95, 99):
        place = min(int(np.searchsorted(until, percent / 100.0 * total)), len(values) - 1)
        found[f"{name}_p{percent}{unit}"] = float(values[place]) if total else 0.0
    return found


def _mean_use(events: np.ndarray, end: int) -> float:
    """Return the mean number of blocks in use; a step uses its blocks from the end of the step before it."""
    steps = events[events["kind"] == DONE]
    total = 0.0
    for engine in np.unique(steps["resource"]):
        own = steps[steps["resource"] == engine]
        total += float((np.diff(own["time"], prepend=0) * own["task"]).sum())
    return total / max(1, end)


def _reuse(scenario: LlmScenario, events: np.ndarray, requests: RequestTimes) -> float:
    """Return the share of the tokens of prompts that were found in the cache when requests first started."""
    position = _positions(requests.group, requests.number)
    rows = events[events["kind"] == READY][::-1]
    hits = np.zeros(len(requests.group), np.int64)
    hits[position(rows)] = rows["variant"].astype(np.int64) * scenario.engine.block_tokens
    return float(hits.sum()) / max(1, int(requests.prompt.sum()))


def _mean_batch(events: np.ndarray) -> float:
    return _mean(events["variant"][events["kind"] == DONE])
