"""Simulation of a plan, compiled: on-time accuracy per request of one model's replicas at a steady rate.

The accelerators of a model do not depend on other models, so that one stream of requests evaluates a deployment. The
rules are those of the default data plane: earliest finish, batches that meet the deadline, requests dropped that are
hopeless or block a whole batch. Service times between the smallest and the largest batch are interpolated: planners
know no more.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry, inlined, kernel

LATENCY, BATCH_LATENCY, LARGEST, ACCURACY = range(4)
"""Columns of a replica: time of one request and of the largest batch in s, its size, accuracy from 0 to 1."""
QUEUE_CAPACITY = 128
"""Most requests that wait at an accelerator."""
WARM_UP = 4
"""One in WARM_UP requests precedes the measurement: all accelerators are idle at first."""


@inlined
def batch_time(replicas, replica, size):
    """Return the service time of a batch of `size` requests."""
    latency, largest = replicas[replica, LATENCY], replicas[replica, LARGEST]
    if largest <= 1.0:
        return latency
    return latency + (replicas[replica, BATCH_LATENCY] - latency) * (size - 1) / (largest - 1.0)


@inlined
def is_dropped(now, deadline, replicas, replica, waiting):
    """Return whether the head of a queue is dropped: it cannot be on time, or it blocks a whole batch."""
    if waiting > replicas[replica, LARGEST]:
        return now + replicas[replica, BATCH_LATENCY] > deadline
    return now + replicas[replica, LATENCY] > deadline


@kernel
def chosen_batch(now, deadline, replicas, replica, waiting):
    """Return the batch size with the highest throughput by the deadline of the head; the largest if none meets it."""
    most = min(waiting, int(replicas[replica, LARGEST]))
    best, best_time = 0, 1.0
    size = 1
    while True:
        size = min(size, most)
        time = batch_time(replicas, replica, size)
        if now + time <= deadline and size * best_time >= best * time:
            best, best_time = size, time
        if size == most:
            break
        size *= 2
    return best if best > 0 else most


@kernel
def advance_replica(replica, until, since, replicas, ready, head, waiting, deadlines):
    """Start batches of a replica up to time `until`; return the summed accuracy of its on-time answers.

    Deadlines before `since` do not count.
    """
    capacity = deadlines.shape[1]
    gained = 0.0
    while waiting[replica] > 0 and ready[replica] <= until:
        now = ready[replica]
        while waiting[replica] > 0 and is_dropped(
            now, deadlines[replica, head[replica]], replicas, replica, waiting[replica]
        ):
            head[replica] = (head[replica] + 1) % capacity
            waiting[replica] -= 1
        if waiting[replica] == 0:
            break
        size = chosen_batch(now, deadlines[replica, head[replica]], replicas, replica, waiting[replica])
        finish = now + batch_time(replicas, replica, size)
        for _ in range(size):
            deadline = deadlines[replica, head[replica]]
            if finish <= deadline and deadline >= since:
                gained += replicas[replica, ACCURACY]
            head[replica] = (head[replica] + 1) % capacity
        waiting[replica] -= size
        ready[replica] = finish
    return gained


@entry
def simulate_plan(gaps, requests, rate, slo, replicas, drain):
    """Return the accuracy of on-time answers per request of `replicas` at `rate` requests per second.

    gaps (G) of mean 1 are repeated; replicas (M, 4) are the model's accelerators. With `drain`, exactly the requests
    after the warm-up count, each followed to its end; else what counts is what is answered after the warm-up and before
    the last request.
    """
    count = replicas.shape[0]
    ready, head, waiting = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64)
    deadlines = np.zeros((count, QUEUE_CAPACITY))
    now = gained = before = since = 0.0
    warm_up = requests // WARM_UP
    for number in range(requests):
        if number == warm_up:
            before = gained
        now += gaps[number % gaps.shape[0]] / rate
        if drain and number == warm_up:
            since = now + slo
        chosen, earliest = -1, np.inf
        for replica in range(count):
            if waiting[replica] > 0 and ready[replica] <= now:
                gained += advance_replica(replica, now, since, replicas, ready, head, waiting, deadlines)
            largest = int(replicas[replica, LARGEST])
            full = waiting[replica] // largest
            last = batch_time(replicas, replica, waiting[replica] - full * largest + 1)
            finish = max(now, ready[replica]) + full * replicas[replica, BATCH_LATENCY] + last
            if finish < earliest:
                chosen, earliest = replica, finish
        if chosen < 0 or waiting[chosen] == QUEUE_CAPACITY:
            continue
        deadlines[chosen, (head[chosen] + waiting[chosen]) % QUEUE_CAPACITY] = now + slo
        waiting[chosen] += 1
        if ready[chosen] <= now:
            ready[chosen] = now
            gained += advance_replica(chosen, now, since, replicas, ready, head, waiting, deadlines)
    if drain:
        for replica in range(count):
            gained += advance_replica(replica, np.inf, since, replicas, ready, head, waiting, deadlines)
    return (gained - before) / max(1, requests - warm_up)
