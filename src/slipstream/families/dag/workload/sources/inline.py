"""Jobs written out in the scenario file."""

from __future__ import annotations

import numpy as np

from slipstream.families.dag.scenario import Inline, JobDescription, StageDescription
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves
from slipstream.families.shared.schema import nanoseconds_of

ANY_PARALLELISM = 1
"""Parallelism of durations that do not depend on the number of executors."""


def library(source: Inline) -> Library:
    """Return the jobs of a source."""
    templates = tuple(_job(job) for job in source.jobs)
    parallelism_values = {
        parallelism for template in templates for stage in template.stages for parallelism in stage.waves
    }
    return Library(templates, tuple(sorted(parallelism_values)))


def _job(job: JobDescription) -> JobTemplate:
    index_of = {stage.name: index for index, stage in enumerate(job.stages)}
    edges = {(index_of[parent], index_of[stage.name]) for stage in job.stages for parent in stage.parents}
    return JobTemplate(job.name, tuple(_stage(stage) for stage in job.stages), tuple(sorted(edges)))


def _stage(stage: StageDescription) -> StageTemplate:
    if stage.duration_s is not None:
        return StageTemplate(
            stage.name, stage.tasks, {ANY_PARALLELISM: Waves(_ns([]), _ns([stage.duration_s]), _ns([]))}
        )
    waves = {one.executors: Waves(_ns(one.fresh_s), _ns(one.first_s), _ns(one.rest_s)) for one in stage.waves or []}
    return StageTemplate(stage.name, stage.tasks, waves)


def _ns(seconds: list[float]) -> np.ndarray:
    return np.array([nanoseconds_of(time) for time in seconds], np.int64)
