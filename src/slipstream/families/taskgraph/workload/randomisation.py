"""Domain randomisation of taskgraph scenarios: durations, arrival rates and random graphs."""

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
    """Return a random variation of `scenario` drawn by `seed`; the scenario itself if nothing varies.

    Any variation redraws the random graphs. The rate applies to Poisson arrivals; batches and traces keep their arrival
    times.
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
        gap = _on_grid(scenario.arrivals.gap_ms / rate)
        kept = scenario.arrivals.model_dump(exclude={"rate_hz"}, exclude_unset=True)
        changes["arrivals"] = GraphStream(**kept | {"mean_gap_ms": gap})
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
    """Sequence of random factors of durations."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self.variation, self.seed, self.used = variation, seed, 0

    def scaled(self, times: Any) -> Any:
        """Return a duration, or durations by kind of processor, each multiplied by the next factor."""
        if not isinstance(times, float):
            return {kind: self.scaled(time) for kind, time in times.items()}
        self.used += 1
        factor = self.variation.factors(self.seed, "latency", self.used)[-1]
        return _on_grid(times * float(factor))


def _on_grid(milliseconds: float) -> float:
    """Return a time in ms rounded to nanoseconds, within the limits of a scenario."""
    return float(min(LONGEST_MS, max(LEAST_MS, round(milliseconds, 6))))


def _redrawn(graph: Any, seed: int, number: int) -> Any:
    if not isinstance(graph, SpGemm | Layered):
        return graph
    draws = np.random.Generator(np.random.PCG64([seed, graph.seed, number]))
    return graph.model_copy(update={"seed": int(draws.integers(MOST_SEEDS))})


def _with_other_durations(graph: Any, draws: _Draws) -> Any:
    """Return an inline graph with scaled durations; graphs from files keep their measured ones."""
    if not isinstance(graph, InlineGraph):
        return graph
    tasks: list[TaskDescription] = [
        task if task.duration_ms is None else task.model_copy(update={"duration_ms": draws.scaled(task.duration_ms)})
        for task in graph.tasks
    ]
    return graph.model_copy(update={"tasks": tasks})
