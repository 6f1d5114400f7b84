"""The best reward of a short episode by trying every choice: branch and bound over the simulator itself.

Whatever the machine does, the simulator does it, so this needs no model of it. Two paths to the same state are told
apart only by what they earned, so the poorer one is cut; so is one that cannot beat the best even if every job that is
left goes as well as it can.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from time import perf_counter

import numpy as np

from slipstream.families.edge.oracle.hindsight import Job, best_rate, best_utilisation, on_time_value, plain
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds
from slipstream.sim.kernel.heap import BLOCK
from slipstream.sim.simulator import Simulator

MOST_STATES = 2_000_000
"""States that are remembered before giving up, for the sake of memory."""
LEAST_GAIN = 1e-9
"""Rewards closer than this count as equal: sums of the same terms differ by rounding."""

PAST_OF_LANE = (
    *("choices", "events", "step_began", "elapsed", "reward", "illegal", "mistakes", "log_rows"),
    *("finished", "missed", "busy_time", "step_busy_time", "joules", "step_joules"),
    *("taken_job", "taken_release", "taken_variant", "taken_stage", "taken_work", "taken_expected"),
    # Nothing is in flight while a choice is due.
    *("chosen_task", "chosen_variant", "chosen_job", "chosen_stream", "chosen_events"),
    *("victim_task", "victim_job"),
)
PAST_OF_TASK = ("finished", "stale", "head")
PAST_OF_STREAM = ("parked",)
PAST_OF_IDLE_STREAM = (*PAST_OF_STREAM, "variant", "job", "release", "work", "expected", "demand", "rate", "updated")
"""Fields that say how a state came about but not what can follow. Any other field tells states apart."""
TAKEN_APART = ("lanes", "tasks", "queue", "streams", "heap")
"""Arrays of which only a part tells states apart. Of any other the whole does, but for the terms of the last step."""

State = list[bytes]


def search(simulator: Simulator, jobs: list[Job], best: float, bound: float, until: float) -> tuple[float, float, int]:
    """Return the best reward found from here on, at least `best`, a bound, at most `bound`, and the first choice.

    That is -1 if nothing exceeds `best`. The first two are equal if all was tried in time: it stops when `best` meets
    `bound`, or when the clock shows `until`. The simulator must keep no log; it is left wherever the search ended.
    """
    snapshots, hope_of_the_rest = _Snapshots(simulator), _Hope(simulator, jobs)
    earned = {snapshots.key(): 0.0}
    open_states = [(bound, 0.0, snapshots.key(), snapshots.save(), -1)] if simulator.asking else []
    best_first = -1
    while open_states and best < bound - LEAST_GAIN:
        if perf_counter() > until or len(earned) > MOST_STATES:
            return best, min(bound, max(best, *(hope for hope, *_ in open_states))), best_first
        hope, so_far, key, state, first = open_states.pop()
        if hope <= best + LEAST_GAIN or so_far < earned[key]:
            continue
        children = []
        snapshots.restore(state)
        for action in np.flatnonzero(simulator.observe()[2]).tolist():
            snapshots.restore(state)
            simulator.step(action)
            total = so_far + float(simulator.header["reward"])
            began = action if first < 0 else first
            if not simulator.asking:
                best, best_first = (total, began) if total > best + LEAST_GAIN else (best, best_first)
                continue
            hope, key = total + hope_of_the_rest(), snapshots.key()
            if hope > best + LEAST_GAIN and total > earned.get(key, -math.inf):
                earned[key] = total
                children.append((hope, total, key, snapshots.save(), began))
        # The most hopeful is looked at first, and all that follows from it before the next.
        open_states += sorted(children, key=lambda child: child[0])
    return best, best, best_first


class _Snapshots:
    """The states of a simulator, to go back to and to tell apart."""

    def __init__(self, simulator: Simulator) -> None:
        arrays = simulator.arrays
        self._bytes = {
            name: array.reshape(-1).view(np.uint8) for name, array in arrays.items() if name not in ("log", "crew")
        }
        self._memory = [array.data for array in self._bytes.values()]
        self._lane, self._tasks, self._streams = arrays["lanes"][0], arrays["tasks"][0], arrays["streams"][0]
        self._rings = self._bytes["queue"].reshape(*arrays["queue"].shape[1:], -1).swapaxes(0, 1)
        self._stream_rows = self._bytes["streams"].reshape(len(self._streams), -1)
        self._finish_times, self._other_times = np.split(_event_times(simulator), [len(self._streams)])
        # Where all streams are alike, it does not matter which of them runs what, or is asked.
        self._alike = plain(simulator.scenario)
        self._lane_mask = _mask(arrays["lanes"].dtype, (*PAST_OF_LANE, "asked") if self._alike else PAST_OF_LANE)
        self._task_mask = np.tile(_mask(arrays["tasks"].dtype, PAST_OF_TASK), len(self._tasks))
        self._busy_mask = _mask(arrays["streams"].dtype, PAST_OF_STREAM)
        self._idle_mask = _mask(arrays["streams"].dtype, PAST_OF_IDLE_STREAM)
        self._others = [array for name, array in self._bytes.items() if name not in (*TAKEN_APART, "terms")]

    def save(self) -> State:
        """Return the present state."""
        return [bytes(memory) for memory in self._memory]

    def restore(self, state: State) -> None:
        """Go back to a state."""
        for memory, saved in zip(self._memory, state, strict=True):
            memory[:] = saved

    def key(self) -> bytes:
        """Return a digest of the present state; states of the same key have the same future."""
        heads, lengths = self._tasks["head"].tolist(), self._tasks["length"].tolist()
        queues = [
            ring.take(range(head, head + length), axis=0, mode="wrap").tobytes()
            for ring, head, length in zip(self._rings, heads, lengths, strict=True)
            if length > 0
        ]
        parked = (self._streams["parked"] == self._lane["events"]).tolist()
        streams = [
            b"%d %d " % (finish, rests) + (row & (self._busy_mask if task >= 0 else self._idle_mask)).tobytes()
            for row, task, rests, finish in zip(
                self._stream_rows, self._streams["task"].tolist(), parked, self._finish_times.tolist(), strict=True
            )
        ]
        parts = [
            (self._bytes["lanes"] & self._lane_mask).tobytes(),
            (self._bytes["tasks"] & self._task_mask).tobytes(),
            *queues,
            *(sorted(streams) if self._alike else streams),
            self._other_times.tobytes(),
            *(array.tobytes() for array in self._others),
        ]
        return blake2b(b"".join(parts), digest_size=16).digest()


class _Hope:
    """The most that can still be earned, if no job gets in the way of another."""

    def __init__(self, simulator: Simulator, jobs: list[Job]) -> None:
        self._scenario: EdgeScenario = simulator.scenario
        self._plain = plain(self._scenario)
        self._horizon = nanoseconds(self._scenario.horizon_ms)
        self._decision_time = nanoseconds(self._scenario.device.decision_time_ms)
        arrays = simulator.arrays
        self._lane, self._tasks, self._streams = arrays["lanes"][0], arrays["tasks"][0], arrays["streams"][0]
        self._waiting = arrays["queue"]["index"][0].T
        self._finish_times = _event_times(simulator)[: len(self._streams)]
        self._jobs = [[job for job in jobs if job.task == task] for task in range(len(self._tasks))]
        self._to_come = [
            [sum(self._of_whole_run(job, job.release) for job in own[released:]) for released in range(len(own) + 1)]
            for own in self._jobs
        ]

    def __call__(self) -> float:
        """Return it for the simulator's present state."""
        now = int(self._lane["now"])
        hope = best_utilisation(self._scenario, self._horizon - now)
        for task, own in enumerate(self._jobs):
            queue = self._tasks[task]
            hope += self._to_come[task][queue["released"]]
            head, ring = int(queue["head"]), self._waiting[task]
            for place in range(head, head + int(queue["length"])):
                hope += self._of_waiting(own[ring[place % len(ring)]], now)
        for stream in np.flatnonzero(self._streams["task"] >= 0).tolist():
            hope += self._of_running(stream, now)
        return hope

    def _of_whole_run(self, job: Job, time: int) -> float:
        """Return the most a job can earn that can be chosen from `time` on and has all of its work to do."""
        left = min(job.deadline, self._horizon) - time - self._decision_time
        return max(
            on_time_value(self._scenario, job, variant)
            if run <= left * best_rate(self._scenario, job.task, variant)
            else 0.0
            for variant, run in enumerate(job.runs)
        )

    def _of_waiting(self, job: Job, now: int) -> float:
        # Only on a plain machine is it certain that a waiting job has not run before.
        return self._of_whole_run(job, now) if self._plain else self._of_any(job, now)

    def _of_running(self, stream: int, now: int) -> float:
        running = self._streams[stream]
        job = self._jobs[running["task"]][running["job"]]
        if not self._plain:
            return self._of_any(job, now)
        on_time = self._finish_times[stream] <= min(job.deadline, self._horizon)
        return on_time_value(self._scenario, job, int(running["variant"])) if on_time else 0.0

    def _of_any(self, job: Job, now: int) -> float:
        """Return the most a job can earn of which nothing is known but its deadline."""
        if now > job.deadline:
            return 0.0
        return max(on_time_value(self._scenario, job, variant) for variant in range(len(job.runs)))


def _event_times(simulator: Simulator) -> np.ndarray:
    """Return a view of the times of the pending events; those of the streams' finishes come first."""
    heap = simulator.arrays["heap"][0]
    return np.asarray(heap[len(heap) // (1 + BLOCK) :])


def _mask(row: np.dtype, past: tuple[str, ...]) -> np.ndarray:
    """Return for each byte of a record whether it counts: all bits set, or none."""
    fields = np.zeros(1, row)
    mask = fields.view(np.uint8)
    mask[:] = 0xFF
    for name in past:
        fields[name] = 0
    return mask
