"""Snapshots of lanes, compiled: copies for rollouts from the same state."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.lanes import ASKING, advance, choose


def lane_bytes(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return byte views (lanes, bytes) of all `arrays` but the log: the data that `copy_lane` copies."""
    return tuple(
        array.reshape(len(array), -1).view(np.uint8)
        for name, array in arrays.items()
        if name != "log" and array[:1].size
    )


@kernel
def copy_lane(rows, source, target):
    """Copy the state of lane `source` to lane `target`; `rows` are the views of `lane_bytes`."""
    for number in range(len(rows)):
        array = rows[number]
        for offset in range(array.shape[1]):
            array[target, offset] = array[source, offset]


@kernel
def best_outcome(spec, state, lane, spare, rows, raw, forms, addresses):
    """Return the greatest remaining reward of `lane` under the policies at `addresses`, each run in lane `spare`."""
    best = -np.inf
    header = state.lanes[spare]
    for policy in range(forms.shape[0]):
        copy_lane(rows, lane, spare)
        total = 0.0
        while header.status == ASKING:
            advance(spec, state, spare, np.int64(choose(spec, state, spare, raw, forms[policy], addresses[policy])))
            total += header.reward
        best = max(best, total)
    return best
