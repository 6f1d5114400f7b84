"""Lanes: many simulated machines in one struct, stepped by compiled code that knows no family.

A family implements the functions declared here for its own state, and lists them as `KernelFunctions` in its
`members.py`. Everything that runs a lane (the Gymnasium environments, whole episodes under a compiled policy, the
device) calls them through these drivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import FamilyError
from slipstream.jit.decorators import entry, family_function, implement, inlined, kernel
from slipstream.jit.funcptr import call_choice, call_rule
from slipstream.jit.structs import make_struct
from slipstream.sim.eventlog import END, EVENT
from slipstream.sim.kernel import rng
from slipstream.sim.kernel.heap import clear, earliest_slot, earliest_time, empty_heap
from slipstream.sim.kernel.observation import allow_all, put_static_rows
from slipstream.sim.kernel.rng import episode_key, next_seed, stream_key, uniform

ASKING, TERMINATED, TRUNCATED, LOG_FULL, PENDING = 0, 1, 2, 3, 4
"""Why a lane handed control back: a choice is due, the work ended, the clock ended, the log must be flushed, or, where
the lane follows a device, nothing more has happened there yet. An episode that has only begun can go on as one whose
log was flushed."""

LOG_MARGIN = 8
"""Rows kept free in the log so that one event, with the choice before it, fits; families may need more."""

RULE_ON_DISPATCH, RULE_ON_ALL, CHOICE, PLAIN_RULE = 0, 1, 2, 3
"""How a compiled policy decides: a score per dispatch row, a score per legal row, one look at everything, or a score
per dispatch row that needs no column on demand."""

COINS = 0
"""The stream of random numbers that policies draw lots with."""

LANE_FIELDS: list[tuple[str, str]] = [
    ("now", "i8"),
    ("seed", "i8"),
    ("split", "i8"),
    ("key", "u8"),
    ("status", "i8"),
    ("asked", "i8"),  # resource that a choice is due for, -1 if none
    ("choices", "i8"),  # choices asked so far in this episode
    ("events", "i8"),  # events applied so far in this episode
    ("step_began", "i8"),  # time of the previous choice
    ("elapsed", "i8"),  # time between the last two choices
    ("reward", "f8"),  # of the last step
    ("illegal", "i8"),  # 1 if the last action was not allowed and counted as wait
    ("mistakes", "i8"),  # actions of this episode that were not allowed
    ("log_rows", "i8"),  # rows of the event log not yet flushed
    ("clock", "i8"),  # what the clock of the device shows that the lane follows; 0 in a simulation
]
"""What every family's lane record starts with; times in ns."""

SIMPLE_FIELDS: list[tuple[str, str]] = [
    *LANE_FIELDS,
    ("parked", "i8"),  # number of events applied when waiting was chosen last, -1 before
]
"""The same, for families that use the defaults of `act` and `resume`."""


@family_function
def begin(spec, state, lane, seed, split):
    """Start an episode, in which nothing has happened yet."""


@family_function
def act(spec, state, lane, action):
    """Apply a choice."""


@family_function
def resume(spec, state, lane):
    """Run to the next choice, or to the end; or go on with that after the event log was flushed."""


@family_function
def decision_due(spec, state, lane):
    """Return whether there is something to decide now; called by the default of `resume`."""


@family_function
def apply(spec, state, lane, slot, duration):
    """Apply the event of a slot of the heap, now, `duration` ns after the last; called by the default of `resume`."""


@family_function
def dispatch(spec, state, lane, row):
    """Do what a row other than the last stands for; called by the default of `act`."""


@family_function
def prepare(spec, state, buffer):
    """Write the columns that never change, once, into every slot of the buffer."""


@family_function
def observe(spec, state, lane, buffer, slot, afresh):
    """Write globals, rows and mask of the present choice.

    Where the buffer has room for a graph, write that too, and the packed indices of the legal rows and their counts.
    Unless `afresh`, the slot still shows the lane's last choice and only what changed since needs to be written.
    """


@family_function
def lanes_at_once(spec, state):
    """Return how many lanes to step before they are observed: while some are stepped, memory for others can come."""


@family_function
def prefetch_state(spec, state, lane):
    """Ask the processor for what the next step of a lane will look at."""


@family_function
def prefetch_rows(spec, state, lane, buffer, slot):
    """Ask the processor for what the next look at the lane will write."""


