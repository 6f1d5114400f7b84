"""Two tasks on one stream: a long scan holds it while short alarms come in. Interrupting the scan saves them."""

import slipstream

SCENARIO = {
    "family": "edge",
    "name": "watchman",
    "horizon_ms": 10_000,
    "device": {"streams": 1, "preemption": {"kind": "resume", "cost_ms": 0.5}},
    "tasks": [
        {
            "name": "scan",
            "model": "builtin:resnet",
            "dataset": "hall",
            "num_variants": 2,
            "variants": [{"latency_ms": 20, "accuracy": 0.7}, {"latency_ms": 30, "accuracy": 0.8}],
            "arrival": {"kind": "periodic", "period_ms": 50},
        },
        {
            "name": "alarm",
            "model": "builtin:mobilenet",
            "dataset": "door",
            "num_variants": 1,
            "variants": [{"latency_ms": 2, "accuracy": 0.9}],
            "arrival": {"kind": "poisson", "mean_gap_ms": 25},
            "deadline_ms": 5,
        },
    ],
}

print(f"{'policy':12} {'scans missed':>12} {'alarms missed':>13} {'reward':>7}")
comparison = slipstream.compare(SCENARIO, ["edf", "edf-fit", "edf-preempt"], episodes=10)
for evaluation in comparison.evaluations:
    scans, alarms = evaluation.mean("miss_rate/scan"), evaluation.mean("miss_rate/alarm")
    print(f"{evaluation.policy:12} {scans:12.1%} {alarms:13.1%} {evaluation.mean('reward'):7.1f}")
