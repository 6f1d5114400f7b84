"""Scenarios drawn from around one: the same machine, with other durations and rates, and random graphs drawn anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.shared.variation import Variation
from slipstream.families.taskgraph.scenario import (
    GraphStream,
    InlineGraph,
    Layered,
    SpGemm,
    Table,
    TaskDescription,
    TaskgraphScenario,
)
from slipstream.families.taskgraph.workload.durations import kernel_table
from slipstream.sim.simulator import check_seed

LEAST_MS = 1e-6
MOST_SEEDS = 2**62


def vary(scenario: TaskgraphScenario, variation: Variation, seed: int) -> TaskgraphScenario:
    """Return a scenario of the same kind drawn by a seed; itself if nothing varies.

    Whatever varies, random graphs are others of their kind. Rates are those of a Poisson stream: jobs that come all at
    once or were recorded come as they do.
    """
    check_seed(seed)
    if variation.is_identity:
        return scenario
    variation.require_only("taskgraph", "latency", "rate", "load")
    changes: dict[str, Any] = {
        "description": " ".join(filter(None, [scenario.description, variation.description(seed)]))
    }
    if isinstance(scenario.arrivals, GraphStream):
        rate = variation.load * float(variation.factors(seed, "rate", 1)[0])
        gap = _on_grid(scenario.arrivals.mean_gap_ms / rate)
        changes["arrivals"] = scenario.arrivals.model_copy(update={"mean_gap_ms": gap})
    graphs = [_redrawn(graph, seed, number) for number, graph in enumerate(scenario.graphs)]
    if variation.latency > 0.0:
        draws = _Draws(variation, seed)
        changes["durations"] = Table(
            kind="table",
            kernels_ms={kernel: draws.scaled(times) for kernel, times in kernel_table(scenario).items()},
        )
        graphs = [_with_other_durations(graph, draws) for graph in graphs]
    changes["graphs"] = graphs
    varied = scenario.model_copy(update=changes)
    varied._folder = scenario._folder
    return varied


class _Draws:
    """Factors of durations, one after the other."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self.variation, self.seed, self.used = variation, seed, 0

    def scaled(self, times: Any) -> Any:
        """Return a duration, or durations by kind of processor, each times a factor of its own."""
        if not isinstance(times, float):
            return {kind: self.scaled(time) for kind, time in times.items()}
        self.used += 1
        factor = self.variation.factors(self.seed, "latency", self.used)[-1]
        return _on_grid(times * float(factor))


def _on_grid(milliseconds: float) -> float:
    """Return a time in whole nanoseconds, no shorter or longer than a scenario may have."""
    return float(min(LONGEST_MS, max(LEAST_MS, round(milliseconds, 6))))


def _redrawn(graph: Any, seed: int, number: int) -> Any:
    if not isinstance(graph, SpGemm | Layered):
        return graph
    draws = np.random.Generator(np.random.PCG64([seed, graph.seed, number]))
    return graph.model_copy(update={"seed": int(draws.integers(MOST_SEEDS))})


def _with_other_durations(graph: Any, draws: _Draws) -> Any:
    """Return a graph that is written out with other durations; those of files are as they were measured."""
    if not isinstance(graph, InlineGraph):
        return graph
    tasks: list[TaskDescription] = [
        task if task.duration_ms is None else task.model_copy(update={"duration_ms": draws.scaled(task.duration_ms)})
        for task in graph.tasks
    ]
    return graph.model_copy(update={"tasks": tasks})
