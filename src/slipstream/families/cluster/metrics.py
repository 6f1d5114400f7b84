"""Metrics of one episode, computed from its event log and the workload that it was drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.cluster.build import beginning, compiled_scenario, idle_milliwatts, level_milliwatts
from slipstream.families.cluster.kernel.state import BOUND_S
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.runs import Spans, spans_of
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.sim.eventlog import ARRIVAL, FINISH, PREEMPT, START, TAKE

HOUR_NS = 3.6e12
GAINS = ("throughput", "utilisation")
"""Reward terms with a positive sign."""


@dataclass(frozen=True)
class Jobs:
    """All jobs of an episode, by number; times in ns."""

    gpus: np.ndarray
    run: np.ndarray
    """Run time at speed 1 without a cap, on one node."""
    user: np.ndarray
    submit: np.ndarray
    first_start: np.ndarray
    """-1 where it never started."""
    finish: np.ndarray
    """-1 where it never finished."""
    served: np.ndarray
    """Time for which it ran."""
    interrupted: np.ndarray
    waited_before: np.ndarray
    """Time for which it waited before the episode began."""
    served_before: np.ndarray
    """Time for which it ran before the episode began."""

    @property
    def completion_s(self) -> np.ndarray:
        """Time from submission to the end, in seconds."""
        return np.asarray((self.finish - self.submit) / 1e9)

    @property
    def slowdown(self) -> np.ndarray:
        """Bounded slowdown."""
        return np.asarray(np.maximum(1.0, self.completion_s / np.maximum(self.run / 1e9, BOUND_S)))


def end_of(events: np.ndarray) -> int:
    """Return the time at which the episode ended."""
    return int(events["time"][-1]) if len(events) else 0


def jobs_of(scenario: ClusterScenario, events: np.ndarray) -> Jobs:
    """Return the jobs of an episode."""
    workload = compiled_scenario(scenario).workload
    arrivals = events[events["kind"] == ARRIVAL]
    index, count = arrivals["task"], len(arrivals)
    spans = spans_of(events)
    first, finish = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    first[spans.job[::-1]] = spans.start[::-1]
    ends = events[events["kind"] == FINISH]
    finish[ends["job"]] = ends["time"]
    served = np.bincount(spans.job, weights=spans.end - spans.start, minlength=count)
    interrupted = np.bincount(events["job"][events["kind"] == PREEMPT], minlength=count)
    columns = (workload.gpus[index], workload.run[index], workload.user[index])
    submit = arrivals["time"].astype(np.int64)
    waited_before, served_before = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if scenario.begins_s is not None:
        zero, started = beginning(scenario, workload), workload.started[index]
        begun = started >= 0
        first[begun] = started[begun] - zero
        submit = np.minimum(submit, workload.submit[index] - zero)
        served_before[begun] = zero - started[begun]
        waited_before = np.maximum(0, -submit) - served_before
    return Jobs(*columns, submit, first, finish, served + served_before, interrupted, waited_before, served_before)


def step_function(times: np.ndarray, changes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the running sum of `changes` at `times` as a step function: distinct times and values from then on."""
    moments, index = np.unique(times, return_inverse=True)
    return moments, np.cumsum(np.bincount(index, weights=changes, minlength=len(moments)))


