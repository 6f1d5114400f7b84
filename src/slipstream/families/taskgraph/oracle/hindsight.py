"""An episode in hindsight: when its jobs arrive, and what each task takes where, its luck known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import READ, WRITE
from slipstream.families.taskgraph.kernel.tasks import KIND_STRIDE
from slipstream.families.taskgraph.scenario import Additive, NoNoise, TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Template
from slipstream.policies.base import find
from slipstream.sim.eventlog import ARRIVAL, EVENT
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM
from slipstream.sim.kernel.rng import SPLITS, episode_key, normal, stream_key
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class Work:
    """One job of an episode: when it arrives, and its tasks; times in ns."""

    arrival: int
    durations: list[list[int]]
    """Of each task, by kind of processor."""
    parents: list[tuple[int, ...]]
    template: int


def durations_of_job(scenario: TaskgraphScenario, graph: int, key: np.uint64) -> list[list[int]]:
    """Return what each task of a job takes on each kind of processor, its luck known."""
    parts = compiled_scenario(scenario)
    expected = parts.library.durations[graph].tolist()
    noise = scenario.noise
    if isinstance(noise, NoNoise):
        return [list(row) for row in expected]
    noisy = parts.spec["kinds"]["noisy"].tolist()
    machine = parts.spec["machine"][0]
    spread, floor = float(machine["spread"]), float(machine["floor"])
    result = []
    for task, row in enumerate(expected):
        times = []
        for kind, time in enumerate(row):
            if noisy[kind]:
                luck = float(normal(key, task * KIND_STRIDE + kind))
                if isinstance(noise, Additive):
                    drawn = time + max(spread * luck, floor)
                else:
                    drawn = time * math.exp(spread * luck - spread * spread / 2.0)
                time = max(1, math.ceil(drawn))
            times.append(time)
        result.append(times)
    return result


def work_of_episode(scenario: TaskgraphScenario, arrivals: np.ndarray, seed: int, split: str) -> list[Work]:
    """Return the jobs of an episode with the durations that it draws."""
    key = np.uint64(episode_key(SPLITS[split], seed))
    library = compiled_scenario(scenario).library
    jobs = []
    for number, (time, graph) in enumerate(zip(arrivals["time"].tolist(), arrivals["task"].tolist(), strict=True)):
        times = durations_of_job(scenario, graph, np.uint64(stream_key(key, FIRST_JOB_STREAM + number)))
        parents = [task.parents for task in library.templates[graph].tasks]
        jobs.append(Work(time, times, parents, graph))
    return jobs


@dataclass(frozen=True)
class Episode:
    """All that is known of an episode afterwards, whoever plays it."""

    scenario: TaskgraphScenario
    jobs: list[Work]

    @staticmethod
    def of(scenario: TaskgraphScenario, seed: int, split: str) -> Episode:
        """Return the episode of a seed; arrivals do not depend on who plays."""
        events = Simulator(scenario).play(find("fifo", "taskgraph"), seed, split)
        return Episode(scenario, work_of_episode(scenario, events[events["kind"] == ARRIVAL], seed, split))

    @property
    def arrived(self) -> np.ndarray:
        """When each job arrives, and what it is, as the rows of an event log say it."""
        rows = np.zeros(len(self.jobs), EVENT)
        rows["time"] = self.arrivals
        rows["task"] = [job.template for job in self.jobs]
        return rows

    @property
    def tasks(self) -> int:
        """How many there are."""
        return sum(len(job.durations) for job in self.jobs)

    @property
    def stride(self) -> int:
        """What the number of a task grows by from job to job."""
        return compiled_scenario(self.scenario).sizes.tasks

    @cached_property
    def times(self) -> np.ndarray:
        """(tasks of all jobs, kinds) of ns: what each takes; 0 where a job has no such task."""
        times = np.zeros((len(self.jobs) * self.stride, len(self.scenario.processors)), np.int64)
        for number, job in enumerate(self.jobs):
            times[number * self.stride : number * self.stride + len(job.durations)] = job.durations
        return times

    @cached_property
    def tails(self) -> np.ndarray:
        """(tasks of all jobs, kinds) of ns: what comes after each at the least, if it ran on a kind.

        Along the longest path from it on, each task on the kind that suits the path best; what a task has written has
        to move to a child on another kind of processor that reads it.
        """
        tails = np.zeros_like(self.times)
        for number, job in enumerate(self.jobs):
            template = compiled_scenario(self.scenario).library.templates[job.template]
            delays = _Delays(self.scenario, template, job.template)
            first = number * self.stride
            for task in range(len(job.durations) - 1, -1, -1):
                for child in template.children[task]:
                    ends = self.times[first + child] + tails[first + child]
                    after = (delays.between(task, child) + ends).min(axis=1)
                    np.maximum(tails[first + task], after, out=tails[first + task])
        return tails

    @cached_property
    def longest(self) -> np.ndarray:
        """(jobs) of ns: the longest path of each, at the least."""
        ends = (self.times + self.tails).min(axis=1)
        return np.array([ends[n * self.stride : n * self.stride + len(job.durations)].max() for n, job in self._jobs()])

    @cached_property
    def arrivals(self) -> np.ndarray:
        """(jobs) of ns."""
        return np.array([job.arrival for job in self.jobs], np.int64)

    @cached_property
    def by_bent(self) -> np.ndarray:
        """The numbers of all tasks, those first that suit the first kind of processor better than the second."""
        numbers = np.array([n * self.stride + task for n, job in self._jobs() for task in range(len(job.durations))])
        times = self.times[numbers].astype(np.float64)
        return np.asarray(numbers[np.argsort(times[:, 0] / times[:, -1], kind="stable")].astype(np.int32))

    def _jobs(self) -> list[tuple[int, Work]]:
        return list(enumerate(self.jobs))


class _Delays:
    """What it takes at the least until a child can read what a task has written, by their kinds of processors."""

    def __init__(self, scenario: TaskgraphScenario, template: Template, number: int) -> None:
        self.template, self.scenario = template, scenario
        parts = compiled_scenario(scenario)
        self.tiles = parts.spec["tiles"][int(parts.spec["templates"][number]["first_tile"]) :]
        self.devices = [kind.device for kind in compiled_scenario(scenario).library.kinds]
        self.peer = scenario.links is not None and scenario.links.peer is not None
        self.writer = last_writers(template)

    def between(self, task: int, child: int) -> np.ndarray:
        """Return (kinds of the task, kinds of the child) of ns."""
        kinds = len(self.devices)
        delays = np.zeros((kinds, kinds), np.int64)
        if self.scenario.links is None:
            return delays
        accesses = self.template.tasks[child].accesses
        moved = [tile for tile, mode in accesses if mode & READ and self.writer[child, tile] == task]
        if not moved:
            return delays
        rows = self.tiles[moved]
        load, send, peer = (rows[name] for name in ("load_time", "send_time", "peer_time"))
        # One link carries tiles one after the other; what goes by way of the host is loaded after the last was sent.
        across = int(np.minimum(peer, load).max()) if self.peer else int(send.sum() + load.min())
        for one, own in enumerate(self.devices):
            for other, its in enumerate(self.devices):
                if one != other and (own or its):
                    delays[one, other] = across if own and its else int(load.sum()) if its else int(send.sum())
        return delays


def last_writers(template: Template) -> dict[tuple[int, int], int]:
    """Return for each (task, tile that it uses) who wrote the tile last before it; -1 if nobody did."""
    found, writer = {}, [-1] * len(template.tile_names)
    for number, task in enumerate(template.tasks):
        for tile, mode in task.accesses:
            found[number, tile] = writer[tile]
            if mode & WRITE:
                writer[tile] = number
    return found
