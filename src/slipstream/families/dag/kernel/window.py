"""The stages that can be chosen, compiled, in the order of their rows, and the jobs that an observation has room for.

As a rule all jobs are shown. Where they are too many, the source's own job comes first, then the oldest, then those
with the least work left; what has no room is listed behind, for compiled policies, which see everything.
"""

from __future__ import annotations

from slipstream.families.dag.kernel.demand import can_be_chosen
from slipstream.jit.decorators import inlined, kernel


@kernel
def list_job(state, lane, job, count):
    """Append the stages of a job that can be chosen; return the length of the list."""
    width = state.stages.shape[2]
    for stage in range(state.jobs[lane, job].stages):
        if can_be_chosen(state, lane, job, stage):
            state.candidates[lane, count] = job * width + stage
            count += 1
    return count


@kernel
def count_work(spec, state, lane, job):
    """Count what a job has before it; doing so here costs less than with every task that starts."""
    owner = state.jobs[lane, job]
    if owner.touched:
        owner.work = 0
        owner.tasks = 0
        for stage in range(owner.stages):
            remaining = state.stages[lane, job, stage].remaining
            owner.tasks += remaining
            owner.work += remaining * spec.stages[owner.first_stage + stage].duration


@inlined
def goes_before(state, lane, job, other):
    """Return whether a job has less work left than another; of equals, the older one comes first."""
    one, two = state.jobs[lane, job], state.jobs[lane, other]
    return one.work < two.work or (one.work == two.work and one.place < two.place)


@kernel
def rank_by_work(state, lane):
    """Bring the jobs into the order of their work left, and note what lies before each; few move between choices."""
    jobs = state.by_work[lane]
    work = 0
    for place in range(state.lanes[lane].active):
        job, goal = jobs[place], place
        while goal > 0 and goes_before(state, lane, job, jobs[goal - 1]):
            jobs[goal] = jobs[goal - 1]
            goal -= 1
        jobs[goal] = job
    for place in range(state.lanes[lane].active):
        owner = state.jobs[lane, jobs[place]]
        owner.jobs_before = place
        owner.work_before = work
        work += owner.work


@kernel
def list_candidates(spec, state, lane):
    """List the stages that can be chosen: those of jobs in the window first, both parts by arrival and stage."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    count, nodes, edges = 0, 0, 0
    header.work = 0
    for place in range(header.active):
        job = state.order[lane, place]
        owner = state.jobs[lane, job]
        count_work(spec, state, lane, job)
        header.work += owner.work
        owner.shown = 1
        owner.rank = place
        owner.place = place
        nodes += owner.left
        edges += owner.edges
        count = list_job(state, lane, job, count)
    rank_by_work(state, lane)
    header.candidates = count
    header.shown = count
    fits = count <= machine.window_candidates and nodes <= machine.window_nodes and edges <= machine.window_edges
    # As long as the window stays the same the graph does too, but for what comes and goes.
    if header.shown_jobs != header.active:
        header.graph_stale = 1
    header.shown_jobs = header.active
    if not fits:
        choose_window(spec, state, lane)
        list_in_two_parts(state, lane)
        header.graph_stale = 1


@kernel
def choose_window(spec, state, lane):
    """Mark the jobs that the observation shows."""
    header = state.lanes[lane]
    for place in range(header.active):
        state.jobs[lane, state.order[lane, place]].shown = -1
    room = (spec.machine[0].window_candidates, spec.machine[0].window_nodes, spec.machine[0].window_edges)
    candidates, nodes, edges = room
    for turn in range(header.active):
        job = next_job(state, lane, turn)
        owner = state.jobs[lane, job]
        # The end of the list is scratch space: only how many there are matters here.
        own = list_job(state, lane, job, header.candidates) - header.candidates
        fits = own <= candidates and owner.left <= nodes and owner.edges <= edges
        owner.shown = 1 if fits else 0
        if fits:
            candidates -= own
            nodes -= owner.left
            edges -= owner.edges


@kernel
def next_job(state, lane, turn):
    """Return the job whose turn it is to be shown: the source's, the oldest, then by work left."""
    header = state.lanes[lane]
    best = -1
    for place in range(header.active):
        job = state.order[lane, place]
        if state.jobs[lane, job].shown == -1:
            if turn == 0 and job == header.source_job:
                return job
            if best < 0 or (turn > 1 and state.jobs[lane, job].work < state.jobs[lane, best].work):
                best = job
    return best


@kernel
def list_in_two_parts(state, lane):
    """List the stages of the jobs in the window, then those of the others."""
    header = state.lanes[lane]
    count, jobs = 0, 0
    for place in range(header.active):
        owner = state.jobs[lane, state.order[lane, place]]
        if owner.shown:
            owner.rank = jobs
            jobs += 1
            count = list_job(state, lane, state.order[lane, place], count)
    header.shown = count
    header.shown_jobs = jobs
    for place in range(header.active):
        if not state.jobs[lane, state.order[lane, place]].shown:
            count = list_job(state, lane, state.order[lane, place], count)