@family_function
def list_legal(spec, state, lane, buffer, slot, form):
    """Write only the legal rows, their packed indices and their counts.

    For rules on dispatch rows the others may be left out; for plain ones, the columns on demand as well.
    """


@family_function
def summarise(spec, state, lane, buffer, slot):
    """Write only the globals."""


@kernel
def one_lane_at_once(spec, state):
    """Return 1: where lanes are large, several would not fit the fast caches."""
    return 1


@kernel
def prefetch_nothing(*_):
    """Leave it to the processor."""


@kernel
def prepare_static_rows(spec, state, buffer):
    """Write the rows `spec.static_rows`, once, into every slot of the buffer."""
    put_static_rows(spec, buffer)


@kernel
def list_all(spec, state, lane, buffer, slot, form):
    """Allow every row while a decision is due; rows never change."""
    allow_all(buffer, slot, state.lanes[lane].status == ASKING)


@kernel
def observe_all(spec, state, lane, buffer, slot, afresh):
    """Write globals, rows and mask of the present decision, all of them again."""
    summarise(spec, state, lane, buffer, slot)
    list_legal(spec, state, lane, buffer, slot, RULE_ON_ALL)


@kernel
def act_by_rows(spec, state, lane, action):
    """Dispatch the row `action`; the last row, and any action that is no row, waits for the next event."""
    header = state.lanes[lane]
    wait = spec.static_rows.shape[0] - 1
    begin_step(state, lane)
    header.illegal = 0 if 0 <= action <= wait else 1
    header.mistakes += header.illegal
    if 0 <= action < wait:
        dispatch(spec, state, lane, action)
    else:
        header.parked = header.events


@kernel
def resume_by_events(spec, state, lane):
    """Apply events in order of time until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status, header.asked = ASKING, -1
    while header.status == ASKING:
        if log_is_full(state, lane, LOG_MARGIN):
            header.status = LOG_FULL
            return
        time = earliest_time(state.heap, lane)
        if time > header.now and header.parked != header.events and decision_due(spec, state, lane):
            header.asked = 0
            header.choices += 1
            break
        duration = time - header.now
        header.now = time
        header.events += 1
        apply(spec, state, lane, earliest_slot(state.heap, lane, time), duration)
    header.reward = 0.0
    for term in range(state.terms.shape[1]):
        header.reward += spec.weights[term] * state.terms[lane, term]
    header.elapsed = header.now - header.step_began


@dataclass(frozen=True, kw_only=True)
class KernelFunctions:
    """The compiled functions of a family, each an implementation of the function of the same name declared above.

    Every family lists its own in its `members.py`; those with a default are optional. The defaults are for families
    with one resource to decide about, whose rows never change: the spec then has `static_rows` (A, F), the last of
    which waits, and `weights`, one for each reward term; the state has what `lane_arrays` returns, with `SIMPLE_FIELDS`
    in the record of a lane; the family writes `dispatch`, `apply` and `decision_due`.
    """

    spec_type: type
    """Compiled type of the struct of arrays that do not change during an episode."""
    state_type: type
    """Compiled type of the struct of arrays that change; it chooses among implementations."""

    begin: Any
    act: Any = act_by_rows
    dispatch: Any = None
    resume: Any = resume_by_events
    apply: Any = None
    decision_due: Any = None
    prepare: Any = prepare_static_rows
    observe: Any = observe_all
    list_legal: Any = list_all
    summarise: Any
    lanes_at_once: Any = one_lane_at_once
    prefetch_state: Any = prefetch_nothing
    prefetch_rows: Any = prefetch_nothing

    def __post_init__(self) -> None:
        """Refuse a default without the functions that it calls."""
        needs = ((act_by_rows, self.act, ("dispatch",)), (resume_by_events, self.resume, ("apply", "decision_due")))
        for default, used, names in needs:
            missing = [name for name in names if vars(self)[name] is None]
            if used is default and missing:
                instead = "act" if used is act_by_rows else "resume"
                raise FamilyError(f"compiled function '{missing[0]}' is missing: expected it, or '{instead}'")

    def register(self) -> None:
        """Make compiled callers of the declared functions choose these where the state is of `state_type`."""
        for declared, implementation in (
            (begin, self.begin),
            (act, self.act),
            (dispatch, self.dispatch),
            (resume, self.resume),
            (apply, self.apply),
            (decision_due, self.decision_due),
            (prepare, self.prepare),
            (observe, self.observe),
            (list_legal, self.list_legal),
            (summarise, self.summarise),
            (lanes_at_once, self.lanes_at_once),
            (prefetch_state, self.prefetch_state),
            (prefetch_rows, self.prefetch_rows),
        ):
            if implementation is not None:
                implement(declared, self.state_type, implementation)

    def spec_of(self, arrays: dict[str, np.ndarray]) -> Any:
        """Return the specification struct over `arrays`."""
        return make_struct(self.spec_type, arrays)

    def state_of(self, arrays: dict[str, np.ndarray]) -> Any:
        """Return the state struct over `arrays`."""
        return make_struct(self.state_type, arrays)


@kernel
def reset(spec, state, lane, seed, split):
    """Start an episode and run to its first choice."""
    begin(spec, state, lane, seed, split)
    resume(spec, state, lane)


@kernel
def advance(spec, state, lane, action):
    """Apply a choice and run to the next one, or to the end."""
    act(spec, state, lane, action)
    resume(spec, state, lane)


def lane_arrays(lanes: int, log_rows: int, lane: np.dtype, slots: int, terms: int) -> dict[str, np.ndarray]:
    """Return the arrays of state that every family has: `slots` of the event heap and `terms` of the reward each."""
    return {
        "lanes": np.zeros(lanes, lane),
        "heap": empty_heap(lanes, slots),
        "terms": np.zeros((lanes, terms)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


@kernel
def record(state, lane, kind, task, job, variant, resource):
    """Append a row to the lane's event log, if it keeps one."""
    if state.log.shape[1] == 0:
        return
    header = state.lanes[lane]
    row = state.log[lane, header.log_rows]
    row.time = header.now
    row.kind = kind
    row.task = task
    row.job = job
    row.variant = variant
    row.resource = resource
    header.log_rows += 1


