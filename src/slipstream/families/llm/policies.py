"""Heuristics of LLM engines: the order in which waiting requests are admitted, token budgets, and routers.

A rule scores waiting requests; every other decision it leaves to the engine. The request that it chooses is admitted if
it fits; if not, nothing more is admitted in this step, as in vLLM.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.families.llm.features import (
    ADMIT,
    BUDGET,
    CACHED,
    COIN,
    FITS,
    GENERATED,
    LEVEL,
    ORDER,
    PARAMETER,
    PEAK,
    PREDICTED,
    PRIORITY,
    PROMPT,
    RUNNING,
    SEND,
    SERVICE,
    SLACK,
    WAITED,
    WAITING,
    WORK,
)
from slipstream.families.llm.kernel.routing import QUEUE_WEIGHT
from slipstream.families.llm.scenario import LlmScenario
from slipstream.policies.base import Heuristic, chooser, register, rule
from slipstream.policies.compiled.rows import random_row

FIRST_QUANTUM = 256.0
"""Tokens of the first queue of `mlfq`; each further queue has twice as many."""
STARVING_NS = 30e9
"""Wait after which `mlfq` puts a request first."""
PER_PRIORITY = 1e16
"""What a step of priority counts against a nanosecond of waiting: more than any wait."""


@dataclass(frozen=True)
class FirstInQueue(Heuristic):
    """Rule that scores the first waiting request highest; played without writing rows."""

    @cached_property
    def _entry_point(self) -> tuple[Any, int, int]:
        from slipstream.families.llm.kernel.fast_path import run_first

        return run_first, self.form, self.address


def first_in_queue(function: Callable[..., float]) -> Heuristic:
    """Make a rule that always scores the first waiting request highest, and register it under the function's name."""
    return register(FirstInQueue(function.__name__, "llm", function, is_rule=True))


@first_in_queue
def fcfs(row: np.ndarray) -> float:
    """First come, first served; preempted requests first. The default of vLLM."""
    return -row[ORDER]


@rule("llm")
def priority(row: np.ndarray) -> float:
    """The lowest priority number first, then the longest wait; vLLM's `priority`."""
    return row[WAITED] - PER_PRIORITY * row[PRIORITY]


@rule("llm")
def shortest_prompt(row: np.ndarray) -> float:
    """The shortest prompt first."""
    return -row[PROMPT]


@rule("llm")
def sjf(row: np.ndarray) -> float:
    """The shortest predicted output first."""
    return -row[PREDICTED]


@rule("llm")
def least_work(row: np.ndarray) -> float:
    """The least time for prompt and predicted rest of the output first."""
    return -row[WORK]


@rule("llm")
def hrrn(row: np.ndarray) -> float:
    """Highest response ratio next: wait and work, divided by work."""
    work = max(row[WORK], 1.0)
    return (row[WAITED] + work) / work


@rule("llm")
def earliest_deadline(row: np.ndarray) -> float:
    """The request whose first token is due earliest."""
    return -row[SLACK]


@rule("llm")
def mlfq(row: np.ndarray) -> float:
    """Skip-join multi-level queues of FastServe: fewest doublings of 256 tokens first, starving requests before all."""
    if row[WAITED] > STARVING_NS:
        return row[WAITED]
    tokens = row[PROMPT] + row[GENERATED]
    queue = math.ceil(math.log2(max(tokens / FIRST_QUANTUM, 1.0)))
    return row[WAITED] - PER_PRIORITY * (1.0 + queue)


@rule("llm")
def vtc(row: np.ndarray) -> float:
    """Virtual token counter: a request of the class that was served the fewest tokens, outputs counting twice."""
    return -row[SERVICE] - 1e-9 * row[ORDER]


@rule("llm")
def first_fit(row: np.ndarray) -> float:
    """First come, first served, passing over requests that do not fit."""
    return -row[ORDER] - (0.0 if row[FITS] == 1.0 else 1e9)


@chooser("llm")
def mc_sf(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """The shortest predicted output first, as long as the predicted peak of the batch fits into memory (MC-SF)."""
    best, last = -1, mask.shape[0] - 1
    for row in range(last):
        if mask[row] and rows[row, ADMIT] == 1.0 and (best < 0 or rows[row, PREDICTED] < rows[best, PREDICTED]):
            best = row
    if best < 0 or (rows[best, PEAK] > 1.0 and mask[last]):
        return last
    return best


@chooser("llm")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """A random waiting request; everything else is left to the engine."""
    last = mask.shape[0] - 1
    return random_row(mask, last if rows[0, ADMIT] == 1.0 else 0, globals_row[COIN])


# Token budgets


@chooser("llm", parameter=512.0)
def sarathi(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served with the token budget nearest to the number, 512; chunked prefill as in Sarathi."""
    last = mask.shape[0] - 1
    if rows[0, ADMIT] == 1.0:
        return 0
    if rows[0, LEVEL] != 1.0:
        return last
    best = 0
    for row in range(last):
        if mask[row] and abs(rows[row, BUDGET] - globals_row[PARAMETER]) < abs(
            rows[best, BUDGET] - globals_row[PARAMETER]
        ):
            best = row
    return best


# Routers


@chooser("llm")
def least_load(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Router: the engine with the least load, waiting requests counting four; first come, first served."""
    last = mask.shape[0] - 1
    if rows[0, ADMIT] == 1.0:
        return 0
    if rows[0, SEND] != 1.0:
        return last
    best, least = 0, np.inf
    for row in range(last):
        load = QUEUE_WEIGHT * rows[row, WAITING] + rows[row, RUNNING]
        if mask[row] and load < least:
            best, least = row, load
    return best


@chooser("llm")
def prefix_affinity(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Router: the engine that has most of the prompt in its cache, then the least load; first come, first served."""
    last = mask.shape[0] - 1
    if rows[0, ADMIT] == 1.0:
        return 0
    if rows[0, SEND] != 1.0:
        return last
    best, most, least = 0, -1.0, np.inf
    for row in range(last):
        load = QUEUE_WEIGHT * rows[row, WAITING] + rows[row, RUNNING]
        if mask[row] and (rows[row, CACHED] > most or (rows[row, CACHED] == most and load < least)):
            best, most, least = row, rows[row, CACHED], load
    return best


ROUTERS = (least_load.name, prefix_affinity.name)
"""Policies that choose engines."""


def policy_refusal(scenario: LlmScenario, policy: str) -> str:
    """Return why a policy does not apply to `scenario`, empty if it does."""
    if policy in ROUTERS and ("route" not in scenario.decide or scenario.engines == 1):
        return "it chooses engines, but there is nothing to choose: expected several, and 'route' in 'decide'"
    if policy == sarathi.name and "budget" not in scenario.decide:
        return "it chooses token budgets: expected 'budget' in 'decide'"
    return ""
