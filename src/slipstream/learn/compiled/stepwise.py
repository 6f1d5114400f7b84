"""Collection for a network outside compiled code: observe all lanes, return, then take the candidates of its logits.

The same functions observe, sample and advance as in `learn.compiled.collect`, with the same random numbers.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import entry
from slipstream.learn.compiled.collect import (
    choose_candidate,
    reset_until_decision,
    store_observation,
    take_candidate,
)
from slipstream.policies.compiled.network_policy import load_choice
from slipstream.sim.kernel.lanes import ASKING
from slipstream.sim.kernel.rng import stream_key


@entry
def observe_lanes(spec, state, buffer, network, rollout, raw, legal, waiting, step, until_end):
    """Store the observation of every lane that plays `step`, mark it in `waiting`, and write its legal rows."""
    for lane in range(waiting.shape[0]):
        waiting[lane] = 0
        over = until_end and step > 0 and state.lanes[lane].status != ASKING
        if rollout.length[lane] == step and not over and reset_until_decision(spec, state, lane):
            count = load_choice(spec, state, lane, buffer, 0, network, 0, raw)
            store_observation(network, 0, rollout, lane, step)
            legal[lane, :count] = buffer.legal[0, :count]
            waiting[lane] = 1


@entry
def take_candidates(
    spec,
    state,
    buffer,
    network,
    rollout,
    after,
    legal,
    waiting,
    logits,
    values,
    step,
    raw,
    form,
    address,
    expert_probability,
    judging,
    key,
    first_lane,
):
    """Sample a candidate in every lane of `waiting` by its `logits`, and advance the lane.

    `logits` are packed lane by lane, `values` have a number per waiting lane. Where the value of the next observation
    is needed, the observation is the first step of the lane in `after`, and its length there is 1.
    """
    ports, registers, first, asked = network.ports, network.registers, np.int64(0), 0
    for lane in range(waiting.shape[0]):
        after.length[lane] = 0
        if waiting[lane] == 0:
            continue
        count = np.int64(rollout.count[lane, step])
        buffer.legal[0, :count] = legal[lane, :count]
        network.starts[1] = count
        registers[ports[2] : ports[2] + count] = logits[first : first + count]
        registers[ports[3]] = values[asked]
        draws = stream_key(key, first_lane + lane)
        choose_candidate(
            spec, state, lane, buffer, network, 0, rollout, step, raw, form, address, expert_probability, draws
        )
        if take_candidate(spec, state, lane, buffer, 0, rollout, step, raw, judging):
            rollout.next_value[lane, step] = rollout.value[lane, step]
            if load_choice(spec, state, lane, buffer, 0, network, 0, raw) > 0:
                store_observation(network, 0, after, lane, 0)
                after.length[lane] = 1
        first += count
        asked += 1
