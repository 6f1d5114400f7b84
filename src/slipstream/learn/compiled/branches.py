"""Returns of all candidates of a choice on the same future, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry, kernel
from slipstream.learn.compiled.collect import store_observation
from slipstream.policies.compiled.inference import best_candidate, infer
from slipstream.policies.compiled.network_policy import load_choice
from slipstream.sim.kernel.lanes import ASKING, advance, choose


@entry
def observe_states(spec, state, buffer, network, rollout, raw, actions, logits):
    """Store the observation of every lane at a decision as its first step; write its legal rows and their logits."""
    for lane in range(actions.shape[0]):
        rollout.length[lane] = 0
        if state.lanes[lane].status == ASKING:
            count = load_choice(spec, state, lane, buffer, 0, network, 0, raw)
            infer(network, 1)
            store_observation(network, 0, rollout, lane, 0)
            rollout.length[lane] = 1
            for index in range(count):
                actions[lane, index] = buffer.legal[0, index]
                logits[lane, index] = network.registers[network.ports[2] + index]


@entry
def branch(spec, state, raw, form, address, actions, horizon, returns):
    """Take the action of every lane, then follow a heuristic; write the sum of rewards within `horizon` ns.

    Nothing is discounted: a discount would lower the return of slow variants only because their reward comes later.
    """
    for lane in range(actions.shape[0]):
        header = state.lanes[lane]
        start = header.now
        advance(spec, state, lane, actions[lane])
        total = header.reward
        while header.status == ASKING and header.now < start + horizon:
            advance(spec, state, lane, np.int64(choose(spec, state, lane, raw, form, address)))
            total += header.reward
        returns[lane] = total


@entry
def branch_by_network(spec, state, buffer, network, raw, actions, horizon, returns):
    """Take the action of every lane, then the network's best candidates; write the sum of rewards, as `branch` does.

    The lanes advance together, in batches of the network's capacity.
    """
    active = actions.shape[0]
    lanes, ends = np.arange(active), np.zeros(active)
    for lane in range(active):
        ends[lane] = state.lanes[lane].now + horizon
        advance(spec, state, lane, actions[lane])
        returns[lane] = state.lanes[lane].reward
    active = keep_active(state, lanes, ends, 0, active, 0)
    while active > 0:
        position, kept = 0, 0
        while position < active:
            loaded = 0
            while position + loaded < active and loaded < buffer.legal.shape[0]:
                if load_choice(spec, state, lanes[position + loaded], buffer, loaded, network, loaded, raw) == 0:
                    break
                loaded += 1
            infer(network, loaded)
            for choice in range(loaded):
                lane = lanes[position + choice]
                advance(spec, state, lane, np.int64(buffer.legal[choice, best_candidate(network, choice)]))
                returns[lane] += state.lanes[lane].reward
            kept = keep_active(state, lanes, ends, position, position + loaded, kept)
            position += loaded
        active = kept


@kernel
def keep_active(state, lanes, ends, first, end, kept):
    """Move the active lanes among `lanes[first:end]` to index `kept` and on; return the new number of kept lanes."""
    for index in range(first, end):
        header = state.lanes[lanes[index]]
        if header.status == ASKING and header.now < ends[lanes[index]]:
            lanes[kept] = lanes[index]
            kept += 1
    return kept
