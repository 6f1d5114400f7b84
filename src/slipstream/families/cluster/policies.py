"""Heuristics of the cluster family: which job starts next, and which it may preempt.

The first ones sort the queue. How a job that does not fit is treated is up to the scenario: with `easy` they do EASY
backfilling, with `conservative` conservative backfilling. They choose level 0 where that is legal. The preemptive ones
determine the set of jobs that should run, interrupt the others, and start the rest.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.jit.decorators import entry, kernel
from slipstream.policies.base import Heuristic, chooser, register

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@kernel
def score_of_row(globals_row: np.ndarray, row: np.ndarray, order: int) -> float:
    """Return the score of a row's job under the priority function `order`."""
    crowding = row[GPUS] * globals_row[ACTIVE_USERS] / globals_row[ALL_GPUS]
    left, waited = row[LEFT] / 1e9, row[WAITED] / 1e9
    return priorities.score(order, row[GPUS], left, row[SUBMITTED], waited, row[USER_SHARE], crowding)


@kernel
def first_in_order(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, order: int) -> int:
    """Return the row of the job with the lowest score, at its lowest level; the wait row if there is none."""
    best, least = mask.shape[0] - 1, np.inf
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, START] == 1.0:
            found = score_of_row(globals_row, rows[row], order)
            if found < least or (found == least and rows[row, JOB] < rows[best, JOB]):
                best, least = row, found
    return best


