"""The cluster machine in plain Python, from docs/cluster-machine.md: clear and slow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from slipstream.families.cluster.caps import caps_of
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.workload.arrivals import workload_of
from tests.reference.numbers import episode_key, stream_key, uniform

ARRIVAL, START, FINISH, END, PREEMPT, TAKE = 0, 1, 2, 6, 7, 13
TERMS = ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness")
TRAIN = 0
Place = list[tuple[int, int]]
"""(node, GPUs); one entry with node -1 if flat."""


@dataclass
class Job:
    """One job of the episode."""

    number: int
    index: int
    submit: int
    run: int
    requested: int
    gpus: int
    user: int
    submitted_s: float
    left: int
    status: str = "waiting"
    queued: int = 0
    waited: int = 0
    attained: int = 0
    interrupted: int = 0
    start: int = -1
    setup: int = 0
    end: int = 0
    expected_end: int = 0
    level: int = 0
    factor: float = 1.0
    power: int = 0
    turn: int = 0
    began: tuple[int, Place] | None = None
    """When it started and where, if it runs at the beginning."""
    place: Place = field(default_factory=list)

    @property
    def bound(self) -> float:
        return max(self.run * 1e-9, 10.0)

    @property
    def expected_left(self) -> int:
        return max(1, self.requested - (self.run - self.left))

    def done_at(self, now: int) -> int:
        passed = max(0, now - self.start - self.setup)
        return min(passed if self.factor == 1.0 else math.floor(passed / self.factor), self.left - 1)


def takes(work: int, factor: float) -> int:
    return work if factor == 1.0 else max(1, math.ceil(work * factor))


class ReferenceMachine:
    """One episode, stopped at each choice."""

    def __init__(self, scenario: ClusterScenario, seed: int, split: int = 2) -> None:
        self.scenario = scenario
        self.key = episode_key(split, seed)
        self.read_cluster()
        self.read_jobs(split)
        self.now = 0
        self.choices = self.events = 0
        self.terminated = self.truncated = self.illegal = False
        self.elapsed, self.reward = 0, 0.0
        self.terms = dict.fromkeys(TERMS, 0.0)
        self.log: list[tuple[int, ...]] = []
        self.coming = list(self.jobs)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.reserved: Job | None = None
        self.reserved_level = 0
        self.compat_shadow = 0
        self.slots: dict[int, tuple[int, int, int]] = {}
        self.rate = self.busy_hours = 0.0
        self.starts = 0
        self.due = self.opened = False
        self.known_shadow: tuple[tuple[int | None, ...], tuple[int, list[Job]]] | None = None
        self.go_on()

    # What there is

    def read_cluster(self) -> None:
        self.nodes = sorted(self.scenario.nodes, key=lambda kind: (-kind.speed, kind.name))
        self.kind_of: list[int] = []
        self.rack_of: list[int] = []
        self.size_of: list[int] = []
        racks = 0
        for number, kind in enumerate(self.nodes):
            # A GPU in slices is a node of its own, and its node a rack.
            sliced = kind.slices > 1
            count = kind.count * kind.gpus if sliced else kind.count
            size = kind.gpus if sliced else kind.rack_size or kind.count
            for node in range(count):
                self.kind_of.append(number)
                self.rack_of.append(racks + node // size)
                self.size_of.append(kind.slices if sliced else kind.gpus)
            racks += math.ceil(count / size)
        self.slices = self.scenario.nodes[0].slices
        self.total = sum(self.size_of)
        self.idle_since: list[int | None] = [0] * len(self.size_of)
        self.factors = [[t / k.speed for t in (1.0, *(c.time for c in caps_of(k)))] for k in self.nodes]
        self.added = [
            [
                round(k.busy_w / k.slices * share * 1000) - round(k.idle_w / k.slices * 1000)
                for share in (1.0, *(c.power for c in caps_of(k)))
            ]
            for k in self.nodes
        ]
        self.idle = sum(self.idle_of(node) for node in range(len(self.size_of)))
        budget = self.scenario.power.budget_w
        self.budget = None if budget is None else math.floor(budget * 1000)
        self.levels = len(self.factors[0])
        self.flat = self.scenario.placement == "flat"
        self.compat = self.scenario.compat is not None

    def idle_of(self, node: int) -> int:
        kind = self.nodes[self.kind_of[node]]
        rest = kind.node_w / kind.gpus if self.slices > 1 else kind.node_w
        return self.size_of[node] * round(kind.idle_w / kind.slices * 1000) + round(rest * 1000)

    def read_jobs(self, split: int) -> None:
        found = workload_of(self.scenario)
        self.wanted = found.gpus.tolist()
        count, first = len(found), 0
        episode = self.scenario.episode
        if episode is not None and episode.jobs < count:
            cut = count - math.floor(episode.held_out * count)
            low, high = (0, cut) if split == TRAIN else (cut, count)
            if high - low < episode.jobs:
                low, high = 0, count
            first = low + int(uniform(stream_key(self.key, 1), 0) * (high - low - episode.jobs + 1))
            count = episode.jobs
        self.users = found.users
        self.jobs = []
        begins = self.scenario.begins_s
        zero = int(found.submit[first]) if begins is None else round((begins - float(found.submitted_s[0])) * 1e9)
        for number in range(count):
            at = first + number
            run, requested = int(found.run[at]), int(found.requested[at])
            submit, user = int(found.submit[at]) - zero, int(found.user[at])
            gpus, submitted = int(found.gpus[at]), float(found.submitted_s[at])
            job = Job(number, at, submit, run, requested, gpus, user, submitted, run)
            self.jobs.append(job)
            if begins is not None:
                listed = self.scenario.jobs.jobs[int(found.row[at])]
                if listed.started_s is not None:
                    since = round((listed.started_s - float(found.submitted_s[0])) * 1e9) - zero
                    job.began = since, [(self.node_named(one.kind, one.node), one.gpus) for one in listed.held]

    def node_named(self, kind: str, node: int) -> int:
        """Return the number of a node of a kind."""
        before = [one.name for one in self.nodes].index(kind)
        return sum(one.count for one in self.nodes[:before]) + node

    # What is free

    def free_by_node(self, running: list[Job]) -> list[int]:
        free = list(self.size_of)
        for job in running:
            for node, gpus in job.place:
                free[node] -= gpus
        return free

    def free_gpus(self, running: list[Job] | None = None) -> int:
        return self.total - sum(job.gpus for job in (self.running if running is None else running))

    def power(self, running: list[Job] | None = None) -> int:
        return self.idle + sum(job.power for job in (self.running if running is None else running))

    def place_for(self, gpus: int, running: list[Job], more: Place | None = None) -> Place | None:
        """Return where a job of so many GPUs would go beside running jobs, and one more place that is taken."""
        if self.flat:
            taken = sum(count for _, count in more or [])
            return [(-1, gpus)] if self.free_gpus(running) - taken >= gpus else None
        free = self.free_by_node(running)
        for node, count in more or []:
            free[node] -= count
        nodes = range(len(free))
        if self.scenario.placement == "first-fit":
            return self.fill(free, list(nodes), gpus)
        enough = [node for node in nodes if free[node] >= gpus]
        if enough:
            return [(min(enough, key=lambda node: (self.tightness(free[node], gpus), node)), gpus)]
        if self.scenario.placement == "best-fit":
            return self.fill(free, sorted(nodes, key=lambda node: (-free[node], node)), gpus)
        if gpus <= max(self.size_of):
            return None
        place: Place = []
        for node in nodes:
            if gpus > 0 and free[node] == self.size_of[node] <= gpus:
                place.append((node, self.size_of[node]))
                gpus -= self.size_of[node]
        if gpus == 0:
            return place
        taken_nodes = {node for node, _ in place}
        rest = [node for node in nodes if node not in taken_nodes and free[node] >= gpus]
        best = min(rest, key=lambda node: (self.tightness(free[node], gpus), node), default=None)
        return None if best is None else [*place, (best, gpus)]

    def tightness(self, free: int, gpus: int) -> int:
        return self.useless(free - gpus) - self.useless(free) if self.scenario.placement == "fgd" else free

    def useless(self, free: int) -> int:
        """Return how many of so many free GPUs of a node are useless, summed over the jobs of the workload."""
        return free * sum(min(gpus, max(self.size_of)) > free for gpus in self.wanted)

    @staticmethod
    def fill(free: list[int], order: list[int], gpus: int) -> Place | None:
        place: Place = []
        for node in order:
            count = min(free[node], gpus)
            if count > 0:
                place.append((node, count))
                gpus -= count
        return place if gpus == 0 else None

    def factor_at(self, place: Place, level: int) -> float:
        if self.flat:
            return self.factors[0][level]
        factor = max(self.factors[self.kind_of[node]][level] for node, _ in place)
        if len({self.rack_of[node] for node, _ in place}) > 1:
            return factor * (self.scenario.locality.nodes if self.slices > 1 else self.scenario.locality.racks)
        if self.slices > 1:
            return factor
        return factor * self.scenario.locality.nodes if len(place) > 1 else factor

    def power_at(self, place: Place, level: int) -> int:
        if self.flat:
            return place[0][1] * self.added[0][level]
        return sum(gpus * self.added[self.kind_of[node]][level] for node, gpus in place)

    def most_power(self, level: int) -> int:
        return max(row[level] for row in self.added)

    def fitting_place(self, job: Job, level: int) -> Place | None:
        place = self.place_for(job.gpus, self.running)
        if place is None:
            return None
        if self.budget is not None and self.power() + self.power_at(place, level) > self.budget:
            return None
        return place

    def held(self, user: int) -> int:
        return sum(job.gpus for job in self.running if job.user == user)

    def in_system(self, user: int) -> int:
        return sum(job.user == user for job in self.running) + sum(job.user == user for job in self.waiting)

    # Time

    def next_times(self) -> tuple[int | None, int | None, int | None]:
        """Return when the next job ends, comes, and the round ends; None if never."""
        ends = min((job.end for job in self.running), default=None)
        comes = self.coming[0].submit if self.coming else None
        rounds = None
        preemption = self.scenario.preemption
        if preemption is not None and preemption.round_s is not None and self.waiting and self.running:
            length = round(preemption.round_s * 1e9)
            rounds = (self.now // length + 1) * length
        return ends, comes, rounds

    def next_time(self) -> int | None:
        return min((time for time in self.next_times() if time is not None), default=None)

    def jain(self) -> float:
        users = {job.user for job in self.running} | {job.user for job in self.waiting}
        held = [self.held(user) for user in users]
        squares = sum(gpus * gpus for gpus in held)
        if squares == 0:
            return 1.0
        return float(sum(held)) * float(sum(held)) / (float(len(users)) * float(squares))

    def pass_to(self, time: int) -> None:
        passed = float(time - self.now)
        if passed > 0:
            hours = passed * (1.0 / 3.6e12)
            busy = float(self.total - self.free_gpus()) / self.total
            self.terms["slowdown"] += self.rate * (passed * 1e-9)
            self.terms["waiting"] += len(self.waiting) * hours
            self.terms["utilisation"] += busy * hours
            self.terms["energy"] += self.power() * 1e-6 * hours
            self.save_asleep(time)
            self.terms["unfairness"] += (1.0 - self.jain()) * hours
            self.busy_hours += busy * hours
            self.now = time

    # Sleep

    def saved(self, node: int) -> int:
        assert self.scenario.sleep is not None
        return self.idle_of(node) - round(self.scenario.sleep.watts * 1000)

    def falls_asleep(self, node: int) -> int | None:
        """Return when a node without jobs falls asleep, or fell."""
        since = self.idle_since[node]
        if self.scenario.sleep is None or since is None:
            return None
        return since + round(self.scenario.sleep.after_s * 1e9)

    def sleeps(self, node: int) -> bool:
        time = self.falls_asleep(node)
        return time is not None and time <= self.now

    def save_asleep(self, until: int) -> None:
        for node in range(len(self.size_of)):
            time = self.falls_asleep(node)
            if time is not None and max(time, self.now) < until:
                hours = float(until - max(time, self.now)) * (1.0 / 3.6e12)
                self.terms["energy"] -= self.saved(node) * 1e-6 * hours

    def setup_for(self, job: Job, place: Place) -> int:
        preemption = self.scenario.preemption
        setup = round(preemption.cost_s * 1e9) if preemption is not None and job.interrupted else 0
        if self.scenario.sleep is not None and any(self.sleeps(node) for node, _ in place):
            setup += round(self.scenario.sleep.wake_s * 1e9)
        return setup

    def write(self, kind: int, task: int, job: int, variant: int, resource: int) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))

    def one_event(self) -> None:
        ends, comes, _ = self.next_times()
        time = self.next_time()
        assert time is not None
        self.pass_to(time)
        self.events += 1
        self.due, self.opened = True, False
        if comes == time and (self.compat or ends != time):
            job = self.coming.pop(0)
            self.write(ARRIVAL, job.index, job.number, -1, job.user)
            if job.began is None:
                self.wait(job)
            else:
                self.run(job, 0, job.began[1] or [(-1, job.gpus)], job.began[0], 0)
        elif ends == time:
            self.finish(min((job for job in self.running if job.end == time), key=lambda job: job.turn))

    # Job life cycle

    def wait(self, job: Job) -> None:
        job.status, job.queued = "waiting", self.now
        self.waiting = sorted([*self.waiting, job], key=lambda one: one.number)
        self.rate += 1.0 / job.bound

    def start(self, job: Job, level: int, place: Place) -> None:
        job.waited += self.now - job.queued
        setup = self.setup_for(job, place)
        self.waiting.remove(job)
        self.rate = self.rate - 1.0 / job.bound if self.waiting else 0.0
        self.run(job, level, place, self.now, setup)

    def run(self, job: Job, level: int, place: Place, since: int, setup: int) -> None:
        job.status, job.level, job.start = "running", level, since
        job.factor, job.power = self.factor_at(place, level), self.power_at(place, level)
        job.place = [] if self.flat else place
        job.setup = setup
        for node, _ in job.place:
            self.idle_since[node] = None
        job.end = since + job.setup + takes(job.left, job.factor)
        job.expected_end = since + job.setup + takes(job.expected_left, job.factor)
        job.turn = self.starts if self.compat else job.number
        self.starts += 1
        self.running.append(job)
        self.write(START, job.gpus, job.number, level, self.node_of(job))
        for node, gpus in job.place:
            self.write(TAKE, gpus, job.number, level, node)

    def node_of(self, job: Job) -> int:
        return job.place[0][0] if job.place else -1

    def leave(self, job: Job) -> None:
        self.running.remove(job)
        free = self.free_by_node(self.running)
        for node, _ in job.place:
            if free[node] == self.size_of[node]:
                self.idle_since[node] = self.now

    def finish(self, job: Job) -> None:
        self.leave(job)
        job.status = "ended"
        spent = (self.now - job.submit) * 1e-9
        self.terms["slowdown"] += max(1.0, spent / job.bound) - job.waited * 1e-9 / job.bound
        self.terms["throughput"] += 1.0
        self.write(FINISH, job.gpus, job.number, job.level, self.node_of(job))

    def interrupt(self, job: Job) -> None:
        self.leave(job)
        job.left -= job.done_at(self.now)
        job.attained += self.now - job.start
        job.interrupted += 1
        self.write(PREEMPT, job.gpus, job.number, job.level, self.node_of(job))
        self.wait(job)

    # Scheduling points

    def open_point(self) -> None:
        self.opened = True
        self.slots = {}
        if self.reserved is None:
            return
        if not self.scenario.hold:
            self.reserved = None
            return
        place = self.fitting_place(self.reserved, self.reserved_level)
        if place is not None:
            job, self.reserved = self.reserved, None
            self.start(job, self.reserved_level, place)
        elif self.compat and self.scenario.backfill == "easy":
            self.backfill_compat()

    def backfill_compat(self) -> None:
        for job in list(self.waiting):
            place = self.fitting_place(job, 0)
            if place is not None and self.now + job.expected_left < self.compat_shadow:
                self.start(job, 0, place)

    def by_expected_end(self) -> list[Job]:
        return sorted(self.running, key=lambda job: (job.expected_end, job.number))

    def moment(self) -> tuple[int | None, ...]:
        """Return what tells this state from all others of the episode: nothing changes unless one of these does."""
        reserved = None if self.reserved is None else self.reserved.number
        return self.now, len(self.log), len(self.coming), len(self.slots), reserved, self.reserved_level

    def shadow(self) -> tuple[int, list[Job]]:
        """Return when the reserved job fits, and who still runs then; worked out once."""
        if self.known_shadow is None or self.known_shadow[0] != self.moment():
            self.known_shadow = self.moment(), self.find_shadow()
        return self.known_shadow[1]

    def find_shadow(self) -> tuple[int, list[Job]]:
        job = self.reserved
        assert job is not None
        left = self.by_expected_end()
        more = job.gpus * self.most_power(self.reserved_level)
        for end in sorted({max(self.now, one.expected_end) for one in left}):
            # Whether it fits is looked at after each end, but all that end at the same time are gone then.
            while left and max(self.now, left[0].expected_end) <= end:
                left = left[1:]
            enough = self.budget is None or self.power(left) + more <= self.budget
            if enough and self.place_for(job.gpus, left) is not None:
                return end, left
        raise AssertionError("the reserved job never fits")

    def is_safe(self, job: Job, level: int, place: Place) -> bool:
        assert self.reserved is not None
        end, left = self.shadow()
        if self.now + self.setup_for(job, place) + takes(job.expected_left, self.factor_at(place, level)) <= end:
            return True
        if self.budget is not None:
            more = self.reserved.gpus * self.most_power(self.reserved_level)
            if self.power(left) + more + self.power_at(place, level) > self.budget:
                return False
        return self.place_for(self.reserved.gpus, left, place) is not None

    def extra(self) -> int:
        assert self.reserved is not None
        return self.free_gpus(self.shadow()[1]) - self.reserved.gpus

    def may_be_chosen(self, job: Job, level: int) -> bool:
        quota = self.scenario.quotas.get(self.users[job.user])
        held = self.held(job.user) + job.gpus
        if self.reserved is not None and self.reserved.user == job.user:
            held += self.reserved.gpus
        if quota is not None and held > quota * self.slices:
            return False
        return self.budget is None or self.idle + job.gpus * self.most_power(level) <= self.budget

    def can_start_row(self, job: Job, level: int) -> bool:
        if job is self.reserved or not self.may_be_chosen(job, level):
            return False
        rule = self.scenario.backfill
        if self.reserved is not None:
            place = self.fitting_place(job, level)
            return rule == "easy" and not self.compat and place is not None and self.is_safe(job, level, place)
        if rule == "greedy":
            return self.fitting_place(job, level) is not None
        return job.number not in self.slots

    def start_rows(self) -> list[tuple[Job, int]]:
        preemption = self.scenario.preemption is not None
        if self.free_gpus() == 0 and (self.reserved is not None or not (self.scenario.hold or preemption)):
            return []
        return [(job, level) for job in self.waiting for level in range(self.levels) if self.can_start_row(job, level)]

    def stop_rows(self) -> list[Job]:
        preemption = self.scenario.preemption
        if preemption is None or self.reserved is not None:
            return []
        least = round(preemption.least_run_s * 1e9)
        running = [job for job in self.running if job.start < self.now and self.now - job.start >= least]
        return sorted(running, key=lambda job: (-job.expected_end, -job.number))

    def has_rows(self) -> bool:
        return bool(self.waiting) and bool(self.start_rows() or self.stop_rows())

    # Choices

    def choose(self, job: Job, level: int) -> None:
        if self.scenario.backfill == "conservative":
            self.give_slot(job, level)
            return
        place = self.fitting_place(job, level)
        if place is not None:
            self.start(job, level, place)
            return
        self.reserved, self.reserved_level = job, level
        if self.compat:
            self.find_compat_shadow()
            if self.scenario.backfill == "easy":
                self.backfill_compat()

    def find_compat_shadow(self) -> None:
        assert self.reserved is not None
        free = self.free_gpus()
        self.compat_shadow = self.now
        for job in self.by_expected_end():
            free += job.gpus
            self.compat_shadow = job.expected_end
            if free >= self.reserved.gpus:
                return

    def give_slot(self, job: Job, level: int) -> None:
        """Find the earliest time at which there is room for all of the job, beside what runs and has slots."""
        taken = [(self.now, max(self.now + 1, one.expected_end), one.gpus) for one in self.running]
        # Who got a slot that begins now runs, and is counted so.
        taken += [slot for number, slot in self.slots.items() if self.jobs[number].status == "waiting"]
        length = takes(job.expected_left, self.factors[0][level])
        for begin in sorted({self.now, *(end for _, end, _ in taken)}):
            times = [begin, *(at for at, _, _ in taken if begin < at < begin + length)]
            if all(self.total - sum(g for b, e, g in taken if b <= at < e) >= job.gpus for at in times):
                break
        self.slots[job.number] = (begin, begin + length, job.gpus)
        if begin == self.now:
            self.start(job, level, [(-1, job.gpus)])

    def may_wait(self) -> bool:
        return bool(self.running or self.coming)

    # Steps

    def go_on(self) -> None:
        while True:
            if len([job for job in self.jobs if job.status == "ended"]) == len(self.jobs):
                self.terminated = True
                self.write(END, -1, -1, -1, -1)
                break
            time = self.next_time()
            if self.due and (self.opened or self.compat or time is None or time > self.now):
                if not self.opened:
                    self.open_point()
                if self.has_rows():
                    self.choices += 1
                    break
                self.due = False
                continue
            self.one_event()
        weights = self.scenario.reward
        self.reward = (
            -weights.slowdown * self.terms["slowdown"]
            - weights.waiting * self.terms["waiting"]
            + weights.throughput * self.terms["throughput"]
            + weights.utilisation * self.terms["utilisation"]
            - weights.energy * self.terms["energy"]
            - weights.unfairness * self.terms["unfairness"]
        )

    @property
    def asked(self) -> int:
        """The cluster is all that is ever asked."""
        return -1 if self.terminated else 0

    @property
    def over(self) -> bool:
        return self.terminated
