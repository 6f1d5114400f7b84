"""The life of a job, compiled: arrival, start, set-up, progress, preemption and end."""

from __future__ import annotations

import math

from slipstream.families.elastic.kernel.compat import do_quota
from slipstream.families.elastic.kernel.state import NOWHERE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, FINISH, PREEMPT, READY, START, TAKE
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.job_stream import next_arrival, template_of
from slipstream.sim.kernel.lanes import record


@inlined
def arrival_slot(state):
    """Return the event slot of the next arrival; the slots before it belong to the jobs."""
    return state.jobs.shape[1]


@inlined
def round_slot(state):
    """Return the event slot of the end of the round."""
    return state.jobs.shape[1] + 1


@inlined
def configuration_of(spec, job, index):
    """Return the configuration `index` of a job."""
    return spec.configurations[spec.templates[job.template].first + index]


@kernel
def record_run(spec, state, lane, kind, number):
    """Append a row about a job and the GPUs that it has to the event log."""
    job = state.jobs[lane, number]
    own = configuration_of(spec, job, job.runs)
    record(state, lane, kind, own.gpus, number, job.runs, own.kind)


@kernel
def arrive(spec, state, lane):
    """Apply an arrival: the job joins the unfinished ones, without GPUs."""
    header = state.lanes[lane]
    template = template_of(spec, header)
    job = state.jobs[lane, header.arrived]
    job.arrival, job.since = header.now, header.now
    job.template = template
    job.left = spec.templates[template].work
    job.quota, job.quota_time, job.ran, job.received = 0.0, 0, 0, 0
    job.runs, job.next, job.setting_up, job.started, job.restarts = NOWHERE, NOWHERE, 0, 0, 0
    record(state, lane, ARRIVAL, template, header.arrived, -1, -1)
    state.active[lane, header.active] = header.arrived
    header.active += 1
    header.arrived += 1
    schedule(state.heap, lane, arrival_slot(state), next_arrival(spec, header))


@kernel
def setup_of(spec, job, index):
    """Return the time in ns for which a job would hold configuration `index` before it runs."""
    if job.runs == index:
        return 0
    template = spec.templates[job.template]
    return template.restart if job.started else template.start


@kernel
def bring_up_to_date(spec, state, lane, number):
    """Account for what a job with GPUs has done until now."""
    header, job = state.lanes[lane], state.jobs[lane, number]
    own = configuration_of(spec, job, job.runs)
    if spec.machine[0].compat:
        do_quota(job, own.gpus)
        return
    if header.now > job.since:
        job.left = max(0.0, job.left - (header.now - job.since) / 1e9 * own.rate)
        job.ran += header.now - job.since
        job.received += own.gpus * (header.now - job.since)
        job.since = header.now


@kernel
def schedule_end(spec, state, lane, number):
    """Schedule the end of a job that runs from now on."""
    header, job = state.lanes[lane], state.jobs[lane, number]
    rate = configuration_of(spec, job, job.runs).rate
    schedule(state.heap, lane, number, header.now + int(math.ceil(job.left / rate * 1e9)))


@kernel
def start(spec, state, lane, number):
    """Give a job the GPUs of its next configuration; it runs at once or after its set-up."""
    header, job = state.lanes[lane], state.jobs[lane, number]
    setup = setup_of(spec, job, job.next)
    job.runs = job.next
    if job.started:
        job.restarts += 1
        header.restarted += 1
    job.started = 1
    job.since = header.now + setup
    record_run(spec, state, lane, START, number)
    record_run(spec, state, lane, TAKE, number)
    if spec.machine[0].compat:
        return
    job.setting_up = 1 if setup > 0 else 0
    if setup > 0:
        schedule(state.heap, lane, number, job.since)
    else:
        schedule_end(spec, state, lane, number)


@kernel
def preempt(spec, state, lane, number):
    """Take the GPUs of a job."""
    job = state.jobs[lane, number]
    record_run(spec, state, lane, PREEMPT, number)
    job.runs, job.setting_up = NOWHERE, 0
    schedule(state.heap, lane, number, NEVER)


@kernel
def progress(spec, state, lane, number):
    """Apply the event of a job: its set-up is over, or it ends."""
    header, job = state.lanes[lane], state.jobs[lane, number]
    if job.setting_up:
        job.setting_up = 0
        record_run(spec, state, lane, READY, number)
        schedule_end(spec, state, lane, number)
        return
    bring_up_to_date(spec, state, lane, number)
    record_run(spec, state, lane, FINISH, number)
    job.left, job.runs = 0.0, NOWHERE
    schedule(state.heap, lane, number, NEVER)
    place = 0
    while state.active[lane, place] != number:
        place += 1
    header.active -= 1
    for index in range(place, header.active):
        state.active[lane, index] = state.active[lane, index + 1]
