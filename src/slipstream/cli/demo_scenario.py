"""The scenario of `slipstream demo`: two cameras and a radar on two streams, with rates that fit the machine."""

from __future__ import annotations

from typing import Any

CAMERA_MODEL, CAMERA_DATASET = "builtin:resnet", "synthetic:3x224x224"
RADAR_MODEL, RADAR_DATASET = "builtin:mobilenet", "gtsrb"
CAMERA_MS = (1.0, 2.0, 4.2, 8.0, 22.0)
"""Latencies of the camera's variants where nothing was measured: one core of an AMD EPYC, PyTorch 2.13."""
RADAR_MS = 1.2
ACCURACIES = (0.30, 0.45, 0.60, 0.75, 0.85)
PERIOD, RADAR_PHASE, RADAR_DEADLINE, JITTER = 2.0, 0.35, 0.25, 0.3
"""Times of the tasks, in latencies of the largest camera variant. A radar job comes while camera jobs run, and is due
before a large one that began just before has ended."""
HORIZON_MS = 4000.0


def demo_scenario(longest_ms: float = CAMERA_MS[-1], profile: str | None = None) -> dict[str, Any]:
    """Return the scenario for a machine on which the largest camera variant takes `longest_ms` alone.

    Latencies come from the file `profile` where it is given.
    """
    camera = {
        "model": CAMERA_MODEL,
        "dataset": CAMERA_DATASET,
        "num_variants": len(CAMERA_MS),
        "variants": [
            {"name": f"resnet-{rank}", "latency_ms": latency, "accuracy": accuracy}
            for rank, (latency, accuracy) in enumerate(zip(CAMERA_MS, ACCURACIES, strict=True))
        ],
        "deadline_ms": _ms(PERIOD, longest_ms),
    }
    front = {"kind": "periodic", "period_ms": _ms(PERIOD, longest_ms), "jitter_ms": _ms(JITTER, longest_ms)}
    side = {"kind": "poisson", "mean_gap_ms": _ms(PERIOD, longest_ms)}
    radar = {
        "name": "radar",
        "model": RADAR_MODEL,
        "dataset": RADAR_DATASET,
        "num_variants": 1,
        "variants": [{"name": "mobilenet-0", "latency_ms": RADAR_MS, "accuracy": 0.9}],
        "arrival": {
            "kind": "periodic",
            "period_ms": _ms(PERIOD, longest_ms),
            "phase_ms": _ms(RADAR_PHASE, longest_ms),
        },
        "deadline_ms": _ms(RADAR_DEADLINE, longest_ms),
        "weight": 2.0,
        "criticality": 1,
    }
    scenario: dict[str, Any] = {
        "family": "edge",
        "name": "demo",
        "description": "Two cameras with five network sizes and a radar with a short deadline share two streams.",
        "horizon_ms": HORIZON_MS,
        "device": {
            "streams": 2,
            "interference": {"kind": "share", "total_throughput": 1.8},
            "latency": {"kind": "lognormal", "cv": 0.1},
            "late": "drop",
            "queue_limit": 16,
        },
        "tasks": [{"name": "front", **camera, "arrival": front}, {"name": "side", **camera, "arrival": side}, radar],
    }
    if profile is not None:
        scenario["profile"] = profile
    return scenario


def longest_latency_ms(profile: dict[str, Any]) -> float:
    """Return the median latency of the largest camera variant in a profile that `slipstream profile` wrote."""
    return max(float(variant["p50_ms"]) for variant in profile["variants"] if variant["model"] == CAMERA_MODEL)


def _ms(share: float, longest_ms: float) -> float:
    return round(share * longest_ms, 2)
