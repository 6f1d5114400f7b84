"""Job templates, the common form of all job sources: graphs of stages with samples of durations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.families.dag.scenario import Alibaba, DagScenario, Inline, MlWorkflow, Synthetic, Tpch
from slipstream.files.inputs import reading_key


@dataclass(frozen=True)
class Waves:
    """Samples of durations in ns, equally likely; any of the three may be empty, but not all."""

    fresh: np.ndarray
    first: np.ndarray
    rest: np.ndarray

    @property
    def all(self) -> np.ndarray:
        """All durations concatenated."""
        return np.concatenate([self.fresh, self.first, self.rest])


@dataclass(frozen=True)
class StageTemplate:
    """A batch of parallel tasks."""

    name: str
    tasks: int
    waves: dict[int, Waves]
    """Samples by parallelism, the number of executors with which they were measured."""

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
    """(parent, child) as indices of `stages`."""

    def children(self) -> list[list[int]]:
        """Return the children of each stage, in ascending order."""
        found: list[list[int]] = [[] for _ in self.stages]
        for parent, child in sorted(set(self.edges)):
            found[parent].append(child)
        return found

    def order(self) -> list[int]:
        """Return the stages in topological order; stages on cycles are missing."""
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
        """Return the descendants of each stage."""
        found: list[set[int]] = [set() for _ in self.stages]
        children = self.children()
        for stage in reversed(self.order()):
            found[stage] = set(children[stage]).union(*(found[child] for child in children[stage]))
        return found

    def longest_paths(self, lengths: Sequence[int]) -> list[int]:
        """Return the longest path from each stage to the end of the job, in units of `lengths`."""
        paths = [0] * len(self.stages)
        children = self.children()
        for stage in reversed(self.order()):
            paths[stage] = lengths[stage] + max((paths[child] for child in children[stage]), default=0)
        return paths


@dataclass(frozen=True)
class Library:
    """Job templates of a source."""

    templates: tuple[JobTemplate, ...]
    parallelism: tuple[int, ...]
    """Numbers of executors between which durations are interpolated, ascending."""
    names: dict[str, int] = field(init=False)
    """Index of each template by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {template.name: index for index, template in enumerate(self.templates)})


def library_of(scenario: DagScenario) -> Library:
    """Return the job templates of the scenario's source.

    Raises:
        TraceError: One line: the file, the position in it, the fault and what was expected.
    """
    from slipstream.families.dag.workload.sources import alibaba, inline, synthetic, tpch, workflow

    source = scenario.jobs
    if isinstance(source, Synthetic):
        return synthetic.library(source)
    if isinstance(source, MlWorkflow):
        return workflow.library(source)
    if isinstance(source, Tpch):
        with reading_key("jobs.path"):
            return tpch.library(source, scenario._folder, scenario.compat)
    if isinstance(source, Alibaba):
        with reading_key("jobs.path"):
            return alibaba.library(source, scenario._folder)
    assert isinstance(source, Inline)
    return inline.library(source)


def digest_of_source(scenario: DagScenario) -> dict[str, Any]:
    """Return the digest of the job templates: a hash of their content without the names of stages."""
    library = library_of(scenario)
    content = hashlib.sha256(json.dumps(library.parallelism).encode())
    for template in library.templates:
        content.update(json.dumps([template.name, sorted(set(template.edges))]).encode())
        for stage in template.stages:
            content.update(json.dumps([stage.tasks, sorted(stage.waves)]).encode())
            for parallelism in sorted(stage.waves):
                waves = stage.waves[parallelism]
                for samples in (waves.fresh, waves.first, waves.rest):
                    content.update(len(samples).to_bytes(8, "little") + samples.astype("<i8").tobytes())
    return {"templates": len(library.templates), "digest": content.hexdigest()}
