"""Heuristics of the taskgraph family: which task a processor takes, or which processor a task is placed on.

A row is a task on a processor in every phase, so each rule applies to all phases. The dm policies are meant for mode
push, as in StarPU: a task is placed where it ends first, and a free processor chooses from its queue. Ties go to the
lowest row.
"""

# mypy does not know the types of array elements and of results of compiled functions.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slipstream.families.taskgraph.features import (
    BEST_END,
    COIN,
    CPOP,
    DURATION,
    EXPECTED_END,
    FREED,
    HEFT,
    MISSING,
    PEFT,
    PHASE,
    PLACE,
    RANK,
    ROWS,
    TRANSFER,
    WORK_AHEAD,
)
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, CHOOSE_QUEUED
from slipstream.families.taskgraph.plans import write_plan
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.jit.decorators import kernel
from slipstream.policies.base import Heuristic, chooser, register
from slipstream.policies.compiled.rows import random_row

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class FastPathHeuristic(Heuristic):
    """Heuristic that serves queues in FIFO order, so whole episodes use the fast path."""

    def run(self, simulator: Simulator, choices: int) -> int:
        """Continue the episode in the simulator's lane for up to `choices` decisions; return the final status."""
        from slipstream.families.taskgraph.kernel.fast_path import run_fast_path
        from slipstream.sim.simulator import NO_LIMIT

        scenario = simulator.scenario
        assert isinstance(scenario, TaskgraphScenario)
        if choices < NO_LIMIT or scenario.mode != "push":
            return super().run(simulator, choices)
        return int(run_fast_path(simulator.spec, simulator.state, 0, simulator.buffer, self.address))


def fast_path(function: Callable[..., int]) -> Heuristic:
    """Register `function`, which serves queues in FIFO order, as a heuristic of that name."""
    return register(FastPathHeuristic(function.__name__, "taskgraph", function, is_rule=False))


@chooser("taskgraph")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Uniformly random row, never waiting."""
    return random_row(mask, int(globals_row[ROWS]), globals_row[COIN])


@kernel
def least(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int) -> int:
    """Return the legal row that is least in `column`."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if mask[row] and (best < 0 or rows[row, column] < rows[best, column]):
            best = row
    return best


@kernel
def greatest_then_least(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, first: int, second: int) -> int:
    """Return the legal row that is greatest in column `first`, then least in column `second`."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if not mask[row]:
            continue
        if (
            best < 0
            or rows[row, first] > rows[best, first]
            or (rows[row, first] == rows[best, first] and rows[row, second] < rows[best, second])
        ):
            best = row
    return best


@fast_path
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First ready task first, on any free processor; a task is placed where the least work is ahead."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return least(globals_row, rows, mask, WORK_AHEAD)
    return least(globals_row, rows, mask, PLACE)


@chooser("taskgraph")
def mct(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Minimum completion time: a processor takes the task that ends first, but waits if all end sooner elsewhere."""
    last = mask.shape[0] - 1
    best, any_row = -1, -1
    for row in range(int(globals_row[ROWS])):
        if not mask[row]:
            continue
        if any_row < 0 or rows[row, EXPECTED_END] < rows[any_row, EXPECTED_END]:
            any_row = row
        suits = rows[row, EXPECTED_END] <= rows[row, BEST_END]
        if suits and (best < 0 or rows[row, EXPECTED_END] < rows[best, EXPECTED_END]):
            best = row
    if best >= 0:
        return best
    return last if mask[last] and globals_row[PHASE] != CHOOSE_QUEUED else any_row


@kernel
def deque_model(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, weight: float) -> int:
    """Return the row of least cost as in StarPU: expected end plus `weight` × transfer time."""
    best, best_cost = -1, np.inf
    for row in range(int(globals_row[ROWS])):
        if mask[row]:
            end = rows[row, WORK_AHEAD] + rows[row, DURATION]
            if weight > 0.0:
                end = rows[row, EXPECTED_END] + weight * rows[row, TRANSFER]
            if end < best_cost:
                best, best_cost = row, end
    return best


@fast_path
def dm(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dm: a task is placed where it ends first, ignoring transfers; FIFO queues."""
    if globals_row[PHASE] == CHOOSE_QUEUED:
        return least(globals_row, rows, mask, PLACE)
    return deque_model(globals_row, rows, mask, 0.0)


@fast_path
def dmda(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmda: least expected end plus transfer time; FIFO queues."""
    if globals_row[PHASE] == CHOOSE_QUEUED:
        return least(globals_row, rows, mask, PLACE)
    return deque_model(globals_row, rows, mask, 1.0)


@chooser("taskgraph")
def dmdar(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmdar: as dmda, but a processor takes the queued task with the fewest missing bytes."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return deque_model(globals_row, rows, mask, 1.0)
    return least(globals_row, rows, mask, MISSING)


@chooser("taskgraph")
def dmdas(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmdas: as dmdar, but by longest path first, then by fewest missing bytes."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return deque_model(globals_row, rows, mask, 1.0)
    return greatest_then_least(globals_row, rows, mask, RANK, MISSING)


@chooser("taskgraph")
def darts(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Data first, as in DARTS: a task without loads, else the tile that frees most work per load time."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return deque_model(globals_row, rows, mask, 1.0)
    best, best_gain = -1, -np.inf
    for row in range(int(globals_row[ROWS])):
        if not mask[row]:
            continue
        if rows[row, MISSING] == 0.0:
            return row
        gain = rows[row, FREED] / rows[row, TRANSFER] if rows[row, FREED] > 0.0 else -rows[row, MISSING]
        if gain > best_gain:
            best, best_gain = row, gain
    return best


@chooser("taskgraph")
def critical_path(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Task with the longest remaining path first, on any free processor; a task is placed where it ends first."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return least(globals_row, rows, mask, EXPECTED_END)
    return greatest_then_least(globals_row, rows, mask, RANK, MISSING)


@kernel
def follow_plan(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int) -> int:
    """Follow the plan in `column`: a processor takes its next planned task or waits; a task goes where planned."""
    last = mask.shape[0] - 1
    best = -1
    for row in range(int(globals_row[ROWS])):
        before = rows[row, column]
        if mask[row] and before >= 0.0 and (best < 0 or before < rows[best, column]):
            best = row
    is_placement = globals_row[PHASE] == CHOOSE_PROCESSOR
    if best >= 0 and (is_placement or rows[best, column] == 0.0):
        return best
    if mask[last]:
        return last
    return best if best >= 0 else least(globals_row, rows, mask, PLACE)


@chooser("taskgraph", prepare=partial(write_plan, planner="heft"))
def heft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """HEFT: static schedule by upward rank and earliest finish time, planned in advance."""
    return follow_plan(globals_row, rows, mask, HEFT)


@chooser("taskgraph", prepare=partial(write_plan, planner="peft"))
def peft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """PEFT: static schedule by the optimistic cost table, planned in advance."""
    return follow_plan(globals_row, rows, mask, PEFT)


@chooser("taskgraph", prepare=partial(write_plan, planner="cpop"))
def cpop(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """CPOP: static schedule with the critical path on one processor, planned in advance."""
    return follow_plan(globals_row, rows, mask, CPOP)
