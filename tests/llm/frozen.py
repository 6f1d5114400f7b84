"""Built-in scenarios of LLM engines are frozen: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "llm/chat": "1e91499276ee1c744ae6edcbad6e6ada946797532074bf4e4767d2549011e1d1",
    "llm/code": "c25270cb27f42faf07be21acef27c10338c6a3c56fb8de1488bf19fdf7fdc3ba",
    "llm/fleet": "6add6d5989e4c5c2168c84e8168c2f3f351c36d709b81db48c7deb616fe2718c",
    "llm/tiny": "21e48091d64e4e7338b1ce812c5bf9f4e4e8740836bcf1de2ce5afc527138836",
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
