"""Built-in scenarios of elastic jobs are frozen: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "elastic/at-events": "8e16e3dc3a73243603273f6ec55eb3b1b76f604ade54373238d94ac8035b8e55",
    "elastic/scaling": "268500f409936345eb8efd84053dd5b3388c3f02ffd1600d7c0582dc785dde36",
    "elastic/three-kinds": "b5ac7efd88e2e2fe7763eaf2e134cf76ddd19dc8225a5e2f0ba62fe1009d3704",
    "elastic/tiny": "62704deeaf2c8f16dc72f7d1755570b15da2d72c5f75da42affd8d9dfdbdd394",
}
"""Digest of each built-in: kinds of GPUs, models, jobs, rounds and reward weights."""

WRITTEN = ("round_s", "at_events", "rows", "reward.time", "reward.restarts")
"""Keys with defaults that every built-in states all the same."""
