"""Collecting experience in compiled code: every lane plays by a network, and what it saw and did is packed.

Only the legal candidates of a choice are kept, one behind the other, so neither memory nor training pays for rows
that could not be chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from slipstream.jit.decorators import algebra, entry, kernel
from slipstream.jit.structs import make_struct, struct
from slipstream.learn.compiled.packed_graphs import keep_graph
from slipstream.learn.rollout.batch import PLACE
from slipstream.policies.compiled.inference import infer
from slipstream.policies.compiled.network_policy import look
from slipstream.policies.compiled.vectors import copy_rows, matrix
from slipstream.policies.operations import NO_GRAPH, GraphRoom
from slipstream.sim.kernel.lanes import ASKING, TERMINATED, advance, choose, reset
from slipstream.sim.kernel.rng import episode_key, next_seed, stream_key, uniform
from slipstream.sim.kernel.snapshot import best_outcome

ENDED, CUT_OFF = 1, 2
"""How a step ended its episode: the work was over, or the clock was and the world would have gone on."""

NO_EXPERT = -1

MOST_IDLE_EPISODES = 1000
"""Episodes without any choice, one after the other, after which a lane gives up."""

CHOICES = 3
"""Namespace of the draws that choose among candidates, beside those of episodes."""


@struct(
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
    "nodes",
    "node_job",
    "edges",
    "row_node",
    "places",
    "graph_free",
)
class RolloutType(types.StructRef):
    """What L lanes saw and did in up to T choices each, N candidates in all.

    rows (N, F), globals (L, T, G): what was seen, float32. begin (L, T) int64, count (L, T) int32: where the candidates
    of a choice lie. taken, label (L, T) int32: which of them was chosen, and which the expert would choose (-1: none).
    log_chance, value (L, T): the logarithm of the choice's probability, and what the network expected. after (L, T):
    what it expects after the step, where the episode was cut off or the rollout ends. reward (L, T) float64; elapsed,
    time (L, T) int64 in ns; ended (L, T) int8. length (L,) int64: choices made. free (1,) int64: rows in use.

    Graphs, where the network looks at them (`learn.choices.Graphs`): nodes (M, Fn), node_job (M,), edges (K, 2),
    row_node (N,), places (L, T) of PLACE, and graph_free (2,) int64: nodes and edges in use.
    """


def rollout_arrays(
    lanes: int, steps: int, capacity: int, widths: tuple[int, int], graph: GraphRoom = NO_GRAPH
) -> dict[str, np.ndarray]:
    """Return room for `steps` choices of every lane; what is never written takes no memory.

    A choice has up to `capacity` candidates, and a graph that fits into `graph`.
    """
    each = (lanes, steps)
    nodes = lanes * steps * graph.nodes
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
        "nodes": np.empty((nodes, graph.columns), np.float32),
        "node_job": np.empty(nodes, np.int32),
        "edges": np.empty((lanes * steps * graph.edges, 2), np.int32),
        "row_node": np.empty(lanes * steps * capacity if nodes else 0, np.int32),
        "places": np.zeros(each if nodes else (lanes, 0), PLACE),
        "graph_free": np.zeros(2, np.int64),
    }


def make_rollout(arrays: dict[str, np.ndarray]) -> Any:
    """Build a rollout over the caller's arrays."""
    return make_struct(RolloutType, arrays)


@algebra
def sample(network, choice, chance):
    """Return a candidate drawn from the softmax of a choice's logits by a number in (0, 1), and its log-probability."""
    first, count = network.starts[choice], network.starts[choice + 1] - network.starts[choice]
    logits = network.registers[network.ports[2] + first : network.ports[2] + first + count]
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
def keep_sight(network, choice, rollout, lane, step):
    """Pack what the network sees of a choice behind what is packed already."""
    registers, ports, starts = network.registers, network.ports, network.starts
    begin, first, count = rollout.free[0], starts[choice], starts[choice + 1] - starts[choice]
    copy_rows(matrix(registers, ports[0], first + count, ports[4]), first, rollout.rows, begin, count)
    copy_rows(matrix(registers, ports[1], choice + 1, ports[5]), choice, rollout.globals[lane], step, 1)
    rollout.begin[lane, step] = begin
    rollout.count[lane, step] = count
    rollout.free[0] = begin + count
    keep_graph(network, choice, rollout, lane, step, begin, count)


@kernel
def wake(spec, state, lane):
    """Begin episodes until the lane is asked; return whether it is."""
    header = state.lanes[lane]
    for _ in range(MOST_IDLE_EPISODES):
        if header.status == ASKING:
            break
        reset(spec, state, lane, next_seed(header.seed), header.split)
    return header.status == ASKING


