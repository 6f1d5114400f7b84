"""What happens on the device: jobs, events, choices and their effects, rewards and the event log."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from slipstream.families.edge.scenario import Closed, EdgeScenario, ExponentialLatency, LognormalLatency, Task, Trace
from tests.reference.arrivals import mean_gap, ns, releases_of
from tests.reference.interference import Runner, rates_of
from tests.reference.memory import Memory, Weights
from tests.reference.numbers import Draws, episode_key, exponential, normal, stream_key

LONGEST_RUN = 2**60

LogRow = tuple[int, int, int, int, int, int]


class Log(IntEnum):
    """What a row of the event log tells."""

    ARRIVAL = 0
    START = 1
    FINISH = 2
    EXPIRE = 3
    REJECT = 4
    DROP = 5
    END = 6
    PREEMPT = 7
    READY = 8
    EVICT = 9


class Event(IntEnum):
    """What can happen next; among events of one instant the lower number comes first."""

    STREAM = 0
    EXPIRY = 1
    ARRIVAL = 2
    HORIZON = 3
    EFFECT = 4
    FILL = 5


@dataclass(frozen=True)
class Job:
    """A released job: the k-th of its task."""

    task: int
    k: int
    deadline: int
    release: int


@dataclass(frozen=True)
class Kept:
    """What interrupted jobs keep of their run: they go on together or not at all."""

    jobs: list[Job]
    variant: int
    work: float
    expected: float
    stages_done: int


@dataclass
class Run:
    """Jobs that hold a stream together, with the work left when it was last brought up to date.

    `variant` counts the variants of the ladder over and over, once for each size of a batch.
    """

    jobs: list[Job]
    variant: int
    rank: int
    latency: float
    total_work: float
    work: float
    expected: float
    stages: int
    stages_done: int
    ready_at: int
    """The end of its set-up; its start if it needs none."""
    updated: int
    began: bool = False
    """Whether the set-up is over."""
    rate: float = 0.0
    next_event: int = 0
    border_at: int | None = None
    """When it last came to a border."""

    @property
    def job(self) -> Job:
        """The oldest of its jobs."""
        return self.jobs[0]

    @property
    def weights(self) -> Weights:
        """What must be on the device for this run."""
        return self.job.task, self.rank

    @property
    def stop(self) -> float:
        """The work left at the next border, or at the end."""
        stages_to_come = self.stages - (self.stages_done + 1)
        return self.total_work * stages_to_come / self.stages

    def expected_left(self, now: int) -> float:
        """Return the work left at this instant if the job takes as long as profiled, with the rest of the set-up."""
        setup_left = 0 if self.began else self.ready_at - now
        return setup_left + max(0.0, self.expected - (now - self.updated) * self.rate)

    def expected_time(self, now: int) -> float:
        """Return the time left at this instant if the job takes as long as profiled and nothing changes."""
        return self.expected_left(now) / self.rate if self.began else self.expected_left(now)

    def bring_up_to_date(self, now: int) -> None:
        """Account for the work done at the present rate."""
        done = (now - self.updated) * self.rate
        self.work = max(0.0, self.work - done)
        self.expected = max(0.0, self.expected - done)
        self.updated = now

    def change_rate(self, now: int, rate: float) -> None:
        """Go on at another rate."""
        self.bring_up_to_date(now)
        self.rate = rate
        self.plan(now)

    def pass_border(self, now: int) -> None:
        """Go on with the next stage, with exactly the work that the stages to come take."""
        self.work = self.stop
        self.stages_done += 1
        self.expected = self.latency * (self.stages - self.stages_done) / self.stages
        self.updated = now
        self.border_at = now
        self.plan(now)

    def plan(self, now: int) -> None:
        """Work out when the next border or the end comes."""
        self.next_event = now + min(math.ceil(max(0.0, self.work - self.stop) / self.rate), LONGEST_RUN)


@dataclass
class TaskState:
    """A task of the scenario in nanoseconds, and what has become of it so far."""

    spec: Task
    ranks: list[int]
    """The variant of the ladder that each kind of run uses; the lists below are by kind of run too."""
    sizes: list[int]
    """How many jobs each takes."""
    latencies: list[int]
    """By the profile."""
    lengths: list[int]
    """What runs really take, before chance."""
    load_times: list[int]
    powers: list[float]
    fill: int | None
    deadline: int
    period: int
    releases: Iterator[int]
    latency_key: int
    next_release: int | None = None
    last_release: int = 0
    released: int = 0
    finished: int = 0
    queue: list[Job] = field(default_factory=list)
    """The waiting jobs in the order of their release."""
    head: Job | None = None
    """The head of the queue when it was last looked at."""
    fill_at: int | None = None
    """When the head has waited long enough for a fuller batch."""

    def look_at_head(self, now: int) -> None:
        """Set the end of the wait for a fuller batch if there is another head."""
        head = self.queue[0] if self.queue else None
        if head != self.head:
            self.head = head
            self.fill_at = None if head is None or self.fill is None else max(now, head.release + self.fill)


@dataclass
class Choice:
    """What was chosen: waits have no job, drops have no variant, and only preemptions have a victim."""

    effect: int
    asked: int
    job: Job | None = None
    variant: int | None = None
    stream: int = -1
    victim: Job | None = None
    disturbed: bool = False
    """Whether an event of the world came between the choice and its effect."""


class Machine:
    """One episode of an edge scenario, stopped at each choice.

    At a choice `asked` is the stream asked, or the number of streams if the device as a whole is. `choices` counts the
    present choice too: its index is `choices - 1`. After the end `asked` is -1, and `mask` has no meaning.
    """

    def __init__(
        self,
        scenario: EdgeScenario,
        seed: int,
        split: int = 2,
        trace_times: dict[int, list[int]] | None = None,
    ) -> None:
        device = scenario.device
        self.scenario = scenario
        self.key = episode_key(split, seed)
        self.horizon = ns(scenario.horizon_ms)
        self.decision_time = ns(device.decision_time_ms)
        self.preemption = device.preemption.kind
        self.preemption_cost = ns(device.preemption.cost_ms)
        self.tasks = [self._task_state(index, (trace_times or {}).get(index)) for index in range(len(scenario.tasks))]
        self.width = max(len(task.latencies) for task in self.tasks)

        self.now = 0
        self.asked = -1
        self.choices = 0
        self.terminated = False
        self.truncated = False
        self.runs: list[Run | None] = [None] * device.streams
        self.kept: dict[Job, Kept] = {}
        self.memory = Memory(None if device.memory_mb is None else kilobytes(device.memory_mb), self._sizes())
        self.parked: set[int] = set()
        self.alert = False
        self.in_flight: Choice | None = None
        self.busy_ns = 0
        self.power = device.idle_w
        self.energy = 0.0
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
        kinds = _kinds_of_runs(spec, self.scenario.device.busy_w)
        latencies = [ns(kind.latency_ms) for kind in kinds]
        draws = Draws(stream_key(self.key, 1 + 2 * index))
        return TaskState(
            spec=spec,
            ranks=[kind.rank for kind in kinds],
            sizes=[kind.size for kind in kinds],
            latencies=latencies,
            lengths=[ns(kind.actual_ms) for kind in kinds],
            load_times=[ns(spec.ladder[kind.rank].load_ms) for kind in kinds],
            powers=[kind.power_w for kind in kinds],
            fill=None if spec.fill_ms is None else ns(spec.fill_ms),
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

    def _sizes(self) -> dict[Weights, int]:
        return {
            (index, rank): kilobytes(variant.memory_mb)
            for index, task in enumerate(self.scenario.tasks)
            for rank, variant in enumerate(task.ladder)
        }

    # The state in words

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    @property
    def streams(self) -> int:
        """The number of streams; as the number of who is asked, the device as a whole."""
        return len(self.runs)

    @property
    def running(self) -> list[Run]:
        """The jobs that hold streams, in stream order, those in their set-up too."""
        return [run for run in self.runs if run is not None]

    @property
    def waiting_jobs(self) -> int:
        """The number of jobs in all queues."""
        return sum(len(task.queue) for task in self.tasks)

    def can_be_interrupted(self, stream: int) -> bool:
        """Return whether the stream's job may be taken off now."""
        run = self.runs[stream]
        if run is None or self.preemption == "none":
            return False
        if self.preemption == "stage":
            return run.border_at == self.now
        # A job that began at this very instant is left alone, or streams could change hands for ever.
        return run.began and run.ready_at < self.now

    def setup(self, task: int, variant: int, preempting: bool) -> int:
        """Return for how long a start would hold its stream before it runs."""
        weights = (task, self.tasks[task].ranks[variant])
        if weights in self.memory.there:
            load = max(0, self.memory.ready_at[weights] - self.now)
        else:
            load = self.tasks[task].load_times[variant]
        return (self.preemption_cost if preempting else 0) + load

    def kept_by_head(self, task: int, variant: int) -> Kept | None:
        """Return the run with which the task's oldest jobs would go on in this variant."""
        state = self.tasks[task]
        return self._kept_by(state.queue[: state.sizes[variant]], variant)

    def _kept_by(self, jobs: list[Job], variant: int) -> Kept | None:
        """Return the run with which these jobs would go on: interrupted last in it, all of them and no other."""
        kept = self.kept.get(jobs[0])
        same = kept is not None and kept.variant == variant and kept.jobs == jobs
        return kept if same and all(self.kept.get(job) is kept for job in jobs) else None

    # Choices

    def mask(self) -> list[int]:
        """Return 1 for each row that may be chosen now, 0 for the others."""
        variants = [(task, variant) for task in range(len(self.tasks)) for variant in range(self.width)]
        dispatch = [
            int(self.asked < self.streams and self._may_start(task, variant, stream=None)) for task, variant in variants
        ]
        preempt = [
            int(self.can_be_interrupted(stream) and self._may_start(task, variant, stream))
            for task, variant in variants
            for stream in self._preempt_streams()
        ]
        drop = [int(bool(task.queue)) for task in self.tasks]
        return [*dispatch, *preempt, *drop, 1]

    def _preempt_streams(self) -> range:
        """Return the streams for which there are preempt rows."""
        return range(self.streams if self.preemption != "none" else 0)

    def _may_start(self, task: int, variant: int, stream: int | None) -> bool:
        """Return whether the task's head can start in this variant, where `stream` is taken from its job if given."""
        state = self.tasks[task]
        if not state.queue or variant >= len(state.latencies) or len(state.queue) < state.sizes[variant]:
            return False
        return self.memory.fits((task, state.ranks[variant]), self._weights_in_use(without=stream))

    def _weights_in_use(self, without: int | None = None) -> set[Weights]:
        return {run.weights for stream, run in enumerate(self.runs) if run is not None and stream != without}

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
        choice = Choice(self.now + self.decision_time, self.asked)
        dispatch_rows = len(self.tasks) * self.width
        preempt_rows = dispatch_rows * len(self._preempt_streams())
        if action < dispatch_rows:
            task, choice.variant = divmod(action, self.width)
            choice.stream = self.asked
        elif action < dispatch_rows + preempt_rows:
            row, choice.stream = divmod(action - dispatch_rows, self.streams)
            task, choice.variant = divmod(row, self.width)
            victim = self.runs[choice.stream]
            assert victim is not None
            choice.victim = victim.job
        else:
            task = action - dispatch_rows - preempt_rows
        if task < len(self.tasks):
            choice.job = self.tasks[task].queue[0]
        return choice

    def _is_stale(self, choice: Choice) -> bool:
        if choice.job is None:
            return choice.disturbed
        queue = self.tasks[choice.job.task].queue
        if not queue or queue[0] != choice.job:
            return True
        run = self.runs[choice.stream]
        return choice.victim is not None and (run is None or run.job != choice.victim)

    def _take_effect(self, choice: Choice) -> None:
        if choice.job is None:
            self.alert = False
            if choice.asked < self.streams:
                self.parked.add(choice.asked)
            return
        task = self.tasks[choice.job.task]
        if choice.variant is None:
            task.queue.pop(0)
            task.look_at_head(self.now)
            self._record(Log.DROP, choice.job)
            self._lose(choice.job)
            return
        jobs = task.queue[: task.sizes[choice.variant]]
        del task.queue[: len(jobs)]
        task.look_at_head(self.now)
        if choice.victim is not None:
            self._interrupt(choice.stream)
        self._start(jobs, choice.variant, choice.stream, preempting=choice.victim is not None)

    def _interrupt(self, stream: int) -> None:
        """Take jobs off their stream and let them wait again; rates and power follow with the start that comes next."""
        run = self._leave(stream)
        self._record_all(Log.PREEMPT, run, stream)
        run.bring_up_to_date(self.now)
        kept = Kept(run.jobs, run.variant, run.work, run.expected, run.stages_done)
        task = self.tasks[run.job.task]
        for job in run.jobs:
            if self.preemption != "restart":
                self.kept[job] = kept
            insort(task.queue, job, key=lambda one: one.k)
        task.look_at_head(self.now)

    def _leave(self, stream: int) -> Run:
        run = self.runs[stream]
        assert run is not None
        self.runs[stream] = None
        self.memory.use(run.weights)
        return run

    def _start(self, jobs: list[Job], variant: int, stream: int, preempting: bool) -> None:
        task = jobs[0].task
        setup = self.setup(task, variant, preempting)
        self._bring_weights(task, self.tasks[task].ranks[variant])
        run = self._new_run(jobs, variant, self.now + setup)
        self.runs[stream] = run
        self.memory.use(run.weights)
        self._record_all(Log.START, run, stream)
        if setup == 0:
            run.began = True
        else:
            run.next_event = run.ready_at
        self._reprice()
        self._sum_power()

    def _bring_weights(self, task: int, rank: int) -> None:
        if (task, rank) in self.memory.there:
            return
        for evicted in self.memory.make_room((task, rank), self._weights_in_use()):
            self.log.append((self.now, int(Log.EVICT), evicted[0], -1, evicted[1], -1))
        self.memory.bring((task, rank), self.now + self.tasks[task].load_times[rank])

    def _new_run(self, jobs: list[Job], variant: int, ready_at: int) -> Run:
        task = self.tasks[jobs[0].task]
        latency = float(task.latencies[variant])
        # The oldest job decides how long the run takes.
        total_work = float(task.lengths[variant]) * self._factor(jobs[0])
        stages = task.spec.ladder[task.ranks[variant]].stages if self.preemption == "stage" else 1
        kept = self._kept_by(jobs, variant) or Kept(jobs, variant, total_work, latency, stages_done=0)
        for job in jobs:
            self.kept.pop(job, None)
        return Run(
            jobs=jobs,
            variant=variant,
            rank=task.ranks[variant],
            latency=latency,
            total_work=total_work,
            work=kept.work,
            expected=kept.expected,
            stages=stages,
            stages_done=kept.stages_done,
            ready_at=ready_at,
            updated=self.now,
        )

    def _factor(self, job: Job) -> float:
        """Return by how much the job takes longer than on average, whichever variant runs and whenever it starts."""
        key = self.tasks[job.task].latency_key
        latency = self.scenario.device.latency
        if isinstance(latency, LognormalLatency):
            s2 = math.log(1.0 + latency.cv * latency.cv)
            return math.exp(math.sqrt(s2) * normal(key, job.k) - s2 / 2.0)
        if isinstance(latency, ExponentialLatency):
            return exponential(key, job.k, 1.0)
        return 1.0

    # Rates and power

    def _reprice(self) -> None:
        begun = {stream: run for stream, run in enumerate(self.runs) if run is not None and run.began}
        runners = [Runner(stream, run.job.task, run.rank) for stream, run in begun.items()]
        for run, rate in zip(begun.values(), rates_of(self.scenario, runners), strict=True):
            if rate != run.rate:
                run.change_rate(self.now, rate)

    def _sum_power(self) -> None:
        self.power = self.scenario.device.idle_w
        for run in self.running:
            self.power += self.tasks[run.job.task].powers[run.variant]

    # Events

    def _advance(self) -> None:
        """Apply events until a choice is asked or the episode ends."""
        while not self.over:
            if self._nothing_to_come():
                self.terminated = True
                self._record(Log.END)
                return
            time, kind, who = self._next_event()
            # Events of the present instant come before the choice.
            if time > self.now and self.in_flight is None:
                self.asked = self._who_to_ask()
                if self.asked >= 0:
                    self.choices += 1
                    return
                self.alert = False
            self._apply(time, kind, who)

    def _next_event(self) -> tuple[int, Event, int]:
        pending = [(self.horizon, Event.HORIZON, 0)]
        for stream, run in enumerate(self.runs):
            if run is not None:
                pending.append((run.next_event, Event.STREAM, stream))
        for index, task in enumerate(self.tasks):
            if task.queue and self.scenario.device.late == "drop":
                # An interrupted job may come back to its queue after its deadline.
                pending.append((max(self.now, task.queue[0].deadline), Event.EXPIRY, index))
            if task.next_release is not None:
                pending.append((task.next_release, Event.ARRIVAL, index))
            if task.fill_at is not None:
                pending.append((task.fill_at, Event.FILL, index))
        if self.in_flight is not None:
            pending.append((self.in_flight.effect, Event.EFFECT, 0))
        return min(pending)

    def _who_to_ask(self) -> int:
        """Return the lowest stream that may be given a waiting job, else the device if it may be asked, or -1."""
        if self.waiting_jobs == 0:
            return -1
        idle = [stream for stream, run in enumerate(self.runs) if run is None]
        if idle:
            asked = [stream for stream in idle if stream not in self.parked]
            priorities = self.scenario.device.stream_priorities or [0] * self.scenario.device.streams
            return min(asked, key=lambda stream: (-priorities[stream], stream), default=-1)
        if self.alert and any(self.can_be_interrupted(stream) for stream in range(self.streams)):
            return self.streams
        return -1

    def _apply(self, time: int, kind: Event, who: int) -> None:
        passed = time - self.now
        self.busy_ns += len(self.running) * passed
        self.energy += self.power * (passed * 1e-9)
        self.now = time
        if kind == Event.EFFECT:
            self._effect()
            return
        # The world has changed: whoever was told to wait may be asked again.
        self.parked.clear()
        if self.in_flight is not None:
            self.in_flight.disturbed = True
        if kind == Event.STREAM:
            self._stream_event(who)
        elif kind == Event.EXPIRY:
            self._expire(who)
        elif kind == Event.ARRIVAL:
            self._arrive(who)
        elif kind == Event.FILL:
            self.tasks[who].fill_at = None
        else:
            self.truncated = True
            self._record(Log.END)

    def _stream_event(self, stream: int) -> None:
        """Apply what the stream's job has come to: ready, border or finish."""
        run = self.runs[stream]
        assert run is not None
        if not run.began:
            run.began = True
            self._record_all(Log.READY, run, stream)
            self._reprice()
        elif run.stages_done + 1 < run.stages:
            run.pass_border(self.now)
            self.alert = True
        else:
            self._finish(stream)

    def _finish(self, stream: int) -> None:
        run = self._leave(stream)
        self._record_all(Log.FINISH, run, stream)
        task = self.tasks[run.job.task]
        for job in run.jobs:
            task.finished += 1
            tardiness = self.now - job.deadline
            if tardiness <= 0:
                self.terms["on_time_accuracy"] += task.spec.weight * task.spec.ladder[run.rank].accuracy
            else:
                self.terms["lateness"] += task.spec.weight * min(1.0, tardiness / task.deadline)
                self.late_finishes += 1
        if isinstance(task.spec.arrival, Closed):
            self._schedule(task, self.now + ns(task.spec.arrival.think_ms))
        self._reprice()
        self._sum_power()

    def _expire(self, index: int) -> None:
        job = self.tasks[index].queue.pop(0)
        self.tasks[index].look_at_head(self.now)
        self._record(Log.EXPIRE, job)
        self._lose(job)

    def _arrive(self, index: int) -> None:
        task = self.tasks[index]
        job = Job(index, task.released, self.now + task.deadline, self.now)
        task.released += 1
        task.last_release = self.now
        self.alert = True
        self._record(Log.ARRIVAL, job)
        # Drawn before a rejection is dealt with: a closed loop has no further draw, and a rejection schedules its own.
        self._schedule(task, next(task.releases, None))
        if len(task.queue) < self.scenario.device.queue_limit:
            task.queue.append(job)
            task.look_at_head(self.now)
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

    def _record_all(self, kind: Log, run: Run, stream: int) -> None:
        for job in run.jobs:
            self._record(kind, job, run.rank, stream)

    # Reward

    def _open_step(self) -> None:
        self.terms = {"on_time_accuracy": 0.0, "lateness": 0.0, "drops": 0.0, "utilisation": 0.0, "energy": 0.0}
        self.reward = 0.0
        self.illegal = False
        self.elapsed = 0
        self._busy_ns_before = self.busy_ns
        self._energy_before = self.energy

    def _close_step(self, chosen_at: int) -> None:
        terms, weights = self.terms, self.scenario.reward
        terms["utilisation"] = (self.busy_ns - self._busy_ns_before) / (self.streams * 1e9)
        terms["energy"] = self.energy - self._energy_before
        self.elapsed = self.now - chosen_at
        self.reward = (
            weights.on_time_accuracy * terms["on_time_accuracy"]
            - weights.lateness * terms["lateness"]
            - weights.drops * terms["drops"]
            + weights.utilisation * terms["utilisation"]
            - weights.energy * terms["energy"]
        )


@dataclass(frozen=True)
class KindOfRun:
    """A variant of the ladder for so many jobs at once."""

    rank: int
    size: int
    latency_ms: float
    actual_ms: float
    power_w: float


def _kinds_of_runs(spec: Task, busy_w: float) -> list[KindOfRun]:
    """Return all kinds of runs: the ladder for one job, then for each size of a batch."""
    singles, batches = [], []
    for rank, variant in enumerate(spec.ladder):
        actual = variant.latency_ms if variant.actual_ms is None else variant.actual_ms
        power = busy_w if variant.power_w is None else variant.power_w
        singles.append(KindOfRun(rank, 1, variant.latency_ms, actual, power))
        for batch in variant.batches or []:
            longer = batch.latency_ms * (actual / variant.latency_ms)
            drawn = power if batch.power_w is None else batch.power_w
            batches.append(KindOfRun(rank, batch.size, batch.latency_ms, longer, drawn))
    return singles + sorted(batches, key=lambda kind: (kind.size, kind.rank))


def kilobytes(megabytes: float) -> int:
    """Return the nearest whole number of kilobytes."""
    return round(megabytes * 1000)
