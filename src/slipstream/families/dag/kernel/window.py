"""Compiled candidate list, in the order of its rows, and the jobs in the observation window.

If all jobs fit, all are shown. Otherwise the source's own job is taken first, then the oldest, then those with the
least work left; stages outside the window are listed after the others, for compiled policies, which see all.
"""

from __future__ import annotations

from slipstream.families.dag.kernel.demand import can_be_chosen
from slipstream.jit.decorators import inlined, kernel


@kernel
def list_job(state, lane, job, count):
    """Append the stages of a job that can be chosen at `count`; return the length of the list."""
    width = state.stages.shape[2]
    for stage in range(state.jobs[lane, job].stages):
        if can_be_chosen(state, lane, job, stage):
            state.candidates[lane, count] = job * width + stage
            count += 1
    return count


@kernel
def refresh_work(spec, state, lane, job):
    """Recompute the tasks and the expected work of a job not started; cheaper here than at every task start."""
    owner = state.jobs[lane, job]
    if owner.dirty:
        owner.work = 0
        owner.tasks = 0
        for stage in range(owner.stages):
            remaining = state.stages[lane, job, stage].remaining
            owner.tasks += remaining
            owner.work += remaining * spec.stages[owner.first_stage + stage].duration


@inlined
def has_less_work(state, lane, job, other):
    """Return whether `job` has less work left than `other`; ties go to the older one."""
    one, two = state.jobs[lane, job], state.jobs[lane, other]
    return one.work < two.work or (one.work == two.work and one.rank < two.rank)


@kernel
def sort_by_work(state, lane):
    """Sort the jobs by work left and store the jobs and work before each; insertion sort, as few change ranks."""
    jobs = state.by_work[lane]
    work = 0
    for index in range(state.lanes[lane].active):
        job, target = jobs[index], index
        while target > 0 and has_less_work(state, lane, job, jobs[target - 1]):
            jobs[target] = jobs[target - 1]
            target -= 1
        jobs[target] = job
    for index in range(state.lanes[lane].active):
        owner = state.jobs[lane, jobs[index]]
        owner.jobs_before = index
        owner.work_before = work
        work += owner.work


@kernel
def list_candidates(spec, state, lane):
    """List the stages that can be chosen: those of jobs in the window first, each part by arrival and stage."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    count, nodes, edges = 0, 0, 0
    header.work = 0
    for index in range(header.active):
        job = state.order[lane, index]
        owner = state.jobs[lane, job]
        refresh_work(spec, state, lane, job)
        header.work += owner.work
        owner.shown = 1
        owner.window_rank = index
        owner.rank = index
        nodes += owner.left
        edges += owner.edges
        count = list_job(state, lane, job, count)
    sort_by_work(state, lane)
    header.candidates = count
    header.shown = count
    fits = count <= machine.window_candidates and nodes <= machine.window_nodes and edges <= machine.window_edges
    # A change of the window changes the graph.
    if header.shown_jobs != header.active:
        header.graph_stale = 1
    header.shown_jobs = header.active
    if not fits:
        choose_window(spec, state, lane)
        list_window_first(state, lane)
        header.graph_stale = 1


@kernel
def choose_window(spec, state, lane):
    """Mark the jobs that fit in the observation window."""
    header = state.lanes[lane]
    for index in range(header.active):
        state.jobs[lane, state.order[lane, index]].shown = -1
    machine = spec.machine[0]
    candidates, nodes, edges = machine.window_candidates, machine.window_nodes, machine.window_edges
    for number in range(header.active):
        job = next_job(state, lane, number)
        owner = state.jobs[lane, job]
        # The space after the list is scratch space: only the number of stages is needed.
        own = list_job(state, lane, job, header.candidates) - header.candidates
        fits = own <= candidates and owner.left <= nodes and owner.edges <= edges
        owner.shown = 1 if fits else 0
        if fits:
            candidates -= own
            nodes -= owner.left
            edges -= owner.edges


@kernel
def next_job(state, lane, number):
    """Return the next job to show, the `number`-th: the source's, the oldest, then by work left."""
    header = state.lanes[lane]
    best = -1
    for index in range(header.active):
        job = state.order[lane, index]
        if state.jobs[lane, job].shown == -1:
            if number == 0 and job == header.source_job:
                return job
            if best < 0 or (number > 1 and state.jobs[lane, job].work < state.jobs[lane, best].work):
                best = job
    return best


@kernel
def list_window_first(state, lane):
    """List the stages of the jobs in the observation window, then those of the others."""
    header = state.lanes[lane]
    count, jobs = 0, 0
    for index in range(header.active):
        owner = state.jobs[lane, state.order[lane, index]]
        if owner.shown:
            owner.window_rank = jobs
            jobs += 1
            count = list_job(state, lane, state.order[lane, index], count)
    header.shown = count
    header.shown_jobs = jobs
    for index in range(header.active):
        if not state.jobs[lane, state.order[lane, index]].shown:
            count = list_job(state, lane, state.order[lane, index], count)
