"""A rule of one's own, compared with earliest-deadline-first on the same arrivals."""

import slipstream
from slipstream.families.edge.features import ACCURACY, CORUN_LATENCY, LATENCY, SLACK


@slipstream.rule("edge")
def bargain(row):
    """Earliest deadline first, but a point of accuracy is worth 1 ms of slack, and each ms of work costs 2."""
    if row[CORUN_LATENCY] > row[SLACK]:
        return -1e12 - row[LATENCY]
    return row[ACCURACY] * 1e8 - 2.0 * row[LATENCY] - row[SLACK]


if __name__ == "__main__":
    comparison = slipstream.compare("edge/heavy", ["edf", bargain], episodes=20, seed=0)
    for evaluation in comparison.evaluations:
        reward, misses = evaluation.mean("reward"), evaluation.mean("miss_rate")
        print(f"{evaluation.policy:8} reward {reward:8.1f}   miss rate {misses:.4f}")
    gain, low, high = comparison.difference("bargain", "edf", "reward")
    print(f"bargain earns {gain:+.1f} more per episode (95% interval {low:+.1f} to {high:+.1f})")
