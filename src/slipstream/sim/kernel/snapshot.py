"""Copies of lanes, compiled: to try something and come back."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.lanes import ASKING, advance, choose


def lane_bytes(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the state of every lane as rows of bytes, of all arrays but the log: what a copy of a lane copies."""
    return tuple(
        array.reshape(len(array), -1).view(np.uint8)
        for name, array in arrays.items()
        if name != "log" and array[:1].size
    )


@kernel
def copy_lane(rows, source, target):
    """Let a lane be what another is."""
    for number in range(len(rows)):
        array = rows[number]
        for place in range(array.shape[1]):
            array[target, place] = array[source, place]


@kernel
def best_outcome(spec, state, lane, spare, rows, raw, forms, addresses):
    """Return the most that a lane can still earn under one of some compiled policies, each tried in a spare lane."""
    best = -np.inf
    header = state.lanes[spare]
    for judge in range(forms.shape[0]):
        copy_lane(rows, lane, spare)
        total = 0.0
        while header.status == ASKING:
            advance(spec, state, spare, np.int64(choose(spec, state, spare, raw, forms[judge], addresses[judge])))
            total += header.reward
        best = max(best, total)
    return best
