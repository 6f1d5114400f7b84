"""The kernel agrees with queueing theory and with what is proved about scheduling to deadlines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slipstream.families.edge.metrics import metrics
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.policies.base import find
from slipstream.sim.eventlog import ARRIVAL, END, FINISH, START
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, task

pytestmark = pytest.mark.thorough

NS_PER_MS = 1e6
NEVER_LATE_MS = 8e9


# Queues: Poisson arrivals, one task, first come first served


@dataclass
class Queue:
    """Adds up, piece by piece of the log, how long jobs wait, and how many wait and run at a time."""

    arrived: int = 0
    started: int = 0
    finished: int = 0
    now: int = 0
    waited: int = 0
    """Sum over started jobs of start - arrival, in ns."""
    waiting_time: int = 0
    """Integral over time of the number of jobs that wait, by counting them, in ns."""
    running_time: int = 0
    """Likewise of the jobs that run."""
    pending: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """When the jobs that wait arrived."""

    def take(self, events: np.ndarray) -> None:
        """Add a piece of the log."""
        time, kind = events["time"], events["kind"]
        assert np.isin(kind, (ARRIVAL, START, FINISH, END)).all()
        arrives, starts, finishes = kind == ARRIVAL, kind == START, kind == FINISH
        gap = np.diff(time, prepend=self.now)
        # Jobs before each row: those at its beginning, and the changes of the rows before it.
        change = arrives.astype(np.int64) - starts
        self.waiting_time += int((gap * (self.arrived - self.started + np.cumsum(change) - change)).sum())
        change = starts.astype(np.int64) - finishes
        self.running_time += int((gap * (self.started - self.finished + np.cumsum(change) - change)).sum())
        # First come, first served: the k-th start is that of the k-th arrival.
        self.pending = np.concatenate((self.pending, time[arrives]))
        self.waited += int((time[starts] - self.pending[: starts.sum()]).sum())
        self.pending = self.pending[starts.sum() :]
        self.arrived += int(arrives.sum())
        self.started += int(starts.sum())
        self.finished += int(finishes.sum())
        self.now = int(time[-1]) if len(time) else self.now


def queue_of(load: float, streams: int, jobs: int, latency: dict[str, Any], seed: int) -> Queue:
    """Play a queue with a mean service time of 1 ms until about so many jobs have arrived."""
    gap_ms = 1.0 / (load * streams)
    source = task({"kind": "poisson", "mean_gap_ms": gap_ms}, [1.0], NEVER_LATE_MS)
    device = EdgeScenario.model_validate(
        scenario(jobs * gap_ms, [source], streams=streams, latency=latency, late="run", queue_limit=100_000)
    )
    queue = Queue()
    Simulator(device).play(find("fifo", "edge"), seed, sink=queue.take)
    assert queue.arrived == pytest.approx(jobs, rel=0.01)
    return queue


EXPONENTIAL = {"kind": "exponential"}

# The variance of the mean wait over n jobs is known for M/M/1 (Daley, 1968: The serial correlation coefficients of
# waiting times in a stationary single server queue): in units of the service time it is
# load * (2 + 5 load - 4 load**2 + load**3) / (1 - load)**4 / n. So the relative standard errors are 0.27% at load 0.5
# with 4 million jobs and 0.32% at 0.7 with 6 million; the others are milder.
QUEUES = {
    "M/M/1 at 0.5": (0.5, 1, 4_000_000, EXPONENTIAL, 0.5 / (1 - 0.5)),
    "M/M/1 at 0.7": (0.7, 1, 6_000_000, EXPONENTIAL, 0.7 / (1 - 0.7)),
    # Erlang's C formula for two servers: waiting is as likely as 2 load**2 / (1 + load).
    "M/M/2 at 0.7": (0.7, 2, 4_000_000, EXPONENTIAL, 0.7**2 / (1 - 0.7**2)),
    # Pollaczek and Khinchine: load * (1 + cv**2) / 2 / (1 - load).
    "M/D/1 at 0.6": (0.6, 1, 4_000_000, {"kind": "fixed"}, 0.6 / 2 / (1 - 0.6)),
    "M/G/1 at 0.6": (0.6, 1, 4_000_000, {"kind": "lognormal", "cv": 0.5}, 0.6 * 1.25 / 2 / (1 - 0.6)),
}


@pytest.mark.parametrize("name", QUEUES)
def test_mean_wait_is_that_of_the_formula(name: str) -> None:
    load, streams, jobs, latency, mean_wait_ms = QUEUES[name]
    queue = queue_of(load, streams, jobs, latency, seed=1)
    mean_wait = queue.waited / queue.started / NS_PER_MS
    assert mean_wait == pytest.approx(mean_wait_ms, rel=0.01)
    # Little's law: jobs that wait at a time = arrivals per time * mean wait. Both sides are exact but for the jobs that
    # still wait at the end.
    seen = queue.waiting_time / queue.now
    assert seen == pytest.approx(queue.arrived / queue.now * (queue.waited / queue.started), rel=1e-4)
    assert queue.waiting_time == queue.waited + int((queue.now - queue.pending).sum())
    # And for the servers: jobs that run at a time = the load of each, times their number.
    assert queue.running_time / queue.now == pytest.approx(load * streams, rel=0.005)


def mean_wait_of_batches(rate: float, largest: int) -> float:
    """Return the mean wait of M/M/1 whose server takes all that wait, up to `largest`, at once, in mean 1.

    While the server is busy, n jobs wait with a probability in proportion to r^n, where r between 0 and 1 solves
    1 r^(largest + 1) - (rate + 1) r + rate = 0; it is idle with 1 / rate of the probability that it is busy and none
    waits (Bailey, 1954: On queueing processes with bulk service; here with a server that starts with any number).
    """
    low, high = 0.0, 1.0 - 1e-9
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle ** (largest + 1) - (rate + 1.0) * middle + rate > 0.0 else (low, middle)
    none_waits = 1.0 / (1.0 / (1.0 - low) + 1.0 / rate)
    return none_waits * low / (1.0 - low) ** 2 / rate


@pytest.mark.parametrize(("rate", "largest"), [(0.6, 1), (2.0, 4), (3.0, 4)])
def test_mean_wait_of_a_batch_server_is_that_of_the_formula(rate: float, largest: int) -> None:
    batches = [{"size": size, "latency_ms": 1.0} for size in range(2, largest + 1)]
    source = task(
        {"kind": "poisson", "mean_gap_ms": 1.0 / rate}, [1.0], NEVER_LATE_MS, ladder={"batches": batches or None}
    )
    jobs = 2_000_000
    device = EdgeScenario.model_validate(
        scenario(jobs / rate, [source], latency=EXPONENTIAL, late="run", queue_limit=100_000)
    )
    queue = Queue()
    Simulator(device).play(find("clipper", "edge"), 1, sink=queue.take)
    assert queue.waited / queue.started / NS_PER_MS == pytest.approx(mean_wait_of_batches(rate, largest), rel=0.015)


# Deadlines: periodic tasks on one stream, run to completion, deadline = period


@dataclass(frozen=True)
class Periodic:
    """A task: its period in whole milliseconds, its cost in whole milliseconds or, written as such, nanoseconds."""

    period: int
    cost: float


TaskSet = list[Periodic]
"""Sorted by period."""

PERIODS = (4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60, 120)
HYPERPERIOD = 120


def utilisation(tasks: TaskSet) -> float:
    return sum(HYPERPERIOD // one.period * one.cost for one in tasks) / HYPERPERIOD


def idle_ns(tasks: TaskSet) -> int:
    """Return the nanoseconds of a hyperperiod that the tasks leave; negative if they need more than there are."""
    return round(HYPERPERIOD * NS_PER_MS) - sum(
        HYPERPERIOD // one.period * round(one.cost * NS_PER_MS) for one in tasks
    )


def overrun(tasks: TaskSet) -> tuple[int, int] | None:
    """Return where Jeffay, Stanat and Martel's condition fails: (place of the task, length), None if nowhere.

    K. Jeffay, D. Stanat, C. Martel: On non-preemptive scheduling of periodic and sporadic tasks, RTSS 1991: for
    each task i but the first and each L between the first period and that of i,
    L >= C_i + sum over j < i of floor((L - 1) / T_j) * C_j.
    """
    for place, one in enumerate(tasks):
        for length in range(tasks[0].period + 1, one.period):
            demand = one.cost + sum((length - 1) // other.period * other.cost for other in tasks[:place])
            if length < demand:
                return place, length
    return None


def random_sets(seed: int, count: int) -> list[TaskSet]:
    """Return task sets of high utilisation, at most 1."""
    random = np.random.default_rng(seed)
    found: list[TaskSet] = []
    while len(found) < count:
        periods = sorted(int(period) for period in random.choice(PERIODS, random.integers(2, 6)))
        tasks = [Periodic(period, int(random.integers(1, max(2, period // 2)))) for period in periods]
        if 0.5 <= utilisation(tasks) <= 1.0:
            found.append(tasks)
    return found


def misses(tasks: TaskSet, phases: list[int], policy: str = "edf", preemption: str = "none") -> int:
    """Play the tasks over a few hyperperiods and return how many jobs missed their deadline."""
    sources = [
        task({"kind": "periodic", "period_ms": float(one.period), "phase_ms": float(phase)}, [float(one.cost)], None)
        for one, phase in zip(tasks, phases, strict=True)
    ]
    device = EdgeScenario.model_validate(
        scenario(max(phases) + 3.0 * HYPERPERIOD, sources, preemption={"kind": preemption})
    )
    figures = metrics(device, Simulator(device).play(find(policy, "edge"), seed=0))
    assert figures["judged"] > 0
    return round(figures["miss_rate"] * figures["judged"])


def test_edf_meets_every_deadline_where_the_condition_holds() -> None:
    random = np.random.default_rng(7)
    feasible = [tasks for tasks in random_sets(seed=1, count=600) if overrun(tasks) is None]
    assert len(feasible) > 60
    assert max(utilisation(tasks) for tasks in feasible) > 0.95
    for tasks in feasible:
        for _ in range(4):
            phases = [int(phase) for phase in random.integers(0, HYPERPERIOD, len(tasks))]
            assert misses(tasks, phases) == 0, (tasks, phases)
        assert misses(tasks, [0] * len(tasks)) == 0, tasks


def test_where_the_condition_fails_some_phases_miss() -> None:
    infeasible = [tasks for tasks in random_sets(seed=2, count=300) if overrun(tasks) is not None]
    assert len(infeasible) > 60
    for tasks in infeasible:
        place, length = overrun(tasks) or (0, 0)
        # The proof's own phases: the long job starts just before the others are released; the rest comes later.
        phases = [1] * place + [0] + [length] * (len(tasks) - place - 1)
        assert misses(tasks, phases) > 0, (tasks, phases)


def test_a_long_job_just_before_a_short_one_makes_it_miss() -> None:
    # Utilisation 2/4 + 5/10 = 1, and L = 5 fails: 5 + floor(4 / 4) * 2 = 7. The long job of 0 runs until 5; the short
    # one of 1 would have to be done by 5.
    tasks = [Periodic(4, 2), Periodic(10, 5)]
    assert (utilisation(tasks), overrun(tasks)) == (1.0, (1, 5))
    assert misses(tasks, [1, 0]) > 0


def test_equal_periods_can_be_loaded_to_the_full() -> None:
    random = np.random.default_rng(3)
    for period in (4, 10, 24, 60):
        costs = np.diff(np.sort(random.choice(np.arange(1, period), 3, replace=False)), prepend=0, append=period)
        tasks = [Periodic(period, int(cost)) for cost in costs]
        assert utilisation(tasks) == 1.0
        for _ in range(10):
            phases = [int(phase) for phase in random.integers(0, period, len(tasks))]
            assert misses(tasks, phases) == 0, (tasks, phases)


def test_more_work_than_time_misses() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        periods = random.choice(PERIODS[:8], 3)
        tasks = [Periodic(int(period), math.ceil(period * 0.4)) for period in sorted(periods)]
        assert utilisation(tasks) > 1.0
        assert misses(tasks, [0, 0, 0]) > 0, tasks


# Deadlines under preemption at no cost: Liu and Layland's condition for EDF, utilisation at most 1, is exact.
# C. L. Liu, J. W. Layland: Scheduling algorithms for multiprogramming in a hard-real-time environment, J. ACM 20(1).


def full_sets(seed: int, count: int) -> list[TaskSet]:
    """Return task sets that leave no nanosecond of a hyperperiod.

    The shares are drawn by UUniFast (E. Bini, G. Buttazzo: Measuring the performance of schedulability tests, 2005);
    the last task has the hyperperiod as its period and takes what rounding leaves.
    """
    random = np.random.default_rng(seed)
    found: list[TaskSet] = []
    for _ in range(count):
        left, tasks = 1.0, []
        periods = sorted(int(period) for period in random.choice(PERIODS, random.integers(1, 6)))
        for others, period in zip(range(len(periods), 0, -1), periods, strict=True):
            after = left * random.random() ** (1.0 / others)
            tasks.append(Periodic(period, max(1, int((left - after) * period * NS_PER_MS)) / NS_PER_MS))
            left = after
        last = idle_ns(tasks)
        assert last > 0
        found.append([*tasks, Periodic(HYPERPERIOD, last / NS_PER_MS)])
    return found


def longer(tasks: TaskSet) -> TaskSet:
    """Return the set with one nanosecond more work per hyperperiod."""
    last = tasks[-1]
    return [*tasks[:-1], Periodic(last.period, (round(last.cost * NS_PER_MS) + 1) / NS_PER_MS)]


def test_edf_with_preemption_meets_every_deadline_of_a_fully_loaded_stream() -> None:
    random = np.random.default_rng(11)
    for tasks in full_sets(seed=5, count=60):
        assert idle_ns(tasks) == 0
        assert misses(tasks, [0] * len(tasks), "edf-preempt", "resume") == 0, tasks
        phases = [int(phase) for phase in random.integers(0, HYPERPERIOD, len(tasks))]
        assert misses(tasks, phases, "edf-preempt", "resume") == 0, (tasks, phases)


def test_one_nanosecond_more_than_a_hyperperiod_has_makes_it_miss() -> None:
    for tasks in full_sets(seed=6, count=60):
        assert idle_ns(longer(tasks)) == -1
        assert misses(longer(tasks), [0] * len(tasks), "edf-preempt", "resume") > 0, tasks


def test_without_preemption_most_of_these_sets_miss() -> None:
    sets = full_sets(seed=5, count=60)
    assert sum(misses(tasks, [0] * len(tasks), "edf-preempt", "none") > 0 for tasks in sets) > 30


def test_with_a_restart_in_place_of_a_resume_work_is_lost_and_some_miss() -> None:
    sets = full_sets(seed=5, count=60)
    assert sum(misses(tasks, [0] * len(tasks), "edf-preempt", "restart") > 0 for tasks in sets) > 30
