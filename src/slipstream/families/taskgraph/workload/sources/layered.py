"""Random layered graphs."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.scenario import Layered
from slipstream.families.taskgraph.workload.templates import GraphBuilder, Template


def template(graph: Layered) -> Template:
    """Return the random layered graph of `graph.seed`."""
    draws = np.random.Generator(np.random.PCG64(graph.seed))
    builder = GraphBuilder(graph.tile_bytes)
    before: list[int] = []
    for layer in range(graph.layers):
        tasks = []
        for index in range(int(draws.integers(1, graph.width + 1))):
            kernel = graph.kernels[int(draws.integers(len(graph.kernels)))]
            parents: list[int] = []
            if before:
                count = int(draws.integers(1, min(graph.most_parents, len(before)) + 1))
                parents = sorted(int(one) for one in draws.choice(before, count, replace=False))
            tiles = [(f"out {parent}", "r") for parent in parents]
            number = len(builder.names)
            tasks.append(builder.task(f"{kernel} {layer} {index}", kernel, [*tiles, (f"out {number}", "w")]))
        before = tasks
    return builder.template(f"layered-{graph.layers}x{graph.width}-{graph.seed}")
