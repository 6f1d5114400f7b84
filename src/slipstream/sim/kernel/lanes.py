"""Lanes: many simulated machines in one struct, stepped by compiled code that is independent of the family.

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
from slipstream.sim.kernel.observation import mark_all_legal, put_static_rows
from slipstream.sim.kernel.rng import episode_key, next_seed, stream_key, uniform

ASKING, TERMINATED, TRUNCATED, LOG_FULL, PENDING = 0, 1, 2, 3, 4
"""Status of a lane that returned control: a decision is due, all work is done, the horizon is reached, the log must be
flushed, or, where the lane follows a device, no further event has happened there yet. A new episode has the status of
one whose log was flushed."""

LOG_MARGIN = 8
"""Rows kept free in the log so that one event and the decision before it fit; families may need more."""

RULE_ON_DISPATCH, RULE_ON_ALL, CHOICE, PLAIN_RULE = 0, 1, 2, 3
"""Forms of compiled policies: a score per dispatch row, a score per legal row, a function of the whole observation, or
a score per dispatch row that reads no on-demand column."""

COINS = 0
"""The stream of random numbers for randomised policies."""

LANE_FIELDS: list[tuple[str, str]] = [
    ("now", "i8"),
    ("seed", "i8"),
    ("split", "i8"),
    ("key", "u8"),
    ("status", "i8"),
    ("asked", "i8"),  # resource that a decision is due for, -1 if none
    ("choices", "i8"),  # decisions of this episode, the one that is due included
    ("events", "i8"),  # events applied in this episode
    ("step_began", "i8"),  # time of the previous decision
    ("elapsed", "i8"),  # time between the last two decisions
    ("reward", "f8"),  # of the last step
    ("illegal", "i8"),  # 1 if the last action was not allowed and counted as wait
    ("mistakes", "i8"),  # actions of this episode that were not allowed
    ("log_rows", "i8"),  # rows of the event log not yet flushed
    ("clock", "i8"),  # time on the device that the lane follows; 0 in a simulation
]
"""First fields of every family's lane record; times in ns."""

SIMPLE_FIELDS: list[tuple[str, str]] = [
    *LANE_FIELDS,
    ("parked", "i8"),  # events applied when the last decision was to wait, -1 if none was
]
"""First fields of the lane record of families that use the defaults of `act` and `resume`."""


@family_function
def begin(spec, state, lane, seed, split):
    """Initialise `lane` for the episode of `seed` and `split`; apply no event."""


@family_function
def act(spec, state, lane, action):
    """Apply `action`, the index of a candidate row."""


@family_function
def resume(spec, state, lane):
    """Run to the next decision or to the end of the episode; also after a flush of the event log."""


@family_function
def decision_due(spec, state, lane):
    """Return whether a decision is due now; called by the default of `resume`."""


@family_function
def apply(spec, state, lane, slot, duration):
    """Apply the event of the heap's `slot`, `duration` ns after the previous one; called by the default of `resume`."""


@family_function
def dispatch(spec, state, lane, row):
    """Apply the decision of `row`, which is not the wait row; called by the default of `act`."""


@family_function
def prepare(spec, state, buffer):
    """Write the constant columns into every entry of `buffer`."""


@family_function
def observe(spec, state, lane, buffer, index, afresh):
    """Write globals, rows and mask of the decision that is due into entry `index` of `buffer`.

    Also writes the packed indices of the legal rows, their counts and, if the buffer has graph arrays, the graph.
    Unless `afresh`, the entry still holds the lane's last observation and only changes need to be written.
    """


@family_function
def lanes_at_once(spec, state):
    """Return the number of lanes to step before they are observed, so that prefetches overlap with computation."""


@family_function
def prefetch_state(spec, state, lane):
    """Prefetch the state that the next step of `lane` reads."""


@family_function
def prefetch_rows(spec, state, lane, buffer, index):
    """Prefetch the buffer rows that the next observation of `lane` writes."""


@family_function
def list_legal(spec, state, lane, buffer, index, form):
    """Write only the legal rows, their packed indices and their counts.

    For rules on dispatch rows (`form`) the other rows may be left out; for plain rules, the on-demand columns too.
    """


@family_function
def summarise(spec, state, lane, buffer, index):
    """Write only the globals."""


@family_function
def resample(spec, state, lane, key):
    """Redraw, from the random `key`, everything of the episode that a policy cannot know at the present decision.

    What has arrived, begun or ended stays, and so does what is public: laws, rates, profiles and estimates. What has
    not arrived yet, how long running work still takes, and when the episode ends if that was drawn, are drawn anew from
    the scenario's distributions, given what was seen.
    """


@family_function
def limit_arrivals(spec, state, lane, count):
    """Limit the jobs to come to `count`: the episode ends when these are done."""


@kernel
def one_lane_at_once(spec, state):
    """Return 1: several large lanes would not fit the processor's caches."""
    return 1


@kernel
def limit_nothing(spec, state, lane, count):
    """Limit nothing: futures of families whose episodes end by time are cut by time."""


@kernel
def prefetch_nothing(*_):
    """Issue no prefetch."""


@kernel
def prepare_static_rows(spec, state, buffer):
    """Write the rows `spec.static_rows` into every entry of `buffer`."""
    put_static_rows(spec, buffer)


@kernel
def list_all(spec, state, lane, buffer, index, form):
    """Mark every row legal while a decision is due; rows are constant."""
    mark_all_legal(buffer, index, state.lanes[lane].status == ASKING)


