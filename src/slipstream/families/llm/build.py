"""Compile a scenario of LLM engines into the arrays of the kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.llm.kernel import state as k
from slipstream.families.llm.scenario import DrawnRequests, ListedRequests, LlmScenario
from slipstream.families.llm.workload.distributions import drawn_lengths, gap_quantiles
from slipstream.families.llm.workload.profiles import StepArrays, step_arrays
from slipstream.families.llm.workload.sources import TracedRequests, read_requests
from slipstream.families.shared.schema import nanoseconds, nanoseconds_of
from slipstream.sim.compiled_scenario import cached_per_scenario
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.heap import empty_heap
from slipstream.sim.kernel.lanes import LOG_MARGIN

PREEMPT = {"last-admitted": k.LAST_ADMITTED, "lowest-priority": k.LOWEST_PRIORITY}
ROUTERS = {"round-robin": k.ROUND_ROBIN, "least-load": k.LEAST_LOAD, "prefix-affinity": k.PREFIX_AFFINITY}


@dataclass(frozen=True)
class CompiledScenario:
    """A scenario as arrays, with its sizes."""

    spec: dict[str, np.ndarray]
    requests: int
    """Requests of an episode."""
    blocks: int
    """Blocks whose state is kept: none without the prefix cache."""
    rows: int
    """Candidate rows of an observation, wait included."""
    all_rows: int
    """Candidate rows that heuristics see, wait included."""


def candidate_rows(scenario: LlmScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return compiled_scenario(scenario).rows


def all_rows(scenario: LlmScenario) -> int:
    """Return the number of rows that heuristics see, wait included."""
    return compiled_scenario(scenario).all_rows


def log_margin(scenario: LlmScenario) -> int:
    """Return the most rows of the log that one event, or one schedule and the decision before it, may write."""
    return LOG_MARGIN + 4 * scenario.engine.seats


def timescale(scenario: LlmScenario) -> int:
    """Return the time that a request of mean length takes alone."""
    machine = compiled_scenario(scenario).spec["machine"][0]
    return max(1, round(float(machine["decode_token"]) * int(machine["mean_output"])))


def spec_arrays(scenario: LlmScenario) -> dict[str, np.ndarray]:
    """Return the constants of an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: LlmScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for `lanes` lanes, each keeping up to `log_rows` rows of its event log."""
    parts = compiled_scenario(scenario)
    engines, seats = scenario.engines, scenario.engine.seats
    buckets = 1 << max(0, 2 * parts.blocks - 1).bit_length() if parts.blocks else 1
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "requests": np.zeros((lanes, parts.requests), k.REQUEST),
        "engines": np.zeros((lanes, engines), k.ENGINE),
        "seats": np.zeros((lanes, engines, seats), np.int32),
        "running": np.zeros((lanes, engines, seats), np.int32),
        "waiting": np.zeros((lanes, engines, parts.requests), np.int32),
        "steps": np.zeros((lanes, engines, 2), k.STEP),
        "members": np.zeros((lanes, engines, 2, seats), np.int32),
        "clients": np.zeros((lanes, len(scenario.classes)), k.CLIENT),
        "blocks": np.zeros((lanes, engines, max(1, parts.blocks)), k.BLOCK),
        "buckets": np.zeros((lanes, engines, buckets), np.int32),
        "sorted": np.zeros((lanes, seats), np.int32),
        "heap": empty_heap(lanes, engines + 1),
        "terms": np.zeros((lanes, 2)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


# The arrays of the spec


@cached_per_scenario
def compiled_scenario(scenario: LlmScenario) -> CompiledScenario:
    """Return the scenario as arrays."""
    traced = None if isinstance(scenario.requests, DrawnRequests) else read_requests(scenario)
    steps = step_arrays(scenario)
    machine = np.zeros(1, k.MACHINE)
    gaps, prompts, outputs, paired = np.zeros(2), np.zeros(1, np.int64), np.zeros(1, np.int64), False
    if isinstance(scenario.requests, DrawnRequests):
        gaps = gap_quantiles(scenario.requests.burstiness)
        prompts, outputs, paired = drawn_lengths(scenario, scenario.requests)
    count = _episode(scenario, traced)
    levels = _levels(scenario)
    most = max(count, scenario.engine.seats, len(levels), scenario.engines)
    rows = max(scenario.rows, len(levels), scenario.engines)
    every = rows + 1 if most <= rows else most + 2
    spec = {
        "machine": machine,
        "classes": _classes(scenario),
        "levels": levels,
        "splits": _splits(scenario, traced, count),
        "gaps": gaps,
        "prompts": prompts,
        "outputs": outputs,
        "listed": np.zeros(0, k.LISTED) if traced is None else traced.rows,
        "hashes": np.zeros(0, np.uint64) if traced is None else traced.hashes,
        **steps.tables,
    }
    row = machine[0]
    row["rows"], row["all_rows"], row["requests"] = rows, every, count
    row["paired"], row["listed"] = paired, traced is not None
    row["mean_output"] = max(1, round(float((outputs if traced is None else traced.rows["output"]).mean())))
    row["hash_tokens"] = scenario.engine.block_tokens if traced is None else traced.hash_tokens
    row["piece_blocks"] = max(1, int(row["hash_tokens"]) // scenario.engine.block_tokens)
    _fill_machine(row, scenario, steps)
    kept = int(row["blocks"]) if scenario.engine.prefix_cache else 0
    return CompiledScenario(spec, count, kept, rows + 1, every)


def _episode(scenario: LlmScenario, traced: TracedRequests | None) -> int:
    """Return the number of requests of an episode."""
    requests = scenario.requests
    if isinstance(requests, DrawnRequests):
        return requests.requests
    assert traced is not None
    total = len(traced.rows)
    if isinstance(requests, ListedRequests) or requests.requests is None:
        return total
    if requests.requests > total:
        raise ScenarioError(f"requests.requests: the trace has {total}: expected at most as many")
    return requests.requests


def _splits(scenario: LlmScenario, traced: TracedRequests | None, count: int) -> np.ndarray:
    """Return the first and last request with which an episode of training, and one of evaluation, may begin."""
    splits = np.zeros(2, k.SPLIT)
    if traced is None or isinstance(scenario.requests, ListedRequests | DrawnRequests):
        return splits
    total = len(traced.rows)
    splits["high"] = total - count
    cut = total - math.floor(scenario.requests.held_out * total)
    if scenario.requests.held_out > 0.0 and cut >= count and total - cut >= count:
        splits[0]["high"], splits[1]["low"] = cut - count, cut
    return splits


def _classes(scenario: LlmScenario) -> np.ndarray:
    rows = np.zeros(len(scenario.classes), k.CLASS)
    shares = np.cumsum([one.share for one in scenario.classes])
    for row, one, until in zip(rows, scenario.classes, (shares / shares[-1]).tolist(), strict=True):
        row["priority"], row["until"] = one.priority, until
        row["ttft"] = nanoseconds_of(one.ttft_s or 0.0)
        row["tpot"] = nanoseconds(one.tpot_ms or 0.0)
    return rows


def _levels(scenario: LlmScenario) -> np.ndarray:
    if scenario.levels is None:
        return np.zeros(0, k.LEVEL)
    pairs = [
        (budget, math.floor(share * scenario.engine.blocks))
        for budget in scenario.levels.token_budgets
        for share in scenario.levels.watermarks
    ]
    return np.array(pairs, k.LEVEL)


def _fill_machine(row: Any, scenario: LlmScenario, steps: StepArrays) -> None:
    engine, requests = scenario.engine, scenario.requests
    row["engines"], row["classes"] = scenario.engines, len(scenario.classes)
    row["budget"], row["seats"], row["blocks"] = engine.token_budget, engine.seats, engine.blocks - 1
    row["block_tokens"], row["depth"], row["prefix"] = engine.block_tokens, engine.steps_in_flight, engine.prefix_cache
    row["longest"] = min(engine.longest_tokens, (engine.blocks - 1) * engine.block_tokens)
    row["headroom"] = math.floor(engine.watermark * engine.blocks)
    row["version"] = int(engine.version.partition(".")[2])
    row["long_prefill"], row["preempt"] = engine.long_prefill_tokens, PREEMPT[engine.preempt]
    row["eos"], row["router"] = engine.stop == "eos", ROUTERS[scenario.router]
    row["decides_budget"] = "budget" in scenario.decide
    row["decides_evict"] = "evict" in scenario.decide
    row["decides_route"] = "route" in scenario.decide and scenario.engines > 1
    row["levels"] = 0 if scenario.levels is None else len(_levels(scenario))
    if isinstance(requests, DrawnRequests):
        row["mean_gap"] = 1e9 / requests.rate
        if requests.prefix is not None:
            row["groups"], row["prefix_tokens"] = requests.prefix.groups, requests.prefix.tokens
    if scenario.prediction is not None:
        row["predicts"], row["spread"] = True, math.sqrt(math.log1p(scenario.prediction.cv**2))
    for name, value in steps.constants.items():
        row[name] = value
    row["decode_token"] = steps.decode_token
    row["time_weight"], row["violation_weight"] = scenario.reward.time, scenario.reward.violations
    row["log_margin"] = log_margin(scenario)
