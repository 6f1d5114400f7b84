"""How fast jobs run side by side.

Sums are written as loops: since Python 3.12 `sum` compensates rounding errors, and the specified sum is the plain one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipstream.families.edge.scenario import EdgeScenario, Matrix, NoInterference, Share
from slipstream.families.edge.workload.profiles import Variant

LEAST_RATE = 0.01
"""What a job gets at least below the highest priority, however little is left for it."""


@dataclass(frozen=True)
class Runner:
    """A job that runs, as far as its co-runners are concerned."""

    stream: int
    task: int
    variant: int


def rates_of(scenario: EdgeScenario, runners: list[Runner]) -> list[float]:
    """Return the rates of jobs that run side by side, given in the order of their streams."""
    interference = scenario.device.interference
    if len(runners) < 2 or isinstance(interference, NoInterference):
        return [1.0] * len(runners)
    if isinstance(interference, Matrix):
        return _matrix_rates(scenario, interference.slowdowns, runners)
    if isinstance(interference, Share):
        return _share_rates(scenario, interference.total_throughput, runners)
    return _roofline_rates(scenario, runners)


def _matrix_rates(scenario: EdgeScenario, slowdowns: list[list[float]], runners: list[Runner]) -> list[float]:
    rates = []
    for runner in runners:
        row = slowdowns[_place(scenario, slowdowns, runner)]
        rate = 1.0
        for other in runners:
            if other is not runner:
                rate /= row[_place(scenario, slowdowns, other)]
        rates.append(rate)
    return rates


def _place(scenario: EdgeScenario, slowdowns: list[list[float]], runner: Runner) -> int:
    """Return the row and column of a job: that of its task, or that of its variant among those of all tasks."""
    if len(slowdowns) == len(scenario.tasks):
        return runner.task
    return sum(task.num_variants for task in scenario.tasks[: runner.task]) + runner.variant


def _levels(scenario: EdgeScenario, runners: list[Runner]) -> Iterator[tuple[dict[int, Variant], float]]:
    """Yield what runs on the streams of each priority, by stream, and the least rate there; the highest come first."""
    priorities = scenario.device.stream_priorities or [0] * scenario.device.streams
    for priority in sorted(set(priorities), reverse=True):
        level = {
            runner.stream: scenario.tasks[runner.task].ladder[runner.variant]
            for runner in runners
            if priorities[runner.stream] == priority
        }
        yield level, 0.0 if priority == max(priorities) else LEAST_RATE


def _share_rates(scenario: EdgeScenario, total_throughput: float, runners: list[Runner]) -> list[float]:
    rates: dict[int, float] = {}
    left = total_throughput
    for level, least in _levels(scenario, runners):
        total = 0.0
        for variant in level.values():
            total += variant.demand
        taken = 0.0
        for stream, variant in level.items():
            rates[stream] = max(least, min(1.0, left * variant.demand / total))
            taken += rates[stream]
        left = max(0.0, left - taken)
    return [rates[runner.stream] for runner in runners]


def _roofline_rates(scenario: EdgeScenario, runners: list[Runner]) -> list[float]:
    rates: dict[int, float] = {}
    compute_left = bandwidth_left = 1.0
    for level, least in _levels(scenario, runners):
        compute = bandwidth = 0.0
        for variant in level.values():
            compute += variant.compute_share
            bandwidth += variant.bandwidth_share
        rate = 1.0
        if compute > 0.0:
            rate = min(rate, compute_left / compute)
        if bandwidth > 0.0:
            rate = min(rate, bandwidth_left / bandwidth)
        rate = max(least, rate)
        rates |= dict.fromkeys(level, rate)
        compute_left = max(0.0, compute_left - rate * compute)
        bandwidth_left = max(0.0, bandwidth_left - rate * bandwidth)
    return [rates[runner.stream] for runner in runners]
