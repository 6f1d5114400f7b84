"""An episode in hindsight: which jobs came when, and the least time that each of their tasks could have taken.

The draws of a task are fixed; which list they draw from depends on how many executors are at the job, and on what the
executor did before. The least over all lists is what no policy can get below.
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
    """One job in hindsight; times in ns."""

    arrival: int
    template: JobTemplate
    attempts: tuple[tuple[tuple[int, ...], ...], ...]
    """Of each stage, of each attempt, the least time of each task."""

    @property
    def work(self) -> int:
        """Least time of all tasks together."""
        return sum(sum(tasks) for attempts in self.attempts for tasks in attempts)

    def longest_path(self, executors: int) -> int:
        """Return the least time from the start of the first task to the end of the last."""
        lengths = [
            sum(max(*tasks, math.ceil(sum(tasks) / executors)) if tasks else 0 for tasks in attempts)
            for attempts in self.attempts
        ]
        return max(self.template.longest_paths(lengths))


def jobs_of_episode(scenario: DagScenario, events: np.ndarray, seed: int, split: str) -> list[Job]:
    """Return the jobs of an episode by arrival; any event log of the episode has the same."""
    # Back in Python a 64-bit key is a plain number; compiled code must get it as the word it is.
    key = np.uint64(episode_key(SPLITS[split], seed))
    arrivals = events[events["kind"] == ARRIVAL]
    return [
        _Reader(scenario, key, number).job(int(row["time"]), int(row["task"])) for number, row in enumerate(arrivals)
    ]


class _Reader:
    """Reads the draws of one job."""

    def __init__(self, scenario: DagScenario, key: np.uint64, number: int) -> None:
        self.scenario = scenario
        first = FIRST_JOB_STREAM + STREAMS_PER_JOB * number
        self.durations, self.stragglers, self.failures = (
            np.uint64(stream_key(key, first + kind)) for kind in (DURATIONS, STRAGGLERS, FAILURES)
        )
        parts = compiled_scenario(scenario)
        self.library, self.spec = parts.library, parts.spec
        levels = self.spec["level_of"][1:]
        self.levels = sorted({*levels["low"].tolist(), *levels["high"].tolist()})
        self.fastest = float(self.spec["executors"]["speed"].max())

    def job(self, arrival: int, template: int) -> Job:
        row = self.spec["templates"][template]
        attempts = tuple(self._stage(stage, int(row["first_stage"]) + stage) for stage in range(int(row["stages"])))
        return Job(arrival, self.library.templates[template], attempts)

    def _stage(self, stage: int, place: int) -> tuple[tuple[int, ...], ...]:
        tasks = int(self.spec["stages"][place]["tasks"])
        count = 1 + self._failures(stage)
        return tuple(
            tuple(self._least(stage, place, attempt * tasks + task) for task in range(tasks))
            for attempt in range(count)
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

    def _least(self, stage: int, place: int, started: int) -> int:
        counter = stage * STAGE_STRIDE + started
        draw = uniform(self.durations, 2 * counter + 1)
        least = math.inf
        for level in self.levels:
            for wave in self.spec["waves"][place][3 * level : 3 * level + 3]:
                sample = self.spec["samples"][int(wave["first_sample"]) + int(draw * int(wave["samples"]))]
                least = min(least, int(sample) + int(wave["delay"]))
        stragglers = self.scenario.stragglers
        if stragglers is not None and uniform(self.stragglers, counter) < stragglers.probability:
            least *= stragglers.factor
        return math.ceil(least / self.fastest)


def least_way(scenario: DagScenario) -> int:
    """Return the time that the first executor of a job needs to come to it."""
    return nanoseconds_of(scenario.moving_delay_s)
