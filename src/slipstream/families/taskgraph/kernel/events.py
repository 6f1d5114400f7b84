"""Compiled event loop of the taskgraph simulator. `docs/taskgraph-machine.md` specifies its behaviour.

State changes only by an event (`apply`) or by a decision (`decide`). After either, all transfers and tasks that can
start do so. A simulated lane takes all events from the heap. A lane that follows an engine takes arrivals and the ends
of transfers from it as its clock passes them; the ends of tasks are put there when the engine reports them
(`engine/lane.py`).
"""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.memory import start_loads, start_sends, touch
from slipstream.families.taskgraph.kernel.slots import arrival_slot, link_slot
from slipstream.families.taskgraph.kernel.state import (
    ABSENT,
    CHOOSE_PROCESSOR,
    CHOOSE_QUEUED,
    CHOOSE_TASK,
    HIDDEN,
    HOST,
    LINKS_PER_DEVICE,
    MAKESPAN,
    SEE_ALL,
    SEE_PARENTS,
    TO_HOST,
    VALID,
)
from slipstream.families.taskgraph.kernel.tasks import (
    can_start,
    enqueue,
    finish,
    retry,
    reveal,
    start,
    submit,
    take_queued,
    take_ready,
)
from slipstream.families.taskgraph.kernel.window import list_candidates
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, READY
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.sim.kernel.job_stream import FIRST_JOB_STREAM, begin_stream, next_arrival, template_of
from slipstream.sim.kernel.lanes import (
    ASKING,
    LOG_FULL,
    PENDING,
    TERMINATED,
    begin_episode,
    end_episode,
    log_is_full,
    record,
)
from slipstream.sim.kernel.rng import stream_key
from slipstream.sim.kernel.window import candidate_of, is_wait

# Arrivals


