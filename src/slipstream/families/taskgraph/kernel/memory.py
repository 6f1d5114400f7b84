"""Tiles, memories and links, compiled: what is fetched, what is sent, what has to leave."""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.slots import link_slot
from slipstream.families.taskgraph.kernel.state import (
    ABSENT,
    BELADY,
    FINISHED,
    HOST,
    LINKS_PER_DEVICE,
    LOADING,
    LUF,
    PEER,
    TO_DEVICE,
    TO_HOST,
    VALID,
    WRITE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import EVICT, MOVE
from slipstream.sim.kernel.heap import schedule
from slipstream.sim.kernel.lanes import record


@inlined
def tile_at(spec, state, lane, task, access):
    """Return the tile of an access of a task, as the episode numbers it."""
    return state.tasks[lane, task].job * spec.machine[0].tiles + spec.accesses[access].tile


@inlined
def staged_count(spec, state, lane, processor):
    """Return for how many tasks a processor gathers tiles."""
    worker = state.processors[lane, processor]
    return worker.held + min(spec.machine[0].prefetch, worker.queued)


@inlined
def staged_task(state, lane, processor, place):
    """Return one of the tasks for which a processor gathers tiles: those it holds, then the first of its queue."""
    held = state.processors[lane, processor].held
    return state.holds[lane, processor, place] if place < held else state.queues[lane, processor, place - held]


@inlined
def touch(state, lane, tile, node):
    """Note that a tile is used at a node."""
    header = state.lanes[lane]
    header.touches += 1
    state.copies[lane, tile, node].touched = header.touches


@kernel
def lowest_device(state, lane, tile):
    """Return the lowest device where a tile is valid, HOST if there is none."""
    for node in range(1, state.copies.shape[2]):
        if state.copies[lane, tile, node].state == VALID:
            return node
    return HOST


@kernel
def is_only_copy(state, lane, tile, node):
    """Return whether a tile is valid nowhere but at a node."""
    for other in range(state.copies.shape[2]):
        if other != node and state.copies[lane, tile, other].state == VALID:
            return False
    return True


@kernel
def is_needed(spec, state, lane, processor, last, tile):
    """Return whether one of the staged tasks of a processor, up to a place, uses a tile."""
    for place in range(last + 1):
        task = staged_task(state, lane, processor, place)
        source = spec.tasks[state.tasks[lane, task].source]
        for access in range(source.first_access, source.first_access + source.accesses):
            if tile_at(spec, state, lane, task, access) == tile:
                return True
    return False


@kernel
def next_use(spec, state, lane, tile):
    """Return the first task not finished that uses a tile, one beyond all tasks if there is none."""
    own = state.tiles[lane, tile]
    source = spec.tiles[own.source]
    first_task = (tile // spec.machine[0].tiles) * spec.machine[0].tasks
    while own.next_user < source.users:
        task = first_task + spec.users[source.first_user + own.next_user]
        if state.tasks[lane, task].status != FINISHED:
            return task
        own.next_user += 1
    return state.tasks.shape[1]


@kernel
def goes_before(spec, state, lane, node, tile, other):
    """Return whether a tile leaves a device before another one."""
    eviction = spec.machine[0].eviction
    one, two = state.copies[lane, tile, node], state.copies[lane, other, node]
    if eviction == LUF:
        if one.queued != two.queued:
            return one.queued < two.queued
        uses, other_uses = state.tiles[lane, tile].uses, state.tiles[lane, other].uses
        if uses != other_uses:
            return uses < other_uses
    elif eviction == BELADY:
        use, other_use = next_use(spec, state, lane, tile), next_use(spec, state, lane, other)
        if use != other_use:
            return use > other_use
    return one.touched < two.touched


@kernel
def find_victim(spec, state, lane, node, last):
    """Return the tile that leaves a device first, for a load of the staged task in a place; -1 if none can."""
    processor = spec.nodes[node].processor
    victim = -1
    for tile in range(state.lanes[lane].arrived * spec.machine[0].tiles):
        if state.copies[lane, tile, node].state != VALID or state.tiles[lane, tile].moving > 0:
            continue
        if victim >= 0 and not goes_before(spec, state, lane, node, tile, victim):
            continue
        if not is_needed(spec, state, lane, processor, last, tile):
            victim = tile
    return victim


@kernel
def make_room(spec, state, lane, node, size, last):
    """Let tiles leave a device until another fits; return whether it does."""
    memory = state.memories[lane, node]
    while memory.used + size > spec.nodes[node].capacity:
        victim = find_victim(spec, state, lane, node, last)
        if victim < 0:
            return False
        if is_only_copy(state, lane, victim, node):
            memory.write_back = victim
            return False
        drop(spec, state, lane, victim, node)
        tiles = spec.machine[0].tiles
        record(state, lane, EVICT, victim % tiles, victim // tiles, -1, node)
    return True


@kernel
def drop(spec, state, lane, tile, node):
    """Let a node have a tile no longer."""
    state.copies[lane, tile, node].state = ABSENT
    if node != HOST:
        state.memories[lane, node].used -= spec.tiles[state.tiles[lane, tile].source].bytes


@kernel
def carry(spec, state, lane, tile, device, which):
    """Let a link of a device carry a tile."""
    header = state.lanes[lane]
    source = spec.tiles[state.tiles[lane, tile].source]
    link = LINKS_PER_DEVICE * (device - 1) + which
    time = source.load_time
    target = device
    if which == TO_HOST:
        time = source.send_time
        target = HOST
    else:
        if which == PEER:
            time = source.peer_time
        state.memories[lane, device].used += source.bytes
    state.copies[lane, tile, target].state = LOADING
    state.tiles[lane, tile].moving += 1
    state.links[lane, link] = tile
    header.moving += 1
    tiles = spec.machine[0].tiles
    record(state, lane, MOVE, tile % tiles, tile // tiles, which, spec.machine[0].processors + link)
    schedule(state.heap, lane, link_slot(spec, link), header.now + time)


@kernel
def fetch(spec, state, lane, node):
    """Let a device begin to load what its processor needs next."""
    processor = spec.nodes[node].processor
    first_link = LINKS_PER_DEVICE * (node - 1)
    state.memories[lane, node].write_back = -1
    for place in range(state.processors[lane, processor].runs, staged_count(spec, state, lane, processor)):
        task = staged_task(state, lane, processor, place)
        source = spec.tasks[state.tasks[lane, task].source]
        for access in range(source.first_access, source.first_access + source.accesses):
            tile = tile_at(spec, state, lane, task, access)
            if state.copies[lane, tile, node].state != ABSENT:
                continue
            size = spec.tiles[state.tiles[lane, tile].source].bytes
            if spec.accesses[access].mode == WRITE:
                if not make_room(spec, state, lane, node, size, place):
                    return
                state.copies[lane, tile, node].state = VALID
                state.memories[lane, node].used += size
                touch(state, lane, tile, node)
                continue
            which = TO_DEVICE
            if state.copies[lane, tile, HOST].state != VALID:
                if not spec.machine[0].peer or lowest_device(state, lane, tile) == HOST:
                    continue
                which = PEER
            if state.links[lane, first_link + which] < 0:
                if not make_room(spec, state, lane, node, size, place):
                    return
                carry(spec, state, lane, tile, node, which)


@kernel
def send(spec, state, lane):
    """Let devices begin to carry tiles to the host: what has to leave, then what others want."""
    machine = spec.machine[0]
    for node in range(1, machine.devices + 1):
        tile = state.memories[lane, node].write_back
        if tile >= 0 and state.links[lane, LINKS_PER_DEVICE * (node - 1) + TO_HOST] < 0:
            carry(spec, state, lane, tile, node, TO_HOST)
    for processor in range(machine.processors):
        node = spec.processors[processor].node
        if node != HOST and machine.peer:
            continue
        for place in range(state.processors[lane, processor].runs, staged_count(spec, state, lane, processor)):
            task = staged_task(state, lane, processor, place)
            source = spec.tasks[state.tasks[lane, task].source]
            for access in range(source.first_access, source.first_access + source.accesses):
                tile = tile_at(spec, state, lane, task, access)
                if spec.accesses[access].mode != WRITE:
                    send_wanted(spec, state, lane, tile, node)
                elif node == HOST and state.copies[lane, tile, HOST].state == ABSENT:
                    state.copies[lane, tile, HOST].state = VALID
                    touch(state, lane, tile, HOST)


@inlined
def send_wanted(spec, state, lane, tile, node):
    """Let a device begin to carry a tile to the host if a processor at a node has to wait for that."""
    copies = state.copies[lane, tile]
    if copies[HOST].state == ABSENT and copies[node].state == ABSENT:
        device = lowest_device(state, lane, tile)
        if device != HOST and state.links[lane, LINKS_PER_DEVICE * (device - 1) + TO_HOST] < 0:
            carry(spec, state, lane, tile, device, TO_HOST)
