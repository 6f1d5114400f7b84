"""Small mistakes that could have been made in the kernel of elastic jobs: the comparison must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

COMPAT = "families/elastic/kernel/compat.py"
EVENTS = "families/elastic/kernel/events.py"
LIFECYCLE = "families/elastic/kernel/lifecycle.py"
OBSERVATION = "families/elastic/kernel/observation.py"
ROUNDS = "families/elastic/kernel/rounds.py"
BUILD = "families/elastic/build.py"

MUTANTS = [
    # Jobs
    Mutant("a job arrives with nothing to do", LIFECYCLE, "job.left = spec.templates[template].work", "job.left = 1.0"),
    Mutant("set-ups are forgotten", LIFECYCLE, "job.since = header.now + setup", "job.since = header.now", quick=True),
    Mutant("every start is the first", LIFECYCLE, "    job.started = 1\n", "    job.started = 0\n"),
    Mutant(
        "restarts take as long as starts",
        LIFECYCLE,
        "template.restart if job.started else template.start",
        "template.start",
    ),
    Mutant("a job that keeps its GPUs pays", LIFECYCLE, "    if job.runs == index:\n", "    if job.runs == -7:\n"),
    Mutant("restarts are not counted", LIFECYCLE, "        header.restarted += 1\n", "        header.restarted += 0\n"),
    Mutant("a job has its restarts forgotten", LIFECYCLE, "        job.restarts += 1\n", "        job.restarts += 0\n"),
    Mutant("progress is lost at a change", LIFECYCLE, "max(0.0, job.left - (", "max(0.0, job.left - 0.0 * ("),
    Mutant("set-ups count as progress", LIFECYCLE, "    if header.now > job.since:\n", "    if header.now > 0:\n"),
    Mutant("progress is counted twice", LIFECYCLE, "        job.since = header.now\n", "        pass\n", quick=True),
    Mutant("GPU time is time", LIFECYCLE, "own.gpus * (header.now - job.since)", "(header.now - job.since)"),
    Mutant(
        "a preempted job ends all the same",
        LIFECYCLE,
        "job.runs, job.setting_up = NOWHERE, 0\n    schedule(state.heap, lane, number, NEVER)",
        "job.runs, job.setting_up = NOWHERE, 0",
    ),
    Mutant(
        "ends come a nanosecond early",
        LIFECYCLE,
        "header.now + int(math.ceil(job.left",
        "header.now + int(math.floor(job.left",
    ),
    Mutant(
        "a set-up is followed by another",
        LIFECYCLE,
        "        job.setting_up = 0\n        record_run",
        "        job.setting_up = 1\n        record_run",
    ),
    Mutant(
        "the first job leaves when any ends",
        LIFECYCLE,
        "    while state.active[lane, place] != number:\n",
        "    while state.active[lane, place] < 0:\n",
    ),
    # Events
    Mutant(
        "rounds go on without jobs",
        EVENTS,
        "        if header.active == 0:\n            schedule",
        "        if header.active < 0:\n            schedule",
    ),
    Mutant("arrivals always begin a round", EVENTS, "if machine.at_events or pending", "if True or pending"),
    Mutant(
        "arrivals never begin a round",
        EVENTS,
        "if machine.at_events or pending(state.heap, lane, round_slot(state)) == NEVER:",
        "if machine.at_events:",
    ),
    Mutant(
        "ends never begin a round",
        EVENTS,
        "        if machine.at_events:\n            header.due = 1",
        "        if machine.at_events:\n            header.due = 0",
    ),
    Mutant(
        "time of all jobs counts once",
        EVENTS,
        "header.job_time += header.active *",
        "header.job_time += min(header.active, 1) *",
    ),
    Mutant("restarts cost nothing", EVENTS, "machine.restart_weight * header.restarted", "0.0 * header.restarted"),
    Mutant(
        "the first step forgets what was before", EVENTS, "    if header.choices > 1:\n", "    if header.choices > 0:\n"
    ),
    Mutant(
        "illegal waits are not noticed",
        EVENTS,
        "(waits and is_wait(machine, action)) else 1",
        "is_wait(machine, action) else 1",
    ),
    Mutant(
        "illegal actions take the first row",
        EVENTS,
        "waits = candidate < 0 and may_wait(header)",
        "waits = is_wait(machine, action) and may_wait(header)",
    ),
    # Rounds
    Mutant(
        "GPUs are not free for the next round",
        ROUNDS,
        "state.free[lane, kind] = spec.kinds[kind].gpus",
        "state.free[lane, kind] = max(1, spec.kinds[kind].gpus - header.active)",
    ),
    Mutant("jobs have GPUs twice", ROUNDS, "        if job.next != NOWHERE:\n            continue\n", "", quick=True),
    Mutant("what just fits does not fit", ROUNDS, "if own.gpus <= state.free", "if own.gpus < state.free"),
    Mutant(
        "a job has one GPU too few", ROUNDS, "state.free[lane, own.kind] -= own.gpus", "state.free[lane, own.kind] -= 1"
    ),
    Mutant("free GPUs are not counted", ROUNDS, "    header.free_gpus -= own.gpus\n", ""),
    Mutant("placed jobs are not counted", ROUNDS, "    header.placed += 1\n", "    header.placed += 0\n"),
    Mutant(
        "waiting is always allowed", ROUNDS, "return header.placed > 0 or header.arrived < header.jobs", "return True"
    ),
    Mutant(
        "jobs keep what they had",
        ROUNDS,
        "if job.runs != NOWHERE and job.runs != job.next:",
        "if job.runs != NOWHERE and job.next == NOWHERE:",
    ),
    Mutant(
        "all jobs are interrupted",
        ROUNDS,
        "if job.runs != NOWHERE and job.runs != job.next:",
        "if job.runs != NOWHERE:",
    ),
    Mutant(
        "rounds are as long as the longest job",
        ROUNDS,
        "header.now + longest if longest > 0 else NEVER",
        "header.now + machine.round_length",
    ),
    Mutant("rounds are not counted", ROUNDS, "    header.rounds += 1\n", ""),
    # Gavel
    Mutant(
        "steps are broken",
        COMPAT,
        "float(int(rate * (machine.round_length / 1e9)))",
        "rate * (machine.round_length / 1e9)",
    ),
    Mutant(
        "jobs do more steps than they have", COMPAT, ", job.left)\n    job.quota_time", ", 1e9)\n    job.quota_time"
    ),
    Mutant("steps are done over and over", COMPAT, "job.quota, job.quota_time = 0.0, 0", "job.quota_time = 0"),
    # Rows
    Mutant(
        "the set-up under way looks whole",
        OBSERVATION,
        "        setup = job.since - header.now\n",
        "        setup = setup\n",
    ),
    Mutant(
        "the time to the end does not count set-ups",
        OBSERVATION,
        "setup + job.left / own.rate * 1e9",
        "job.left / own.rate * 1e9",
    ),
    Mutant(
        "the order is the number", OBSERVATION, "put(row, image, f.ORDER, order)", "put(row, image, f.ORDER, number)"
    ),
    Mutant("speed is not relative", OBSERVATION, "own.rate / template.best", "own.rate"),
    # Arrivals
    Mutant("no job comes at the beginning", BUILD, "drawn.initial_jobs\n", "0\n"),
]
