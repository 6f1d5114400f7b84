"""Trying every candidate of a choice on the same future, in compiled code."""

from __future__ import annotations

import numpy as np

from slipstream.core.jit import entry
from slipstream.core.lanes import ASKING, advance, choose
from slipstream.learn.collect import keep_sight
from slipstream.policies.compiled import look


@entry
def see(spec, state, sheet, network, rollout, actions):
    """Pack what every lane that is asked sees now, as its first step, and write the rows that it may take."""
    for lane in range(actions.shape[0]):
        rollout.length[lane] = 0
        if state.lanes[lane].status == ASKING:
            count = look(spec, state, lane, sheet, 0, network, 0)
            keep_sight(network, 0, rollout, lane, 0)
            rollout.length[lane] = 1
            for position in range(count):
                actions[lane, position] = sheet.legal[0, position]


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
