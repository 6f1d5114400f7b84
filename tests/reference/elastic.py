"""A second, plain-Python implementation of the machine of elastic jobs, written from `docs/elastic-machine.md`.

It keeps the jobs as objects, and asks them for everything whenever it is needed. It shares no code with the kernel,
only the scenario, its templates and the random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipstream.families.elastic.features import CANDIDATE
from slipstream.families.elastic.scenario import DrawnJobs, ElasticScenario
from slipstream.families.elastic.workload.sources import Place, Template, read_workload
from tests.reference.numbers import episode_key, exponential, stream_key, uniform

LogRow = tuple[int, int, int, int, int, int]
ARRIVAL, START, FINISH, END, PREEMPT, READY, TAKE = 0, 1, 2, 6, 7, 8, 13
Row = dict[str, float]
SECOND = 10**9


@dataclass
class Job:
    """A job that has arrived."""

    number: int
    index: int
    template: Template
    arrival: int
    left: float
    at: int | None = None
    """Configuration that it has."""
    next: int | None = None
    """Configuration in the round that begins."""
    runs_from: int = 0
    """Until when its progress is counted, or when its set-up ends."""
    setting_up: bool = False
    event: int | None = None
    steps: float = 0.0
    steps_take: int = 0
    started: bool = False
    restarts: int = 0
    ran: int = 0
    received: int = 0

    @property
    def place(self) -> Place:
        assert self.at is not None
        return self.template.places[self.at]

    @property
    def best(self) -> float:
        return max(place.per_s for place in self.template.places)


class ReferenceElastic:
    """One episode, stopped at each decision."""

    def __init__(self, scenario: ElasticScenario, seed: int, split: int = 2) -> None:
        self.scenario = scenario
        self.workload = read_workload(scenario)
        self.key = episode_key(split, seed)
        self.drawn = scenario.jobs if isinstance(scenario.jobs, DrawnJobs) else None
        self.to_come = len(self.workload.arrivals) if self.drawn is None else self.drawn.jobs
        self.round = 0 if scenario.round_s is None else round(scenario.round_s * SECOND)
        self.at_events = scenario.at_events or scenario.round_s is None
        self.gavel = scenario.compat == "gavel"
        self.gpus = [kind.gpus for kind in scenario.kinds]
        self.now = self.choices = self.arrived = self.rounds = 0
        self.asked = -1
        self.terminated = self.truncated = self.illegal = False
        self.jobs: list[Job] = []
        """Unfinished ones."""
        self.round_ends: int | None = None
        self.due = self.allocating = False
        self.log: list[LogRow] = []
        self.next_arrival = self.arrival_time()
        self.open_step()
        self.advance()

    # Arrivals

    def arrival_time(self) -> int | None:
        """Return when the next job arrives."""
        if self.arrived >= self.to_come:
            return None
        if self.drawn is None:
            return self.workload.arrivals[self.arrived]
        if self.arrived < self.drawn.initial_jobs:
            return 0
        mean = float(round(self.drawn.mean_gap_s * SECOND))
        return self.now + max(1, math.ceil(exponential(stream_key(self.key, 1), self.arrived, mean)))

    def arrive(self) -> None:
        index = self.arrived
        if self.drawn is not None:
            index = int(uniform(stream_key(self.key, 2), self.arrived) * len(self.workload.templates))
        template = self.workload.templates[index]
        self.jobs.append(Job(self.arrived, index, template, self.now, template.work, runs_from=self.now))
        self.write(ARRIVAL, self.arrived, index, -1, -1)
        self.arrived += 1
        self.next_arrival = self.arrival_time()
        self.due = self.due or self.at_events or self.round_ends is None

    # Events

    @property
    def over(self) -> bool:
        return self.terminated

    def write(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))

    def write_run(self, kind: int, job: Job) -> None:
        assert job.at is not None
        self.write(kind, job.number, job.place.gpus, job.at, job.place.kind)

    def first_event(self) -> tuple[int, int, Job | None] | None:
        """Return time, order and job of what happens next: ends of jobs and set-ups, an arrival, the round's end."""
        found: list[tuple[int, int, Job | None]] = [
            (job.event, job.number, job) for job in self.jobs if job.event is not None
        ]
        if self.next_arrival is not None:
            found.append((self.next_arrival, 10**9, None))
        if self.round_ends is not None:
            found.append((self.round_ends, 10**9 + 1, None))
        return min(found, key=lambda event: event[:2], default=None)

    def advance(self) -> None:
        self.asked = -1
        while True:
            event = self.first_event()
            if (event is None or event[0] > self.now) and (self.due or self.allocating):
                if self.ask():
                    break
            elif event is None:
                self.terminated = True
                self.write(END, -1, -1, -1, -1)
                break
            else:
                self.apply(*event)
        self.close_step()

    def apply(self, time: int, order: int, job: Job | None) -> None:
        self.job_time += len(self.jobs) * (time - self.now)
        self.now = time
        if job is not None:
            (self.end_of_setup if job.setting_up else self.finish)(job)
        elif order == 10**9:
            self.arrive()
        else:
            self.round_ends, self.due = None, True

    def end_of_setup(self, job: Job) -> None:
        job.setting_up = False
        self.write_run(READY, job)
        job.event = self.end_of(job)

    def end_of(self, job: Job) -> int:
        return self.now + math.ceil(job.left / job.place.per_s * 1e9)

    def finish(self, job: Job) -> None:
        self.count(job)
        self.write_run(FINISH, job)
        self.jobs.remove(job)
        self.due = self.due or self.at_events
        if not self.jobs:
            self.round_ends = None

    def count(self, job: Job) -> None:
        """Bring a job with GPUs up to date."""
        if self.gavel:
            time, job.left = job.steps_take, job.left - job.steps
            job.steps, job.steps_take = 0.0, 0
        else:
            time = max(0, self.now - job.runs_from)
            if time:
                job.left = max(0.0, job.left - time / 1e9 * job.place.per_s)
                job.runs_from = self.now
        job.ran += time
        job.received += time * job.place.gpus

    # Decisions

    def ask(self) -> bool:
        """Return whether a decision is due; if not, the round has begun, or there is nobody to begin one for."""
        if not self.jobs:
            self.due = False
            return False
        if not self.allocating:
            self.due, self.allocating = False, True
            for job in self.jobs:
                job.next = None
                if job.at is not None:
                    self.count(job)
        if self.candidates():
            self.asked = 0
            self.choices += 1
            return True
        self.begin_round()
        return False

    def free(self, kind: int) -> int:
        placed = (job.template.places[job.next] for job in self.jobs if job.next is not None)
        return self.gpus[kind] - sum(place.gpus for place in placed if place.kind == kind)

    def candidates(self) -> list[tuple[Job, int]]:
        return [
            (job, index)
            for job in self.jobs
            if job.next is None
            for index, place in enumerate(job.template.places)
            if place.gpus <= self.free(place.kind)
        ]

    def indices(self) -> list[int]:
        """Return the rows of the candidates."""
        width = self.scenario.rows
        count = len(self.candidates()) if self.asked >= 0 else 0
        return [index if index < width else index + 1 for index in range(count)]

    def may_wait(self) -> bool:
        return any(job.next is not None for job in self.jobs) or self.arrived < self.to_come

    @property
    def all_rows(self) -> int:
        most = self.to_come * max(len(template.places) for template in self.workload.templates)
        return self.scenario.rows + 1 if most <= self.scenario.rows else most + 2

    def mask(self) -> list[int]:
        found = [0] * self.all_rows
        for row in self.indices():
            found[row] = 1
        found[-1] = int(self.asked >= 0 and self.may_wait())
        return found

    def step(self, action: int) -> None:
        if self.choices > 1:
            self.open_step()
        self.began = self.now
        rows, candidates = self.indices(), self.candidates()
        waiting = action in (self.scenario.rows, self.all_rows - 1)
        self.illegal = not (action in rows or (waiting and self.may_wait()))
        if action not in rows and self.may_wait():
            self.begin_round()
        else:
            job, job.next = candidates[rows.index(action) if action in rows else 0]
        self.advance()

    def begin_round(self) -> None:
        self.allocating = False
        self.rounds += 1
        for job in self.jobs:
            if job.at is not None and job.at != job.next:
                self.write_run(PREEMPT, job)
                job.at, job.setting_up, job.event = None, False, None
        for job in self.jobs:
            if job.next is not None and job.at is None:
                self.start(job)
            if self.gavel and job.next is not None:
                job.steps = min(float(int(job.place.per_s * (self.round / 1e9))), job.left)
                job.steps_take = math.ceil(job.steps / job.place.per_s * 1e9)
                job.event = self.now + job.steps_take if job.steps == job.left else None
        if self.gavel:
            longest = max((job.steps_take for job in self.jobs if job.next is not None), default=None)
            self.round_ends = None if longest is None else self.now + longest
        elif self.round:
            self.round_ends = self.now + self.round

    def start(self, job: Job) -> None:
        setup = job.template.restart if job.started else job.template.start
        job.at = job.next
        job.restarts += job.started
        self.restarted += job.started
        job.started, job.runs_from = True, self.now + setup
        self.write_run(START, job)
        self.write_run(TAKE, job)
        job.setting_up = setup > 0
        job.event = job.runs_from if setup else self.end_of(job)

    # Reward

    def open_step(self) -> None:
        self.job_time = self.restarted = 0
        self.began = self.now

    def close_step(self) -> None:
        seconds = self.job_time / 1e9
        self.terms = {"time": seconds, "restarts": float(self.restarted)}
        weights = self.scenario.reward
        self.reward = -(weights.time * seconds + weights.restarts * self.restarted)
        self.elapsed = self.now - self.began

    # What is shown

    def row(self, job: Job, index: int) -> Row:
        place = job.template.places[index]
        keeps = job.at == index
        setup = job.template.restart if job.started else job.template.start
        if keeps:
            setup = job.runs_from - self.now if job.setting_up else 0
        return {
            "gpus": float(place.gpus),
            "share": place.gpus / self.gpus[place.kind],
            "free": float(self.free(place.kind)),
            "speed": place.per_s / job.best,
            "finish": setup + job.left / place.per_s * 1e9,
            "alone": job.left / job.best * 1e9,
            "done": 1.0 - job.left / job.template.work,
            "age": float(self.now - job.arrival),
            "ran": float(job.ran),
            "received": float(job.received),
            "order": float(self.jobs.index(job)),
            "weight": job.template.weight,
            "restarts": float(job.restarts),
            "setup": float(setup),
            "keep": float(keeps),
            "running": float(job.at is not None),
            "dispatch": 1.0,
            "wait": 0.0,
            "left": job.left,
            "rate": place.per_s,
            "kind": float(place.kind),
            "number": float(job.number),
            "configuration": float(index),
        }

    def rows(self) -> list[Row]:
        rows = [dict.fromkeys(CANDIDATE.names, 0.0) for _ in range(self.all_rows)]
        for row, candidate in zip(self.indices(), self.candidates(), strict=True):
            rows[row] = self.row(*candidate)
        rows[-1]["wait"] = 1.0
        return rows

    def globals(self) -> Row:
        width, count = self.scenario.rows, len(self.candidates())
        free = sum(self.free(kind) for kind in range(len(self.gpus)))
        return {
            "time": float(self.now),
            "jobs": float(len(self.jobs)),
            "placed": float(sum(job.next is not None for job in self.jobs)),
            "free_gpus": free / sum(self.gpus),
            "round": float(self.round),
            "began": float(self.rounds),
            "rows": float(width + 1 + count - width if count > width else count),
            "parameter": 0.0,
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }
