"""Digests of the built-in cluster scenarios, and the keys that each of them states."""

from __future__ import annotations

FROZEN = {
    "cluster/bursty": "c4a3675422abbd49e66ecdf0df452a22c6ac30bcaceeb846a79cd8976508b206",
    "cluster/heavy": "9bbede3ef222885a7cec7b6bfd65c14afcec127d4f85aa43115754021c920e71",
    "cluster/light": "5784aa1a86e677404d527ceb8e5158e7acd0a7054718744fdb8696d98188ab23",
    "cluster/lublin-256": "530a5722a8f0bad90166616c5c538918064f2ba90763b4181c28baf8a0c4c11d",
    "cluster/tiny": "265951a5436f06da32802c0b5deb906aad6faf5be0f3932cd37b2a47faf4ab79",
}
"""Digest of each built-in: the cluster, its rules, every job of the workload, and reward weights."""
WRITTEN = ("nodes", "placement", "backfill", "hold", "jobs", "reward.slowdown", "reward.energy", "reward.unfairness")
"""Keys that every built-in states though they have defaults."""
