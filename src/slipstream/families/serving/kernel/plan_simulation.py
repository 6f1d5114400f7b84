"""What share of a model's requests some accelerators would answer on time, weighed by accuracy: a rehearsal, compiled.

A model's accelerators know nothing of other models, so one stream of requests at a steady rate tells how a hosting
would do. The rules are those of the default data plane: earliest finish, batches that meet the deadline, requests
dropped that are hopeless or in the way. Batches between the smallest and the largest take a time in between: planners
know no more.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry, inlined, kernel

LATENCY, WHOLE, LARGEST, ACCURACY = range(4)
"""Columns of an accelerator: time of one request and of the largest batch in s, its requests, accuracy from 0 to 1."""
ROOM = 128
"""Most requests that wait at an accelerator."""
WARM_UP = 4
"""One in so many requests comes before anything is counted: everybody is idle at first."""


@inlined
def batch_time(members, place, size):
    """Return how long a batch takes."""
    latency, largest = members[place, LATENCY], members[place, LARGEST]
    if largest <= 1.0:
        return latency
    return latency + (members[place, WHOLE] - latency) * (size - 1) / (largest - 1.0)


@inlined
def is_given_up(now, deadline, members, place, waiting):
    """Return whether the head of a queue is dropped: nothing helps it, or it stands in the way of a whole batch."""
    if waiting > members[place, LARGEST]:
        return now + members[place, WHOLE] > deadline
    return now + members[place, LATENCY] > deadline


@kernel
def chosen_batch(now, deadline, members, place, waiting):
    """Return the batch that answers most requests per time by the deadline of the head; all that fit if none does."""
    most = min(waiting, int(members[place, LARGEST]))
    best, best_time = 0, 1.0
    size = 1
    while True:
        size = min(size, most)
        time = batch_time(members, place, size)
        if now + time <= deadline and size * best_time >= best * time:
            best, best_time = size, time
        if size == most:
            break
        size *= 2
    return best if best > 0 else most


@kernel
def catch_up(place, until, since, members, ready, head, waiting, deadlines):
    """Let an accelerator start what it can until some time; return the accuracy of what is answered on time.

    Deadlines before `since` do not count.
    """
    room = deadlines.shape[1]
    gained = 0.0
    while waiting[place] > 0 and ready[place] <= until:
        now = ready[place]
        while waiting[place] > 0 and is_given_up(now, deadlines[place, head[place]], members, place, waiting[place]):
            head[place] = (head[place] + 1) % room
            waiting[place] -= 1
        if waiting[place] == 0:
            break
        size = chosen_batch(now, deadlines[place, head[place]], members, place, waiting[place])
        finish = now + batch_time(members, place, size)
        for _ in range(size):
            deadline = deadlines[place, head[place]]
            if finish <= deadline and deadline >= since:
                gained += members[place, ACCURACY]
            head[place] = (head[place] + 1) % room
        waiting[place] -= size
        ready[place] = finish
    return gained


@entry
def rehearse(gaps, requests, rate, slo, members, whole):
    """Return the accuracy on time per request.

    gaps (G) of mean 1 are gone through again and again; members (M, 4) are the model's accelerators. If `whole`, every
    request after the warm-up is followed to its end, and no other one counts; else what counts is what is answered
    after the warm-up and before the last request.
    """
    count = members.shape[0]
    ready, head, waiting = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64)
    deadlines = np.zeros((count, ROOM))
    now = gained = before = since = 0.0
    warm_up = requests // WARM_UP
    for number in range(requests):
        if number == warm_up:
            before = gained
        now += gaps[number % gaps.shape[0]] / rate
        if whole and number == warm_up:
            since = now + slo
        chosen, earliest = -1, np.inf
        for place in range(count):
            if waiting[place] > 0 and ready[place] <= now:
                gained += catch_up(place, now, since, members, ready, head, waiting, deadlines)
            largest = int(members[place, LARGEST])
            full = waiting[place] // largest
            last = batch_time(members, place, waiting[place] - full * largest + 1)
            finish = max(now, ready[place]) + full * members[place, WHOLE] + last
            if finish < earliest:
                chosen, earliest = place, finish
        if chosen < 0 or waiting[chosen] == ROOM:
            continue
        deadlines[chosen, (head[chosen] + waiting[chosen]) % ROOM] = now + slo
        waiting[chosen] += 1
        if ready[chosen] <= now:
            ready[chosen] = now
            gained += catch_up(chosen, now, since, members, ready, head, waiting, deadlines)
    if whole:
        for place in range(count):
            gained += catch_up(place, np.inf, since, members, ready, head, waiting, deadlines)
    return (gained - before) / max(1, requests - warm_up)
