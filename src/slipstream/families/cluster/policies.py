"""Heuristics of the cluster family: which job starts next, and whom it may displace.

The first ones are orders of the queue. What happens around a job that does not fit is up to the scenario: with `easy`
the order is that of EASY backfilling, with `conservative` of conservative backfilling. They choose level 0 where that
is allowed. The preemptive ones decide who should run, interrupt whoever else does, and start the rest.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.families.cluster.features import (
    ACTIVE_USERS,
    ADDED_POWER,
    ALL_GPUS,
    ATTAINED,
    COIN,
    FITS,
    FREE,
    GPUS,
    INTERRUPT,
    JOB,
    LEFT,
    LEVEL,
    PARAMETER,
    ROWS,
    START,
    SUBMITTED,
    TIME_FACTOR,
    USER,
    USER_SHARE,
    WAITED,
)
from slipstream.families.cluster.kernel import priorities
from slipstream.jit.decorators import entry, kernel
from slipstream.policies.base import Heuristic, chooser, register

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@kernel
def score_of_row(globals_row: np.ndarray, row: np.ndarray, order: int) -> float:
    """Return the score of a row's job in an order."""
    crowding = row[GPUS] * globals_row[ACTIVE_USERS] / globals_row[ALL_GPUS]
    left, waited = row[LEFT] / 1e9, row[WAITED] / 1e9
    return priorities.score(order, row[GPUS], left, row[SUBMITTED], waited, row[USER_SHARE], crowding)


@kernel
def first_in_order(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, order: int) -> int:
    """Return the row of the job that comes first, at its lowest level; waits if there is none."""
    best, least = mask.shape[0] - 1, np.inf
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, START] == 1.0:
            found = score_of_row(globals_row, rows[row], order)
            if found < least or (found == least and rows[row, JOB] < rows[best, JOB]):
                best, least = row, found
    return best