@inlined
def log_is_full(state, lane, margin):
    """Return whether the log must be flushed before the next event, which may fill so many rows."""
    room = state.log.shape[1]
    return room > 0 and state.lanes[lane].log_rows + margin > room


@inlined
def begin_episode(header, seed, split):
    """Set what every lane's record starts with to the beginning of an episode."""
    header.now = 0
    header.seed = seed
    header.split = split
    header.key = episode_key(split, seed)
    header.status = LOG_FULL
    header.choices = 0
    header.events = 0
    header.step_began = 0
    header.illegal = 0
    header.mistakes = 0
    header.log_rows = 0


@kernel
def clear_lane(state, lane, seed, split):
    """Set the record, the event heap and the reward terms of a lane to the beginning of an episode."""
    begin_episode(state.lanes[lane], seed, split)
    clear(state.heap, lane)
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0


@kernel
def begin_step(state, lane):
    """Set the reward terms to 0 and note the time, at a decision; the first step also gets what came before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        for term in range(state.terms.shape[1]):
            state.terms[lane, term] = 0.0


@kernel
def exponential_time(header, stream, counter, mean):
    """Return an exponential time in whole ns, at least 1, drawn from a stream of the episode by its counter."""
    return rng.exponential_time(stream_key(header.key, stream), counter, mean)


@inlined
def toss_coin(header):
    """Return the number from 0 to 1 that belongs to this choice, for policies that draw lots."""
    return uniform(stream_key(header.key, COINS), header.choices - 1)


@kernel
def end_episode(state, lane, status):
    """Let the episode be over, and say so in the log."""
    state.lanes[lane].status = status
    record(state, lane, END, -1, -1, -1, -1)


@kernel
def choose(spec, state, lane, buffer, form, address):
    """Return the action of the compiled policy at `address`."""
    if form == CHOICE:
        observe(spec, state, lane, buffer, 0, True)
        return call_choice(address, buffer.globals[0], buffer.rows[0], buffer.mask[0])
    list_legal(spec, state, lane, buffer, 0, form)
    scored = buffer.counts[0, 1] if form == RULE_ON_ALL else buffer.counts[0, 0]
    best = np.int64(buffer.mask.shape[1] - 1)
    best_score = -np.inf
    rows, legal = buffer.rows[0], buffer.legal[0]
    for position in range(scored):
        row = legal[position]
        score = call_rule(address, rows[row])
        if score > best_score:
            best = np.int64(row)
            best_score = score
    return best


@entry
def run(spec, state, lane, buffer, form, address, choices):
    """Play under a compiled policy until the episode ends, the log is full, or `choices` were made."""
    header = state.lanes[lane]
    midway = header.status == LOG_FULL
    while midway or (header.status == ASKING and choices > 0):
        if not midway:
            act(spec, state, lane, choose(spec, state, lane, buffer, form, address))
            choices -= 1
        midway = False
        # The only call: whoever calls the whole machine twice has it compiled twice.
        resume(spec, state, lane)
    return header.status


@entry
def choose_lanes(spec, state, buffer, form, address, actions):
    """Write the action of a compiled policy for every lane that is asked."""
    for lane in range(actions.shape[0]):
        if state.lanes[lane].status == ASKING:
            actions[lane] = choose(spec, state, lane, buffer, form, address)


@kernel
def report(state, lane, buffer, stepped):
    """Write how the lane's step came out; where none was made, what a reset gathered belongs to the first step."""
    header = state.lanes[lane]
    if not stepped:
        header.reward = 0.0
        header.elapsed = 0
        header.illegal = 0
    buffer.reward[lane] = header.reward
    buffer.elapsed[lane] = header.elapsed
    buffer.time[lane] = header.now
    buffer.terminated[lane] = header.status == TERMINATED
    buffer.truncated[lane] = header.status == TRUNCATED
    buffer.illegal[lane] = header.illegal != 0


