"""Placement of jobs on nodes, compiled: a placement is found, allocated and freed."""

from __future__ import annotations

import math

from slipstream.families.cluster.kernel.state import BEST_FIT, CONSOLIDATE, FGD, FIRST_FIT, FLAT
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import TAKE
from slipstream.sim.kernel.lanes import record

NOW, AT_SHADOW = 0, 1
"""Indices of two placements kept side by side: one to allocate now, one to test the shadow time with."""


@kernel
def find_placement(spec, state, lane, free, gpus, which):
    """Write a placement of `gpus` GPUs into plan `which`; return its number of nodes, 0 if none fits.

    `free` holds the free GPUs of each node.
    """
    placement = spec.machine[0].placement
    plan = state.plan
    if placement == FIRST_FIT:
        return fill_in_order(state, lane, free, gpus, which)
    node = tightest_node(spec, plan, lane, free, gpus, which, 0)
    if node >= 0:
        plan[lane, which, 0].node = node
        plan[lane, which, 0].gpus = gpus
        return 1
    if placement == BEST_FIT:
        return fill_from_emptiest(spec, state, lane, free, gpus, which)
    if placement in (CONSOLIDATE, FGD) and gpus > spec.machine[0].largest_node:
        return fill_whole_nodes(spec, state, lane, free, gpus, which)
    return 0


@kernel
def tightest_node(spec, plan, lane, free, gpus, which, taken):
    """Return the node with the fewest free GPUs that has enough and is not among the first `taken`; -1 if none.

    Under `fgd` the node on which fragmentation grows least.
    """
    best, least = -1, 0
    gradient = spec.machine[0].placement == FGD
    for node in range(spec.machine[0].nodes):
        here = free[lane, node]
        if here >= gpus:
            cost = spec.wasted[here - gpus] - spec.wasted[here] if gradient else here
            if (best < 0 or cost < least) and not is_taken(plan, lane, which, taken, node):
                best, least = node, cost
    return best


@inlined
def is_taken(plan, lane, which, taken, node):
    """Return whether `node` is one of the first `taken` nodes of a placement."""
    found = False
    for index in range(taken):
        found = found or plan[lane, which, index].node == node
    return found


@kernel
def fill_in_order(state, lane, free, gpus, which):
    """Take free GPUs node by node, by node number."""
    count = 0
    for node in range(free.shape[1]):
        here = min(free[lane, node], gpus)
        if here > 0:
            state.plan[lane, which, count].node = node
            state.plan[lane, which, count].gpus = here
            count += 1
            gpus -= here
            if gpus == 0:
                return count
    return 0


@kernel
def fill_from_emptiest(spec, state, lane, free, gpus, which):
    """Take free GPUs from the nodes with the most free GPUs first."""
    plan = state.plan
    count = 0
    while gpus > 0:
        best = -1
        for node in range(spec.machine[0].nodes):
            here = free[lane, node]
            if here > 0 and (best < 0 or here > free[lane, best]) and not is_taken(plan, lane, which, count, node):
                best = node
        if best < 0:
            return 0
        here = min(free[lane, best], gpus)
        plan[lane, which, count].node = best
        plan[lane, which, count].gpus = here
        count += 1
        gpus -= here
    return count


@kernel
def fill_whole_nodes(spec, state, lane, free, gpus, which):
    """Take whole idle nodes, and the remainder on the tightest of the others."""
    plan = state.plan
    count = 0
    for node in range(spec.machine[0].nodes):
        size = spec.nodes[node].gpus
        if free[lane, node] == size and size <= gpus:
            plan[lane, which, count].node = node
            plan[lane, which, count].gpus = size
            count += 1
            gpus -= size
            if gpus == 0:
                return count
    rest = tightest_node(spec, plan, lane, free, gpus, which, count)
    if rest < 0:
        return 0
    plan[lane, which, count].node = rest
    plan[lane, which, count].gpus = gpus
    return count + 1