@dataclass(frozen=True)
class Ordered(Heuristic):
    """A policy that chooses by an order of the queue: played row by row, or the whole queue at a time."""

    order: int = priorities.FIFO

    def scores(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> dict[int, float]:
        """Return the score of every row that starts a job, the greatest first in the order."""
        starts = [row for row in np.flatnonzero(mask).tolist() if rows[row, START] == 1.0]
        return {row: -float(score_of_row(global_row, rows[row], self.order)) for row in starts}

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play on in the simulator's lane; return why it stopped."""
        from slipstream.families.cluster.kernel.fast_path import run_in_order
        from slipstream.sim.simulator import NO_LIMIT

        if choices < NO_LIMIT or not _same_at_level_0(simulator.scenario):
            return super().run(simulator, choices)
        return int(run_in_order(simulator.spec, simulator.state, 0, self.order))


def _same_at_level_0(scenario: Any) -> bool:
    """Return whether a job can be chosen at level 0 whenever it can be chosen at all."""
    from slipstream.families.cluster.build import compiled_scenario

    factors = compiled_scenario(scenario).spec["levels"]["factor"]
    return factors.shape[1] == 1 or (scenario.power.budget_w is None and bool((factors >= factors[:, :1]).all()))


def ordered(order: int) -> Callable[[Callable[..., int]], Heuristic]:
    """Make a heuristic from a function that chooses by an order, and register it under the function's name."""

    def make(function: Callable[..., int]) -> Heuristic:
        name = function.__name__.strip("_").replace("_", "-")
        return register(Ordered(name, "cluster", function, is_rule=False, order=order))

    return make


@ordered(priorities.FIFO)
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served."""
    return first_in_order(globals_row, rows, mask, priorities.FIFO)


@ordered(priorities.SJF)
def sjf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest requested time first."""
    return first_in_order(globals_row, rows, mask, priorities.SJF)


@ordered(priorities.SAF)
def saf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Smallest area first: requested time times GPUs."""
    return first_in_order(globals_row, rows, mask, priorities.SAF)


@ordered(priorities.SMALLEST)
def smallest(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Fewest GPUs first."""
    return first_in_order(globals_row, rows, mask, priorities.SMALLEST)


@ordered(priorities.F1)
def f1(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F1 of Carastan-Santos and de Camargo: log10(r) n + 870 log10(s); its constants are for Lublin's workloads."""
    return first_in_order(globals_row, rows, mask, priorities.F1)


@ordered(priorities.F2)
def f2(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F2 of the same: sqrt(r) n + 25600 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F2)


@ordered(priorities.F3)
def f3(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F3 of the same: r n + 6860000 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F3)


@ordered(priorities.F4)
def f4(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F4 of the same: r sqrt(n) + 530000 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F4)


@ordered(priorities.WFP3)
def wfp3(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """WFP3: the greatest (wait / requested)^3 n first."""
    return first_in_order(globals_row, rows, mask, priorities.WFP3)


@ordered(priorities.UNICEP)
def unicep(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """UNICEP: the greatest wait / ((log2 n + 1) requested) first."""
    return first_in_order(globals_row, rows, mask, priorities.UNICEP)


@ordered(priorities.FINISH_TIME_FAIR)
def finish_time_fair(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Finish-time fairness as in Themis: the job that would end latest, next to an equal share for each user."""
    return first_in_order(globals_row, rows, mask, priorities.FINISH_TIME_FAIR)


@chooser("cluster")
def drf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Dominant resource fairness: a job of the user who holds the smallest share of the GPUs, the oldest first."""
    return first_in_order(globals_row, rows, mask, priorities.DRF)


@chooser("cluster", parameter=1.1)
def power_aware(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Smallest area first, each at the most frugal cap that takes at most 1.1 times as long; `power-aware(1.2)`."""
    first = first_in_order(globals_row, rows, mask, priorities.SAF)
    best = first
    for row in range(int(globals_row[ROWS])):
        same = mask[row] and rows[row, START] == 1.0 and rows[row, JOB] == rows[first, JOB]
        bearable = rows[row, TIME_FACTOR] <= globals_row[PARAMETER] * lowest_factor(globals_row, rows, mask, first)
        if same and bearable and rows[row, ADDED_POWER] < rows[best, ADDED_POWER]:
            best = row
    return best


@kernel
def lowest_factor(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, first: int) -> int:
    """Return the least time factor among the rows of a row's job."""
    least = rows[first, TIME_FACTOR]
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, START] == 1.0 and rows[row, JOB] == rows[first, JOB]:
            least = min(least, rows[row, TIME_FACTOR])
    return least


@chooser("cluster")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Any row that starts a job, each as likely as the others; never interrupts."""
    legal = 0
    for row in range(int(globals_row[ROWS])):
        legal += 1 if mask[row] and rows[row, START] == 1.0 else 0
    left = int(globals_row[COIN] * legal)
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, START] == 1.0:
            if left == 0:
                return row
            left -= 1
    return mask.shape[0] - 1


# Preemptive policies


@entry
def serve(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, scores: np.ndarray) -> int:
    """Let those run that come first by their scores, the lowest number on ties, as far as GPUs go.

    Whoever runs and should not is interrupted first; then the others start; then the policy waits. It knows nothing of
    places: who would be let run and does not fit waits too.
    """
    last = mask.shape[0] - 1
    room = globals_row[FREE]
    for row in range(scores.shape[0]):
        if rows[row, INTERRUPT] == 1.0:
            room += rows[row, GPUS]
    by_number = np.argsort(rows[: scores.shape[0], JOB], kind="mergesort")
    starts = last
    for row in by_number[np.argsort(scores[by_number], kind="mergesort")]:
        if scores[row] == np.inf:
            break
        if rows[row, GPUS] <= room:
            room -= rows[row, GPUS]
            if starts == last and rows[row, START] == 1.0 and rows[row, FITS] == 1.0:
                starts = row
        elif rows[row, INTERRUPT] == 1.0:
            return row
    if starts == last and not mask[last]:
        # Nothing is to come that could be waited for, as where a budget bears the next job at a lower cap only.
        for row in range(scores.shape[0]):
            if mask[row]:
                return row
    return starts


@entry
def scores_of(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, by_gpus: bool) -> np.ndarray:
    """Return a column of the rows of level 0 and that interrupt, times GPUs where asked for; inf for others."""
    scores = np.full(int(globals_row[ROWS]), np.inf)
    for row in range(scores.shape[0]):
        if mask[row] and (rows[row, LEVEL] == 0.0 or rows[row, INTERRUPT] == 1.0):
            scores[row] = rows[row, column] * (rows[row, GPUS] if by_gpus else 1.0)
    return scores


@chooser("cluster")
def first_fit(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served, but whoever does not fit is passed, and nobody is reserved for or interrupted."""
    best = mask.shape[0] - 1
    for row in range(int(globals_row[ROWS])):
        starts = mask[row] and rows[row, START] == 1.0 and rows[row, FITS] == 1.0
        if starts and (best == mask.shape[0] - 1 or rows[row, JOB] < rows[best, JOB]):
            best = row
    return best


@chooser("cluster")
def srtf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest remaining time first, interrupting others."""
    return serve(globals_row, rows, mask, scores_of(globals_row, rows, mask, LEFT, False))


@chooser("cluster")
def srsf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest remaining service first, by GPU-time, interrupting others."""
    return serve(globals_row, rows, mask, scores_of(globals_row, rows, mask, LEFT, True))


@chooser("cluster")
def las(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Least attained service first, by GPU-time, interrupting others; wants `round_s`, and no requested times."""
    return serve(globals_row, rows, mask, scores_of(globals_row, rows, mask, ATTAINED, False))


@chooser("cluster", parameter=3250.0)
def tiresias_2q(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Two queues as in Tiresias: below 3250 GPU-seconds, then the others; in each, who runs, then by number."""
    scores = scores_of(globals_row, rows, mask, ATTAINED, False)
    for row in range(scores.shape[0]):
        if scores[row] < np.inf:
            second = scores[row] >= globals_row[PARAMETER] * 1e9
            scores[row] = (2.0 if second else 0.0) + rows[row, START]
    return serve(globals_row, rows, mask, scores)


@chooser("cluster")
def max_min(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Max-min fair shares of the GPUs among users, filled up job by job, interrupting others; who runs goes first."""
    scores = scores_of(globals_row, rows, mask, JOB, False)
    by_number = np.argsort(scores, kind="mergesort")
    # What each user holds beside the jobs that could be interrupted.
    held = np.zeros(1 + int(rows[: scores.shape[0], USER].max()))
    for row in range(scores.shape[0]):
        if scores[row] < np.inf:
            held[int(rows[row, USER])] = rows[row, USER_SHARE] * globals_row[ALL_GPUS]
    for row in range(scores.shape[0]):
        if rows[row, INTERRUPT] == 1.0:
            held[int(rows[row, USER])] -= rows[row, GPUS]
    for starts in (0.0, 1.0):
        for row in by_number:
            if scores[row] < np.inf and rows[row, START] == starts:
                scores[row] = held[int(rows[row, USER])]
                held[int(rows[row, USER])] += rows[row, GPUS]
    return serve(globals_row, rows, mask, scores)
