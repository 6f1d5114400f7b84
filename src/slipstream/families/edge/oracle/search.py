"""Best reward of a short episode by branch and bound over decisions, in the simulator itself.

No separate model of the device is needed. Of two paths to the same state, the one with less reward is pruned; so is a
path whose reward plus the upper bound of the remaining reward does not exceed the best found.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from time import perf_counter

import numpy as np

from slipstream.families.edge.build import spec_arrays
from slipstream.families.edge.oracle.hindsight import (
    Job,
    best_rate,
    best_utilisation,
    on_time_value,
    runs_at_solo_speed,
)
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds
from slipstream.sim.kernel.heap import BLOCK
from slipstream.sim.simulator import Simulator

MOST_STATES = 2_000_000
"""Most states that are stored, a limit of memory."""
LEAST_GAIN = 1e-9
"""Rewards closer than this count as equal: sums of the same terms differ by rounding."""

LANE_HISTORY = (
    *("choices", "events", "step_began", "elapsed", "reward", "illegal", "mistakes", "log_rows"),
    *("finished", "missed", "busy_time", "step_busy_time", "joules", "step_joules"),
    *("dequeued_job", "dequeued_release", "dequeued_variant", "dequeued_stage", "dequeued_work", "dequeued_expected"),
    # No decision is in flight while one is due.
    *("chosen_task", "chosen_variant", "chosen_job", "chosen_stream", "chosen_events"),
    *("victim_task", "victim_job"),
)
TASK_HISTORY = ("finished", "stale", "head")
STREAM_HISTORY = ("parked",)
IDLE_STREAM_HISTORY = (*STREAM_HISTORY, "variant", "job", "release", "work", "expected", "demand", "rate", "updated")
"""Fields that do not affect the future. All other fields are part of a state's key."""
PARTLY_KEYED = ("lanes", "tasks", "queue", "streams", "heap")
"""Arrays of which only a part is in a state's key. All others are in it whole, except the terms of the last step."""

State = list[bytes]


def search(
    simulator: Simulator[EdgeScenario], jobs: list[Job], best: float, bound: float, until: float
) -> tuple[float, float, int]:
    """Return the best further reward found, at least `best`, its upper bound, at most `bound`, and the first action.

    The action is -1 if nothing exceeds `best`. Reward and bound are equal if the search was exhaustive: it stops when
    `best` meets `bound`, or at the time `until`. The simulator must keep no log; its final state is arbitrary.
    """
    snapshots, remaining_bound = _Snapshots(simulator), _UpperBound(simulator, jobs)
    earned = {snapshots.key(): 0.0}
    open_states = [(bound, 0.0, snapshots.key(), snapshots.save(), -1)] if simulator.asking else []
    best_first = -1
    while open_states and best < bound - LEAST_GAIN:
        if perf_counter() > until or len(earned) > MOST_STATES:
            return best, min(bound, max(best, *(upper for upper, *_ in open_states))), best_first
        upper, reward, key, state, root_action = open_states.pop()
        if upper <= best + LEAST_GAIN or reward < earned[key]:
            continue
        children = []
        snapshots.restore(state)
        for action in np.flatnonzero(simulator.observe()[2]).tolist():
            snapshots.restore(state)
            simulator.step(action)
            total = reward + float(simulator.header["reward"])
            first_action = action if root_action < 0 else root_action
            if not simulator.asking:
                best, best_first = (total, first_action) if total > best + LEAST_GAIN else (best, best_first)
                continue
            upper, key = total + remaining_bound(), snapshots.key()
            if upper > best + LEAST_GAIN and total > earned.get(key, -math.inf):
                earned[key] = total
                children.append((upper, total, key, snapshots.save(), first_action))
        # Depth first, the child of the highest bound first.
        open_states += sorted(children, key=lambda child: child[0])
    return best, best, best_first


class _Snapshots:
    """Saves, restores and identifies states of a simulator."""

    def __init__(self, simulator: Simulator[EdgeScenario]) -> None:
        arrays = simulator.arrays
        self._bytes = {
            name: array.reshape(-1).view(np.uint8) for name, array in arrays.items() if name not in ("log", "corunners")
        }
        self._memory = [array.data for array in self._bytes.values()]
        self._lane, self._tasks, self._streams = arrays["lanes"][0], arrays["tasks"][0], arrays["streams"][0]
        self._rings = self._bytes["queue"].reshape(*arrays["queue"].shape[1:], -1).swapaxes(0, 1)
        self._stream_rows = self._bytes["streams"].reshape(len(self._streams), -1)
        self._finish_times, self._other_times = np.split(_event_times(simulator), [len(self._streams)])
        # Equal streams are interchangeable: which of them runs a job, or is at its decision point, does not matter.
        self._interchangeable = runs_at_solo_speed(simulator.scenario)
        self._lane_mask = _mask(
            arrays["lanes"].dtype, (*LANE_HISTORY, "asked") if self._interchangeable else LANE_HISTORY
        )
        self._task_mask = np.tile(_mask(arrays["tasks"].dtype, TASK_HISTORY), len(self._tasks))
        self._busy_mask = _mask(arrays["streams"].dtype, STREAM_HISTORY)
        self._idle_mask = _mask(arrays["streams"].dtype, IDLE_STREAM_HISTORY)
        self._others = [array for name, array in self._bytes.items() if name not in (*PARTLY_KEYED, "terms")]

    def save(self) -> State:
        """Return a copy of the current state."""
        return [bytes(memory) for memory in self._memory]

    def restore(self, state: State) -> None:
        """Restore `state`."""
        for memory, saved in zip(self._memory, state, strict=True):
            memory[:] = saved

    def key(self) -> bytes:
        """Return a digest of the current state; states of the same key have the same future."""
        heads, lengths = self._tasks["head"].tolist(), self._tasks["length"].tolist()
        queues = [
            ring.take(range(head, head + length), axis=0, mode="wrap").tobytes()
            for ring, head, length in zip(self._rings, heads, lengths, strict=True)
            if length > 0
        ]
        parked = (self._streams["parked"] == self._lane["events"]).tolist()
        streams = [
            b"%d %d " % (finish, is_parked) + (row & (self._busy_mask if task >= 0 else self._idle_mask)).tobytes()
            for row, task, is_parked, finish in zip(
                self._stream_rows, self._streams["task"].tolist(), parked, self._finish_times.tolist(), strict=True
            )
        ]
        parts = [
            (self._bytes["lanes"] & self._lane_mask).tobytes(),
            (self._bytes["tasks"] & self._task_mask).tobytes(),
            *queues,
            *(sorted(streams) if self._interchangeable else streams),
            self._other_times.tobytes(),
            *(array.tobytes() for array in self._others),
        ]
        return blake2b(b"".join(parts), digest_size=16).digest()


