"""A second, plain-Python implementation of the edge machine: slow, readable, and the judge of the compiled one.

It shares no code with the kernel, only the scenario model. Time is a whole number of nanoseconds throughout.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from slipstream.edge.scenario import (
    Arrival,
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

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
STREAM_SALT = 0xD1B54A32D192ED03
COIN_STREAM = 0
LONGEST_RUN = 2**60

LogRow = tuple[int, int, int, int, int, int]
Row = dict[str, float]

COLUMNS = (
    "dispatch",
    "drop",
    "wait",
    "slack",
    "corun_latency",
    "corun_margin",
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
    "fastest_latency",
    "model_code",
    "dataset_code",
)


class Log(IntEnum):
    """What a row of the event log tells."""

    ARRIVAL = 0
    START = 1
    FINISH = 2
    EXPIRE = 3
    REJECT = 4
    DROP = 5
    END = 6


class Event(IntEnum):
    """What can happen next; among events of one instant the lower number comes first."""

    FINISH = 0
    EXPIRY = 1
    ARRIVAL = 2
    HORIZON = 3
    EFFECT = 4


# Random numbers


def mix(z: int) -> int:
    """Scramble 64 bits with SplitMix64's finaliser."""
    z &= MASK
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def episode_key(namespace: int, seed: int) -> int:
    """Return the key from which all numbers of an episode follow."""
    return mix(seed * 4 + namespace + GOLDEN)


def stream_key(key: int, stream: int) -> int:
    """Return the key of one independent stream of numbers within an episode."""
    return mix(key + mix(stream + STREAM_SALT))


def bits(key: int, counter: int) -> int:
    """Return the counter-th 64 random bits of a stream."""
    return mix(key + (counter + 1) * GOLDEN)


def uniform(key: int, counter: int) -> float:
    """Return a uniform number strictly between 0 and 1."""
    return (float(bits(key, counter) >> 12) + 0.5) * 2.0**-52


def exponential(key: int, counter: int, mean: float) -> float:
    """Return an exponential number of the given mean."""
    return -math.log(uniform(key, counter)) * mean


def normal(key: int, counter: int) -> float:
    """Return a standard normal number (Box-Muller, the cosine half)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * counter + 1))


def next_seed(seed: int) -> int:
    """Return the seed of the episode that follows in the same lane."""
    return mix(seed + GOLDEN) >> 2


class Draws:
    """The numbers of one stream, taken one after the other."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.drawn = 0

    def uniform(self) -> float:
        """Take the next number as a uniform one."""
        self.drawn += 1
        return uniform(self.key, self.drawn - 1)

    def gap(self, mean: int) -> int:
        """Take the next number as an exponential duration of at least one nanosecond."""
        self.drawn += 1
        return max(1, math.ceil(exponential(self.key, self.drawn - 1, float(mean))))


# Arrivals


def ns(milliseconds: float) -> int:
    """Return the nearest whole number of nanoseconds."""
    return round(milliseconds * 1e6)


def periodic_releases(arrival: Periodic, draws: Draws) -> Iterator[int]:
    """Yield the nominal releases, each with its own delay."""
    period, phase, jitter = ns(arrival.period_ms), ns(arrival.phase_ms), ns(arrival.jitter_ms)
    for k in count():
        delay = int(jitter * draws.uniform()) if jitter > 0 else 0
        yield phase + k * period + delay


def poisson_releases(arrival: Poisson, draws: Draws) -> Iterator[int]:
    """Yield releases with independent exponential gaps."""
    time = 0
    while True:
        time += draws.gap(ns(arrival.mean_gap_ms))
        yield time


def bursty_releases(arrival: Bursty, draws: Draws, horizon: int) -> Iterator[int]:
    """Yield the releases of a Poisson process whose gap depends on the spell, calm (0) or burst (1)."""
    gap = (ns(arrival.calm_gap_ms), ns(arrival.burst_gap_ms))
    spell = (ns(arrival.calm_ms), ns(arrival.burst_ms))
    state = 1 if draws.uniform() < float(spell[1]) / float(spell[0] + spell[1]) else 0
    spell_end = draws.gap(spell[state])
    time = 0
    # Beyond the horizon nothing can be released, however many spells it would take to find the time.
    while time < horizon:
        candidate = time + draws.gap(gap[state])
        if candidate <= spell_end:
            time = candidate
            yield time
        else:
            # The gap has no memory, so what is left of it is drawn afresh in the new state.
            time = spell_end
            state = 1 - state
            spell_end = time + draws.gap(spell[state])