@inlined
def run_time(work, factor):
    """Return the time that `work` takes at the time factor `factor`."""
    if factor == 1.0:
        return work
    return max(1, int(math.ceil(work * factor)))


@kernel
def factor_of(spec, state, lane, nodes, level):
    """Return the time factor of the placement found last, of `nodes` nodes, at `level`."""
    if spec.machine[0].placement == FLAT:
        return spec.levels[0, level].factor
    plan = state.plan
    first = plan[lane, NOW, 0].node
    factor = spec.levels[spec.nodes[first].kind, level].factor
    spread = False
    for index in range(1, nodes):
        node = plan[lane, NOW, index].node
        factor = max(factor, spec.levels[spec.nodes[node].kind, level].factor)
        spread = spread or spec.nodes[node].rack != spec.nodes[first].rack
    if spread:
        return factor * spec.machine[0].rack_factor
    return factor * spec.machine[0].node_factor if nodes > 1 else factor


@kernel
def power_of(spec, state, lane, gpus, nodes, level):
    """Return the power that a job of `gpus` GPUs adds on the placement found last, at `level`."""
    if spec.machine[0].placement == FLAT:
        return gpus * spec.levels[0, level].power
    total = 0
    for index in range(nodes):
        piece = state.plan[lane, NOW, index]
        total += piece.gpus * spec.levels[spec.nodes[piece.node].kind, level].power
    return total


@kernel
def allocate_gpus(state, lane, job, nodes):
    """Allocate the placement found last, of `nodes` nodes, to `job`."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    own.piece = -1
    for index in range(nodes - 1, -1, -1):
        found = state.plan[lane, NOW, index]
        number = header.free_piece
        piece = state.pieces[lane, number]
        header.free_piece = piece.next
        piece.node = found.node
        piece.gpus = found.gpus
        piece.next = own.piece
        own.piece = number
        state.free[lane, found.node] -= found.gpus
        state.idle[lane, found.node] = -1
    own.node = state.plan[lane, NOW, 0].node


@kernel
def log_allocation(state, lane, job):
    """Log the GPUs of each node that `job` holds."""
    own = state.jobs[lane, job]
    number = own.piece
    while number >= 0:
        piece = state.pieces[lane, number]
        record(state, lane, TAKE, piece.gpus, job, own.level, piece.node)
        number = piece.next


@inlined
def sleeps(spec, state, lane, node):
    """Return whether `node` sleeps now."""
    since = state.idle[lane, node]
    return since >= 0 and state.lanes[lane].now - since >= spec.machine[0].sleep_after


@kernel
def setup_of(spec, state, lane, own, nodes):
    """Return the setup time of a start: restart cost plus wake-up of sleeping nodes."""
    machine = spec.machine[0]
    setup = machine.cost if own.interrupted > 0 else 0
    if machine.has_sleep:
        for index in range(nodes):
            if sleeps(spec, state, lane, state.plan[lane, NOW, index].node):
                return setup + machine.wake
    return setup


@kernel
def free_gpus_of(spec, state, lane, job):
    """Free the GPUs allocated to `job`."""
    header = state.lanes[lane]
    number = state.jobs[lane, job].piece
    while number >= 0:
        piece = state.pieces[lane, number]
        following = piece.next
        state.free[lane, piece.node] += piece.gpus
        if state.free[lane, piece.node] == spec.nodes[piece.node].gpus:
            state.idle[lane, piece.node] = header.now
        piece.next = header.free_piece
        header.free_piece = number
        number = following


@kernel
def add_shadow_free(state, lane, job):
    """Count the GPUs of `job` as free at the shadow time."""
    number = state.jobs[lane, job].piece
    while number >= 0:
        piece = state.pieces[lane, number]
        state.shadow_free[lane, piece.node] += piece.gpus
        number = piece.next


@kernel
def change_shadow_free(state, lane, nodes, sign):
    """Add the placement found last to the GPUs free at the shadow time, or subtract it (`sign` -1)."""
    for index in range(nodes):
        found = state.plan[lane, NOW, index]
        state.shadow_free[lane, found.node] += sign * found.gpus