@dataclass(frozen=True)
class SortedQueue(Heuristic):
    """A policy that sorts the queue by a priority function.

    It is played row by row, or a whole queue at a time (`kernel/fast_path.py`).
    """

    order: int = priorities.FIFO

    def scores(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> dict[int, float]:
        """Return the negated score of every row that starts a job, so that the greatest comes first."""
        starts = [row for row in np.flatnonzero(mask).tolist() if rows[row, START] == 1.0]
        return {row: -float(score_of_row(global_row, rows[row], self.order)) for row in starts}

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play on in the simulator's lane; return why it stopped."""
        from slipstream.families.cluster.kernel.fast_path import run_fast_path
        from slipstream.sim.simulator import NO_LIMIT

        scenario = simulator.scenario
        assert isinstance(scenario, ClusterScenario)
        if choices < NO_LIMIT or not level_0_suffices(scenario):
            return super().run(simulator, choices)
        return int(run_fast_path(simulator.spec, simulator.state, 0, self.order))


def level_0_suffices(scenario: ClusterScenario) -> bool:
    """Return whether a job can be chosen at level 0 whenever it can be chosen at any level."""
    from slipstream.families.cluster.build import compiled_scenario

    factors = compiled_scenario(scenario).spec["levels"]["factor"]
    return factors.shape[1] == 1 or (scenario.power.budget_w is None and bool((factors >= factors[:, :1]).all()))


def sorted_queue(order: int) -> Callable[[Callable[..., int]], Heuristic]:
    """Make a heuristic from a function that chooses by `order`, and register it under the function's name."""

    def make(function: Callable[..., int]) -> Heuristic:
        name = function.__name__.strip("_").replace("_", "-")
        return register(SortedQueue(name, "cluster", function, is_rule=False, order=order))

    return make


@sorted_queue(priorities.FIFO)
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served."""
    return first_in_order(globals_row, rows, mask, priorities.FIFO)


@sorted_queue(priorities.SJF)
def sjf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest requested time first."""
    return first_in_order(globals_row, rows, mask, priorities.SJF)


@sorted_queue(priorities.SAF)
def saf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Smallest area first: requested time times GPUs."""
    return first_in_order(globals_row, rows, mask, priorities.SAF)


@sorted_queue(priorities.SMALLEST)
def smallest(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Fewest GPUs first."""
    return first_in_order(globals_row, rows, mask, priorities.SMALLEST)


@sorted_queue(priorities.F1)
def f1(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F1 of Carastan-Santos and de Camargo: log10(r) n + 870 log10(s); its constants are for Lublin's workloads."""
    return first_in_order(globals_row, rows, mask, priorities.F1)


@sorted_queue(priorities.F2)
def f2(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F2 of Carastan-Santos and de Camargo: sqrt(r) n + 25600 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F2)


@sorted_queue(priorities.F3)
def f3(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F3 of Carastan-Santos and de Camargo: r n + 6860000 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F3)


@sorted_queue(priorities.F4)
def f4(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """F4 of Carastan-Santos and de Camargo: r sqrt(n) + 530000 log10(s)."""
    return first_in_order(globals_row, rows, mask, priorities.F4)


@sorted_queue(priorities.WFP3)
def wfp3(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """WFP3: the greatest (wait / requested)^3 n first."""
    return first_in_order(globals_row, rows, mask, priorities.WFP3)


@sorted_queue(priorities.UNICEP)
def unicep(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """UNICEP: the greatest wait / ((log2 n + 1) requested) first."""
    return first_in_order(globals_row, rows, mask, priorities.UNICEP)


@sorted_queue(priorities.FINISH_TIME_FAIR)
def finish_time_fair(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Finish-time fairness as in Themis: the job that would end latest, next to an equal share for each user."""
    return first_in_order(globals_row, rows, mask, priorities.FINISH_TIME_FAIR)


@chooser("cluster")
def drf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Dominant resource fairness: a job of the user who holds the smallest share of the GPUs, the oldest first."""
    return first_in_order(globals_row, rows, mask, priorities.DRF)


@chooser("cluster", parameter=1.1)
def power_aware(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Smallest area first, each at the most frugal cap at which it takes at most 1.1 times as long (the parameter)."""
    first = first_in_order(globals_row, rows, mask, priorities.SAF)
    best = first
    for row in range(int(globals_row[ROWS])):
        same = mask[row] and rows[row, START] == 1.0 and rows[row, JOB] == rows[first, JOB]
        acceptable = rows[row, TIME_FACTOR] <= globals_row[PARAMETER] * lowest_factor(globals_row, rows, mask, first)
        if same and acceptable and rows[row, ADDED_POWER] < rows[best, ADDED_POWER]:
            best = row
    return best


@kernel
def lowest_factor(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, first: int) -> int:
    """Return the least time factor among the rows of the job of row `first`."""
    least = rows[first, TIME_FACTOR]
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, START] == 1.0 and rows[row, JOB] == rows[first, JOB]:
            least = min(least, rows[row, TIME_FACTOR])
    return least


@chooser("cluster")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Uniformly random among the candidates that start a job; never interrupts."""
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
def run_by_score(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, scores: np.ndarray) -> int:
    """Return the row that makes the jobs with the lowest scores run, as far as GPUs go; ties by number.

    Running jobs that should not run are interrupted first; then the others start; then the policy waits. It ignores
    placement: a job that should run and does not fit waits too.
    """
    last = mask.shape[0] - 1
    capacity = globals_row[FREE]
    for row in range(scores.shape[0]):
        if rows[row, INTERRUPT] == 1.0:
            capacity += rows[row, GPUS]
    by_number = np.argsort(rows[: scores.shape[0], JOB], kind="mergesort")
    starts = last
    for row in by_number[np.argsort(scores[by_number], kind="mergesort")]:
        if scores[row] == np.inf:
            break
        if rows[row, GPUS] <= capacity:
            capacity -= rows[row, GPUS]
            if starts == last and rows[row, START] == 1.0 and rows[row, FITS] == 1.0:
                starts = row
        elif rows[row, INTERRUPT] == 1.0:
            return row
    if starts == last and not mask[last]:
        # No event is left to wait for, as where the budget admits the next job at a lower cap only.
        for row in range(scores.shape[0]):
            if mask[row]:
                return row
    return starts


@entry
def scores_of(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, by_gpus: bool) -> np.ndarray:
    """Return `column` of the rows of level 0 and of those that interrupt, times GPUs if `by_gpus`; inf for others."""
    scores = np.full(int(globals_row[ROWS]), np.inf)
    for row in range(scores.shape[0]):
        if mask[row] and (rows[row, LEVEL] == 0.0 or rows[row, INTERRUPT] == 1.0):
            scores[row] = rows[row, column] * (rows[row, GPUS] if by_gpus else 1.0)
    return scores


@chooser("cluster")
def first_fit(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served; jobs that do not fit are passed over; no reservation, no interruption."""
    best = mask.shape[0] - 1
    for row in range(int(globals_row[ROWS])):
        starts = mask[row] and rows[row, START] == 1.0 and rows[row, FITS] == 1.0
        if starts and (best == mask.shape[0] - 1 or rows[row, JOB] < rows[best, JOB]):
            best = row
    return best


@chooser("cluster")
def srtf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest remaining time first, interrupting others."""
    return run_by_score(globals_row, rows, mask, scores_of(globals_row, rows, mask, LEFT, False))


@chooser("cluster")
def srsf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest remaining service first, by GPU-time, interrupting others."""
    return run_by_score(globals_row, rows, mask, scores_of(globals_row, rows, mask, LEFT, True))


@chooser("cluster")
def las(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Least attained service first, by GPU-time, interrupting others; needs `round_s`, and no requested times."""
    return run_by_score(globals_row, rows, mask, scores_of(globals_row, rows, mask, ATTAINED, False))


@chooser("cluster", parameter=3250.0)
def tiresias_2q(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Two queues as in Tiresias: below 3250 GPU-seconds, then the others; within each, running jobs first."""
    scores = scores_of(globals_row, rows, mask, ATTAINED, False)
    for row in range(scores.shape[0]):
        if scores[row] < np.inf:
            second = scores[row] >= globals_row[PARAMETER] * 1e9
            scores[row] = (2.0 if second else 0.0) + rows[row, START]
    return run_by_score(globals_row, rows, mask, scores)


@chooser("cluster")
def max_min(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Max-min fair shares of the GPUs among users, filled job by job, interrupting others; running jobs go first."""
    scores = scores_of(globals_row, rows, mask, JOB, False)
    by_number = np.argsort(scores, kind="mergesort")
    # GPUs that each user holds, without the jobs that can be interrupted.
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
    return run_by_score(globals_row, rows, mask, scores)


BY_ATTAINED_SERVICE = (las.name, tiresias_2q.name)
"""Policies that sort by attained service, which only jobs that were interrupted have."""


def policy_refusal(scenario: ClusterScenario, policy: str) -> str:
    """Return why a policy does not apply to `scenario`, empty if it does: without preemption las is first-fit.

    The other preemptive policies sort waiting jobs too, so they apply to every scenario.
    """
    if policy in BY_ATTAINED_SERVICE and scenario.preemption is None:
        return "it sorts by attained service, and no job is interrupted: expected the key 'preemption'"
    return ""