@algebra
def choose_candidate(spec, state, lane, buffer, network, choice, rollout, step, raw, form, address, loyalty, draws):
    """Draw one of a choice's candidates and keep what was seen and done.

    With an expert (`form` is not NO_EXPERT), note what it would choose, and follow it with probability `loyalty`.
    """
    taken, log_chance = sample(network, choice, uniform(draws, 2 * step))
    keep_sight(network, choice, rollout, lane, step)
    label = -1
    if form != NO_EXPERT:
        expert = choose(spec, state, lane, raw, form, address)
        if expert == raw.mask.shape[1] - 1:
            # The last row stands for the same in both, whichever number it has.
            expert = buffer.mask.shape[1] - 1
        label = position_of(buffer.legal[choice], rollout.count[lane, step], expert)
        if label >= 0 and uniform(draws, 2 * step + 1) < loyalty:
            taken = label
    rollout.label[lane, step] = label
    rollout.taken[lane, step] = taken
    rollout.log_chance[lane, step] = log_chance
    rollout.value[lane, step] = network.registers[network.ports[3] + choice]
    rollout.time[lane, step] = state.lanes[lane].now


@kernel
def foresee(spec, state, lane, raw, outlook):
    """Return the most that a lane can still earn under one of the judges, 0 if its episode is over."""
    rows, forms, addresses, expected = outlook
    if state.lanes[lane].status != ASKING:
        return 0.0
    return best_outcome(spec, state, lane, expected.shape[0], rows, raw, forms, addresses)


@kernel
def begin_judging(spec, state, lane, raw, outlook):
    """Ask the judges what they expect of a lane, where they were not asked before."""
    expected = outlook[3]
    if np.isnan(expected[lane]):
        expected[lane] = foresee(spec, state, lane, raw, outlook)


@kernel
def cost_of_step(spec, state, lane, raw, outlook):
    """Return what the step that was made changed in what a lane can earn: minus its regret, as the judges see it."""
    expected = outlook[3]
    before = expected[lane]
    expected[lane] = foresee(spec, state, lane, raw, outlook)
    change = state.lanes[lane].reward + expected[lane] - before
    if state.lanes[lane].status != ASKING:
        expected[lane] = np.nan
    return change


@algebra
def take(spec, state, lane, buffer, choice, network, rollout, step, raw, outlook):
    """Go on with the candidate that was drawn, and keep what came of it."""
    header = state.lanes[lane]
    if outlook is not None:
        begin_judging(spec, state, lane, raw, outlook)
    advance(spec, state, lane, np.int64(buffer.legal[choice, rollout.taken[lane, step]]))
    if outlook is not None:
        rollout.reward[lane, step] = cost_of_step(spec, state, lane, raw, outlook)
    else:
        rollout.reward[lane, step] = header.reward
    rollout.elapsed[lane, step] = header.elapsed
    rollout.ended[lane, step] = 0
    if header.status != ASKING:
        rollout.ended[lane, step] = ENDED if header.status == TERMINATED else CUT_OFF
    rollout.length[lane] = step + 1
    if header.status != TERMINATED and (header.status != ASKING or step + 1 == rollout.begin.shape[1]):
        # Where nothing is listed once the clock is over, what was expected before the step stands for what is to come.
        rollout.after[lane, step] = rollout.value[lane, step]
        if look(spec, state, lane, buffer, buffer.legal.shape[0] - 1, network, 0) > 0:
            infer(network, 1)
            rollout.after[lane, step] = network.registers[network.ports[3]]


@entry
def collect(spec, state, buffer, network, rollout, raw, form, address, loyalty, outlook, key, first_lane, until_end):
    """Let every lane make choices by the network, as many as the rollout has room for, and keep them.

    The lanes go step by step together, as many at a time as the network has room for. Random numbers come from `key`,
    the number of the lane and the step. With `until_end`, a lane stops at the end of its episode. `outlook` is None,
    or rows, forms and addresses of judges, and what they expect of every lane, not a number where they were not asked;
    then the reward of a step is minus its regret, and the lane behind the last is theirs to try things in.
    """
    lanes, steps = rollout.begin.shape
    most = buffer.legal.shape[0] - 1
    members = np.zeros(most, np.int64)
    rollout.length[:] = 0
    for step in range(steps):
        lane = 0
        while lane < lanes:
            together = 0
            while lane < lanes and together < most:
                over = until_end and step > 0 and state.lanes[lane].status != ASKING
                if rollout.length[lane] == step and not over and wake(spec, state, lane):
                    if look(spec, state, lane, buffer, together, network, together) == 0:
                        break
                    members[together] = lane
                    together += 1
                lane += 1
            if together > 0:
                infer(network, together)
            for choice in range(together):
                member = members[choice]
                draws = stream_key(key, first_lane + member)
                choose_candidate(
                    spec, state, member, buffer, network, choice, rollout, step, raw, form, address, loyalty, draws
                )
            for choice in range(together):
                take(spec, state, members[choice], buffer, choice, network, rollout, step, raw, outlook)


@entry
def begin_lanes(spec, state, seeds, split):
    """Start an episode in every lane."""
    for lane in range(seeds.shape[0]):
        reset(spec, state, lane, seeds[lane], split)


@entry
def rollout_key(seed, update):
    """Return the key of the random numbers of one rollout."""
    return stream_key(episode_key(CHOICES, seed), update)
