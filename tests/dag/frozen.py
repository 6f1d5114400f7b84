"""What the built-in dag scenarios are, once and for all: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "dag/batch-50x20": "452eacee1882865352b0147970d9cbdc1bf7b358a5ca008672a22460d5a7680f",
    "dag/ml-workflow": "7cd7ee8466d02e6fd395d01081d3f1e7c2dfd4417bc358541920c56de4bf82d5",
    "dag/small": "c67497a6b5138210edb6a48959158bce283168b86e605d708caac34a5b659724",
    "dag/stream-10x50": "e38d8704abbf4fe0a4b80d012b0f2a99242e9e8f8b0ab4fa028b677ac517f531",
    "dag/stream-50x200": "7e187bed080abc329fd5258f74893179ff3887d8af285e8384c3a6381d83cb80",
    "dag/tiny": "d6ebf4d4737dd133aaec90e8060350ff6b5464d6ce7804e236eddc675d34ddaf",
}
"""Digest of each built-in: machine, arrivals, every job that can arrive, and reward weights."""

WRITTEN = ("arrivals", "executors", "jobs", "moving_delay_s", "reward", "warmup_delay_s")
"""Keys with defaults that every built-in states all the same: they decide results."""
