"""Rules of Gavel's simulator: a round brings whole steps to every job, and ends when the last job has done its own."""

from __future__ import annotations

import math

from slipstream.jit.decorators import inlined, kernel


@kernel
def set_quota(machine, job, rate):
    """Set the whole steps that a job does in the round that begins; return how long they take in ns."""
    job.quota = min(float(int(rate * (machine.round_length / 1e9))), job.left)
    job.quota_time = int(math.ceil(job.quota / rate * 1e9))
    return job.quota_time


@inlined
def do_quota(job, gpus):
    """Account for the steps of a round that is over."""
    job.left -= job.quota
    job.ran += job.quota_time
    job.received += gpus * job.quota_time
    job.quota, job.quota_time = 0.0, 0