@kernel
def arrive(spec, state, lane):
    """Add the next job to the system: draw its template, reset its tiles and tasks, schedule the next arrival."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    job = header.arrived
    template = template_of(spec, header)
    source, owner = spec.templates[template], state.jobs[lane, job]
    owner.key = stream_key(header.key, FIRST_JOB_STREAM + job)
    owner.first_task = source.first_task
    owner.tasks = source.tasks
    owner.submitted = 0
    owner.finished = 0
    owner.oldest = 0
    for tile in range(source.tiles):
        reset_tile(state, lane, job * machine.tiles + tile, source.first_tile + tile)
    for tile in range(source.tiles, machine.tiles):
        # Clears tiles of a larger graph of an earlier episode.
        for node in range(state.copies.shape[2]):
            state.copies[lane, job * machine.tiles + tile, node].state = ABSENT
    for processor in range(machine.processors):
        state.taken[lane, job, processor] = 0
    header.arrived += 1
    record(state, lane, ARRIVAL, template, job, -1, -1)
    for task in range(source.tasks):
        reset_task(spec, state.tasks[lane, job * machine.tasks + task], source.first_task + task, job)
    reveal_initial_tasks(spec, state, lane, job)
    schedule(state.heap, lane, arrival_slot(spec, state), next_arrival(spec, header))


@inlined
def reset_tile(state, lane, tile, source):
    """Reset a tile to a single valid copy at the host."""
    own = state.tiles[lane, tile]
    own.source = source
    own.moving = 0
    own.uses = 0
    own.next_user = 0
    for node in range(state.copies.shape[2]):
        copy = state.copies[lane, tile, node]
        copy.state = VALID if node == HOST else ABSENT
        copy.queued = 0
        copy.touched = 0


@inlined
def reset_task(spec, own, source, job):
    """Reset a task to hidden, waiting for all its parents."""
    own.source = source
    own.job = job
    own.status = HIDDEN
    own.waits_for = spec.tasks[source].parents
    own.rank = spec.tasks[source].average
    own.path_after = 0
    if spec.machine[0].visibility == SEE_ALL:
        own.rank = spec.tasks[source].rank
        own.path_after = spec.tasks[source].path_after


@kernel
def reveal_initial_tasks(spec, state, lane, job):
    """Reveal the tasks of a new job that are visible at its arrival."""
    first = job * spec.machine[0].tasks
    if spec.machine[0].visibility != SEE_PARENTS:
        submit(spec, state, lane, job)
        return
    for task in range(first, first + state.jobs[lane, job].tasks):
        if state.tasks[lane, task].waits_for == 0:
            reveal(spec, state, lane, task)


# Events


@kernel
def end_transfer(spec, state, lane, link):
    """End the transfer of a link: its tile is valid at the target node."""
    header = state.lanes[lane]
    tile = state.links[lane, link]
    link_kind = link % LINKS_PER_DEVICE
    node = HOST if link_kind == TO_HOST else 1 + link // LINKS_PER_DEVICE
    schedule(state.heap, lane, link_slot(spec, link), NEVER)
    state.links[lane, link] = -1
    header.moving -= 1
    state.tiles[lane, tile].moving -= 1
    state.copies[lane, tile, node].state = VALID
    touch(state, lane, tile, node)
    tiles = spec.machine[0].tiles
    record(state, lane, READY, tile % tiles, tile // tiles, link_kind, spec.machine[0].processors + link)


@kernel
def apply(spec, state, lane):
    """Advance the clock to the next event and apply it."""
    header = state.lanes[lane]
    time = earliest_time(state.heap, lane)
    event_slot = earliest_slot(state.heap, lane, time)
    header.now = time
    header.events += 1
    if event_slot < spec.machine[0].processors:
        if state.processors[lane, event_slot].failed:
            retry(spec, state, lane, event_slot)
        else:
            finish(spec, state, lane, event_slot)
    elif event_slot < arrival_slot(spec, state):
        end_transfer(spec, state, lane, event_slot - spec.machine[0].processors)
    else:
        arrive(spec, state, lane)
    start_transfers_and_tasks(spec, state, lane)


@kernel
def start_transfers_and_tasks(spec, state, lane):
    """Start all loads, sends and held tasks that can start now."""
    machine = spec.machine[0]
    if machine.transfers:
        for node in range(1, machine.devices + 1):
            start_loads(spec, state, lane, node)
        start_sends(spec, state, lane)
    for processor in range(machine.processors):
        worker = state.processors[lane, processor]
        if worker.held > 0 and not worker.runs:
            task = state.holds[lane, processor, 0]
            if not machine.transfers or can_start(spec, state, lane, task, spec.processors[processor].node):
                start(spec, state, lane, processor)


@kernel
def end_step(spec, state, lane):
    """Compute the reward term, the reward and the duration of the step that ends now."""
    header = state.lanes[lane]
    state.terms[lane, MAKESPAN] = (header.now - header.step_counted) / 1e6
    header.reward = -spec.machine[0].makespan * state.terms[lane, MAKESPAN]
    header.elapsed = header.now - header.step_began


@kernel
def resume(spec, state, lane):
    """Apply events until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            header.status = LOG_FULL
            return
        if header.done == header.jobs:
            header.asked = -1
            end_episode(state, lane, TERMINATED)
            break
        if find_decision(spec, state, lane):
            header.choices += 1
            list_candidates(spec, state, lane)
            break
        if not take_single_queued(spec, state, lane):
            if header.clock > 0 and earliest_time(state.heap, lane) > header.clock:
                header.status = PENDING
                return
            apply(spec, state, lane)
    end_step(spec, state, lane)


# Decisions


@inlined
def can_take(spec, state, lane, processor):
    """Return whether a processor can hold one more task and did not decide to wait since the last event."""
    worker = state.processors[lane, processor]
    return worker.held < spec.machine[0].pipeline and worker.waited_at != state.lanes[lane].events