@entry
def reset_lanes(spec, state, buffer, chosen, seeds, split):
    """Reset the lanes marked in `chosen`; a negative seed means the one derived from the lane's last."""
    for lane in range(chosen.shape[0]):
        if chosen[lane]:
            seed = seeds[lane]
            if seed < 0:
                seed = next_seed(state.lanes[lane].seed)
            reset(spec, state, lane, seed, split)
            report(state, lane, buffer, False)
            observe(spec, state, lane, buffer, lane, False)


@entry
def step_lanes(spec, state, buffer, actions, autoreset):
    """Step every lane; with `autoreset`, a lane whose episode is over starts the next one instead."""
    lanes, at_once = actions.shape[0], lanes_at_once(spec, state)
    for first in range(0, lanes, at_once):
        last = min(first + at_once, lanes)
        for lane in range(first, last):
            header = state.lanes[lane]
            stepped = header.status == ASKING
            if stepped:
                act(spec, state, lane, actions[lane])
            elif autoreset:
                begin(spec, state, lane, next_seed(header.seed), header.split)
            if stepped or autoreset:
                resume(spec, state, lane)
            report(state, lane, buffer, stepped)
            prefetch_rows(spec, state, lane, buffer, lane)
        for lane in range(first, last):
            prefetch_state(spec, state, min(lane + at_once, lanes - 1))
            observe(spec, state, lane, buffer, lane, False)


@entry
def resume_lanes(spec, state, buffer, stepped):
    """Go on in every lane whose log was full and is flushed now; `stepped` says whether a step or a reset filled it."""
    for lane in range(state.lanes.shape[0]):
        if state.lanes[lane].status == LOG_FULL:
            resume(spec, state, lane)
            report(state, lane, buffer, stepped)
            observe(spec, state, lane, buffer, lane, False)


@entry
def prepare_buffer(spec, state, buffer):
    """Write the unchanging columns of a new buffer."""
    prepare(spec, state, buffer)


@entry
def observe_lane(spec, state, lane, buffer, slot):
    """Write what the lane shows now."""
    observe(spec, state, lane, buffer, slot, True)


@entry
def start_lane(spec, state, lane, seed, split):
    """Start an episode in one lane and run it to its first choice."""
    reset(spec, state, lane, seed, split)


@entry
def begin_lane(spec, state, lane, seed, split):
    """Start an episode in one lane; whoever plays it lets it go on."""
    begin(spec, state, lane, seed, split)


@entry
def step_lane(spec, state, lane, action):
    """Apply one choice in one lane."""
    advance(spec, state, lane, action)


@entry
def resume_lane(spec, state, lane):
    """Go on in one lane after its log was flushed."""
    resume(spec, state, lane)
