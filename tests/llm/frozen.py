"""Built-in scenarios of LLM engines are frozen: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "llm/chat": "0a3924bbb4fc3dbe4e24414e4f6ccbfe15a7fb93b2c77e6fa872a2b4ed4b9411",
    "llm/code": "c25270cb27f42faf07be21acef27c10338c6a3c56fb8de1488bf19fdf7fdc3ba",
    "llm/fleet": "ae216d4109cb111008a25acc91cfd87ece1d6c50dcf252f4b06b15da07ab07d5",
    "llm/tiny": "8a0350e07a2b18e3056463d958e06c4d92c1db78253eeef775f29da46fe67eba",
}
"""Digest of each built-in: engines, their step time, requests, classes, and reward weights."""

WRITTEN = (
    "engine.version",
    "engine.token_budget",
    "engine.seats",
    "engine.block_tokens",
    "engine.longest_tokens",
    "engine.steps_in_flight",
    "engine.prefix_cache",
    "engine.watermark",
    "engine.long_prefill_tokens",
    "engine.preempt",
    "engine.stop",
    "decide",
    "router",
    "rows",
    "reward.time",
    "reward.violations",
)
"""Keys with defaults that every built-in states all the same."""
