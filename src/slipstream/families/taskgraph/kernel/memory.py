"""Compiled data management: loads, sends and evictions of tiles in the memories of devices."""

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
    """Return the episode-wide number of the tile of access `access` of a task."""
    return state.tasks[lane, task].job * spec.machine[0].tiles + spec.accesses[access].tile


@inlined
def staged_count(spec, state, lane, processor):
    """Return the number of staged tasks of a processor: held tasks and prefetched queued tasks."""
    worker = state.processors[lane, processor]
    return worker.held + min(spec.machine[0].prefetch, worker.queued)


@inlined
def staged_task(state, lane, processor, index):
    """Return the staged task at `index` of a processor: held tasks first, then the head of its queue."""
    held = state.processors[lane, processor].held
    return state.holds[lane, processor, index] if index < held else state.queues[lane, processor, index - held]


@inlined
def touch(state, lane, tile, node):
    """Set the last use of a tile at a node to now, on a logical clock."""
    header = state.lanes[lane]
    header.touches += 1
    state.copies[lane, tile, node].touched = header.touches


@kernel
def lowest_device(state, lane, tile):
    """Return the lowest device with a valid copy of a tile; HOST if there is none."""
    for node in range(1, state.copies.shape[2]):
        if state.copies[lane, tile, node].state == VALID:
            return node
    return HOST


@kernel
def is_only_copy(state, lane, tile, node):
    """Return whether no other node has a valid copy of a tile."""
    for other in range(state.copies.shape[2]):
        if other != node and state.copies[lane, tile, other].state == VALID:
            return False
    return True


@kernel
def is_needed(spec, state, lane, processor, last_index, tile):
    """Return whether a staged task of a processor, up to `last_index`, uses a tile."""
    for index in range(last_index + 1):
        task = staged_task(state, lane, processor, index)
        source = spec.tasks[state.tasks[lane, task].source]
        for access in range(source.first_access, source.first_access + source.accesses):
            if tile_at(spec, state, lane, task, access) == tile:
                return True
    return False


@kernel
def next_use(spec, state, lane, tile):
    """Return the first unfinished task that uses a tile; the number of tasks if there is none."""
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
def is_evicted_before(spec, state, lane, node, tile, other):
    """Return whether the eviction policy evicts `tile` before `other` from a device."""
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
def find_victim(spec, state, lane, node, last_index):
    """Return the tile to evict from a device for a load of the staged task at `last_index`; -1 if there is none."""
    processor = spec.nodes[node].processor
    victim = -1
    for tile in range(state.lanes[lane].arrived * spec.machine[0].tiles):
        if state.copies[lane, tile, node].state != VALID or state.tiles[lane, tile].moving > 0:
            continue
        if victim >= 0 and not is_evicted_before(spec, state, lane, node, tile, victim):
            continue
        if not is_needed(spec, state, lane, processor, last_index, tile):
            victim = tile
    return victim


