"""Priority functions of the queue, compiled: each scores a job by what may be known of it, the lowest score first."""

from __future__ import annotations

import math

from slipstream.jit.decorators import kernel

FIFO, SJF, SAF, SMALLEST, F1, F2, F3, F4, WFP3, UNICEP, DRF, FINISH_TIME_FAIR = range(12)
FIRST_DYNAMIC = WFP3
"""From this order on, scores change with time or with the state of other jobs."""
LEAST_S = 0.1
"""Smallest time in seconds that logarithms take."""


@kernel
def score(order, gpus, expected_s, submitted_s, waited_s, share, crowding):
    """Return the score of a job of `gpus` GPUs and an expected run time of `expected_s` under `order`.

    `submitted_s` is the submit time as the source counts it, `share` the share of the cluster that the job's user
    holds, `crowding` the job's GPUs over an equal share of all GPUs among users with jobs in the system. F1 to F4 are
    those of Carastan-Santos and de Camargo (SC 2017), with their constants; WFP3 and UNICEP those of Tang et al.
    (2009), with waiting times as they are meant.
    """
    if order == FIFO:
        return submitted_s
    if order == SJF:
        return expected_s
    if order == SAF:
        return expected_s * gpus
    if order == SMALLEST:
        return float(gpus)
    if order <= F4:
        since = math.log10(submitted_s if submitted_s > 0.0 else LEAST_S)
        if order == F1:
            return math.log10(expected_s if expected_s > 0.0 else LEAST_S) * gpus + 870.0 * since
        if order == F2:
            return math.sqrt(expected_s) * gpus + 25600.0 * since
        if order == F3:
            return expected_s * gpus + 6860000.0 * since
        return expected_s * math.sqrt(gpus) + 530000.0 * since
    if order == WFP3:
        patience = waited_s / expected_s
        return -patience * patience * patience * gpus
    if order == UNICEP:
        return -waited_s / ((math.log2(gpus) + 1.0) * expected_s)
    if order == DRF:
        return share
    # Finish-time fairness (Themis): the time in the system over that with an equal share, the worst off first.
    return -(waited_s + expected_s) / (expected_s * max(1.0, crowding))


@kernel
def score_of_job(spec, state, lane, job, order):
    """Return the present score of the waiting `job` under `order`; 0 where the order is by number."""
    if order < 0:
        return 0.0
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    # Divided, not multiplied by 1e-9: whole numbers of seconds stay whole.
    expected = max(1, own.requested - (own.run - own.left)) / 1e9
    waited, share, crowding = 0.0, 0.0, 0.0
    if order >= FIRST_DYNAMIC:
        waited = (header.now - own.submit) / 1e9
    if order == DRF:
        share = state.users[lane, own.user].held / spec.machine[0].gpus
    elif order == FINISH_TIME_FAIR:
        crowding = float(own.gpus) * header.active_users / spec.machine[0].gpus
    return score(order, own.gpus, expected, own.submitted_s, waited, share, crowding)
