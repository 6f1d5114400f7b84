"""Rollouts that a network plays on, compiled; `sim.kernel.rollout` does the same with a heuristic."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry
from slipstream.policies.compiled.inference import best_candidate, infer
from slipstream.policies.compiled.network_policy import load_choice
from slipstream.sim.kernel.lanes import ASKING, act, resume
from slipstream.sim.kernel.rollout import FUTURE, PLAYED, begin_future
from slipstream.sim.kernel.snapshot import copy_lane


@entry
def roll_out_network(
    spec, decided, state, rows, buffer, network, raw, actions, key, first, arrivals, span, peeks, totals
):
    """Write rewards as `roll_out` does; the network plays on."""
    header = state.lanes[PLAYED]
    for future in range(totals.shape[0]):
        begin_future(spec, decided, state, rows, key, first + future, arrivals, peeks)
        until = state.lanes[FUTURE].now + span
        for candidate in range(actions.shape[0]):
            copy_lane(rows, FUTURE, PLAYED)
            action, total = actions[candidate], 0.0
            while True:
                act(spec, state, PLAYED, action)
                resume(spec, state, PLAYED)
                total += header.reward
                if header.status != ASKING or header.now >= until:
                    break
                load_choice(spec, state, PLAYED, buffer, 0, network, 0, raw)
                infer(network, 1)
                action = np.int64(buffer.legal[0, best_candidate(network, 0)])
            totals[future, candidate] = total
