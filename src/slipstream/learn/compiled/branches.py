"""Trying every candidate of a choice on the same future, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry, kernel
from slipstream.learn.compiled.collect import keep_sight
from slipstream.policies.compiled.inference import best_candidate, infer
from slipstream.policies.compiled.network_policy import look
from slipstream.sim.kernel.lanes import ASKING, advance, choose


@entry
def see(spec, state, buffer, network, rollout, actions, logits):
    """Pack what every lane that is asked sees now, as its first step; write the rows it may take and their logits."""
    for lane in range(actions.shape[0]):
        rollout.length[lane] = 0
        if state.lanes[lane].status == ASKING:
            count = look(spec, state, lane, buffer, 0, network, 0)
            infer(network, 1)
            keep_sight(network, 0, rollout, lane, 0)
            rollout.length[lane] = 1
            for position in range(count):
                actions[lane, position] = buffer.legal[0, position]
                logits[lane, position] = network.registers[network.ports[2] + position]


@entry
def branch(spec, state, raw, form, address, actions, window, earned):
    """Let every lane take its action and then follow a policy; write what it earned within the window, in ns.

    Nothing is discounted: that would make a slow variant look worse than it is, only because its reward comes later.
    """
    for lane in range(actions.shape[0]):
        header = state.lanes[lane]
        began = header.now
        advance(spec, state, lane, actions[lane])
        total = header.reward
        while header.status == ASKING and header.now < began + window:
            advance(spec, state, lane, np.int64(choose(spec, state, lane, raw, form, address)))
            total += header.reward
        earned[lane] = total


@entry
def branch_by_network(spec, state, buffer, network, actions, window, earned):
    """Let every lane take its action and then the network's best candidates; write what it earned, as `branch` does.

    The lanes go on together, as many choices at a time as the network has room for.
    """
    active = actions.shape[0]
    lanes, ends = np.arange(active), np.zeros(active)
    for lane in range(active):
        ends[lane] = state.lanes[lane].now + window
        advance(spec, state, lane, actions[lane])
        earned[lane] = state.lanes[lane].reward
    active = still_playing(state, lanes, ends, 0, active, 0)
    while active > 0:
        place, kept = 0, 0
        while place < active:
            loaded = 0
            while place + loaded < active and loaded < buffer.legal.shape[0]:
                if look(spec, state, lanes[place + loaded], buffer, loaded, network, loaded) == 0:
                    break
                loaded += 1
            infer(network, loaded)
            for choice in range(loaded):
                lane = lanes[place + choice]
                advance(spec, state, lane, np.int64(buffer.legal[choice, best_candidate(network, choice)]))
                earned[lane] += state.lanes[lane].reward
            kept = still_playing(state, lanes, ends, place, place + loaded, kept)
            place += loaded
        active = kept


@kernel
def still_playing(state, lanes, ends, first, end, kept):
    """Move the lanes of a part of a list that play on behind the first `kept`; return how many these are then."""
    for place in range(first, end):
        header = state.lanes[lanes[place]]
        if header.status == ASKING and header.now < ends[lanes[place]]:
            lanes[kept] = lanes[place]
            kept += 1
    return kept