@kernel
def observe_all(spec, state, lane, buffer, index, afresh):
    """Write globals, rows and mask of the present decision, whether or not they changed."""
    summarise(spec, state, lane, buffer, index)
    list_legal(spec, state, lane, buffer, index, RULE_ON_ALL)


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
    resample: Any = None
    """Redraws the unknown rest of an episode; without it, policies that simulate ahead refuse the family."""
    limit_arrivals: Any = limit_nothing

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
            (resample, self.resample),
            (limit_arrivals, self.limit_arrivals),
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
    """Start the episode of `seed` and `split` and run to its first decision."""
    begin(spec, state, lane, seed, split)
    resume(spec, state, lane)


@kernel
def advance(spec, state, lane, action):
    """Apply `action` and run to the next decision or to the end of the episode."""
    act(spec, state, lane, action)
    resume(spec, state, lane)


def lane_arrays(lanes: int, log_rows: int, lane: np.dtype, slots: int, terms: int) -> dict[str, np.ndarray]:
    """Return the arrays of state that every family has, for `slots` of the event heap and `terms` of the reward."""
    return {
        "lanes": np.zeros(lanes, lane),
        "heap": empty_heap(lanes, slots),
        "terms": np.zeros((lanes, terms)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


@kernel
def record(state, lane, kind, task, job, variant, resource):
    """Append a row at the present time to the lane's event log, if it keeps one."""
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
    """Return whether the log must be flushed before the next event, which may write up to `margin` rows."""
    capacity = state.log.shape[1]
    return capacity > 0 and state.lanes[lane].log_rows + margin > capacity


@inlined
def begin_episode(header, seed, split):
    """Set the common fields of a lane record to the beginning of the episode of `seed` and `split`."""
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
    """Initialise record, event heap and reward terms of `lane` for the episode of `seed` and `split`."""
    begin_episode(state.lanes[lane], seed, split)
    clear(state.heap, lane)
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0


@kernel
def begin_step(state, lane):
    """Reset the reward terms for the next step; the first step keeps those accrued before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        for term in range(state.terms.shape[1]):
            state.terms[lane, term] = 0.0


@kernel
def exponential_time(header, stream, counter, mean):
    """Return draw `counter` of the episode's random `stream`: an exponential time in whole ns, at least 1."""
    return rng.exponential_time(stream_key(header.key, stream), counter, mean)


@inlined
def toss_coin(header):
    """Return the uniform random number in (0, 1) of this decision, for randomised policies."""
    return uniform(stream_key(header.key, COINS), header.choices - 1)


@kernel
def end_episode(state, lane, status):
    """Set the lane's final `status` and append the end row to the log."""
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
    """Run under a compiled policy until the episode ends, the log is full, or `choices` decisions were made."""
    header = state.lanes[lane]
    midway = header.status == LOG_FULL
    while midway or (header.status == ASKING and choices > 0):
        if not midway:
            act(spec, state, lane, choose(spec, state, lane, buffer, form, address))
            choices -= 1
        midway = False
        # The only call site: a second one would compile the whole simulator into this function twice.
        resume(spec, state, lane)
    return header.status


@entry
def choose_lanes(spec, state, buffer, form, address, actions):
    """Write the action of a compiled policy for every lane with a decision due."""
    for lane in range(actions.shape[0]):
        if state.lanes[lane].status == ASKING:
            actions[lane] = choose(spec, state, lane, buffer, form, address)


@kernel
def report(state, lane, buffer, stepped):
    """Write reward, times and flags of the lane's last step; after a reset, reward and elapsed time are 0."""
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
    """Reset the lanes marked in `chosen`; a negative seed means the successor of the lane's last seed."""
    for lane in range(chosen.shape[0]):
        if chosen[lane]:
            seed = seeds[lane]
            if seed < 0:
                seed = next_seed(state.lanes[lane].seed)
            reset(spec, state, lane, seed, split)
            report(state, lane, buffer, False)
            observe(spec, state, lane, buffer, lane, False)


@entry
def report_lane(spec, state, lane, buffer, stepped):
    """Write the outcome of the lane's last step and its present observation into its entry of `buffer`."""
    report(state, lane, buffer, stepped)
    observe(spec, state, lane, buffer, lane, False)


@entry
def step_lanes(spec, state, buffer, actions, autoreset):
    """Step every lane; with `autoreset`, a lane whose episode is over starts the next episode instead."""
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
    """Resume every lane whose full log has been flushed; `stepped` tells whether a step or a reset filled it."""
    for lane in range(state.lanes.shape[0]):
        if state.lanes[lane].status == LOG_FULL:
            resume(spec, state, lane)
            report(state, lane, buffer, stepped)
            observe(spec, state, lane, buffer, lane, False)


@entry
def prepare_buffer(spec, state, buffer):
    """Write the constant columns of a new buffer."""
    prepare(spec, state, buffer)


@entry
def observe_lane(spec, state, lane, buffer, index):
    """Write the present observation of `lane` into entry `index` of `buffer`."""
    observe(spec, state, lane, buffer, index, True)


@entry
def start_lane(spec, state, lane, seed, split):
    """Start an episode in one lane and run it to its first decision."""
    reset(spec, state, lane, seed, split)


@entry
def begin_lane(spec, state, lane, seed, split):
    """Start an episode in one lane without running it."""
    begin(spec, state, lane, seed, split)


@entry
def resample_lane(spec, state, lane, key):
    """Redraw the unknown rest of the episode in one lane."""
    resample(spec, state, lane, np.uint64(key))


@entry
def step_lane(spec, state, lane, action):
    """Apply one action in one lane and run to the next decision."""
    advance(spec, state, lane, action)


@entry
def resume_lane(spec, state, lane):
    """Resume one lane after its log was flushed."""
    resume(spec, state, lane)
