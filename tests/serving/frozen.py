"""Built-in serving scenarios are frozen: nobody can win by moving them."""

from __future__ import annotations

FROZEN: dict[str, str] = {}
"""Digest of each built-in: fleet, models with their profiles, arrivals, rules of the data plane, and reward weights."""

WRITTEN = (
    "batch_sizes",
    "slo_share",
    "mode",
    "batching",
    "routing",
    "drop",
    "planning.interval_s",
    "planning.moves",
    "forecast",
    "reward.accuracy",
    "reward.violations",
    "reward.switches",
)
"""Keys with defaults that every built-in states all the same."""
