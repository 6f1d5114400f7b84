"""A scenario as a dictionary: checked, evaluated, and written to a JSON file that says the same."""

from pathlib import Path

import slipstream
from slipstream.scenario import digest, dump

SCENARIO = {
    "family": "edge",
    "name": "kiosk",
    "horizon_ms": 5000,
    "tasks": [
        {
            "name": "face",
            "model": "builtin:resnet",
            "dataset": "faces",
            "num_variants": 5,
            "profile": "resnet@xavier-trt",
            "arrival": {"kind": "poisson", "mean_gap_ms": 20},
            "deadline_ms": 15,
        },
        {
            "name": "gesture",
            "model": "builtin:mobilenet",
            "dataset": "gestures",
            "num_variants": 2,
            "variants": [{"latency_ms": 2, "accuracy": 0.7}, {"latency_ms": 9, "accuracy": 0.9}],
            "arrival": {"kind": "periodic", "period_ms": 33},
        },
    ],
}

scenario = slipstream.load(SCENARIO)
for policy in ("edf", "edf-fit"):
    result = slipstream.evaluate(scenario, policy, episodes=10)
    print(f"{policy:8} miss rate {result.mean('miss_rate'):.4f}  accuracy {result.mean('effective_accuracy'):.3f}")
Path("kiosk.json").write_text(dump(scenario), encoding="utf-8")
print("kiosk.json holds the same work:", digest(slipstream.load("kiosk.json")) == digest(scenario))
