"""An episode in hindsight: its arrivals, and a lower bound of the duration of each task.

The random draws of a task are fixed; the list of samples they select from depends on the executors at the job and on
what the executor did before. The minimum over all lists is a lower bound for every policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.kernel.waves import (
    DURATIONS,
    FAILURES,
    STAGE_STRIDE,
    STRAGGLERS,
    STREAMS_PER_JOB,
)
from slipstream.families.dag.scenario import DagScenario
from slipstream.families.dag.workload.templates import JobTemplate
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM
from slipstream.sim.kernel.rng import SPLITS, episode_key, stream_key, uniform


@dataclass(frozen=True)
class Job:
    """One job of an episode in hindsight; times in ns."""

    arrival: int
    template: JobTemplate
    attempts: tuple[tuple[tuple[int, ...], ...], ...]
    """Least time of each task, by stage and attempt."""

    @property
    def work(self) -> int:
        """Sum of the least times of all tasks."""
        return sum(sum(tasks) for attempts in self.attempts for tasks in attempts)

    def longest_path(self, executors: int) -> int:
        """Return a lower bound of the time from the first task start to the last task end on `executors` executors."""
        lengths = [
            sum(max(*tasks, math.ceil(sum(tasks) / executors)) if tasks else 0 for tasks in attempts)
            for attempts in self.attempts
        ]
        return max(self.template.longest_paths(lengths))


def jobs_of_episode(scenario: DagScenario, events: np.ndarray, seed: int, split: str) -> list[Job]:
    """Return the jobs of an episode by arrival; `events` may be the log of any policy."""
    # Numba returns a Python int; compiled functions need an unsigned 64-bit key.
    key = np.uint64(episode_key(SPLITS[split], seed))
    arrivals = events[events["kind"] == ARRIVAL]
    return [
        _Reader(scenario, key, number).job(int(row["time"]), int(row["task"])) for number, row in enumerate(arrivals)
    ]


class _Reader:
    """Computes the draws of one job."""

    def __init__(self, scenario: DagScenario, key: np.uint64, number: int) -> None:
        self.scenario = scenario
        first = FIRST_JOB_STREAM + STREAMS_PER_JOB * number
        self.durations, self.stragglers, self.failures = (
            np.uint64(stream_key(key, first + kind)) for kind in (DURATIONS, STRAGGLERS, FAILURES)
        )
        parts = compiled_scenario(scenario)
        self.library, self.spec = parts.library, parts.spec
        rows = self.spec["parallelism_of"][1:]
        self.parallelism_indices = sorted({*rows["low"].tolist(), *rows["high"].tolist()})
        self.fastest = float(self.spec["executors"]["speed"].max())

    def job(self, arrival: int, template: int) -> Job:
        row = self.spec["templates"][template]
        attempts = tuple(self._stage(stage, int(row["first_stage"]) + stage) for stage in range(int(row["stages"])))
        return Job(arrival, self.library.templates[template], attempts)

    def _stage(self, stage: int, row: int) -> tuple[tuple[int, ...], ...]:
        tasks = int(self.spec["stages"][row]["tasks"])
        count = 1 + self._failures(stage)
        return tuple(
            tuple(self._least(stage, row, attempt * tasks + task) for task in range(tasks)) for attempt in range(count)
        )

    def _failures(self, stage: int) -> int:
        failures = self.scenario.failures
        count = 0
        while (
            failures is not None
            and count < failures.most
            and uniform(self.failures, stage * STAGE_STRIDE + count) < failures.probability
        ):
            count += 1
        return count

    def _least(self, stage: int, row: int, started: int) -> int:
        counter = stage * STAGE_STRIDE + started
        draw = uniform(self.durations, 2 * counter + 1)
        least = math.inf
        for index in self.parallelism_indices:
            for wave in self.spec["waves"][row][3 * index : 3 * index + 3]:
                sample = self.spec["samples"][int(wave["first_sample"]) + int(draw * int(wave["samples"]))]
                least = min(least, int(sample) + int(wave["delay"]))
        stragglers = self.scenario.stragglers
        if stragglers is not None and uniform(self.stragglers, counter) < stragglers.probability:
            least *= stragglers.factor
        return math.ceil(least / self.fastest)


def move_time(scenario: DagScenario) -> int:
    """Return the time in ns that an executor needs to move to a job."""
    return nanoseconds_of(scenario.moving_delay_s)
