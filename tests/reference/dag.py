"""A second, plain-Python implementation of the dag machine, written from `docs/dag-machine.md`.

It keeps what is the case and counts everything else when it is asked: demands, supplies, pools and work are sums over
what there is, never updated in passing. It shares no code with the kernel, only the scenario and the templates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from slipstream.families.dag.scenario import (
    Batch,
    DagScenario,
    FixedHorizon,
    JobTrace,
    MemorylessHorizon,
    PoissonStream,
)
from slipstream.families.dag.workload.templates import JobTemplate, Library, library_of
from slipstream.families.shared.schema import nanoseconds_of
from tests.reference.numbers import episode_key, exponential, stream_key, uniform

LogRow = tuple[int, int, int, int, int, int]
ARRIVAL, START, FINISH, END, READY, MOVE, FAIL, DONE = 0, 1, 2, 6, 8, 10, 11, 12

HOME = None
"""A commitment to go home."""


@dataclass
class Stage:
    """A stage of a job."""

    number: int
    tasks: int
    expected: int
    path: int
    remaining: int
    unfinished: int
    parents: list[Stage] = field(default_factory=list)
    children: list[Stage] = field(default_factory=list)
    started: int = 0
    failures: int = 0
    recent: int = 0
    chosen_in: int = -1

    @property
    def complete(self) -> bool:
        return self.unfinished == 0

    @property
    def can_begin(self) -> bool:
        return all(parent.complete for parent in self.parents)


@dataclass
class Job:
    """A job that has arrived."""

    number: int
    template: int
    arrival: int
    stages: list[Stage]

    @property
    def done(self) -> bool:
        return all(stage.complete for stage in self.stages)

    @property
    def all_started(self) -> bool:
        return all(stage.remaining == 0 for stage in self.stages)

    @property
    def work(self) -> int:
        return sum(stage.remaining * stage.expected for stage in self.stages)

    @property
    def open_stages(self) -> list[Stage]:
        return [stage for stage in self.stages if not stage.complete]


Pool = tuple[Job | None, Stage | None]
"""(None, None) is the common pool, (job, None) that of a job, (job, stage) that of a stage."""
COMMON: Pool = (None, None)


@dataclass
class Executor:
    """An executor; `job` and `stage` are its pool, or where it moves to."""

    number: int
    speed: float
    job: Job | None = None
    stage: Stage | None = None
    doing: str = "idle"
    warm: Stage | None = None
    began: int = 0
    event: int | None = None

    @property
    def pool(self) -> Pool | None:
        return None if self.doing == "moves" else (self.job, self.stage)


@dataclass
class Promise:
    """Executors of a pool that will go somewhere."""

    pool: Pool
    job: Job | None
    stage: Stage | None
    count: int


def same_pool(one: Pool | None, other: Pool | None) -> bool:
    """Return whether two pools are the same one; jobs and stages are compared by identity."""
    return one is not None and other is not None and one[0] is other[0] and one[1] is other[1]


class Machine:
    """What happens: jobs, executors, rounds, rewards and the event log."""

    def __init__(self, scenario: DagScenario, seed: int, split: int = 2) -> None:
        self.scenario = scenario
        self.library: Library = library_of(scenario)
        self.key = episode_key(split, seed)
        self.compat = scenario.compat is not None
        speeds = [1.0] * scenario.executors
        if scenario.classes is not None:
            speeds = sorted((one.speed for one in scenario.classes for _ in range(one.count)), reverse=True)
        self.executors = [Executor(number, speed) for number, speed in enumerate(speeds)]
        self.disturbed = any(speed != 1.0 for speed in speeds) or (
            scenario.stragglers is not None and scenario.stragglers.probability > 0.0
        )
        self.now = 0
        self.jobs: list[Job] = []
        self.promises: list[Promise] = []
        self.source: Pool | None = None
        self.common_due = False
        self.passed: list[Job | None] = []
        """Jobs whose pools, None for the common one, have left all to the others since the last event."""
        self.in_round = False
        self.committable = 0
        self.rounds = 0
        self.chosen_this_round = 0
        self.phase = 0
        self.chosen: tuple[Job, Stage] | None = None
        self.choices = 0
        self.log: list[LogRow] = []
        self.terminated = self.truncated = self.illegal = False
        self.elapsed = 0
        self.busy_time = 0
        self.stretches: list[tuple[int, int, int, int]] = []
        """(active jobs, begin, end, time from which a discount counts)"""
        self.counted = 0
        self.step_began = 0
        self.arrivals = list(self._arrival_times())
        self.horizon = self._draw_horizon()
        self._run()

    # What is asked again and again

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    @property
    def asked(self) -> int:
        """There is one who is asked, the scheduler of the cluster."""
        return -1 if self.over else 0

    @property
    def active(self) -> list[Job]:
        return [job for job in self.jobs if not job.done]

    def running(self) -> list[Executor]:
        return [executor for executor in self.executors if executor.doing == "runs"]

    def moving(self) -> list[Executor]:
        return [executor for executor in self.executors if executor.doing == "moves"]

    def local(self, job: Job) -> list[Executor]:
        return [executor for executor in self.executors if executor.job is job and executor.doing != "moves"]

    def assigned(self, stage: Stage) -> int:
        moving = sum(executor.stage is stage for executor in self.moving())
        return moving + sum(promise.count for promise in self.promises if promise.stage is stage)

    def demand(self, stage: Stage) -> int:
        return stage.remaining - self.assigned(stage)

    def ready(self, stage: Stage) -> bool:
        return self.demand(stage) > 0 and all(self.demand(parent) <= 0 for parent in stage.parents)

    def supply(self, job: Job) -> int:
        here = len(self.local(job)) + sum(executor.job is job for executor in self.moving())
        return here + sum(p.count for p in self.promises if p.job is job and p.pool[0] is not job)

    def members(self, pool: Pool) -> list[Executor]:
        return [executor for executor in self.executors if same_pool(executor.pool, pool)]

    def candidates(self) -> list[tuple[Job, Stage]]:
        """Return the stages that can be chosen, by arrival and stage."""
        return [
            (job, stage)
            for job in self.active
            for stage in job.stages
            if self.ready(stage) and stage.chosen_in != self.rounds
        ]

    def something_is_coming(self) -> bool:
        return bool(self.running() or self.moving() or len(self.jobs) < len(self.arrivals))

    def may_stop(self) -> bool:
        if self.something_is_coming() or self.chosen_this_round > 0:
            return True
        assert self.source is not None
        return not self.compat and any(job is not self.source[0] for job, _ in self.pools_left())

    def pools_left(self) -> list[Pool]:
        """Return the pools with idle executors that have not left all to the others since the last event."""
        pools: list[Pool] = [COMMON, *((job, None) for job in self.active)]
        return [pool for pool in pools if self.members(pool) and not any(pool[0] is one for one in self.passed)]

    @property
    def most(self) -> int:
        assert self.chosen is not None
        return min(self.committable, self.demand(self.chosen[1]))

    # Arrivals

    def _arrival_times(self) -> Iterator[tuple[int, int]]:
        """Yield time and template of every job."""
        arrivals = self.scenario.arrivals
        gaps, templates = stream_key(self.key, 1), stream_key(self.key, 2)
        names: list[str] | None = None
        times: list[int] = []
        if isinstance(arrivals, Batch):
            times = [0] * arrivals.jobs
        elif isinstance(arrivals, PoissonStream):
            time = 0
            for number in range(arrivals.jobs):
                if number >= arrivals.initial_jobs:
                    mean = float(nanoseconds_of(arrivals.mean_gap_s))
                    time += max(1, math.ceil(exponential(gaps, number, mean)))
                times.append(time)
        else:
            assert isinstance(arrivals, JobTrace)
            assert arrivals.times_s is not None
            times = [nanoseconds_of(time) for time in arrivals.times_s]
            names = arrivals.names
        for number, time in enumerate(times):
            drawn = int(uniform(templates, number) * len(self.library.templates))
            yield time, drawn if names is None else self.library.names[names[number]]

    def _draw_horizon(self) -> int | None:
        horizon = self.scenario.horizon
        if isinstance(horizon, FixedHorizon):
            return nanoseconds_of(horizon.time_s)
        if isinstance(horizon, MemorylessHorizon):
            mean = float(nanoseconds_of(horizon.mean_s))
            return max(1, math.ceil(exponential(stream_key(self.key, 1), 2**40, mean)))
        return None

    def _arrive(self) -> None:
        self._count_jobs()
        number = len(self.jobs)
        template = self.arrivals[number][1]
        self.jobs.append(Job(number, template, self.now, stages_of(self.library.templates[template])))
        self.common_due = True
        self._note(ARRIVAL, template, number)

    # Tasks

    def _duration(self, executor: Executor, job: Job, stage: Stage) -> int:
        counter = stage.number * 2**32 + stage.started
        key = stream_key(self.key, 3 + 3 * job.number)
        template = self.library.templates[job.template].stages[stage.number]
        level = self._level(len(self.local(job)), uniform(key, 2 * counter))
        lower = [own for own in template.waves if own <= level]
        waves = template.waves[max(lower) if lower else min(template.waves)]
        fresh, first, rest = waves.fresh.tolist(), waves.first.tolist(), waves.rest.tolist()
        delay = 0
        if executor.warm is None:
            samples = fresh or first
            delay = 0 if fresh else nanoseconds_of(self.scenario.warmup_delay_s)
        elif executor.warm is stage and rest:
            samples = rest
        else:
            samples = first or fresh
        duration = samples[int(uniform(key, 2 * counter + 1) * len(samples))] + delay
        if not self.disturbed:
            return int(duration)
        time = float(duration)
        stragglers = self.scenario.stragglers
        if stragglers is not None and stragglers.probability > 0.0:
            lot = uniform(stream_key(self.key, 3 + 3 * job.number + 1), counter)
            if lot < stragglers.probability:
                time *= stragglers.factor
        return math.ceil(time / executor.speed)

    def _level(self, executors: int, draw: float) -> int:
        levels = self.library.parallelism
        if executors <= levels[0]:
            return levels[0]
        if executors >= levels[-1]:
            return levels[-1]
        low = max(level for level in levels if level <= executors)
        if low == executors:
            return low
        high = min(level for level in levels if level > executors)
        takes_low = draw * (high - low) >= executors - low
        return low if takes_low != self.compat else high

    def _start_task(self, executor: Executor) -> None:
        job, stage = executor.job, executor.stage
        assert job is not None
        assert stage is not None
        wave = 0 if executor.warm is None else 2 if executor.warm is stage else 1
        executor.event = self.now + self._duration(executor, job, stage)
        stage.remaining -= 1
        stage.started += 1
        executor.doing, executor.warm, executor.began = "runs", stage, self.now
        self._note(START, stage.number, job.number, wave, executor.number)

    def _end_task(self, executor: Executor) -> None:
        job, stage = executor.job, executor.stage
        assert job is not None
        assert stage is not None
        is_last = stage.unfinished == 1 and stage.remaining == 0 and len(job.open_stages) == 1
        if is_last and not self._fails(job, stage):
            self._count_jobs()  # up to here the job was active
        stage.unfinished -= 1
        stage.recent = self.now - executor.began
        self.busy_time += self.now - executor.began
        executor.doing, executor.event = "idle", None
        self._note(FINISH, stage.number, job.number, -1, executor.number)
        if stage.remaining > 0:
            self._start_task(executor)
        elif stage.complete and self._fails(job, stage):
            stage.failures += 1
            stage.remaining = stage.unfinished = stage.tasks
            self._note(FAIL, stage.number, job.number)
            self._start_task(executor)
        else:
            self._release(executor, job, stage)

    def _fails(self, job: Job, stage: Stage) -> bool:
        failures = self.scenario.failures
        if failures is None or stage.failures >= failures.most:
            return False
        key = stream_key(self.key, 3 + 3 * job.number + 2)
        return uniform(key, stage.number * 2**32 + stage.failures) < failures.probability

    def _release(self, executor: Executor, job: Job, stage: Stage) -> None:
        opened = stage.complete and any(child.can_begin for child in stage.children)
        if job.done:
            self._note(DONE, -1, job.number)
            for other in self.members((job, None)):
                self._go_home(other)
        promise = self._oldest((job, stage))
        if promise is not None:
            self._keep(executor, promise)
        else:
            executor.warm = None
            if opened:
                self._go_home(executor)
        if opened:
            self.source = (job, None)
            self.common_due = self.common_due or not self.compat
        elif promise is None:
            self.source = (job, stage)

    # Executors

    def _go_home(self, executor: Executor) -> None:
        if executor.job is None:
            return
        executor.stage = None
        if executor.job.all_started:
            executor.job, executor.warm = None, None

    def _go_to_stage(self, executor: Executor, job: Job, stage: Stage) -> None:
        if stage.remaining == 0:
            other = self._another_stage(executor)
            if other is None:
                self._go_home(executor)
                return
            job, stage = other
        if executor.job is not job:
            executor.job, executor.stage, executor.doing, executor.warm = job, stage, "moves", None
            executor.event = self.now + nanoseconds_of(self.scenario.moving_delay_s)
            self._note(MOVE, stage.number, job.number, -1, executor.number)
        elif not stage.can_begin:
            executor.warm, executor.stage = None, None
        else:
            executor.stage = stage
            self._start_task(executor)

    def _another_stage(self, executor: Executor) -> tuple[Job, Stage] | None:
        home = executor.job
        assert home is not None
        places = [home] if not home.done else []
        places += [job for job in self.active if job is not home]
        for job in places:
            for stage in job.stages:
                if self.ready(stage):
                    return job, stage
        return None

    def _reach_job(self, executor: Executor) -> None:
        job, stage = executor.job, executor.stage
        assert job is not None
        assert stage is not None
        executor.doing, executor.stage, executor.event = "idle", None, None
        self._note(READY, stage.number, job.number, -1, executor.number)
        self._go_to_stage(executor, job, stage)

    # Rounds

    def _oldest(self, pool: Pool) -> Promise | None:
        return next((promise for promise in self.promises if same_pool(promise.pool, pool)), None)

    def _promise(self, job: Job | None, stage: Stage | None, count: int) -> None:
        assert self.source is not None
        for known in self.promises:
            if same_pool(known.pool, self.source) and known.job is job and known.stage is stage:
                known.count += count
                return
        self.promises.append(Promise(self.source, job, stage, count))

    def _keep(self, executor: Executor, promise: Promise) -> None:
        promise.count -= 1
        if promise.count == 0:
            # By identity: two promises may look the same.
            self.promises = [other for other in self.promises if other is not promise]
        if promise.job is HOME:
            self._go_home(executor)
        else:
            assert promise.stage is not None
            self._go_to_stage(executor, promise.job, promise.stage)

    def _begin_round(self, source: Pool) -> bool:
        self.source = source
        committed = sum(promise.count for promise in self.promises if same_pool(promise.pool, source))
        self.committable = len(self.members(source)) - committed
        self.chosen_this_round = 0
        if self.committable > 0:
            if self.candidates():
                self.in_round = True
                return True
            for executor in self.members(source):
                if executor.doing == "idle":
                    self._go_home(executor)
        self.source = None
        return False

    def _look_for_round(self) -> bool:
        if self.in_round:
            return True
        if self.source is not None and self._begin_round(self.source):
            return True
        arrives_now = len(self.jobs) < len(self.arrivals) and self.arrivals[len(self.jobs)][0] == self.now
        if self.common_due and not arrives_now:
            self.common_due = False
            if self._begin_round(COMMON):
                return True
        if self.active and not self.something_is_coming():
            return self._begin_round(self.pools_left()[0])
        return False

    def _end_round(self) -> None:
        assert self.source is not None
        source = self.source
        if self.committable > 0 and source[0] is not None:
            self._promise(HOME, None, self.committable)
        self.in_round, self.source = False, None
        self.rounds += 1
        for executor in [member for member in self.members(source) if member.doing == "idle"]:
            promise = self._oldest(source)
            if promise is not None:
                self._keep(executor, promise)

    def _commit(self, count: int) -> None:
        assert self.chosen is not None
        assert self.source is not None
        job, stage = self.chosen
        self._promise(job, stage, count)
        stage.chosen_in = self.rounds
        self.chosen_this_round += 1
        self.committable -= count
        self.phase, self.chosen = 0, None
        if self.committable == 0 or not self.candidates():
            self._end_round()

    # Choices and the clock

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on to the next choice or the end."""
        if self.over:
            raise RuntimeError("the episode has ended")
        self.step_began = self.now
        if self.choices > 1:
            self.stretches = []
        self._decide(action)
        self._run()

    def rows_of_stages(self) -> list[tuple[int, Job, Stage]]:
        """Return the stages that can be chosen, each with its row."""
        raise NotImplementedError

    def stop_rows(self) -> tuple[int, int]:
        """Return the two rows that stop."""
        raise NotImplementedError

    def _decide(self, action: int) -> None:
        self.illegal = False
        if self.phase == 1:
            self.illegal = not 0 <= action < self.most
            self._commit(1 if self.illegal else action + 1)
            return
        rows = self.rows_of_stages()
        chosen = next(((job, stage) for row, job, stage in rows if row == action), None)
        if chosen is None:
            self.illegal = not (self.may_stop() and action in self.stop_rows())
            if self.may_stop():
                if not self.something_is_coming() and self.chosen_this_round == 0:
                    assert self.source is not None
                    self.passed.append(self.source[0])
                self._end_round()
                return
            chosen = rows[0][1:]
        self.chosen = chosen
        if self.most > 1:
            self.phase = 1
        else:
            self._commit(1)

    def _next_event(self) -> tuple[int, int, int]:
        """Return (time, order, number) of the next event."""
        events = [(e.event, 0, e.number) for e in self.executors if e.event is not None]
        if len(self.jobs) < len(self.arrivals):
            events.append((self.arrivals[len(self.jobs)][0], 1, 0))
        if self.horizon is not None:
            events.append((self.horizon, 2, 0))
        return min(events)

    def _run(self) -> None:
        while True:
            if not self.active and len(self.jobs) == len(self.arrivals):
                self.terminated = True
                self._note(END)
            if self.over:
                break
            if self.phase == 1 or self._look_for_round():
                self.choices += 1
                break
            time, order, number = self._next_event()
            self.now = time
            self.passed = []
            if order == 0:
                executor = self.executors[number]
                if executor.doing == "runs":
                    self._end_task(executor)
                else:
                    self._reach_job(executor)
            elif order == 1:
                self._arrive()
            else:
                self.truncated = True
                self._note(END)
        self._count_jobs()
        self.elapsed = self.now - self.step_began

    # Rewards and the log

    def _count_jobs(self) -> None:
        """End a stretch of time with so many active jobs."""
        self.stretches.append((len(self.active), self.counted, self.now, self.step_began))
        self.counted = self.now

    @property
    def terms(self) -> dict[str, float]:
        rate = self.scenario.reward.discount_per_s * 1e-9
        if rate > 0.0:
            total = 0.0
            for count, begin, end, origin in self.stretches:
                since, until = begin - origin, end - origin
                total += count * ((math.exp(-rate * since) - math.exp(-rate * until)) / rate)
            job_seconds = total / 1e9
        else:
            job_seconds = sum(count * (end - begin) for count, begin, end, _ in self.stretches) / 1e9
        return {"job_seconds": job_seconds, "makespan": (self.now - self.stretches[0][1]) / 1e9}

    @property
    def reward(self) -> float:
        weights, terms = self.scenario.reward, self.terms
        return -weights.job_seconds * terms["job_seconds"] - weights.makespan * terms["makespan"]

    def _note(self, kind: int, task: int = -1, job: int = -1, variant: int = -1, resource: int = -1) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))


def stages_of(template: JobTemplate) -> list[Stage]:
    """Return the stages of a new job."""
    expected = [max(1, round(stage.mean)) for stage in template.stages]
    children: list[list[int]] = [[] for _ in expected]
    for parent, child in sorted(set(template.edges)):
        children[parent].append(child)

    def path(stage: int) -> int:
        return expected[stage] + max((path(child) for child in children[stage]), default=0)

    stages = [
        Stage(number, stage.tasks, expected[number], path(number), stage.tasks, stage.tasks, recent=expected[number])
        for number, stage in enumerate(template.stages)
    ]
    for stage in stages:
        stage.children = [stages[child] for child in children[stage.number]]
        for child in stage.children:
            child.parents.append(stage)
    return stages
