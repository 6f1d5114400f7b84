"""Collecting experience in compiled code: every lane plays by a network, and what it saw and did is packed.

Only the legal candidates of a choice are kept, one behind the other, so neither memory nor training pays for rows
that could not be chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.core.jit import algebra, entry, kernel
from slipstream.core.lanes import ASKING, TERMINATED, advance, choose, reset
from slipstream.core.rng import episode_key, next_seed, stream_key, uniform
from slipstream.core.structs import make_struct, struct
from slipstream.policies.compiled import look
from slipstream.policies.inference import infer

ENDED, CUT_OFF = 1, 2
"""How a step ended its episode: the work was over, or the clock was and the world would have gone on."""

NO_EXPERT = -1

MOST_IDLE_EPISODES = 1000
"""Episodes without any choice, one after the other, after which a lane gives up."""

CHOICES = 3
"""Namespace of the draws that choose among candidates, beside those of episodes."""


class RolloutType(types.StructRef):
    """Compiled type of Rollout."""


class Rollout(structref.StructRefProxy):
    """What L lanes saw and did in up to T choices each, N candidates in all.

    rows (N, F), globals (L, T, G): what was seen, float32. begin (L, T) int64, count (L, T) int32: where the candidates
    of a choice lie. taken, label (L, T) int32: which of them was chosen, and which the expert would choose (-1: none).
    log_chance, value (L, T): the logarithm of the choice's probability, and what the network expected. after (L, T):
    what it expects after the step, where the episode was cut off or the rollout ends. reward (L, T) float64; elapsed,
    time (L, T) int64 in ns; ended (L, T) int8. length (L,) int64: choices made. free (1,) int64: rows in use.
    """


FIELDS = [
    "rows",
    "globals",
    "begin",
    "count",
    "taken",
    "label",
    "log_chance",
    "value",
    "after",
    "reward",
    "elapsed",
    "time",
    "ended",
    "length",
    "free",
]
struct(RolloutType, Rollout, FIELDS)


@entry
def _make_rollout(
    rows,
    global_rows,
    begin,
    count,
    taken,
    label,
    log_chance,
    value,
    after,
    reward,
    elapsed,
    time,
    ended,
    length,
    free,
):
    return Rollout(
        rows,
        global_rows,
        begin,
        count,
        taken,
        label,
        log_chance,
        value,
        after,
        reward,
        elapsed,
        time,
        ended,
        length,
        free,
    )


def rollout_arrays(lanes: int, steps: int, capacity: int, widths: tuple[int, int]) -> dict[str, np.ndarray]:
    """Return room for `steps` choices of every lane; what is never written takes no memory."""
    each = (lanes, steps)
    return {
        "rows": np.empty((lanes * steps * capacity, widths[0]), np.float32),
        "globals": np.empty((*each, widths[1]), np.float32),
        "begin": np.zeros(each, np.int64),
        "count": np.zeros(each, np.int32),
        "taken": np.zeros(each, np.int32),
        "label": np.zeros(each, np.int32),
        "log_chance": np.zeros(each, np.float32),
        "value": np.zeros(each, np.float32),
        "after": np.zeros(each, np.float32),
        "reward": np.zeros(each, np.float64),
        "elapsed": np.zeros(each, np.int64),
        "time": np.zeros(each, np.int64),
        "ended": np.zeros(each, np.int8),
        "length": np.zeros(lanes, np.int64),
        "free": np.zeros(1, np.int64),
    }


def make_rollout(arrays: dict[str, np.ndarray]) -> Any:
    """Build a rollout over the caller's arrays."""
    return make_struct(_make_rollout, RolloutType, arrays)


@algebra
def sample(network, count, chance):
    """Return a candidate drawn from the softmax of the logits by a number in (0, 1), and its log-probability."""
    logits = network.registers[network.ports[2] : network.ports[2] + count]
    highest = logits[0]
    for row in range(1, count):
        highest = max(highest, logits[row])
    total = 0.0
    for row in range(count):
        total += math.exp(logits[row] - highest)
    threshold, reached = chance * total, 0.0
    drawn = count - 1
    for row in range(count):
        reached += math.exp(logits[row] - highest)
        if reached > threshold:
            drawn = row
            break
    return drawn, logits[drawn] - highest - math.log(total)


@kernel
def position_of(legal, count, row):
    """Return the place of a row among the legal ones, -1 if it is none."""
    for position in range(count):
        if legal[position] == row:
            return position
    return -1


@algebra
def keep_sight(network, rollout, lane, step, count):
    """Pack what the network sees behind what is packed already."""
    begin, registers, ports = rollout.free[0], network.registers, network.ports
    rows, sight = rollout.rows, rollout.globals[lane, step]
    for position in range(count):
        goal = rows[begin + position]
        source = registers[ports[0] + position * ports[4] : ports[0] + (position + 1) * ports[4]]
        for column in range(ports[4]):
            goal[column] = source[column]
    for column in range(ports[5]):
        sight[column] = registers[ports[1] + column]
    rollout.begin[lane, step] = begin
    rollout.count[lane, step] = count
    rollout.free[0] = begin + count


@entry
def collect(spec, state, sheet, network, rollout, raw, form, address, loyalty, key, first_lane, until_end):
    """Let every lane make choices by the network, as many as the rollout has room for, and keep them.

    With an expert (`form` is not NO_EXPERT), note what it would choose, and follow it with probability `loyalty`.
    Random numbers come from `key`, the number of the lane and the step. With `until_end`, a lane stops at the end of
    its episode.
    """
    lanes, steps = rollout.begin.shape
    for lane in range(lanes):
        header = state.lanes[lane]
        draws = stream_key(key, first_lane + lane)
        step = idle = 0
        while step < steps:
            if header.status != ASKING:
                if (until_end and step > 0) or idle == MOST_IDLE_EPISODES:
                    break
                reset(spec, state, lane, next_seed(header.seed), header.namespace)
                idle += 1
                continue
            idle = 0
            count = look(spec, state, lane, sheet, network)
            infer(network, 1)
            taken, log_chance = sample(network, count, uniform(draws, 2 * step))
            keep_sight(network, rollout, lane, step, count)
            label = -1
            if form != NO_EXPERT:
                label = position_of(sheet.legal[0], count, choose(spec, state, lane, raw, form, address))
                if label >= 0 and uniform(draws, 2 * step + 1) < loyalty:
                    taken = label
            rollout.label[lane, step] = label
            rollout.taken[lane, step] = taken
            rollout.log_chance[lane, step] = log_chance
            rollout.value[lane, step] = network.registers[network.ports[3]]
            rollout.time[lane, step] = header.now
            advance(spec, state, lane, np.int64(sheet.legal[0, taken]))
            rollout.reward[lane, step] = header.reward
            rollout.elapsed[lane, step] = header.elapsed
            rollout.ended[lane, step] = 0
            if header.status != ASKING:
                rollout.ended[lane, step] = ENDED if header.status == TERMINATED else CUT_OFF
            if header.status != TERMINATED and (header.status != ASKING or step + 1 == steps):
                look(spec, state, lane, sheet, network)
                infer(network, 1)
                rollout.after[lane, step] = network.registers[network.ports[3]]
            step += 1
        rollout.length[lane] = step


@entry
def begin_lanes(spec, state, seeds, namespace):
    """Start an episode in every lane."""
    for lane in range(seeds.shape[0]):
        reset(spec, state, lane, seeds[lane], namespace)


@entry
def rollout_key(seed, update):
    """Return the key of the random numbers of one rollout."""
    return stream_key(episode_key(CHOICES, seed), update)