def busy_gpus(spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of busy GPUs as a step function: times and values."""
    times = np.concatenate(([0], spans.start, spans.end))
    return step_function(times, np.concatenate(([0], spans.gpus, -spans.gpus)))


def power_w(scenario: ClusterScenario, events: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Return the power of the cluster in watts as a step function: times and values."""
    more = _added_milliwatts(scenario, events, spans) / 1e3
    asleep, woken, saved = sleeps_of(scenario, events, spans)
    times = np.concatenate(([0], spans.start, spans.end, asleep, woken))
    return step_function(times, np.concatenate(([idle_milliwatts(scenario) / 1e3], more, -more, -saved, saved)))


def sleeps_of(scenario: ClusterScenario, events: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when nodes fell asleep, when they woke, and the watts that each saved in between."""
    if scenario.sleep is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    nodes, after, end = (
        compiled_scenario(scenario).spec["nodes"],
        nanoseconds_of(scenario.sleep.after_s),
        end_of(events),
    )
    pieces, begin, stop = pieces_of(events, spans)
    found = []
    for node, saved in enumerate((nodes["saved"] / 1e3).tolist()):
        here = pieces["resource"] == node
        since = 0
        # By start; a node is at work from the first start to the latest end of those that overlap.
        for start, finish in sorted(zip(begin[here].tolist(), stop[here].tolist(), strict=True)):
            if start > since + after:
                found.append((since + after, start, saved))
            since = max(since, finish)
        if end > since + after:
            found.append((since + after, end, saved))
    columns = np.array(found).reshape(-1, 3)
    return columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2]


def pieces_of(events: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the allocations of jobs on single nodes, and when each began and ended."""
    takes = events["kind"] == TAKE
    # In the log the pieces of an allocation follow its start.
    owner = np.cumsum(events["kind"] == START)[takes] - 1
    return events[takes], spans.start[owner], spans.end[owner]


def _added_milliwatts(scenario: ClusterScenario, events: np.ndarray, spans: Spans) -> np.ndarray:
    """Return the power that the job of each span adds."""
    table = level_milliwatts(scenario)
    if scenario.placement == "flat":
        return np.asarray(spans.gpus * table[0, spans.variant])
    kinds = compiled_scenario(scenario).spec["nodes"]["kind"]
    takes = np.flatnonzero(events["kind"] == TAKE)
    # In the log the pieces of an allocation follow its start.
    owner = np.cumsum(events["kind"] == START)[takes] - 1
    pieces = events[takes]
    power = pieces["task"] * table[kinds[pieces["resource"]], pieces["variant"]]
    return np.bincount(owner, weights=power, minlength=len(spans.job))


def integral(times: np.ndarray, values: np.ndarray, end: int) -> float:
    """Return the integral of a step function up to `end`, with time in hours."""
    return float((np.diff(np.append(times, end)) / HOUR_NS * values).sum())


def integral_at_hourly_rates(times: np.ndarray, values: np.ndarray, end: int, rates: list[float]) -> float:
    """Return the integral of a step function times the hourly `rates`, which repeat, with time in hours."""
    if len(rates) == 1:
        return rates[0] * integral(times, values, end)
    hours = np.arange(0, int(end // HOUR_NS) + 1) * int(HOUR_NS)
    moments = np.union1d(times, hours)
    held = values[np.searchsorted(times, moments, side="right") - 1]
    paid = np.array(rates)[(moments // int(HOUR_NS)) % len(rates)]
    return integral(moments, held * paid, end)


def jain(values: np.ndarray) -> float:
    """Return Jain's index of `values`: 1 if all are equal, 1 / n if one has everything."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0


def mean_by_user(jobs: Jobs, values: np.ndarray) -> np.ndarray:
    """Return the mean of `values` over the jobs of each user."""
    users, index = np.unique(jobs.user, return_inverse=True)
    return np.asarray(np.bincount(index, weights=values) / np.bincount(index, minlength=len(users)))


def finish_time_fairness(scenario: ClusterScenario, jobs: Jobs) -> np.ndarray:
    """Return each job's time in the system over that with an equal share of the cluster for each user (rho)."""
    share = scenario.gpus / max(1, len(np.unique(jobs.user)))
    alone = jobs.run / 1e9 * np.maximum(1.0, jobs.gpus / share)
    return np.asarray(jobs.completion_s / np.maximum(alone, 1e-9))


def fragmentation(scenario: ClusterScenario, events: np.ndarray, spans: Spans, end: int) -> float:
    """Return the share of idle GPU-time on partly used nodes; 0 where placement is flat."""
    if scenario.placement == "flat" or not end:
        return 0.0
    sizes = compiled_scenario(scenario).spec["nodes"]["gpus"].astype(np.int64)
    pieces, begin, stop = pieces_of(events, spans)
    fragmented = 0.0
    for node in np.unique(pieces["resource"]).tolist():
        here = pieces["resource"] == node
        changes = np.concatenate(([0], pieces["task"][here], -pieces["task"][here]))
        times, busy = step_function(np.concatenate(([0], begin[here], stop[here])), changes)
        fragmented += integral(times, np.where(busy > 0, sizes[node] - busy, 0), end)
    idle = scenario.gpus * end / HOUR_NS - integral(*busy_gpus(spans), end)
    return fragmented / idle if idle > 0.0 else 0.0


def unfairness(jobs: Jobs, spans: Spans, end: int) -> float:
    """Return 1 - Jain's index of the GPUs that users with jobs in the system hold, integrated over hours."""
    users, owner = np.unique(jobs.user, return_inverse=True)
    count = len(users)
    # Of each change: time, user, GPUs added, and jobs added to the system.
    nothing, one = np.zeros(len(owner), np.int64), np.ones(len(owner), np.int64)
    times = np.concatenate((spans.start, spans.end, jobs.submit, jobs.finish))
    owners = np.concatenate((owner[spans.job], owner[spans.job], owner, owner))
    gpus = np.concatenate((spans.gpus, -spans.gpus, nothing, nothing))
    present = np.concatenate((np.zeros(2 * len(spans.job), np.int64), one, -one))
    order = np.argsort(times, kind="stable")
    times = times[order]
    held, here = np.zeros(count, np.int64), np.zeros(count, np.int64)
    total = 0.0
    for index, row in enumerate(order.tolist()):
        held[owners[row]] += gpus[row]
        here[owners[row]] += present[row]
        until = int(times[index + 1]) if index + 1 < len(order) else end
        if until > times[index]:
            total += (1.0 - jain(held[here > 0])) * float(until - times[index]) / HOUR_NS
    return total


def terms_of(scenario: ClusterScenario, events: np.ndarray) -> dict[str, float]:
    """Return the sums of the reward terms over an episode."""
    jobs, spans, end = jobs_of(scenario, events), spans_of(events), end_of(events)
    return {
        "slowdown": float(jobs.slowdown.sum()),
        "waiting": float((jobs.finish - jobs.submit - jobs.served - jobs.waited_before).sum() / HOUR_NS),
        "throughput": float(len(jobs.finish)),
        "utilisation": integral(*busy_gpus(spans), end) / scenario.gpus,
        "energy": integral(*power_w(scenario, events, spans), end) / 1e3,
        "unfairness": unfairness(jobs, spans, end) if scenario.reward.unfairness else 0.0,
    }


def reward_of(scenario: ClusterScenario, terms: dict[str, float]) -> float:
    """Return the reward of the sums of its terms."""
    signs = {term: 1.0 if term in GAINS else -1.0 for term in terms}
    return float(sum(signs[term] * getattr(scenario.reward, term) * terms[term] for term in terms))


def metrics(scenario: ClusterScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    jobs, spans, end = jobs_of(scenario, events), spans_of(events), end_of(events)
    times, power = power_w(scenario, events, spans)
    hours = end / HOUR_NS
    energy = integral(times, power, end) / 1e3
    waits = (jobs.finish - jobs.submit - jobs.served) / 1e9
    slowdown, completion = jobs.slowdown, jobs.completion_s
    rho = finish_time_fairness(scenario, jobs)
    allocated = integral(*busy_gpus(spans), end)
    return {
        "reward": reward_of(scenario, terms_of(scenario, events)),
        "slowdown_mean": _mean(slowdown),
        "slowdown_p95": _percentile(slowdown, 95),
        "slowdown_p99": _percentile(slowdown, 99),
        "slowdown_max": _percentile(slowdown, 100),
        "jct_mean_s": _mean(completion),
        "jct_p50_s": _percentile(completion, 50),
        "jct_p99_s": _percentile(completion, 99),
        "wait_mean_s": _mean(waits),
        "wait_p99_s": _percentile(waits, 99),
        "wait_max_s": _percentile(waits, 100),
        "makespan_s": end / 1e9,
        "throughput_per_h": len(completion) / hours if hours else 0.0,
        "allocation": allocated / (scenario.gpus * hours) if hours else 0.0,
        "fragmentation": fragmentation(scenario, events, spans, end),
        "jain_users": jain(mean_by_user(jobs, slowdown)),
        "rho_mean": _mean(rho),
        "rho_max": _percentile(rho, 100),
        "unfair_share": _mean(rho > 1.0),
        "interruptions": float(jobs.interrupted.sum()),
        "energy_kwh": energy,
        "cost": integral_at_hourly_rates(times, power, end, scenario.power.price_per_kwh) / 1e3,
        "co2_kg": integral_at_hourly_rates(times, power, end, scenario.power.co2_g_per_kwh) / 1e6,
        "power_peak_w": float(power.max()),
        "jobs": float(len(completion)),
    }


def unmodelled(scenario: ClusterScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    found = set()
    if scenario.placement == "flat":
        found.add("fragmentation")
    if scenario.preemption is None:
        found.add("interruptions")
    if not any(watts for kind in scenario.nodes for watts in (kind.idle_w, kind.busy_w, kind.node_w)):
        found |= {"energy_kwh", "cost", "co2_kg", "power_peak_w"}
    if not any(scenario.power.price_per_kwh):
        found.add("cost")
    if not any(scenario.power.co2_g_per_kwh):
        found.add("co2_kg")
    if len(np.unique(compiled_scenario(scenario).workload.user)) == 1:
        found.add("jain_users")
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
