"""A second, plain-Python implementation of the edge machine: slow, readable, and the judge of the compiled one.

It shares no code with the kernel, only the scenario model. Time is a whole number of nanoseconds throughout. What
happens is in `machine`; here is what a policy may know of it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

from slipstream.families.edge.scenario import Closed, EdgeScenario, NoInterference, Periodic, Share, Trace
from tests.reference.arrivals import ns
from tests.reference.interference import Runner, rates_of
from tests.reference.machine import Log, LogRow, Machine, TaskState
from tests.reference.numbers import bits, episode_key, exponential, next_seed, normal, stream_key, uniform

COIN_STREAM = 0

Row = dict[str, float]

COLUMNS = (
    "dispatch",
    "preempt",
    "drop",
    "wait",
    "slack",
    "setup",
    "progress",
    "resident",
    "corun_latency",
    "corun_margin",
    "victim_slack",
    "victim_left",
    "victim_weight",
    "stream_priority",
    "queue_length",
    "running",
    "completed",
    "next_arrival",
    "latency",
    "accuracy",
    "deadline",
    "period",
    "weight",
    "criticality",
    "variant_rank",
    "num_variants",
    "demand",
    "compute_share",
    "bandwidth_share",
    "memory",
    "energy",
    "fastest_latency",
    "model_code",
    "dataset_code",
    "batch",
    "fill",
)


NOTHING = dict.fromkeys(COLUMNS, 0.0)
"""The row of a variant that does not exist, and what other rows are built on."""


class ReferenceEdge(Machine):
    """The machine with its raw observation; after the end `rows` and `globals` have no meaning."""

    def rows(self) -> list[Row]:
        """Return the raw observation: one row per action, by column name."""
        dispatch: list[Row] = []
        preempt: list[Row] = []
        drop: list[Row] = []
        for index, task in enumerate(self.tasks):
            of_task = self._task_row(task)
            for variant in range(len(task.latencies)):
                of_variant = of_task | self._variant_columns(index, variant)
                dispatch.append(of_variant | self._dispatch_columns(index, variant))
                preempt.extend(
                    of_variant | self._preempt_columns(index, variant, stream) for stream in self._preempt_streams()
                )
            missing = self.width - len(task.latencies)
            dispatch.extend([NOTHING] * missing)
            preempt.extend([NOTHING] * missing * len(self._preempt_streams()))
            drop.append(of_task | {"drop": 1.0})
        return [*dispatch, *preempt, *drop, self._wait_row()]

    def _task_row(self, task: TaskState) -> Row:
        return NOTHING | {
            "slack": float(task.queue[0].deadline - self.now) if task.queue else 0.0,
            "queue_length": float(len(task.queue)),
            "running": float(sum(len(run.jobs) for run in self.running if self.tasks[run.job.task] is task)),
            "completed": task.finished / task.released if task.released else 0.0,
            "next_arrival": float(self._next_arrival(task)) if task.queue else 0.0,
            "deadline": float(task.deadline),
            "period": float(task.period),
            "weight": float(task.spec.weight),
            "criticality": float(task.spec.criticality),
            "fastest_latency": float(task.latencies[0]),
            "model_code": code(task.spec.model),
            "dataset_code": code(task.spec.dataset),
            "fill": float(task.fill or 0),
            "num_variants": float(len(task.spec.ladder)),
        }

    def _variant_columns(self, index: int, variant: int) -> Row:
        """Return what dispatch and preempt rows of a variant have in common, beside the columns of the task."""
        task = self.tasks[index]
        rank, size = task.ranks[variant], task.sizes[variant]
        rung = task.spec.ladder[rank]
        kept = self.kept_by_head(index, variant) if task.queue else None
        there = bool(task.queue) and (index, rank) in self.memory.there
        return {
            "batch": float(size),
            "weight": float(task.spec.weight) * size,
            "progress": 1.0 - kept.expected / task.latencies[variant] if kept is not None else 0.0,
            "resident": float(there or self._weights_never_matter()),
            "latency": float(task.latencies[variant]),
            "accuracy": float(rung.accuracy),
            "variant_rank": float(rank),
            "demand": float(rung.demand),
            "compute_share": float(rung.compute_share),
            "bandwidth_share": float(rung.bandwidth_share),
            "memory": float(rung.memory_mb),
            "energy": task.powers[variant] * task.latencies[variant] * 1e-9,
        }

    def _weights_never_matter(self) -> bool:
        return self.memory.limit_kb is None and not any(any(task.load_times) for task in self.tasks)

    def _dispatch_columns(self, index: int, variant: int) -> Row:
        columns: Row = {"dispatch": 1.0}
        if self.tasks[index].queue:
            columns["setup"] = float(self.setup(index, variant, preempting=False))
            if self.asked < self.streams:
                columns["stream_priority"] = self._priority(self.asked)
                columns |= self._corun(index, variant, self.asked, preempting=False)
        return columns

    def _preempt_columns(self, index: int, variant: int, stream: int) -> Row:
        columns: Row = {"preempt": 1.0, "stream_priority": self._priority(stream)}
        if self.tasks[index].queue:
            columns["setup"] = float(self.setup(index, variant, preempting=True))
            victim = self.runs[stream]
            if victim is not None and self.can_be_interrupted(stream):
                columns |= self._corun(index, variant, stream, preempting=True)
                columns["victim_slack"] = float(victim.job.deadline - self.now)
                columns["victim_left"] = victim.expected_left(self.now)
                columns["victim_weight"] = float(self.tasks[victim.job.task].spec.weight) * len(victim.jobs)
        return columns

    def _priority(self, stream: int) -> float:
        priorities = self.scenario.device.stream_priorities
        return float(priorities[stream]) if priorities is not None else 0.0

    def _wait_row(self) -> Row:
        """Return the row that waits: it shows the task whose release is expected first."""
        soonest = min(self.tasks, key=self._next_arrival)
        return NOTHING | {
            "wait": 1.0,
            "next_arrival": float(self._next_arrival(soonest)),
            "deadline": float(soonest.deadline),
            "fastest_latency": float(soonest.latencies[0]),
            "weight": float(soonest.spec.weight),
        }

    def _next_arrival(self, task: TaskState) -> int:
        """Return the expected time to the next release from what a policy may know, never from the drawn one."""
        arrival = task.spec.arrival
        if isinstance(arrival, Periodic):
            estimate = max(0, ns(arrival.phase_ms) + task.released * task.period - self.now)
        elif isinstance(arrival, Trace):
            estimate = max(0, task.last_release + task.period - self.now)
        elif isinstance(arrival, Closed):
            estimate = 0
        else:
            estimate = task.period
        return min(estimate, self.horizon - self.now)

    def _corun(self, index: int, variant: int, stream: int, preempting: bool) -> Row:
        """Return when a job started now on the stream would end, and the least slack of the others at their ends."""
        kept = self.kept_by_head(index, variant)
        left = {stream: kept.expected if kept is not None else float(self.tasks[index].latencies[variant])}
        runners = {stream: Runner(stream, index, self.tasks[index].ranks[variant])}
        deadlines: dict[int, int] = {}
        for other, run in enumerate(self.runs):
            if run is not None and other != stream:
                left[other] = run.expected_left(self.now)
                runners[other] = Runner(other, run.job.task, run.rank)
                deadlines[other] = run.job.deadline
        ends = self._ends(stream, left, runners)
        return {
            "corun_latency": float(self.setup(index, variant, preempting) + ends[stream]),
            "corun_margin": float(min((deadlines[other] - self.now - ends[other] for other in deadlines), default=0)),
        }

    def _ends(self, candidate: int, left: dict[int, float], runners: dict[int, Runner]) -> dict[int, int]:
        """Return the time to the end of each job, by stream, if all run from now on and nothing else starts.

        Whoever ends first leaves, and the others go on at the rates that leaves them.
        """
        if isinstance(self.scenario.device.interference, NoInterference):
            return {stream: math.ceil(work) for stream, work in left.items()}
        ends: dict[int, int] = {}
        clock = 0.0
        left = dict(sorted(left.items()))
        while left:
            rates = dict(zip(left, rates_of(self.scenario, [runners[stream] for stream in left]), strict=True))
            times = {stream: left[stream] / rates[stream] for stream in left}
            # On ties the candidate comes first, then the lowest stream.
            first = min(times, key=lambda stream: (times[stream], stream != candidate, stream))
            time = times[first]
            clock += time
            ends[first] = math.ceil(clock)
            del left[first]
            for stream in left:
                left[stream] -= time * rates[stream]
                if stream != candidate:
                    left[stream] = max(0.0, left[stream])
        return ends

    def _throughput(self) -> float:
        """Return the work that the streams can do together, in units of one job running alone."""
        streams, interference = float(self.streams), self.scenario.device.interference
        return min(interference.total_throughput, streams) if isinstance(interference, Share) else streams

    def globals(self) -> dict[str, float]:
        """Return the raw observation of the machine as a whole."""
        released = sum(task.released for task in self.tasks)
        finished = sum(task.finished for task in self.tasks)
        left = [run.expected_time(self.now) for run in self.running]
        return {
            "time": float(self.now),
            "remaining": float(self.horizon - self.now),
            "stream": float(self.asked),
            "streams": float(self.streams),
            "idle_streams": float(self.streams - len(self.running)),
            "waiting_jobs": float(self.waiting_jobs),
            "waiting_tasks": float(sum(bool(task.queue) for task in self.tasks)),
            "corun_first": min(left, default=0.0),
            "corun_last": max(left, default=0.0),
            "backlog": float(sum(len(task.queue) * task.latencies[0] for task in self.tasks)),
            "finished": finished / released if released else 0.0,
            "missed": (self.late_finishes + self.drops) / released if released else 0.0,
            "utilisation": self.busy_ns / (self.streams * self.now) if self.now > 0 else 0.0,
            "throughput": self._throughput(),
            "free_memory": self.memory.free_share(),
            "power": self.power,
            "coin": uniform(stream_key(self.key, COIN_STREAM), self.choices - 1),
        }


def code(text: str) -> float:
    """Return a number in [0, 1) that stands for a name."""
    return zlib.crc32(text.encode("utf-8")) / 2**32


ActionOf = Callable[[int, list[int], list[Row], dict[str, float]], int]
"""A policy: the action for (index of the choice, mask, rows, globals)."""


def run(
    scenario: EdgeScenario,
    seed: int,
    action_of: ActionOf,
    split: int = 2,
    trace_times: dict[int, list[int]] | None = None,
) -> ReferenceEdge:
    """Play a whole episode and return it at its end."""
    edge = ReferenceEdge(scenario, seed, split, trace_times)
    while not edge.over:
        edge.step(action_of(edge.choices - 1, edge.mask(), edge.rows(), edge.globals()))
    return edge


__all__ = [
    "Log",
    "LogRow",
    "ReferenceEdge",
    "Row",
    "bits",
    "episode_key",
    "exponential",
    "next_seed",
    "normal",
    "run",
    "stream_key",
    "uniform",
]
