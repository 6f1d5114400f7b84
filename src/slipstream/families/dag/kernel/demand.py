"""Compiled demand of stages for executors, and which stages are ready to receive some.

The demand of a stage is the number of its tasks not started minus the executors moving or committed to it. Each stage
counts its parents with positive demand, so the readiness test is O(1); the counts change when a demand becomes 0 or
positive.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined, kernel


@inlined
def add_demand(spec, state, lane, job, stage, change):
    """Add `change` to the demand of a stage; update its children where the demand becomes 0 or positive."""
    own = state.stages[lane, job, stage]
    state.jobs[lane, job].dirty = 1
    before = own.demand
    own.demand = before + change
    if (before > 0) != (before + change > 0):
        update_open_parents(spec, state, lane, job, stage, -1 if before > 0 else 1)


@kernel
def update_open_parents(spec, state, lane, job, stage, change):
    """Add `change` to the number of parents with positive demand of each child of a stage."""
    source = spec.stages[state.jobs[lane, job].first_stage + stage]
    for offset in range(source.first_child, source.first_child + source.children):
        state.stages[lane, job, spec.children[offset]].open_parents += change


@kernel
def assign(spec, state, lane, job, stage, count):
    """Add `count`, possibly negative, to the executors moving or committed to a stage; decrease its demand by it."""
    state.stages[lane, job, stage].assigned += count
    add_demand(spec, state, lane, job, stage, -count)


@inlined
def is_ready(state, lane, job, stage):
    """Return whether a stage has positive demand and no parent of it has."""
    own = state.stages[lane, job, stage]
    return own.demand > 0 and own.open_parents == 0


@inlined
def can_be_chosen(state, lane, job, stage):
    """Return whether a stage is ready and was not chosen in this round."""
    chosen_before = state.stages[lane, job, stage].selected == state.lanes[lane].round_number
    return is_ready(state, lane, job, stage) and not chosen_before


@kernel
def anything_to_choose(state, lane):
    """Return whether any stage can be chosen."""
    for index in range(state.lanes[lane].active):
        job = state.order[lane, index]
        for stage in range(state.jobs[lane, job].stages):
            if can_be_chosen(state, lane, job, stage):
                return True
    return False


@kernel
def find_backup_stage(state, lane, current):
    """Return a stage for an executor whose target stage has no task left, as job * S + stage; -1 if there is none.

    The first ready stage of the executor's `current` job, otherwise of the oldest other job that has one.
    """
    width = state.stages.shape[2]
    for stage in range(state.jobs[lane, current].stages):
        if not state.jobs[lane, current].done and is_ready(state, lane, current, stage):
            return current * width + stage
    for index in range(state.lanes[lane].active):
        job = state.order[lane, index]
        if job != current:
            for stage in range(state.jobs[lane, job].stages):
                if is_ready(state, lane, job, stage):
                    return job * width + stage
    return -1
