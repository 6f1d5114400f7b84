"""Experience collection in compiled code: every lane plays by a network, and its transitions are packed.

Only the legal candidates of a choice are stored, concatenated without padding, so neither memory nor training pays for
rows that could not be chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from slipstream.jit.decorators import algebra, entry, kernel
from slipstream.jit.structs import make_struct, struct
from slipstream.learn.compiled.packed_graphs import store_graph
from slipstream.learn.rollout.batch import SPAN
from slipstream.policies.compiled.inference import infer
from slipstream.policies.compiled.network_policy import load_choice
from slipstream.policies.compiled.vectors import copy_rows, matrix
from slipstream.policies.operations import NO_GRAPH, GraphCapacity
from slipstream.sim.kernel.lanes import ASKING, TERMINATED, advance, choose, reset
from slipstream.sim.kernel.rng import episode_key, next_seed, stream_key, uniform
from slipstream.sim.kernel.snapshot import best_outcome

ENDED, CUT_OFF = 1, 2
"""How a step ended its episode: terminated, or truncated at the time limit."""

NO_EXPERT = -1

MOST_IDLE_EPISODES = 1000
"""Consecutive episodes without any choice after which a lane gives up."""

SAMPLING_SPLIT = 3
"""Seed split of the draws that sample candidates, beside those of episodes."""


@struct(
    "rows",
    "globals",
    "begin",
    "count",
    "taken",
    "label",
    "log_prob",
    "value",
    "next_value",
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
    "spans",
    "graph_free",
)
class RolloutType(types.StructRef):
    """Transitions of L lanes in up to T choices each, with N candidates in all.

    rows (N, F), globals (L, T, G): observations, float32. begin (L, T) int64, count (L, T) int32: the rows of a choice.
    taken, label (L, T) int32: the candidate taken, and the one the expert would take (-1: none). log_prob, value (L,
    T): log-probability of the candidate taken, and the network's value. next_value (L, T): value after the step, where
    the episode was truncated or the rollout ends. reward (L, T) float64; elapsed, time (L, T) int64 in ns; ended (L, T)
    int8. length (L,) int64: choices made. free (1,) int64: rows in use.

    Graphs, where the network reads them (`learn.rollout.batch.Graphs`): nodes (M, Fn), node_job (M,), edges (K, 2),
    row_node (N,), spans (L, T) of SPAN, and graph_free (2,) int64: nodes and edges in use.
    """


def rollout_arrays(
    lanes: int, steps: int, capacity: int, widths: tuple[int, int], graph: GraphCapacity = NO_GRAPH
) -> dict[str, np.ndarray]:
    """Return the arrays of a rollout of `steps` choices per lane; pages that are never written take no memory.

    A choice has up to `capacity` candidates, and a graph within `graph`.
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
        "log_prob": np.zeros(each, np.float32),
        "value": np.zeros(each, np.float32),
        "next_value": np.zeros(each, np.float32),
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
        "spans": np.zeros(each if nodes else (lanes, 0), SPAN),
        "graph_free": np.zeros(2, np.int64),
    }


def make_rollout(arrays: dict[str, np.ndarray]) -> Any:
    """Return a rollout over the caller's arrays."""
    return make_struct(RolloutType, arrays)


@algebra
def sample(network, choice, draw):
    """Return a candidate sampled from the softmax of a choice's logits by `draw` in (0, 1), and its log-probability."""
    first, count = network.starts[choice], network.starts[choice + 1] - network.starts[choice]
    logits = network.registers[network.ports[2] + first : network.ports[2] + first + count]
    highest = logits[0]
    for row in range(1, count):
        highest = max(highest, logits[row])
    total = 0.0
    for row in range(count):
        total += math.exp(logits[row] - highest)
    threshold, reached = draw * total, 0.0
    index = count - 1
    for row in range(count):
        reached += math.exp(logits[row] - highest)
        if reached > threshold:
            index = row
            break
    return index, logits[index] - highest - math.log(total)


@kernel
def position_of(legal, count, row):
    """Return the position of `row` among the legal rows, -1 if it is not legal."""
    for position in range(count):
        if legal[position] == row:
            return position
    return -1


@algebra
def store_observation(network, choice, rollout, lane, step):
    """Append the observation of a choice in the registers to the packed arrays of the rollout."""
    registers, ports, starts = network.registers, network.ports, network.starts
    begin, first, count = rollout.free[0], starts[choice], starts[choice + 1] - starts[choice]
    copy_rows(matrix(registers, ports[0], first + count, ports[4]), first, rollout.rows, begin, count)
    copy_rows(matrix(registers, ports[1], choice + 1, ports[5]), choice, rollout.globals[lane], step, 1)
    rollout.begin[lane, step] = begin
    rollout.count[lane, step] = count
    rollout.free[0] = begin + count
    store_graph(network, choice, rollout, lane, step, begin, count)


@kernel
def reset_until_decision(spec, state, lane):
    """Start episodes until the lane is at a decision; return whether it is."""
    header = state.lanes[lane]
    for _ in range(MOST_IDLE_EPISODES):
        if header.status == ASKING:
            break
        reset(spec, state, lane, next_seed(header.seed), header.split)
    return header.status == ASKING