@kernel
def find_decision(spec, state, lane):
    """Set the task or processor of the next decision; return whether a decision is due."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.asked_task = -1
    if machine.push:
        for index in range(header.ready):
            task = state.ready[lane, index]
            if state.tasks[lane, task].waited_at != header.events:
                header.phase = CHOOSE_PROCESSOR
                header.asked_task = task
                state.tasks[lane, task].list_index = index
                header.asked = spec.tasks[state.tasks[lane, task].source].number
                return True
    elif header.ready == 0:
        return False
    for processor in range(machine.processors):
        if can_take(spec, state, lane, processor):
            queued = state.processors[lane, processor].queued
            if not machine.push or queued > 1:
                header.phase = CHOOSE_QUEUED if machine.push else CHOOSE_TASK
                header.asked = processor
                return True
            if queued == 1:
                return False
    return False


@kernel
def take_single_queued(spec, state, lane):
    """Move the only queued task of the first free processor to its held tasks; return whether there is one."""
    if spec.machine[0].push:
        for processor in range(spec.machine[0].processors):
            if state.processors[lane, processor].queued == 1 and can_take(spec, state, lane, processor):
                take_queued(spec, state, lane, processor, 0)
                start_transfers_and_tasks(spec, state, lane)
                return True
    return False


@kernel
def may_wait(spec, state, lane):
    """Return whether the deciding task or processor may wait: an event is pending or another one can still decide now.

    Only the last one that can decide must choose, so results do not depend on the order of processors. Processors
    before the deciding one already wait or can take nothing.
    """
    header = state.lanes[lane]
    # Where the lane follows an engine, the ends of running tasks are not in the heap.
    if header.running > 0 or earliest_time(state.heap, lane) < NEVER:
        return True
    if header.phase == CHOOSE_PROCESSOR:
        # A queued task will be taken; otherwise another ready task must remain that can decide.
        if header.placed > 0:
            return True
        for index in range(state.tasks[lane, header.asked_task].list_index + 1, header.ready):
            if state.tasks[lane, state.ready[lane, index]].waited_at != header.events:
                return True
        return False
    for processor in range(header.asked + 1, spec.machine[0].processors):
        has_any = header.phase == CHOOSE_TASK or state.processors[lane, processor].queued > 0
        if has_any and can_take(spec, state, lane, processor):
            return True
    return False


@kernel
def decide(spec, state, lane, action):
    """Apply `action`; an illegal one counts as waiting or, where waiting is illegal, as the first row."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.illegal = 0
    index = candidate_of(spec, state, lane, action)
    waits = index < 0 and may_wait(spec, state, lane)
    if index < 0 and not (waits and is_wait(machine, action)):
        header.illegal = 1
    header.mistakes += header.illegal
    if waits:
        if header.phase == CHOOSE_PROCESSOR:
            state.tasks[lane, header.asked_task].waited_at = header.events
        else:
            state.processors[lane, header.asked].waited_at = header.events
        return
    chosen = state.candidates[lane, max(index, 0)]
    if header.phase == CHOOSE_PROCESSOR:
        enqueue(spec, state, lane, header.asked_task, chosen)
    elif header.phase == CHOOSE_TASK:
        take_ready(spec, state, lane, chosen, header.asked)
    else:
        take_queued(spec, state, lane, header.asked, state.tasks[lane, chosen].list_index)
    start_transfers_and_tasks(spec, state, lane)


@kernel
def act(spec, state, lane, action):
    """Apply `action` and begin a step; the first step also counts the time before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.step_counted = header.now
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Reset a lane and start the episode of `seed` in `split`."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    begin_stream(spec, header)
    header.phase = CHOOSE_TASK
    header.asked_task = -1
    header.done = 0
    header.finished = 0
    header.visible = 0
    header.work_left = 0
    header.ready = 0
    header.placed = 0
    header.running = 0
    header.moving = 0
    header.touches = 0
    header.candidates = 0
    header.shown = 0
    header.listed = 0
    header.ranks_stale = 0
    header.step_counted = 0
    clear(state.heap, lane)
    for processor in range(machine.processors):
        worker = state.processors[lane, processor]
        worker.held = 0
        worker.queued = 0
        worker.runs = 0
        worker.failed = 0
        worker.waited_at = -1
        worker.expected_end = 0
        worker.work = 0
    for node in range(state.memories.shape[1]):
        state.memories[lane, node].used = 0
        state.memories[lane, node].write_back = -1
    for link in range(state.links.shape[1]):
        state.links[lane, link] = -1
    schedule(state.heap, lane, arrival_slot(spec, state), next_arrival(spec, header))
