"""An episode in hindsight: arrivals of its jobs and drawn durations of their tasks."""

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
class Job:
    """One job of an episode: arrival and tasks; times in ns."""

    arrival: int
    durations: list[list[int]]
    """Durations of each task by kind of processor."""
    parents: list[tuple[int, ...]]
    template: int


def durations_of_job(scenario: TaskgraphScenario, graph: int, key: np.uint64) -> list[list[int]]:
    """Return the drawn durations of each task of a job by kind of processor, in ns."""
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
                deviate = float(normal(key, task * KIND_STRIDE + kind))
                if isinstance(noise, Additive):
                    drawn = time + max(spread * deviate, floor)
                else:
                    drawn = time * math.exp(spread * deviate - spread * spread / 2.0)
                time = max(1, math.ceil(drawn))
            times.append(time)
        result.append(times)
    return result


def jobs_of_episode(scenario: TaskgraphScenario, arrivals: np.ndarray, seed: int, split: str) -> list[Job]:
    """Return the jobs of an episode with their drawn durations."""
    key = np.uint64(episode_key(SPLITS[split], seed))
    library = compiled_scenario(scenario).library
    jobs = []
    for number, (time, graph) in enumerate(zip(arrivals["time"].tolist(), arrivals["task"].tolist(), strict=True)):
        times = durations_of_job(scenario, graph, np.uint64(stream_key(key, FIRST_JOB_STREAM + number)))
        parents = [task.parents for task in library.templates[graph].tasks]
        jobs.append(Job(time, times, parents, graph))
    return jobs


@dataclass(frozen=True)
class Episode:
    """Arrivals and durations of an episode, which are the same for every policy."""

    scenario: TaskgraphScenario
    jobs: list[Job]

    @staticmethod
    def of(scenario: TaskgraphScenario, seed: int, split: str) -> Episode:
        """Return the episode of `seed` in `split`; its arrivals do not depend on the policy."""
        events = Simulator(scenario).play(find("fifo", "taskgraph"), seed, split)
        return Episode(scenario, jobs_of_episode(scenario, events[events["kind"] == ARRIVAL], seed, split))

    @property
    def arrival_rows(self) -> np.ndarray:
        """Arrival time and graph of each job, as rows of an event log."""
        rows = np.zeros(len(self.jobs), EVENT)
        rows["time"] = self.arrivals
        rows["task"] = [job.template for job in self.jobs]
        return rows

    @property
    def tasks(self) -> int:
        """Number of tasks of all jobs."""
        return sum(len(job.durations) for job in self.jobs)

    @property
    def stride(self) -> int:
        """Difference between the task numbers of successive jobs."""
        return compiled_scenario(self.scenario).sizes.tasks

    @cached_property
    def durations(self) -> np.ndarray:
        """Durations (tasks of all jobs, kinds) in ns; 0 where a job has no such task."""
        durations = np.zeros((len(self.jobs) * self.stride, len(self.scenario.processors)), np.int64)
        for number, job in enumerate(self.jobs):
            durations[number * self.stride : number * self.stride + len(job.durations)] = job.durations
        return durations

    @cached_property
    def tails(self) -> np.ndarray:
        """Lower bounds (tasks of all jobs, kinds) in ns of the time after each task if it runs on a kind.

        Longest path of its descendants, each on the kind that minimises the path, with the transfers of written tiles
        to children on other kinds.
        """
        tails = np.zeros_like(self.durations)
        for number, job in enumerate(self.jobs):
            template = compiled_scenario(self.scenario).library.templates[job.template]
            delays = _TransferDelays(self.scenario, template, job.template)
            first = number * self.stride
            for task in range(len(job.durations) - 1, -1, -1):
                for child in template.children[task]:
                    ends = self.durations[first + child] + tails[first + child]
                    after = (delays.between(task, child) + ends).min(axis=1)
                    np.maximum(tails[first + task], after, out=tails[first + task])
        return tails

    @cached_property
    def longest_paths(self) -> np.ndarray:
        """Lower bounds (jobs) in ns of the longest path of each job."""
        ends = (self.durations + self.tails).min(axis=1)
        return np.array([ends[n * self.stride : n * self.stride + len(job.durations)].max() for n, job in self._jobs()])

    @cached_property
    def arrivals(self) -> np.ndarray:
        """Arrival times (jobs) in ns."""
        return np.array([job.arrival for job in self.jobs], np.int64)

    @cached_property
    def by_speedup(self) -> np.ndarray:
        """Numbers of all tasks in ascending order of the ratio of first to last kind's duration."""
        numbers = np.array([n * self.stride + task for n, job in self._jobs() for task in range(len(job.durations))])
        times = self.durations[numbers].astype(np.float64)
        return np.asarray(numbers[np.argsort(times[:, 0] / times[:, -1], kind="stable")].astype(np.int32))

    def _jobs(self) -> list[tuple[int, Job]]:
        return list(enumerate(self.jobs))


class _TransferDelays:
    """Lower bounds of the transfer time of written tiles to a child, by kinds of processors."""

    def __init__(self, scenario: TaskgraphScenario, template: Template, number: int) -> None:
        self.template, self.scenario = template, scenario
        parts = compiled_scenario(scenario)
        self.tiles = parts.spec["tiles"][int(parts.spec["templates"][number]["first_tile"]) :]
        self.devices = [kind.device for kind in compiled_scenario(scenario).library.kinds]
        self.peer = scenario.links is not None and scenario.links.peer is not None
        self.writer = last_writers(template)

    def between(self, task: int, child: int) -> np.ndarray:
        """Return the delays (kinds of the task, kinds of the child) in ns."""
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
        # A link transfers one tile at a time; through the host, a load follows its send.
        across = int(np.minimum(peer, load).max()) if self.peer else int(send.sum() + load.min())
        for one, own in enumerate(self.devices):
            for other, its in enumerate(self.devices):
                if one != other and (own or its):
                    delays[one, other] = across if own and its else int(load.sum()) if its else int(send.sum())
        return delays


def last_writers(template: Template) -> dict[tuple[int, int], int]:
    """Return the last earlier writer of the tile for each (task, tile used); -1 if there is none."""
    found, writer = {}, [-1] * len(template.tile_names)
    for number, task in enumerate(template.tasks):
        for tile, mode in task.accesses:
            found[number, tile] = writer[tile]
            if mode & WRITE:
                writer[tile] = number
    return found