@algebra
def choose_candidate(
    spec, state, lane, buffer, network, choice, rollout, step, raw, form, address, expert_probability, draws
):
    """Sample a candidate of a choice, and store action and value.

    With an expert (`form` is not NO_EXPERT), store its choice as the label, and take it with `expert_probability`.
    """
    taken, log_prob = sample(network, choice, uniform(draws, 2 * step))
    label = -1
    if form != NO_EXPERT:
        expert = choose(spec, state, lane, raw, form, address)
        if expert == raw.mask.shape[1] - 1:
            # The last row means the same in both buffers, at different indices.
            expert = buffer.mask.shape[1] - 1
        label = position_of(buffer.legal[choice], rollout.count[lane, step], expert)
        if label >= 0 and uniform(draws, 2 * step + 1) < expert_probability:
            taken = label
    rollout.label[lane, step] = label
    rollout.taken[lane, step] = taken
    rollout.log_prob[lane, step] = log_prob
    rollout.value[lane, step] = network.registers[network.ports[3] + choice]
    rollout.time[lane, step] = state.lanes[lane].now


@kernel
def best_expected_return(spec, state, lane, raw, judging):
    """Return the highest return of a lane under one of the judges, 0 if its episode is over."""
    rows, forms, addresses, expected = judging
    if state.lanes[lane].status != ASKING:
        return 0.0
    return best_outcome(spec, state, lane, expected.shape[0], rows, raw, forms, addresses)


@kernel
def initialise_baseline(spec, state, lane, raw, judging):
    """Compute the judges' expected return of a lane where there is none yet."""
    expected = judging[3]
    if np.isnan(expected[lane]):
        expected[lane] = best_expected_return(spec, state, lane, raw, judging)


@kernel
def regret_reward(spec, state, lane, raw, judging):
    """Return the change of the judges' expected return by the last step: minus its estimated regret."""
    expected = judging[3]
    before = expected[lane]
    expected[lane] = best_expected_return(spec, state, lane, raw, judging)
    change = state.lanes[lane].reward + expected[lane] - before
    if state.lanes[lane].status != ASKING:
        expected[lane] = np.nan
    return change


@kernel
def take_candidate(spec, state, lane, buffer, choice, rollout, step, raw, judging):
    """Advance a lane by the candidate taken; store reward, elapsed time and how the episode ended.

    Return whether the value of its next observation is needed: where the episode was truncated or the rollout ends.
    """
    header = state.lanes[lane]
    if judging is not None:
        initialise_baseline(spec, state, lane, raw, judging)
    advance(spec, state, lane, np.int64(buffer.legal[choice, rollout.taken[lane, step]]))
    if judging is not None:
        rollout.reward[lane, step] = regret_reward(spec, state, lane, raw, judging)
    else:
        rollout.reward[lane, step] = header.reward
    rollout.elapsed[lane, step] = header.elapsed
    rollout.ended[lane, step] = 0
    if header.status != ASKING:
        rollout.ended[lane, step] = ENDED if header.status == TERMINATED else CUT_OFF
    rollout.length[lane] = step + 1
    return header.status != TERMINATED and (header.status != ASKING or step + 1 == rollout.begin.shape[1])


@algebra
def bootstrap(spec, state, lane, buffer, network, rollout, step, raw):
    """Store the value of a lane's observation after a step."""
    # A truncated episode may list no candidates; the value before the step then stands for the next one.
    rollout.next_value[lane, step] = rollout.value[lane, step]
    if load_choice(spec, state, lane, buffer, buffer.legal.shape[0] - 1, network, 0, raw) > 0:
        infer(network, 1)
        rollout.next_value[lane, step] = network.registers[network.ports[3]]


@entry
def collect(
    spec, state, buffer, network, rollout, raw, form, address, expert_probability, judging, key, first_lane, until_end
):
    """Play every lane by the network for the steps of the rollout, and store the transitions.

    The lanes advance step by step together, in batches of the network's capacity. Random numbers depend on `key`, the
    number of the lane and the step. With `until_end`, a lane stops at the end of its episode. `judging` is None, or
    rows, forms and addresses of judges and their expected return of every lane, NaN where it is unknown; then the
    reward of a step is minus its regret, and the lane after the last is free for the judges' simulations.
    """
    lanes, steps = rollout.begin.shape
    capacity = buffer.legal.shape[0] - 1
    batch = np.zeros(capacity, np.int64)
    rollout.length[:] = 0
    for step in range(steps):
        lane = 0
        while lane < lanes:
            loaded = 0
            while lane < lanes and loaded < capacity:
                over = until_end and step > 0 and state.lanes[lane].status != ASKING
                if rollout.length[lane] == step and not over and reset_until_decision(spec, state, lane):
                    if load_choice(spec, state, lane, buffer, loaded, network, loaded, raw) == 0:
                        break
                    batch[loaded] = lane
                    loaded += 1
                lane += 1
            if loaded > 0:
                infer(network, loaded)
            for choice in range(loaded):
                batch_lane = batch[choice]
                draws = stream_key(key, first_lane + batch_lane)
                store_observation(network, choice, rollout, batch_lane, step)
                choose_candidate(
                    spec,
                    state,
                    batch_lane,
                    buffer,
                    network,
                    choice,
                    rollout,
                    step,
                    raw,
                    form,
                    address,
                    expert_probability,
                    draws,
                )
            for choice in range(loaded):
                if take_candidate(spec, state, batch[choice], buffer, choice, rollout, step, raw, judging):
                    bootstrap(spec, state, batch[choice], buffer, network, rollout, step, raw)


@entry
def reset_lanes(spec, state, seeds, split):
    """Start an episode in every lane."""
    for lane in range(seeds.shape[0]):
        reset(spec, state, lane, seeds[lane], split)


@entry
def rollout_key(seed, update):
    """Return the key of the random numbers of one rollout."""
    return stream_key(episode_key(SAMPLING_SPLIT, seed), update)