def releases_of(arrival: Arrival, draws: Draws, trace: list[int], horizon: int) -> Iterator[int]:
    """Return the releases of a task that do not depend on what becomes of its jobs."""
    if isinstance(arrival, Periodic):
        return periodic_releases(arrival, draws)
    if isinstance(arrival, Poisson):
        return poisson_releases(arrival, draws)
    if isinstance(arrival, Bursty):
        return bursty_releases(arrival, draws, horizon)
    if isinstance(arrival, Trace):
        return iter(trace)
    return iter([ns(arrival.phase_ms)])


def mean_gap(arrival: Arrival, fastest: int, trace: list[int], horizon: int) -> int:
    """Return the mean time between releases as a policy may know it."""
    if isinstance(arrival, Periodic):
        return ns(arrival.period_ms)
    if isinstance(arrival, Poisson):
        return ns(arrival.mean_gap_ms)
    if isinstance(arrival, Bursty):
        calm, burst = float(ns(arrival.calm_ms)), float(ns(arrival.burst_ms))
        calm_gap, burst_gap = float(ns(arrival.calm_gap_ms)), float(ns(arrival.burst_gap_ms))
        return round((calm + burst) / (calm / calm_gap + burst / burst_gap))
    if isinstance(arrival, Trace):
        if len(trace) > 1 and trace[-1] > trace[0]:
            return round((trace[-1] - trace[0]) / (len(trace) - 1))
        return horizon
    return ns(arrival.think_ms) + fastest


# Jobs and tasks


def code(text: str) -> float:
    """Return a number in [0, 1) that stands for a name."""
    return zlib.crc32(text.encode("utf-8")) / 2**32


@dataclass(frozen=True)
class Job:
    """A released job: the k-th of its task."""

    task: int
    k: int
    deadline: int


@dataclass
class Run:
    """A job on a stream, with the work left when it was last brought up to date."""

    job: Job
    variant: int
    demand: float
    work: float
    expected: float
    updated: int
    rate: float = 0.0
    finish: int = 0

    def expected_left(self, now: int) -> float:
        """Return the work left at this instant if the job takes as long as profiled."""
        return max(0.0, self.expected - (now - self.updated) * self.rate)

    def change_rate(self, now: int, rate: float) -> None:
        """Account for the work done at the old rate and go on at the new one."""
        done = (now - self.updated) * self.rate
        self.work = max(0.0, self.work - done)
        self.expected = max(0.0, self.expected - done)
        self.updated = now
        self.rate = rate
        self.finish = now + min(math.ceil(self.work / rate), LONGEST_RUN)


@dataclass
class TaskState:
    """A task of the scenario in nanoseconds, and what has become of it so far."""

    spec: Task
    latencies: list[int]
    deadline: int
    period: int
    releases: Iterator[int]
    latency_key: int
    next_release: int | None = None
    last_release: int = 0
    released: int = 0
    finished: int = 0
    queue: deque[Job] = field(default_factory=deque)


@dataclass
class Choice:
    """What was chosen for a stream; waits have no job, drops have no variant."""

    stream: int
    job: Job | None
    variant: int | None
    effect: int
    disturbed: bool = False
    """Whether a finish, an expiry or an arrival came between the choice and its effect."""


