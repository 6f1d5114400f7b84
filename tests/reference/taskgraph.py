"""The taskgraph machine in plain Python, written from docs/taskgraph-machine.md and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Template, library_of
from tests.reference.numbers import episode_key, exponential, normal, stream_key, uniform

ARRIVAL, START, FINISH, END, READY, EVICT, MOVE, DONE, TAKE = 0, 1, 2, 6, 8, 9, 10, 12, 13
ABSENT, LOADING, VALID = "absent", "loading", "valid"
FOREVER = math.inf


@dataclass(eq=False)
class Tile:
    """A tile of a job."""

    job: Job
    number: int
    size: int
    where: list[str]
    touched: list[int]
    moves: int = 0

    def is_valid(self, node: int) -> bool:
        return self.where[node] == VALID

    def lowest_device(self) -> int | None:
        return next((node for node in range(1, len(self.where)) if self.is_valid(node)), None)

    def is_only(self, node: int) -> bool:
        return not any(self.is_valid(other) for other in range(len(self.where)) if other != node)


@dataclass(eq=False)
class Task:
    """A task of a job."""

    job: Job
    number: int
    durations: list[int]
    accesses: list[tuple[Tile, bool, bool]]
    """(tile, reads, writes)"""
    waits_for: int
    status: str = "hidden"
    ready_at: int = 0
    parked: bool = False

    @property
    def children(self) -> list[Task]:
        return [self.job.tasks[child] for child in self.job.template.children[self.number]]

    def tiles(self) -> list[Tile]:
        return [tile for tile, _, _ in self.accesses]

    @property
    def is_visible(self) -> bool:
        return self.status != "hidden"


@dataclass(eq=False)
class Job:
    """One arrival of a graph."""

    number: int
    template: Template
    tasks: list[Task] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return all(task.status == "finished" for task in self.tasks)


@dataclass(eq=False)
class Worker:
    """A processor."""

    number: int
    kind: int
    node: int
    held: list[Task] = field(default_factory=list)
    queue: list[Task] = field(default_factory=list)
    runs: bool = False
    started: int = 0
    ends: float = FOREVER
    parked: bool = False

    def staged(self, prefetch: int) -> list[Task]:
        return self.held + self.queue[:prefetch]

    def waiting_staged(self, prefetch: int) -> list[tuple[int, Task]]:
        """Return the staged tasks that do not run, with their places."""
        return [(k, task) for k, task in enumerate(self.staged(prefetch)) if not (k == 0 and self.runs)]


@dataclass(eq=False)
class Device:
    """A memory of its own, and its three links."""

    node: int
    worker: Worker
    capacity: float
    carries: list[tuple[Tile, float] | None]
    used: int = 0
    write_back: Tile | None = None


class ReferenceMachine:
    """One episode, stopped at each choice."""

    def __init__(self, scenario: TaskgraphScenario, seed: int, split: int = 2) -> None:
        self.scenario = scenario
        self.library = library_of(scenario)
        self.key = episode_key(split, seed)
        self.now = 0
        self.log: list[tuple[int, int, int, int, int, int]] = []
        self.choices = 0
        self.terminated = self.truncated = False
        self.illegal = False
        self.elapsed = 0
        self.terms: dict[str, float] = {}
        self.reward = 0.0
        self.counted = 0
        self.jobs: list[Job] = []
        self.ready: list[Task] = []
        self.touches = 0
        self.asked_worker: Worker | None = None
        self.asked_task: Task | None = None
        self.workers: list[Worker] = []
        self.devices: list[Device] = []
        for kind, processors in enumerate(self.library.kinds):
            for _ in range(processors.count):
                node = len(self.devices) + 1 if processors.device else 0
                self.workers.append(Worker(len(self.workers), kind, node))
                if processors.device:
                    limit = processors.memory_mb
                    capacity = FOREVER if limit is None else round(limit * 1e6)
                    self.devices.append(Device(node, self.workers[-1], capacity, [None] * 3))
        arrivals = scenario.arrivals
        self.total = len(arrivals.times_ms) if arrivals.kind == "trace" else arrivals.jobs
        self.largest = max(len(template.tasks) for template in self.library.templates)
        self.next_arrival = self._next_arrival()
        self._go_on()

    # What the scenario says

    @property
    def has_links(self) -> bool:
        return self.scenario.links is not None

    @property
    def has_peer(self) -> bool:
        return self.scenario.links is not None and self.scenario.links.peer is not None

    def link_time(self, which: int, tile: Tile) -> int:
        links = self.scenario.links
        assert links is not None
        link = (links.to_device, links.to_host, links.peer)[which]
        if link is None:
            return 0
        bytes_per_ns = Fraction(link.bandwidth_mb_s) * 10**6 / 10**9
        return round(link.latency_us * 1000) + math.ceil(tile.size / bytes_per_ns)

    def _next_arrival(self) -> float:
        arrivals, number = self.scenario.arrivals, len(self.jobs)
        if number >= self.total:
            return FOREVER
        if arrivals.kind == "batch":
            return 0
        if arrivals.kind == "trace":
            return round(arrivals.times_ms[number] * 1e6)
        if number < arrivals.initial_jobs:
            return 0
        gap = exponential(stream_key(self.key, 1), number, float(round(arrivals.mean_gap_ms * 1e6)))
        return self.now + max(1, math.ceil(gap))

    def _template(self, number: int) -> int:
        arrivals = self.scenario.arrivals
        templates = self.library.templates
        if arrivals.kind == "trace" and arrivals.names is not None:
            return next(k for k, one in enumerate(templates) if one.name == arrivals.names[number])
        return int(uniform(stream_key(self.key, 2), number) * len(templates))

    def duration(self, task: Task, kind: int) -> int:
        """Return what a task takes on a kind of processor."""
        expected, noise = task.durations[kind], self.scenario.noise
        if noise.kind == "none" or (noise.kinds is not None and self.library.kinds[kind].name not in noise.kinds):
            return expected
        z = normal(stream_key(self.key, 3 + task.job.number), task.number * 64 + kind)
        if noise.kind == "additive":
            time = expected + max(round(noise.sd_ms * 1e6) * z, float(round(noise.floor_ms * 1e6)))
        else:
            s = math.sqrt(math.log(1.0 + noise.cv**2))
            time = expected * math.exp(s * z - s * s / 2.0)
        return max(1, math.ceil(time))

    def note(self, kind: int, task: int = -1, job: int = -1, variant: int = -1, resource: int = -1) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))

    # Tasks

    def _reveal(self, task: Task) -> None:
        task.status = "waiting"
        if task.waits_for == 0:
            self._make_ready(task)

    def _make_ready(self, task: Task) -> None:
        task.status = "ready"
        task.ready_at = self.now
        task.parked = False
        self.ready.append(task)

    def _look_at(self, job: Job) -> None:
        """Let tasks of a job come into view."""
        visibility = self.scenario.visibility
        for task in job.tasks:
            if task.is_visible:
                continue
            unfinished = sum(one.is_visible and one.status != "finished" for one in job.tasks)
            if visibility.kind == "window" and unfinished >= visibility.tasks:
                return
            if visibility.kind != "parents" or task.waits_for == 0:
                self._reveal(task)

    def _arrive(self) -> None:
        number = len(self.jobs)
        which = self._template(number)
        template, durations = self.library.templates[which], self.library.durations[which].tolist()
        job = Job(number, template, taken=[0] * len(self.workers))
        nodes = 1 + len(self.devices)
        for index, size in enumerate(template.tile_bytes):
            where = [VALID] + [ABSENT] * (nodes - 1)
            job.tiles.append(Tile(job, index, size, where, [0] * nodes))
        for index, one in enumerate(template.tasks):
            accesses = [(job.tiles[tile], bool(mode & 1), bool(mode & 2)) for tile, mode in one.accesses]
            job.tasks.append(Task(job, index, durations[index], accesses, len(one.parents)))
        self.jobs.append(job)
        self.note(ARRIVAL, which, number)
        self._look_at(job)
        self.next_arrival = self._next_arrival()

    def _finish(self, worker: Worker) -> None:
        task = worker.held.pop(0)
        worker.runs, worker.ends = False, FOREVER
        task.status = "finished"
        self.note(FINISH, task.number, task.job.number, worker.kind, worker.number)
        if self.has_links:
            for tile, _, writes in task.accesses:
                for node in range(1 + len(self.devices)):
                    if writes and node != worker.node and tile.is_valid(node):
                        self._forget(tile, node)
        for child in task.children:
            child.waits_for -= 1
            if child.waits_for == 0 and child.status == "waiting":
                self._make_ready(child)
            elif child.waits_for == 0 and self.scenario.visibility.kind == "parents":
                self._reveal(child)
        if self.scenario.visibility.kind == "window":
            self._look_at(task.job)
        if task.job.is_done:
            self.note(DONE, job=task.job.number)

    # Tiles

    def _forget(self, tile: Tile, node: int) -> None:
        tile.where[node] = ABSENT
        if node > 0:
            self.devices[node - 1].used -= tile.size

    def _touch(self, tile: Tile, node: int) -> None:
        self.touches += 1
        tile.touched[node] = self.touches

    def _carry(self, device: Device, which: int, tile: Tile) -> None:
        target = 0 if which == 1 else device.node
        tile.where[target] = LOADING
        tile.moves += 1
        if target:
            device.used += tile.size
        device.carries[which] = (tile, self.now + self.link_time(which, tile))
        link = len(self.workers) + 3 * (device.node - 1) + which
        self.note(MOVE, tile.number, tile.job.number, which, link)

    def _arrived(self, device: Device, which: int) -> None:
        carried = device.carries[which]
        assert carried is not None
        tile, _ = carried
        node = 0 if which == 1 else device.node
        device.carries[which] = None
        tile.moves -= 1
        tile.where[node] = VALID
        self._touch(tile, node)
        link = len(self.workers) + 3 * (device.node - 1) + which
        self.note(READY, tile.number, tile.job.number, which, link)

    def _victim(self, device: Device, k: int) -> Tile | None:
        staged = device.worker.staged(self.scenario.prefetch)[: k + 1]
        kept = {id(tile) for task in staged for tile in task.tiles()}
        candidates = [
            tile
            for job in self.jobs
            for tile in job.tiles
            if tile.is_valid(device.node) and tile.moves == 0 and id(tile) not in kept
        ]
        return min(candidates, key=lambda tile: self._eviction_key(device, tile), default=None)

    def _eviction_key(self, device: Device, tile: Tile) -> tuple[float, ...]:
        touched = tile.touched[device.node]
        if self.scenario.eviction == "lru":
            return (touched,)
        if self.scenario.eviction == "luf":
            queued = sum(tile in task.tiles() for task in device.worker.queue)
            uses = sum(
                task.is_visible and task.status != "finished" and tile in task.tiles() for task in tile.job.tasks
            )
            return (queued, uses, touched)
        left = [task.number for task in tile.job.tasks if task.status != "finished" and tile in task.tiles()]
        return (-(tile.job.number * self.largest + left[0]) if left else -FOREVER, touched)

    def _free_memory(self, device: Device, tile: Tile, k: int) -> bool:
        while device.used + tile.size > device.capacity:
            victim = self._victim(device, k)
            if victim is None:
                return False
            if victim.is_only(device.node):
                device.write_back = victim
                return False
            self._forget(victim, device.node)
            self.note(EVICT, victim.number, victim.job.number, resource=device.node)
        return True

    def _fetch(self, device: Device) -> None:
        device.write_back = None
        for k, task in device.worker.waiting_staged(self.scenario.prefetch):
            for tile, reads, _ in task.accesses:
                if tile.where[device.node] != ABSENT:
                    continue
                if not reads:
                    if not self._free_memory(device, tile, k):
                        return
                    tile.where[device.node] = VALID
                    device.used += tile.size
                    self._touch(tile, device.node)
                    continue
                if tile.is_valid(0):
                    which = 0
                elif self.has_peer and tile.lowest_device() is not None:
                    which = 2
                else:
                    continue
                if device.carries[which] is None:
                    if not self._free_memory(device, tile, k):
                        return
                    self._carry(device, which, tile)

    def _send(self) -> None:
        for device in self.devices:
            if device.write_back is not None and device.carries[1] is None:
                self._carry(device, 1, device.write_back)
        for worker in self.workers:
            if worker.node and self.has_peer:
                continue
            for _, task in worker.waiting_staged(self.scenario.prefetch):
                for tile, reads, _ in task.accesses:
                    if not reads and worker.node == 0 and tile.where[0] == ABSENT:
                        tile.where[0] = VALID
                        self._touch(tile, 0)
                    if not reads or tile.where[0] != ABSENT or tile.where[worker.node] != ABSENT:
                        continue
                    node = tile.lowest_device()
                    if node is not None and self.devices[node - 1].carries[1] is None:
                        self._carry(self.devices[node - 1], 1, tile)

    def _start(self, worker: Worker) -> None:
        if not worker.held or worker.runs:
            return
        task = worker.held[0]
        if self.has_links:
            for tile, _, writes in task.accesses:
                if not tile.is_valid(worker.node) or (writes and tile.moves):
                    return
            for tile in task.tiles():
                self._touch(tile, worker.node)
        worker.runs, worker.started = True, self.now
        worker.ends = self.now + self.duration(task, worker.kind)
        self.note(START, task.number, task.job.number, worker.kind, worker.number)

    def _move_things(self) -> None:
        if self.has_links:
            for device in self.devices:
                self._fetch(device)
            self._send()
        for worker in self.workers:
            self._start(worker)

    # The clock

    def _next_event(self) -> tuple[float, Any]:
        """Return when the next event is, and what to do then."""
        best: tuple[float, Any] = (FOREVER, None)
        for worker in self.workers:
            if worker.ends < best[0]:
                best = (worker.ends, lambda worker=worker: self._finish(worker))
        for device in self.devices:
            for which, carried in enumerate(device.carries):
                if carried is not None and carried[1] < best[0]:
                    best = (carried[1], lambda device=device, which=which: self._arrived(device, which))
        if self.next_arrival < best[0]:
            best = (self.next_arrival, self._arrive)
        return best

    def may_wait(self) -> bool:
        if self._next_event()[0] < FOREVER:
            return True
        if self.asked_task is not None:
            others = [task for task in self.ready if not task.parked and task is not self.asked_task]
            return bool(others) or any(worker.queue for worker in self.workers)
        others = [worker for worker in self.workers if self._can_take(worker) and worker is not self.asked_worker]
        return any(worker.queue or not self.pushes for worker in others)

    def _go_on(self) -> None:
        """Run to the next choice, or to the end."""
        while True:
            if len(self.jobs) == self.total and all(job.is_done for job in self.jobs):
                self.terminated = True
                self.asked_worker = self.asked_task = None
                self.note(END)
                return
            if self._look_for_choice():
                self.choices += 1
                return
            if self._take_alone():
                continue
            time, happen = self._next_event()
            self.now = int(time)
            for worker in self.workers:
                worker.parked = False
            for task in self.ready:
                task.parked = False
            happen()
            self._move_things()

    # Choices

    @property
    def over(self) -> bool:
        return self.terminated

    @property
    def asked(self) -> int:
        """The number of the processor or task for which is chosen."""
        who: Any = self.asked_task or self.asked_worker
        return -1 if who is None else int(who.number)

    @property
    def pushes(self) -> bool:
        return self.scenario.mode == "push"

    def _can_take(self, worker: Worker) -> bool:
        return len(worker.held) < self.scenario.pipeline and not worker.parked

    def _look_for_choice(self) -> bool:
        self.asked_worker = self.asked_task = None
        if not self.pushes:
            if self.ready:
                self.asked_worker = next((worker for worker in self.workers if self._can_take(worker)), None)
            return self.asked_worker is not None
        self.asked_task = next((task for task in self.ready if not task.parked), None)
        if self.asked_task is not None:
            return True
        taker = next((worker for worker in self.workers if self._can_take(worker) and worker.queue), None)
        if taker is not None and len(taker.queue) > 1:
            self.asked_worker = taker
        return self.asked_worker is not None

    def _take_alone(self) -> bool:
        taker = next((worker for worker in self.workers if self._can_take(worker) and worker.queue), None)
        if taker is None:
            return False
        self._take(taker, taker.queue.pop(0))
        return True

    def _take(self, worker: Worker, task: Task) -> None:
        task.status = "held"
        worker.held.append(task)
        task.job.taken[worker.number] += 1
        self.note(TAKE, task.number, task.job.number, resource=worker.number)
        self._move_things()

    @property
    def phase(self) -> int:
        return 1 if self.asked_task is not None else 2 if self.pushes else 0

    def pairs(self) -> list[tuple[Task, Worker]]:
        """Return what this choice is between, in the order of the list."""
        if self.asked_task is not None:
            return [(self.asked_task, worker) for worker in self.workers]
        assert self.asked_worker is not None
        tasks = self.asked_worker.queue if self.pushes else self.ready
        return [(task, self.asked_worker) for task in tasks]

    def chosen_pair(self, action: int) -> tuple[Task, Worker] | None:
        """Return what an action stands for, None if nothing."""
        raise NotImplementedError

    def is_wait(self, action: int) -> bool:
        raise NotImplementedError

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on to the next choice or the end."""
        began = self.now
        if self.choices > 1:
            self.counted = self.now
        pair = self.chosen_pair(action)
        self.illegal = pair is None and not (self.may_wait() and self.is_wait(action))
        if pair is None and not self.may_wait():
            pair = self.first_pair()
        if pair is None:
            who: Any = self.asked_task or self.asked_worker
            who.parked = True
        else:
            self._choose(*pair)
        self._go_on()
        self.elapsed = self.now - began
        self.terms = {"makespan": (self.now - self.counted) / 1e6}
        self.reward = -self.scenario.reward.makespan * self.terms["makespan"]

    def first_pair(self) -> tuple[Task, Worker]:
        pair = self.chosen_pair(0)
        assert pair is not None
        return pair

    def _choose(self, task: Task, worker: Worker) -> None:
        phase = self.phase
        if phase == 0:
            self.ready.remove(task)
            self._take(worker, task)
        elif phase == 1:
            self.ready.remove(task)
            task.status = "queued"
            worker.queue.append(task)
            self._move_things()
        else:
            worker.queue.remove(task)
            self._take(worker, task)
