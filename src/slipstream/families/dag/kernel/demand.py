"""How many more executors stages could use, compiled, and which stages are ready to be given some.

A stage's demand is its tasks not started, less the executors that are on their way or committed to it. Each stage
counts its parents with a demand, so that whether it is ready takes one look; the counts change when a demand reaches 0
or leaves it.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined, kernel


@inlined
def add_demand(spec, state, lane, job, stage, change):
    """Change a stage's demand; its children count it as long as there is any."""
    own = state.stages[lane, job, stage]
    state.jobs[lane, job].touched = 1
    before = own.demand
    own.demand = before + change
    if (before > 0) != (before + change > 0):
        tell_children(spec, state, lane, job, stage, -1 if before > 0 else 1)


@kernel
def tell_children(spec, state, lane, job, stage, change):
    """Change how many parents with a demand each child has."""
    source = spec.stages[state.jobs[lane, job].first_stage + stage]
    for place in range(source.first_child, source.first_child + source.children):
        state.stages[lane, job, spec.children[place]].open_parents += change


@kernel
def assign(spec, state, lane, job, stage, count):
    """Count executors that are now on their way or committed to a stage; fewer if negative."""
    state.stages[lane, job, stage].assigned += count
    add_demand(spec, state, lane, job, stage, -count)


@inlined
def is_ready(state, lane, job, stage):
    """Return whether a stage could use executors, and no parent of it could."""
    own = state.stages[lane, job, stage]
    return own.demand > 0 and own.open_parents == 0


@inlined
def can_be_chosen(state, lane, job, stage):
    """Return whether a stage can be chosen now."""
    chosen_before = state.stages[lane, job, stage].selected == state.lanes[lane].round_number
    return is_ready(state, lane, job, stage) and not chosen_before


@kernel
def anything_to_choose(state, lane):
    """Return whether any stage can be chosen."""
    for place in range(state.lanes[lane].active):
        job = state.order[lane, place]
        for stage in range(state.jobs[lane, job].stages):
            if can_be_chosen(state, lane, job, stage):
                return True
    return False


@kernel
def find_backup(state, lane, home):
    """Return a stage for an executor that is not needed where it was sent, as slot * S + stage, -1 if there is none.

    The first ready one of the job where it is, else of the oldest other job that has one.
    """
    width = state.stages.shape[2]
    for stage in range(state.jobs[lane, home].stages):
        if not state.jobs[lane, home].done and is_ready(state, lane, home, stage):
            return home * width + stage
    for place in range(state.lanes[lane].active):
        job = state.order[lane, place]
        if job != home:
            for stage in range(state.jobs[lane, job].stages):
                if is_ready(state, lane, job, stage):
                    return job * width + stage
    return -1
