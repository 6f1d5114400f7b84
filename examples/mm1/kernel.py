"""The compiled queue: its arrays, its events and decisions, and what a policy may know of it."""

import numpy as np
from numba import types

from mm1 import features as f
from mm1.scenario import QueueScenario
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.jit.decorators import kernel
from slipstream.jit.structs import struct
from slipstream.sim.eventlog import ARRIVAL, FINISH, START
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import SIMPLE_FIELDS, TRUNCATED, clear_lane, end_episode, exponential_time, record
from slipstream.sim.kernel.observation import put

QUEUE = np.dtype([("horizon", "i8"), ("mean_gap", "f8")])
LANE = np.dtype([*SIMPLE_FIELDS, ("arrived", "i8"), ("started", "i8"), ("service", "i8")], align=True)
FINISHES, ARRIVES, ENDS = range(3)  # slots of the event heap: simultaneous events are applied in this order
GAPS, SERVICES = 1, 2  # streams of random numbers; stream 0 belongs to policies
WAITING, ENERGY = range(2)  # reward terms


@struct("queue", "static_rows", "weights")
class SpecType(types.StructRef):
    """What does not change: queue (1), static_rows (3, F): slow, fast and wait, weights (2) of the reward terms."""


@struct("lanes", "heap", "terms", "log")
class StateType(types.StructRef):
    """What changes: lanes (L), heap (L, H), terms (L, 2), log (L, R)."""


def spec_arrays(scenario: QueueScenario) -> dict[str, np.ndarray]:
    """Return the arrays that do not change during an episode; times in ns."""
    queue = np.array([(nanoseconds_of(scenario.horizon_s), nanoseconds_of(scenario.mean_gap_s))], QUEUE)
    slow = (1.0, nanoseconds_of(scenario.slow_s), 0.0)
    fast = (1.0, nanoseconds_of(scenario.fast_s), scenario.fast_energy_j)
    return {"queue": queue, "static_rows": np.array([slow, fast, (0.0, 0.0, 0.0)]), "weights": np.array([-1.0, -1.0])}


@kernel
def begin(spec, state, lane, seed, split):
    """Start an episode: the server is free, and the first arrival and the end are scheduled."""
    clear_lane(state, lane, seed, split)
    header = state.lanes[lane]
    header.arrived, header.started, header.service, header.parked = 0, 0, -1, -1
    schedule(state.heap, lane, ARRIVES, exponential_time(header, GAPS, 0, spec.queue[0].mean_gap))
    schedule(state.heap, lane, ENDS, spec.queue[0].horizon)


@kernel
def apply(spec, state, lane, slot, duration):
    """Count the waiting of the last `duration` ns, then apply an event."""
    header = state.lanes[lane]
    state.terms[lane, WAITING] += (header.arrived - header.started) * duration / 1e9
    if slot == FINISHES:
        record(state, lane, FINISH, 0, header.started - 1, header.service, 0)
        header.service = -1
        schedule(state.heap, lane, FINISHES, NEVER)
    elif slot == ARRIVES:
        record(state, lane, ARRIVAL, 0, header.arrived, -1, -1)
        header.arrived += 1
        gap = exponential_time(header, GAPS, header.arrived, spec.queue[0].mean_gap)
        schedule(state.heap, lane, ARRIVES, header.now + gap)
    else:
        end_episode(state, lane, TRUNCATED)


@kernel
def decision_due(spec, state, lane):
    """Return whether the server is free and a job waits."""
    return state.lanes[lane].service < 0 and state.lanes[lane].started < state.lanes[lane].arrived


@kernel
def dispatch(spec, state, lane, row):
    """Start the job that came first, slowly or fast."""
    header = state.lanes[lane]
    record(state, lane, START, 0, header.started, row, 0)
    time = exponential_time(header, SERVICES, header.started, spec.static_rows[row, f.SERVICE])
    schedule(state.heap, lane, FINISHES, header.now + time)
    state.terms[lane, ENERGY] += spec.static_rows[row, f.ENERGY]
    header.service = row
    header.started += 1


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the globals; all else that a policy sees are the static rows."""
    waiting = state.lanes[lane].arrived - state.lanes[lane].started
    put(buffer.globals[slot], buffer.global_image, f.WAITING, waiting)
