"""Paged KV memory, compiled: free blocks in the order in which they were freed, and the prefix cache.

Without the prefix cache blocks differ in nothing, so only their number is kept. With it, the blocks of a request form a
chain from its last to its first. A free block keeps its key, by which it is found again until it is used for other
tokens; the block that has been free for longest is used first, since vLLM 0.23 after those without a key. Of blocks
with equal tokens the one that was entered first is found.
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.rng import mix

OWN = np.uint64(0xA24BAED4963EE407)
SHARED = np.uint64(0x9FB21C651E98DF25)
ONE = np.uint64(1)
NO_KEY = np.uint64(0)
UNKEYED_FIRST = 23
"""Minor version of vLLM from which on freed blocks without a key are used before all others."""


@kernel
def clear_blocks(spec, state, lane, engine):
    """Free all blocks of an engine and forget their keys."""
    own = state.engines[lane, engine]
    own.free = spec.machine[0].blocks
    own.head, own.tail = -1, -1
    if spec.machine[0].prefix:
        for bucket in range(state.buckets.shape[2]):
            state.buckets[lane, engine, bucket] = -1
        for block in range(spec.machine[0].blocks):
            state.blocks[lane, engine, block].key = NO_KEY
            state.blocks[lane, engine, block].users = 0
            append_free(state, lane, engine, block)


@inlined
def append_free(state, lane, engine, block):
    """Append a block to the list of free ones."""
    own, entry = state.engines[lane, engine], state.blocks[lane, engine, block]
    entry.next = -1
    entry.previous = own.tail
    if own.tail >= 0:
        state.blocks[lane, engine, own.tail].next = block
    else:
        own.head = block
    own.tail = block


@inlined
def insert_free(state, lane, engine, block, before):
    """Insert a block into the list of free ones after `before`, or at its head if that is -1."""
    own, entry = state.engines[lane, engine], state.blocks[lane, engine, block]
    following = own.head if before < 0 else state.blocks[lane, engine, before].next
    entry.previous, entry.next = before, following
    if before >= 0:
        state.blocks[lane, engine, before].next = block
    else:
        own.head = block
    if following >= 0:
        state.blocks[lane, engine, following].previous = block
    else:
        own.tail = block


@inlined
def unlink_free(state, lane, engine, block):
    """Take a block out of the list of free ones."""
    own, entry = state.engines[lane, engine], state.blocks[lane, engine, block]
    if entry.previous >= 0:
        state.blocks[lane, engine, entry.previous].next = entry.next
    else:
        own.head = entry.next
    if entry.next >= 0:
        state.blocks[lane, engine, entry.next].previous = entry.previous
    else:
        own.tail = entry.previous


# Keys


@kernel
def shared_blocks(spec, request):
    """Return how many blocks of a request begin with tokens that other requests may have."""
    machine = spec.machine[0]
    tokens = machine.prefix_tokens
    if machine.listed:
        tokens = spec.listed[request.source].hashes * machine.hash_tokens
    return min(request.prompt, tokens) // machine.block_tokens


@kernel
def block_key(spec, number, request, shared, index):
    """Return the key of block `index` of request `number`: of its piece if it is shared, else its own."""
    machine = spec.machine[0]
    if index >= shared:
        key = mix(mix(OWN + np.uint64(number)) + np.uint64(index))
    elif machine.listed:
        number_of_piece = index // machine.piece_blocks
        piece = spec.hashes[spec.listed[request.source].first_hash + number_of_piece]
        key = mix(mix(piece + SHARED) + np.uint64(index - number_of_piece * machine.piece_blocks))
    else:
        key = mix(mix(np.uint64(request.source) + SHARED) + np.uint64(index))
    return key | ONE


@inlined
def find_block(state, lane, engine, key):
    """Return the block with a key, the first entered of several; -1 if the cache has none."""
    found = np.int32(-1)
    block = state.buckets[lane, engine, np.int64(key >> np.uint64(1)) & (state.buckets.shape[2] - 1)]
    while block >= 0:
        if state.blocks[lane, engine, block].key == key:
            found = block
        block = state.blocks[lane, engine, block].chain
    return found


@kernel
def enter_block(state, lane, engine, block, key):
    """Enter a block into the cache."""
    bucket = np.int64(key >> np.uint64(1)) & (state.buckets.shape[2] - 1)
    entry = state.blocks[lane, engine, block]
    entry.key = key
    entry.chain = state.buckets[lane, engine, bucket]
    state.buckets[lane, engine, bucket] = block


@kernel
def forget_block(state, lane, engine, block):
    """Remove a block from the cache."""
    entry = state.blocks[lane, engine, block]
    bucket = np.int64(entry.key >> np.uint64(1)) & (state.buckets.shape[2] - 1)
    entry.key = NO_KEY
    if state.buckets[lane, engine, bucket] == block:
        state.buckets[lane, engine, bucket] = entry.chain
        return
    before = state.buckets[lane, engine, bucket]
    while state.blocks[lane, engine, before].chain != block:
        before = state.blocks[lane, engine, before].chain
    state.blocks[lane, engine, before].chain = entry.chain


@kernel
def cached_blocks(spec, state, lane, engine, number):
    """Return how many blocks of a request the cache has, from the first on, and how many of these are free.

    At least one token of a request is computed, so the block of its last token is never found. Nor is a block in use
    that follows other blocks than those found.
    """
    hits, free = 0, 0
    if spec.machine[0].prefix:
        request = state.requests[lane, number]
        shared = shared_blocks(spec, request)
        before = -1
        for index in range((request.known - 1) // spec.machine[0].block_tokens):
            block = find_block(state, lane, engine, block_key(spec, number, request, shared, index))
            if block < 0:
                break
            entry = state.blocks[lane, engine, block]
            if entry.users == 0:
                free += 1
            elif entry.parent != before:
                break
            before = block
            hits += 1
    return hits, free


# Requests


@kernel
def take_cached(spec, state, lane, engine, number, hits):
    """Give a request the first `hits` blocks of its sequence from the cache."""
    own, request = state.engines[lane, engine], state.requests[lane, number]
    shared = shared_blocks(spec, request)
    for index in range(hits):
        block = find_block(state, lane, engine, block_key(spec, number, request, shared, index))
        entry = state.blocks[lane, engine, block]
        if entry.users == 0:
            unlink_free(state, lane, engine, block)
            own.free -= 1
            # A block without users may stem from a sequence whose earlier blocks are gone.
            entry.parent = request.tail
        entry.users += 1
        request.tail = block
    request.blocks = hits
    request.entered = hits


@kernel
def blocks_for(spec, tokens):
    """Return the blocks of a sequence of `tokens`."""
    return (tokens + spec.machine[0].block_tokens - 1) // spec.machine[0].block_tokens


@inlined
def needs_blocks(spec, request, tokens):
    """Return whether a sequence of `tokens` takes more blocks than the request has."""
    return tokens > request.blocks * spec.machine[0].block_tokens


@kernel
def allocate(spec, state, lane, engine, number, tokens):
    """Give a request the blocks of a sequence of `tokens`, and enter its full blocks of known tokens into the cache."""
    own, request = state.engines[lane, engine], state.requests[lane, number]
    # Most steps fill a block that is there: products decide that without a division.
    wanted = blocks_for(spec, tokens) if needs_blocks(spec, request, tokens) else request.blocks
    if not spec.machine[0].prefix:
        own.free -= wanted - request.blocks
        request.blocks = wanted
        return
    while request.blocks < wanted:
        block = own.head
        unlink_free(state, lane, engine, block)
        entry = state.blocks[lane, engine, block]
        if entry.key != NO_KEY:
            forget_block(state, lane, engine, block)
        entry.parent = request.tail
        entry.users = 1
        request.tail = block
        request.blocks += 1
        own.free -= 1
    known = min(tokens, request.known)
    if known >= (request.entered + 1) * spec.machine[0].block_tokens:
        full = known // spec.machine[0].block_tokens
        shared = shared_blocks(spec, request)
        block, index = request.tail, request.blocks - 1
        while index >= request.entered:
            if index < full:
                enter_block(state, lane, engine, block, block_key(spec, number, request, shared, index))
            block = state.blocks[lane, engine, block].parent
            index -= 1
        request.entered = full


@kernel
def release(spec, state, lane, engine, number):
    """Take all blocks from a request, the last one first; those without a key are then used first."""
    own, request = state.engines[lane, engine], state.requests[lane, number]
    before = np.int32(-1)
    if not spec.machine[0].prefix:
        own.free += request.blocks
    else:
        block = request.tail
        while block >= 0:
            entry = state.blocks[lane, engine, block]
            entry.users -= 1
            if entry.users == 0:
                if entry.key == NO_KEY and spec.machine[0].version >= UNKEYED_FIRST:
                    insert_free(state, lane, engine, block, before)
                    before = block
                else:
                    append_free(state, lane, engine, block)
                own.free += 1
            block = entry.parent
    request.blocks = 0
    request.entered = 0
    request.tail = -1
