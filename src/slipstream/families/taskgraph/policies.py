"""Heuristics of the taskgraph family: which task a processor takes, or which processor a task goes to.

A row is a task on a processor in every phase, so each rule serves all of them. The dm family is at home in mode push,
as in StarPU: a task goes where it ends first, and a processor that is free chooses from its queue. Ties go to the
lowest row.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
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
from slipstream.jit.decorators import kernel
from slipstream.policies.base import Heuristic, chooser, register
from slipstream.policies.compiled.rows import random_row

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class InOrder(Heuristic):
    """A policy that takes from a queue what came first: whole episodes need not look at queues."""

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play on in the simulator's lane; return why it stopped."""
        from slipstream.families.taskgraph.kernel.fast_path import run_in_order
        from slipstream.sim.simulator import NO_LIMIT

        if choices < NO_LIMIT or simulator.scenario.mode != "push":
            return super().run(simulator, choices)
        return int(run_in_order(simulator.spec, simulator.state, 0, simulator.buffer, self.address))


def in_order(function: Callable[..., int]) -> Heuristic:
    """Make a heuristic from a function that takes from a queue what came first, and register it under its name."""
    return register(InOrder(function.__name__, "taskgraph", function, is_rule=False))


@chooser("taskgraph")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Any row but waiting, each as likely as the others."""
    return random_row(mask, int(globals_row[ROWS]), globals_row[COIN])


@kernel
def least(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int) -> int:
    """Return the row with the least in a column."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if mask[row] and (best < 0 or rows[row, column] < rows[best, column]):
            best = row
    return best


@kernel
def greatest_then_least(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, first: int, second: int) -> int:
    """Return the row that is greatest in one column, and among these least in another."""
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


@in_order
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """The task that became ready first, to whoever is free; a task goes where the least work is ahead."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return least(globals_row, rows, mask, WORK_AHEAD)
    return least(globals_row, rows, mask, PLACE)


@chooser("taskgraph")
def mct(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Least completion time: a processor takes the task that ends first, but waits where all end sooner elsewhere."""
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
    """Return the processor with the least end, as StarPU weighs it: the end, and the transfer once more."""
    best, best_cost = -1, np.inf
    for row in range(int(globals_row[ROWS])):
        if mask[row]:
            end = rows[row, WORK_AHEAD] + rows[row, DURATION]
            if weight > 0.0:
                end = rows[row, EXPECTED_END] + weight * rows[row, TRANSFER]
            if end < best_cost:
                best, best_cost = row, end
    return best


@in_order
def dm(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dm: a task goes where it ends first, transfers left out; queues in their order."""
    if globals_row[PHASE] == CHOOSE_QUEUED:
        return least(globals_row, rows, mask, PLACE)
    return deque_model(globals_row, rows, mask, 0.0)


@in_order
def dmda(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmda: least end plus transfer; queues in their order."""
    if globals_row[PHASE] == CHOOSE_QUEUED:
        return least(globals_row, rows, mask, PLACE)
    return deque_model(globals_row, rows, mask, 1.0)


@chooser("taskgraph")
def dmdar(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmdar: as dmda, but from its queue a processor takes the task that misses the fewest bytes."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return deque_model(globals_row, rows, mask, 1.0)
    return least(globals_row, rows, mask, MISSING)


@chooser("taskgraph")
def dmdas(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """StarPU's dmdas: as dmdar, but the longest path first, and then the fewest bytes."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return deque_model(globals_row, rows, mask, 1.0)
    return greatest_then_least(globals_row, rows, mask, RANK, MISSING)


@chooser("taskgraph")
def darts(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Data first, as in DARTS: what needs no load; else the tile that frees most work for the time of its load."""
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
    """The task with the longest path before it, to whoever is free; a task goes where it ends first."""
    if globals_row[PHASE] == CHOOSE_PROCESSOR:
        return least(globals_row, rows, mask, EXPECTED_END)
    return greatest_then_least(globals_row, rows, mask, RANK, MISSING)


@kernel
def replay(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int) -> int:
    """Follow a plan: a processor takes what is its turn, and waits for it; a task goes where it was planned."""
    last = mask.shape[0] - 1
    best = -1
    for row in range(int(globals_row[ROWS])):
        turns = rows[row, column]
        if mask[row] and turns >= 0.0 and (best < 0 or turns < rows[best, column]):
            best = row
    places = globals_row[PHASE] == CHOOSE_PROCESSOR
    if best >= 0 and (places or rows[best, column] == 0.0):
        return best
    if mask[last]:
        return last
    return best if best >= 0 else least(globals_row, rows, mask, PLACE)


@chooser("taskgraph", prepare=partial(write_plan, planner="heft"))
def heft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """HEFT: planned before the episode by upward rank and earliest end, then replayed."""
    return replay(globals_row, rows, mask, HEFT)


@chooser("taskgraph", prepare=partial(write_plan, planner="peft"))
def peft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """PEFT: planned before the episode with optimistic costs of what follows, then replayed."""
    return replay(globals_row, rows, mask, PEFT)


@chooser("taskgraph", prepare=partial(write_plan, planner="cpop"))
def cpop(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """CPOP: planned before the episode, the critical path on one processor, then replayed."""
    return replay(globals_row, rows, mask, CPOP)
