"""Sources of jobs: trace files, generators, and lists in the scenario."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.families.cluster.scenario import Helios, Listed, Lublin, Openb, Philly, Swf, SyntheticJobs
from slipstream.families.cluster.workload.arrivals import RawJobs
from slipstream.families.cluster.workload.sources import swf, synthetic, tables


def read_jobs(source: Swf | Philly | Helios | Openb | Listed | Lublin | SyntheticJobs, folder: Path) -> RawJobs:
    """Return the jobs of `source`; paths are relative to `folder`."""
    if isinstance(source, Swf):
        return swf.jobs(folder / source.path)
    if isinstance(source, Philly):
        return tables.philly(folder / source.path)
    if isinstance(source, Helios):
        return tables.helios(folder / source.path)
    if isinstance(source, Openb):
        return tables.openb(folder / source.path)
    if isinstance(source, Lublin):
        return synthetic.lublin(source)
    if isinstance(source, SyntheticJobs):
        return synthetic.jobs(source)
    return listed(source)


def listed(source: Listed) -> RawJobs:
    """Return the jobs of a list."""
    return RawJobs(
        key=range(len(source.jobs)),
        submit=np.array([job.submit_s for job in source.jobs]),
        run=np.array([job.run_s for job in source.jobs]),
        requested=np.array([np.nan if job.requested_s is None else job.requested_s for job in source.jobs]),
        gpus=np.array([job.gpus for job in source.jobs], np.float64),
        user=[job.user for job in source.jobs],
        started=np.array([np.nan if job.started_s is None else job.started_s for job in source.jobs]),
    )
