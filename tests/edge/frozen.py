"""What the built-in edge scenarios are, once and for all: nobody can win by moving them."""

from __future__ import annotations

FROZEN = {
    "edge/cpu-mini": "f0bd79f2f9f2543f660565a2cdba8c18a6c328b64e056c2bab38ff549dfe8d3b",
    "edge/drone": "045b844b485abf3b373b46a638318645e0a97ec6bc478787ed0c113529896b96",
    "edge/heavy": "a6f3b9d50585713c1ff52598f3ac121ebbda58f116edba77033b564a81adc753",
    "edge/light": "4b239fb6f786f5b3d5b709206dc50fb832287e196550f5471461b9d4904bc255",
    "edge/medium": "9cd5ce2467c6d363022583c1f1a07b439dfe6647ec63301bdb7c94536de45fc9",
    "edge/overload": "b880635e142c8961b2b1cdf696b499f61ff36c80647ed599745f1d4bae16d0ef",
    "edge/tiny": "39104ec82225895f12e1edf35bb73909684d9c3a92563c89548c1d92cc965d42",
}
"""Digest of each built-in: tasks, ladders, device and reward weights."""

WRITTEN = ("reward.drops", "reward.lateness", "reward.on_time_accuracy", "reward.utilisation")
"""Keys with defaults that every built-in states all the same: they decide results."""