class ReferenceEdge:
    """One episode of an edge scenario, stopped at each choice.

    At a choice `asked` is the stream asked, and `choices` counts it: the present choice has index `choices - 1`.
    After the end `asked` is -1, and `mask`, `rows` and `globals` have no meaning.
    """

    def __init__(
        self,
        scenario: EdgeScenario,
        seed: int,
        namespace: int = 2,
        trace_times: dict[int, list[int]] | None = None,
    ) -> None:
        self.scenario = scenario
        self.key = episode_key(namespace, seed)
        self.horizon = ns(scenario.horizon_ms)
        self.decision_time = ns(scenario.device.decision_time_ms)
        self.tasks = [self._task_state(index, (trace_times or {}).get(index)) for index in range(len(scenario.tasks))]
        self.width = max(len(task.latencies) for task in self.tasks)

        self.now = 0
        self.asked = -1
        self.choices = 0
        self.terminated = False
        self.truncated = False
        self.runs: list[Run | None] = [None] * scenario.device.streams
        self.parked: set[int] = set()
        self.in_flight: Choice | None = None
        self.busy_ns = 0
        self.late_finishes = 0
        self.drops = 0
        self.log: list[LogRow] = []

        for task in self.tasks:
            self._schedule(task, next(task.releases, None))
        self._open_step()
        self._advance()

    def _task_state(self, index: int, trace: list[int] | None) -> TaskState:
        spec = self.scenario.tasks[index]
        if trace is None:
            trace = self._inline_trace(spec)
        latencies = [ns(variant.latency_ms) for variant in spec.ladder]
        draws = Draws(stream_key(self.key, 1 + 2 * index))
        return TaskState(
            spec=spec,
            latencies=latencies,
            deadline=ns(spec.relative_deadline_ms),
            period=mean_gap(spec.arrival, latencies[0], trace, self.horizon),
            releases=releases_of(spec.arrival, draws, trace, self.horizon),
            latency_key=stream_key(self.key, 2 + 2 * index),
        )

    @staticmethod
    def _inline_trace(spec: Task) -> list[int]:
        if not isinstance(spec.arrival, Trace):
            return []
        if spec.arrival.times_ms is None:
            raise ValueError(f"task '{spec.name}' takes its trace from a file: give its times as trace_times")
        return [ns(time) for time in spec.arrival.times_ms]

    # The state in words

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    @property
    def running(self) -> list[Run]:
        """The running jobs in stream order."""
        return [run for run in self.runs if run is not None]

    @property
    def waiting_jobs(self) -> int:
        """The number of jobs in all queues."""
        return sum(len(task.queue) for task in self.tasks)

    # Choices

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on to the next choice or the end."""
        if self.asked < 0:
            raise RuntimeError("no choice is asked: the episode has ended")
        # What happened before the first choice belongs to the first step.
        if self.choices > 1:
            self._open_step()
        chosen_at = self.now
        mask = self.mask()
        self.illegal = not (0 <= action < len(mask) and mask[action] == 1)
        choice = self._choice(len(mask) - 1 if self.illegal else action)
        self.asked = -1
        if self.decision_time > 0:
            self.in_flight = choice
        else:
            self._take_effect(choice)
        self._advance()
        self._close_step(chosen_at)

    def _choice(self, action: int) -> Choice:
        effect = self.now + self.decision_time
        dispatch_rows = len(self.tasks) * self.width
        if action < dispatch_rows:
            task, variant = divmod(action, self.width)
            return Choice(self.asked, self.tasks[task].queue[0], variant, effect)
        if action < dispatch_rows + len(self.tasks):
            return Choice(self.asked, self.tasks[action - dispatch_rows].queue[0], None, effect)
        return Choice(self.asked, None, None, effect)

    def _is_stale(self, choice: Choice) -> bool:
        if choice.job is None:
            return choice.disturbed
        queue = self.tasks[choice.job.task].queue
        return not queue or queue[0] != choice.job

    def _take_effect(self, choice: Choice) -> None:
        if choice.job is None:
            self.parked.add(choice.stream)
            return
        self.tasks[choice.job.task].queue.popleft()
        if choice.variant is None:
            self._record(Log.DROP, choice.job)
            self._lose(choice.job)
        else:
            self._start(choice.job, choice.variant, choice.stream)

    def _start(self, job: Job, variant: int, stream: int) -> None:
        task = self.tasks[job.task]
        latency = float(task.latencies[variant])
        self.runs[stream] = Run(
            job=job,
            variant=variant,
            demand=task.spec.ladder[variant].demand,
            work=latency * self._factor(job),
            expected=latency,
            updated=self.now,
        )
        self._record(Log.START, job, variant, stream)
        self._reprice()

    def _factor(self, job: Job) -> float:
        """Return by how much the job takes longer than profiled, whichever variant runs and whenever it starts."""
        key = self.tasks[job.task].latency_key
        latency = self.scenario.device.latency
        if isinstance(latency, LognormalLatency):
            s2 = math.log(1.0 + latency.cv * latency.cv)
            return math.exp(math.sqrt(s2) * normal(key, job.k) - s2 / 2.0)
        if isinstance(latency, ExponentialLatency):
            return exponential(key, job.k, 1.0)
        return 1.0

    # Rates

    def _rates(self, demands: list[float]) -> list[float]:
        """Return the rates of jobs that run side by side."""
        interference = self.scenario.device.interference
        if not isinstance(interference, Share) or len(demands) < 2:
            return [1.0] * len(demands)
        # Not sum(): since Python 3.12 it compensates rounding errors, and the specified sum is the plain one.
        total = 0.0
        for demand in demands:
            total += demand
        return [min(1.0, interference.total_throughput * demand / total) for demand in demands]

    def _reprice(self) -> None:
        running = self.running
        for run, rate in zip(running, self._rates([run.demand for run in running]), strict=True):
            if rate != run.rate:
                run.change_rate(self.now, rate)

    # Events

    def _advance(self) -> None:
        """Apply events until a stream is asked or the episode ends."""
        while not self.over:
            if self._nothing_to_come():
                self.terminated = True
                self._record(Log.END)
                return
            time, kind, who = self._next_event()
            # Events of the present instant come before the choice.
            if time > self.now:
                self.asked = self._stream_to_ask()
                if self.asked >= 0:
                    self.choices += 1
                    return
            self._apply(time, kind, who)

    def _next_event(self) -> tuple[int, Event, int]:
        pending = [(self.horizon, Event.HORIZON, 0)]
        for stream, run in enumerate(self.runs):
            if run is not None:
                pending.append((run.finish, Event.FINISH, stream))
        for index, task in enumerate(self.tasks):
            if task.queue and self.scenario.device.late == "drop":
                pending.append((task.queue[0].deadline, Event.EXPIRY, index))
            if task.next_release is not None:
                pending.append((task.next_release, Event.ARRIVAL, index))
        if self.in_flight is not None:
            pending.append((self.in_flight.effect, Event.EFFECT, 0))
        return min(pending)

    def _stream_to_ask(self) -> int:
        """Return the lowest stream that may be given one of the waiting jobs, or -1."""
        if self.in_flight is None and self.waiting_jobs > 0:
            for stream, run in enumerate(self.runs):
                if run is None and stream not in self.parked:
                    return stream
        return -1

    def _apply(self, time: int, kind: Event, who: int) -> None:
        self.busy_ns += len(self.running) * (time - self.now)
        self.now = time
        if kind == Event.EFFECT:
            self._effect()
            return
        # The world has changed: whoever was told to wait may be asked again.
        self.parked.clear()
        if self.in_flight is not None:
            self.in_flight.disturbed = True
        if kind == Event.FINISH:
            self._finish(who)
        elif kind == Event.EXPIRY:
            self._expire(who)
        elif kind == Event.ARRIVAL:
            self._arrive(who)
        else:
            self.truncated = True
            self._record(Log.END)

    def _finish(self, stream: int) -> None:
        run = self.runs[stream]
        assert run is not None
        self.runs[stream] = None
        self._record(Log.FINISH, run.job, run.variant, stream)
        task = self.tasks[run.job.task]
        task.finished += 1
        tardiness = self.now - run.job.deadline
        if tardiness <= 0:
            self.terms["on_time_accuracy"] += task.spec.weight * task.spec.ladder[run.variant].accuracy
        else:
            self.terms["lateness"] += task.spec.weight * min(1.0, tardiness / task.deadline)
            self.late_finishes += 1
        if isinstance(task.spec.arrival, Closed):
            self._schedule(task, self.now + ns(task.spec.arrival.think_ms))
        self._reprice()

    def _expire(self, index: int) -> None:
        job = self.tasks[index].queue.popleft()
        self._record(Log.EXPIRE, job)
        self._lose(job)

    def _arrive(self, index: int) -> None:
        task = self.tasks[index]
        job = Job(index, task.released, self.now + task.deadline)
        task.released += 1
        task.last_release = self.now
        self._record(Log.ARRIVAL, job)
        # Drawn before a rejection is dealt with: a closed loop has no further draw, and a rejection schedules its own.
        self._schedule(task, next(task.releases, None))
        if len(task.queue) < self.scenario.device.queue_limit:
            task.queue.append(job)
        else:
            self._record(Log.REJECT, job)
            self._lose(job)

    def _effect(self) -> None:
        choice = self.in_flight
        assert choice is not None
        self.in_flight = None
        if not self._is_stale(choice):
            self._take_effect(choice)

    def _lose(self, job: Job) -> None:
        """Count a job dropped in whatever way, and let a closed loop try again."""
        task = self.tasks[job.task]
        self.drops += 1
        self.terms["drops"] += task.spec.weight
        if isinstance(task.spec.arrival, Closed):
            pause = max(ns(task.spec.arrival.think_ms), ns(task.spec.arrival.retry_ms))
            self._schedule(task, self.now + pause)

    def _schedule(self, task: TaskState, release: int | None) -> None:
        """Set the task's next release, unless it would come too late to happen."""
        task.next_release = release if release is not None and release < self.horizon else None

    def _nothing_to_come(self) -> bool:
        return (
            all(isinstance(task.spec.arrival, Trace) and task.next_release is None for task in self.tasks)
            and self.waiting_jobs == 0
            and not self.running
        )

    def _record(self, kind: Log, job: Job | None = None, variant: int = -1, stream: int = -1) -> None:
        task, k = (job.task, job.k) if job is not None else (-1, -1)
        self.log.append((self.now, int(kind), task, k, variant, stream))

    # Reward

    def _open_step(self) -> None:
        self.terms = {"on_time_accuracy": 0.0, "lateness": 0.0, "drops": 0.0, "utilisation": 0.0}
        self.reward = 0.0
        self.illegal = False
        self.elapsed = 0
        self._busy_ns_before = self.busy_ns

    def _close_step(self, chosen_at: int) -> None:
        terms, weights = self.terms, self.scenario.reward
        terms["utilisation"] = (self.busy_ns - self._busy_ns_before) / (len(self.runs) * 1e9)
        self.elapsed = self.now - chosen_at
        self.reward = (
            weights.on_time_accuracy * terms["on_time_accuracy"]
            - weights.lateness * terms["lateness"]
            - weights.drops * terms["drops"]
            + weights.utilisation * terms["utilisation"]
        )

    # Observation

    def mask(self) -> list[int]:
        """Return 1 for each row that may be chosen now, 0 for the others."""
        dispatch = [
            int(bool(task.queue) and variant < len(task.latencies))
            for task in self.tasks
            for variant in range(self.width)
        ]
        drop = [int(bool(task.queue)) for task in self.tasks]
        return [*dispatch, *drop, 1]

    def rows(self) -> list[Row]:
        """Return the raw observation: one row per action, by column name."""
        dispatch = [self._dispatch_row(task, variant) for task in self.tasks for variant in range(self.width)]
        drop = [self._task_row(task) | {"drop": 1.0} for task in self.tasks]
        return [*dispatch, *drop, self._wait_row()]

    def _task_row(self, task: TaskState) -> Row:
        return dict.fromkeys(COLUMNS, 0.0) | {
            "slack": float(task.queue[0].deadline - self.now) if task.queue else 0.0,
            "queue_length": float(len(task.queue)),
            "running": float(sum(self.tasks[run.job.task] is task for run in self.running)),
            "completed": task.finished / task.released if task.released else 0.0,
            "next_arrival": float(self._next_arrival(task)) if task.queue else 0.0,
            "deadline": float(task.deadline),
            "period": float(task.period),
            "weight": float(task.spec.weight),
            "criticality": float(task.spec.criticality),
            "num_variants": float(len(task.latencies)),
            "fastest_latency": float(task.latencies[0]),
            "model_code": code(task.spec.model),
            "dataset_code": code(task.spec.dataset),
        }

    def _dispatch_row(self, task: TaskState, variant: int) -> Row:
        if variant >= len(task.latencies):
            return dict.fromkeys(COLUMNS, 0.0)
        rung = task.spec.ladder[variant]
        finish, margin = self._corun(task.latencies[variant], rung.demand) if task.queue else (0, 0)
        return self._task_row(task) | {
            "dispatch": 1.0,
            "corun_latency": float(finish),
            "corun_margin": float(margin),
            "latency": float(task.latencies[variant]),
            "accuracy": float(rung.accuracy),
            "variant_rank": float(variant),
            "demand": float(rung.demand),
        }

    def _wait_row(self) -> Row:
        """Return the row that waits: it shows the task whose release is expected first."""
        soonest = min(self.tasks, key=self._next_arrival)
        return dict.fromkeys(COLUMNS, 0.0) | {
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

    def _corun(self, latency: int, demand: float) -> tuple[int, int]:
        """Return when a job started now would end, and the least slack of the running jobs at their own ends.

        Nothing else ever starts. Whoever ends first leaves, and the others go on at the rates that leaves them.
        """
        if not self.running:
            return latency, 0
        if not isinstance(self.scenario.device.interference, Share):
            ends = [math.ceil(run.expected_left(self.now)) for run in self.running]
            return latency, min(run.job.deadline - self.now - end for run, end in zip(self.running, ends, strict=True))
        newcomer = object()
        left: dict[object, float] = {newcomer: float(latency)} | {
            id(run): run.expected_left(self.now) for run in self.running
        }
        demands = {newcomer: demand} | {id(run): run.demand for run in self.running}
        ends_at: dict[object, int] = {}
        clock = 0.0
        while left:
            rates = dict(zip(left, self._rates([demands[who] for who in left]), strict=True))
            times = {who: left[who] / rates[who] for who in left}
            first = min(times, key=lambda who: times[who])
            clock += times[first]
            ends_at[first] = math.ceil(clock)
            if list(left) == [newcomer]:
                break
            left = {
                who: work - times[first] * rates[who] if who is newcomer else max(0.0, work - times[first] * rates[who])
                for who, work in left.items()
                if who is not first
            }
        return ends_at[newcomer], min(run.job.deadline - self.now - ends_at[id(run)] for run in self.running)

    def _throughput(self) -> float:
        """Return the work that the streams can do together, in units of one job running alone."""
        streams, interference = float(len(self.runs)), self.scenario.device.interference
        return min(interference.total_throughput, streams) if isinstance(interference, Share) else streams

    def globals(self) -> dict[str, float]:
        """Return the raw observation of the machine as a whole."""
        released = sum(task.released for task in self.tasks)
        finished = sum(task.finished for task in self.tasks)
        left = [run.expected_left(self.now) / run.rate for run in self.running]
        return {
            "time": float(self.now),
            "remaining": float(self.horizon - self.now),
            "stream": float(self.asked),
            "streams": float(len(self.runs)),
            "idle_streams": float(len(self.runs) - len(self.running)),
            "waiting_jobs": float(self.waiting_jobs),
            "waiting_tasks": float(sum(bool(task.queue) for task in self.tasks)),
            "corun_first": min(left, default=0.0),
            "corun_last": max(left, default=0.0),
            "backlog": float(sum(len(task.queue) * task.latencies[0] for task in self.tasks)),
            "finished": finished / released if released else 0.0,
            "missed": (self.late_finishes + self.drops) / released if released else 0.0,
            "utilisation": self.busy_ns / (len(self.runs) * self.now) if self.now > 0 else 0.0,
            "throughput": self._throughput(),
            "coin": uniform(stream_key(self.key, COIN_STREAM), self.choices - 1),
        }


ActionOf = Callable[[int, list[int], list[Row], dict[str, float]], int]
"""A policy: the action for (index of the choice, mask, rows, globals)."""


def run(
    scenario: EdgeScenario,
    seed: int,
    action_of: ActionOf,
    namespace: int = 2,
    trace_times: dict[int, list[int]] | None = None,
) -> ReferenceEdge:
    """Play a whole episode and return it at its end."""
    edge = ReferenceEdge(scenario, seed, namespace, trace_times)
    while not edge.over:
        edge.step(action_of(edge.choices - 1, edge.mask(), edge.rows(), edge.globals()))
    return edge
