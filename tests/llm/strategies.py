"""Hypothesis strategies for scenarios of LLM engines: few blocks and seats, small budgets, many ties."""

from __future__ import annotations

from hypothesis import strategies as st

from slipstream.families.llm.scenario import LlmScenario
from tests.strategies import Json


@st.composite
def llm_scenarios(draw: st.DrawFn) -> LlmScenario:
    """Draw a small valid scenario of the whole machine; lively choices come first, as drawing prefers the first."""
    return LlmScenario.model_validate(_scenario(draw))


def _scenario(draw: st.DrawFn) -> Json:
    size = draw(st.sampled_from([4, 2, 1, 16]))
    version = draw(st.sampled_from(["0.32", "0.19"]))
    classes = _classes(draw)
    decide = draw(st.lists(st.sampled_from(["budget", "evict", "route"]), unique=True))
    watermarks = [0.0, 0.2] if version == "0.32" else [0.0]
    scenario: Json = {
        "family": "llm",
        "name": "random",
        "engines": draw(st.sampled_from([1, 1, 2, 3])),
        "engine": {
            "version": version,
            "token_budget": draw(st.sampled_from([16, 64, 8, 5, 1])),
            "seats": draw(st.sampled_from([3, 5, 2, 1])),
            "blocks": draw(st.sampled_from([8, 9, 10, 12, 16, 7])),
            "block_tokens": size,
            "longest_tokens": draw(st.sampled_from([1000, 1000, 1000, 20])),
            "steps_in_flight": draw(st.sampled_from([2, 2, 1])),
            "prefix_cache": draw(st.sampled_from([True, True, False])),
            "watermark": draw(st.sampled_from([0.0, 0.2, 0.5])) if version == "0.32" else 0.0,
            "long_prefill_tokens": draw(st.sampled_from([0, 0, 3])),
            "preempt": draw(st.sampled_from(["last-admitted", "lowest-priority"])),
            "stop": draw(st.sampled_from(["limit", "limit", "eos"])),
        },
        "step_time": _step_time(draw),
        "requests": _requests(draw, size, [one["name"] for one in classes]),
        "classes": classes,
        "prediction": draw(st.sampled_from([None, {"cv": 0.0}, {"cv": 0.6}])),
        "decide": decide,
        "router": draw(st.sampled_from(["prefix-affinity", "least-load", "round-robin"])),
        "rows": draw(st.sampled_from([32, 4, 2])),
        "reward": {"time": draw(st.sampled_from([1.0, 0.1])), "violations": draw(st.sampled_from([1.0, 0.0, 0.3]))},
    }
    if "budget" in decide:
        budgets = draw(st.sampled_from([[4, 8], [2, 16, 32]]))
        scenario["levels"] = {"token_budgets": budgets, "watermarks": watermarks}
    return scenario


def _classes(draw: st.DrawFn) -> list[Json]:
    return [
        {
            "name": f"class-{number}",
            "share": draw(st.sampled_from([1.0, 3.0])),
            "priority": draw(st.sampled_from([0, 0, 1, -1])),
            "ttft_s": draw(st.sampled_from([None, 0.005, 0.02])),
            "tpot_ms": draw(st.sampled_from([None, 1.0, 3.0])),
        }
        for number in range(draw(st.integers(1, 3)))
    ]


def _step_time(draw: st.DrawFn) -> Json:
    # On a grid of whole milliseconds steps end together with arrivals.
    if draw(st.booleans()):
        return {"kind": "closed", "dense": [{"at": 0, "us": 1000.0}]}
    return {
        "kind": "closed",
        "dense": [
            {"at": 0, "us": 500.0},
            {"at": 4, "us": 700.0},
            {"at": 10, "us": draw(st.sampled_from([2000.0, 800.0]))},
        ],
        "head": [{"at": 1, "us": 10.0}, {"at": 3, "us": 35.0}],
        "attention_us": 3.0,
        "sequence_us": draw(st.sampled_from([0.0, 7.3])),
        "context_us": 2.5,
        "mixed_context_us": 4.1,
        "prefill_us": draw(st.sampled_from([0.0, 0.7])),
        "step_us": 100.0,
    }


def _requests(draw: st.DrawFn, size: int, names: list[str]) -> Json:
    if draw(st.integers(0, 2)) == 0:
        times = sorted(draw(st.lists(st.integers(0, 12), min_size=4, max_size=14)))
        return {
            "kind": "list",
            "hash_tokens": size * draw(st.sampled_from([1, 2])),
            "requests": [
                {
                    "arrival_s": time / 1000.0,
                    "prompt": draw(st.integers(1, 3 * size + 1)),
                    "output": draw(st.integers(1, 2 * size + 2)),
                    "client": draw(st.sampled_from([None, *names])),
                    "hashes": draw(st.sampled_from([[], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 9], [7, 2]])),
                    "predicted": draw(st.sampled_from([None, None, 5])),
                }
                for time in times
            ],
        }
    prompt = draw(st.sampled_from([{"kind": "uniform", "least": 1, "most": 3 * size}, _lognormal(2 * size)]))
    independent = {"kind": "independent", "prompt": prompt, "output": _lognormal(2 * size + 3)}
    pairs = {"kind": "pairs", "pairs": [[1, 4], [3 * size, 2], [2 * size, 2 * size], [size, 2 * size + 2]]}
    return {
        "kind": "drawn",
        "requests": draw(st.integers(5, 14)),
        "rate_hz": draw(st.sampled_from([2000.0, 800.0, 200.0])),
        "burstiness": draw(st.sampled_from([1.0, 2.0, 0.5])),
        "lengths": draw(st.sampled_from([independent, pairs])),
        "prefix": draw(st.sampled_from([{"groups": 2, "tokens": size}, {"groups": 1, "tokens": size + 1}, None])),
    }


def _lognormal(most: int) -> Json:
    return {"kind": "lognormal", "median": max(1.0, most / 3.0), "sigma": 0.8, "most": most}
