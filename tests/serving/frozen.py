"""Built-in serving scenarios are frozen: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "serving/fleet-40": "272256d2aee7fa706a47a0269c0a17381d0e7a72e8fb5b50568ac4995ef5b8f0",
    "serving/route": "a634ef3a2afb69b8297724f286fb9820520d5553871e1aae517041a4c6849f62",
    "serving/route-bursty": "b0809dba93e2f6a037d4e72dac820597c43f68239d67ea7b97febc11d123fe94",
    "serving/small": "9e69a74bef5965f283b35f1f48179a29e48805fc4738dae47d498744c9b8827a",
    "serving/tiny": "60f3db6df481aa9c7f9b6d3be993d179be606ce171e4510ea2df6e08bb6b314d",
}
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
    "planning.headroom",
    "planning.shortage",
    "forecast",
    "reward.accuracy",
    "reward.violations",
    "reward.switches",
)
"""Keys with defaults that every built-in states all the same."""