@kernel
def free_memory(spec, state, lane, node, size, last_index):
    """Evict tiles of a device until `size` bytes are free; return whether they are."""
    memory = state.memories[lane, node]
    while memory.used + size > spec.nodes[node].capacity:
        victim = find_victim(spec, state, lane, node, last_index)
        if victim < 0:
            return False
        if is_only_copy(state, lane, victim, node):
            memory.write_back = victim
            return False
        drop_copy(spec, state, lane, victim, node)
        tiles = spec.machine[0].tiles
        record(state, lane, EVICT, victim % tiles, victim // tiles, -1, node)
    return True


@kernel
def drop_copy(spec, state, lane, tile, node):
    """Remove the copy of a tile from a node and free its memory."""
    state.copies[lane, tile, node].state = ABSENT
    if node != HOST:
        state.memories[lane, node].used -= spec.tiles[state.tiles[lane, tile].source].bytes


@kernel
def start_transfer(spec, state, lane, tile, device, link_kind):
    """Start the transfer of a tile on a link of a device."""
    header = state.lanes[lane]
    source = spec.tiles[state.tiles[lane, tile].source]
    link = LINKS_PER_DEVICE * (device - 1) + link_kind
    time = source.load_time
    target = device
    if link_kind == TO_HOST:
        time = source.send_time
        target = HOST
    else:
        if link_kind == PEER:
            time = source.peer_time
        state.memories[lane, device].used += source.bytes
    state.copies[lane, tile, target].state = LOADING
    state.tiles[lane, tile].moving += 1
    state.links[lane, link] = tile
    header.moving += 1
    tiles = spec.machine[0].tiles
    record(state, lane, MOVE, tile % tiles, tile // tiles, link_kind, spec.machine[0].processors + link)
    schedule(state.heap, lane, link_slot(spec, link), header.now + time)


@kernel
def start_loads(spec, state, lane, node):
    """Start the loads of a device for the staged tasks of its processor, in their order."""
    processor = spec.nodes[node].processor
    first_link = LINKS_PER_DEVICE * (node - 1)
    state.memories[lane, node].write_back = -1
    for index in range(state.processors[lane, processor].runs, staged_count(spec, state, lane, processor)):
        task = staged_task(state, lane, processor, index)
        source = spec.tasks[state.tasks[lane, task].source]
        for access in range(source.first_access, source.first_access + source.accesses):
            tile = tile_at(spec, state, lane, task, access)
            if state.copies[lane, tile, node].state != ABSENT:
                continue
            size = spec.tiles[state.tiles[lane, tile].source].bytes
            if spec.accesses[access].mode == WRITE:
                if not free_memory(spec, state, lane, node, size, index):
                    return
                state.copies[lane, tile, node].state = VALID
                state.memories[lane, node].used += size
                touch(state, lane, tile, node)
                continue
            link_kind = TO_DEVICE
            if state.copies[lane, tile, HOST].state != VALID:
                if not spec.machine[0].peer or lowest_device(state, lane, tile) == HOST:
                    continue
                link_kind = PEER
            if state.links[lane, first_link + link_kind] < 0:
                if not free_memory(spec, state, lane, node, size, index):
                    return
                start_transfer(spec, state, lane, tile, node, link_kind)


@kernel
def start_sends(spec, state, lane):
    """Start the transfers from devices to the host: write-backs first, then tiles that other processors read."""
    machine = spec.machine[0]
    for node in range(1, machine.devices + 1):
        tile = state.memories[lane, node].write_back
        if tile >= 0 and state.links[lane, LINKS_PER_DEVICE * (node - 1) + TO_HOST] < 0:
            start_transfer(spec, state, lane, tile, node, TO_HOST)
    for processor in range(machine.processors):
        node = spec.processors[processor].node
        if node != HOST and machine.peer:
            continue
        for index in range(state.processors[lane, processor].runs, staged_count(spec, state, lane, processor)):
            task = staged_task(state, lane, processor, index)
            source = spec.tasks[state.tasks[lane, task].source]
            for access in range(source.first_access, source.first_access + source.accesses):
                tile = tile_at(spec, state, lane, task, access)
                if spec.accesses[access].mode != WRITE:
                    send_if_needed(spec, state, lane, tile, node)
                elif node == HOST and state.copies[lane, tile, HOST].state == ABSENT:
                    state.copies[lane, tile, HOST].state = VALID
                    touch(state, lane, tile, HOST)


@inlined
def send_if_needed(spec, state, lane, tile, node):
    """Start the transfer of a tile to the host if neither the host nor `node` has it."""
    copies = state.copies[lane, tile]
    if copies[HOST].state == ABSENT and copies[node].state == ABSENT:
        device = lowest_device(state, lane, tile)
        if device != HOST and state.links[lane, LINKS_PER_DEVICE * (device - 1) + TO_HOST] < 0:
            start_transfer(spec, state, lane, tile, device, TO_HOST)