class _UpperBound:
    """Upper bound of the remaining reward: every job as if it were alone."""

    def __init__(self, simulator: Simulator[EdgeScenario], jobs: list[Job]) -> None:
        self._scenario: EdgeScenario = simulator.scenario
        self._at_solo_speed = runs_at_solo_speed(self._scenario)
        self._horizon = nanoseconds(self._scenario.horizon_ms)
        self._decision_time = nanoseconds(self._scenario.device.decision_time_ms)
        arrays = simulator.arrays
        self._lane, self._tasks, self._streams = arrays["lanes"][0], arrays["tasks"][0], arrays["streams"][0]
        self._waiting = arrays["queue"]["index"][0].T
        self._members = arrays["members"]["index"][0]
        self._sizes = spec_arrays(self._scenario)["variants"]["jobs"]
        self._finish_times = _event_times(simulator)[: len(self._streams)]
        self._jobs = [[job for job in jobs if job.task == task] for task in range(len(self._tasks))]
        self._to_come = [
            [
                sum(self._value_of_new_run(job, job.release) for job in own[released:])
                for released in range(len(own) + 1)
            ]
            for own in self._jobs
        ]

    def __call__(self) -> float:
        """Return the bound for the simulator's current state."""
        now = int(self._lane["now"])
        upper = best_utilisation(self._scenario, self._horizon - now)
        for task, own in enumerate(self._jobs):
            queue = self._tasks[task]
            upper += self._to_come[task][queue["released"]]
            head, ring = int(queue["head"]), self._waiting[task]
            for position in range(head, head + int(queue["length"])):
                upper += self._value_of_waiting(own[ring[position % len(ring)]], now)
        for stream in np.flatnonzero(self._streams["task"] >= 0).tolist():
            upper += self._value_of_running(stream, now)
        return upper

    def _value_of_new_run(self, job: Job, time: int) -> float:
        """Return the largest reward of `job` if it can start from `time` on with all of its work left."""
        left = min(job.deadline, self._horizon) - time - self._decision_time
        return max(
            on_time_value(self._scenario, job, variant)
            if run <= left * best_rate(self._scenario, job.task, variant)
            else 0.0
            for variant, run in enumerate(job.runs)
        )

    def _value_of_waiting(self, job: Job, now: int) -> float:
        # Without preemption a waiting job is certain not to have run before.
        return self._value_of_new_run(job, now) if self._at_solo_speed else self._value_by_deadline(job, now)

    def _value_of_running(self, stream: int, now: int) -> float:
        running = self._streams[stream]
        own = self._jobs[running["task"]]
        if self._members.size:
            size = self._sizes[running["task"], running["variant"]]
            return sum(self._value_by_deadline(own[index], now) for index in self._members[stream, :size])
        job = own[running["job"]]
        if not self._at_solo_speed:
            return self._value_by_deadline(job, now)
        on_time = self._finish_times[stream] <= min(job.deadline, self._horizon)
        return on_time_value(self._scenario, job, int(running["variant"])) if on_time else 0.0

    def _value_by_deadline(self, job: Job, now: int) -> float:
        """Return the largest reward of `job`, knowing only its deadline."""
        if now > job.deadline:
            return 0.0
        return max(on_time_value(self._scenario, job, variant) for variant in range(len(job.runs)))


def _event_times(simulator: Simulator[EdgeScenario]) -> np.ndarray:
    """Return a view of the times of the pending events, those of the streams first."""
    heap = simulator.arrays["heap"][0]
    return np.asarray(heap[len(heap) // (1 + BLOCK) :])


def _mask(row: np.dtype, history: tuple[str, ...]) -> np.ndarray:
    """Return a byte mask of the record type `row`: zero for the fields in `history`, all bits set elsewhere."""
    fields = np.zeros(1, row)
    mask = fields.view(np.uint8)
    mask[:] = 0xFF
    for name in history:
        fields[name] = 0
    return mask
