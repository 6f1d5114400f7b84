"""Job templates: what every source of jobs comes down to, graphs of stages with durations to draw from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.families.dag.scenario import Alibaba, DagScenario, Inline, MlWorkflow, Synthetic, Tpch


@dataclass(frozen=True)
class Waves:
    """Durations in ns to draw from, each as likely; any of the three may be empty, but not all."""

    fresh: np.ndarray
    first: np.ndarray
    rest: np.ndarray

    @property
    def all(self) -> np.ndarray:
        """Every duration."""
        return np.concatenate([self.fresh, self.first, self.rest])


@dataclass(frozen=True)
class StageTemplate:
    """A batch of parallel tasks."""

    name: str
    tasks: int
    waves: dict[int, Waves]
    """By the number of executors with which they were measured."""

    @property
    def mean(self) -> float:
        """Mean of all durations, in ns."""
        return float(np.concatenate([waves.all for waves in self.waves.values()]).mean())


@dataclass(frozen=True)
class JobTemplate:
    """A graph of stages."""

    name: str
    stages: tuple[StageTemplate, ...]
    edges: tuple[tuple[int, int], ...]
    """From a parent to a child, by their places in `stages`."""

    def children(self) -> list[list[int]]:
        """Return the children of each stage, in ascending order."""
        found: list[list[int]] = [[] for _ in self.stages]
        for parent, child in sorted(set(self.edges)):
            found[parent].append(child)
        return found

    def order(self) -> list[int]:
        """Return the stages with every parent before its children."""
        parents = np.zeros(len(self.stages), int)
        children = self.children()
        for ones in children:
            parents[ones] += 1
        ready = [stage for stage in range(len(self.stages)) if parents[stage] == 0]
        for stage in ready:
            for child in children[stage]:
                parents[child] -= 1
                if parents[child] == 0:
                    ready.append(child)
        return ready

    def descendants(self) -> list[set[int]]:
        """Return for each stage all that wait for it, directly or not."""
        found: list[set[int]] = [set() for _ in self.stages]
        children = self.children()
        for stage in reversed(self.order()):
            found[stage] = set(children[stage]).union(*(found[child] for child in children[stage]))
        return found

    def longest_paths(self, lengths: Sequence[int]) -> list[int]:
        """Return for each stage the length of the longest way from its begin to the end of the job."""
        paths = [0] * len(self.stages)
        children = self.children()
        for stage in reversed(self.order()):
            paths[stage] = lengths[stage] + max((paths[child] for child in children[stage]), default=0)
        return paths


@dataclass(frozen=True)
class Library:
    """All that a source can send."""

    templates: tuple[JobTemplate, ...]
    levels: tuple[int, ...]
    """Numbers of executors between which durations are interpolated, ascending."""
    names: dict[str, int] = field(init=False)
    """Place of each template."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {template.name: index for index, template in enumerate(self.templates)})


def library_of(scenario: DagScenario) -> Library:
    """Return what the scenario's source can send.

    Raises:
        TraceError: One line: the file, the place in it, what is wrong and what was expected.
    """
    from slipstream.families.dag.workload.sources import alibaba, inline, synthetic, tpch, workflow

    source = scenario.jobs
    if isinstance(source, Synthetic):
        return synthetic.library(source)
    if isinstance(source, MlWorkflow):
        return workflow.library(source)
    if isinstance(source, Tpch):
        return tpch.library(source, scenario._folder, scenario.compat)
    if isinstance(source, Alibaba):
        return alibaba.library(source, scenario._folder)
    assert isinstance(source, Inline)
    return inline.library(source)


def digest_of_source(scenario: DagScenario) -> dict[str, Any]:
    """Return what identifies the jobs that can arrive: a hash of all that is known of them but their stages' names."""
    library = library_of(scenario)
    content = hashlib.sha256(json.dumps(library.levels).encode())
    for template in library.templates:
        content.update(json.dumps([template.name, sorted(set(template.edges))]).encode())
        for stage in template.stages:
            content.update(json.dumps([stage.tasks, sorted(stage.waves)]).encode())
            for level in sorted(stage.waves):
                waves = stage.waves[level]
                for samples in (waves.fresh, waves.first, waves.rest):
                    content.update(len(samples).to_bytes(8, "little") + samples.astype("<i8").tobytes())
    return {"templates": len(library.templates), "digest": content.hexdigest()}
