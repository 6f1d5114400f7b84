"""A choice of one's own: it looks at all rows at once, and may wait."""

import slipstream
from slipstream.families.edge.features import ACCURACY, CORUN_LATENCY, DISPATCH, LATENCY, SLACK, WAITING_JOBS


@slipstream.chooser("edge")
def calm_or_busy(globals_row, rows, mask):
    """A job that waits alone runs in its most accurate variant in time; of several, the one with the best rate."""
    best, best_value = mask.shape[0] - 1, 0.0
    for row in range(mask.shape[0]):
        if mask[row] and rows[row, DISPATCH] == 1.0 and rows[row, CORUN_LATENCY] <= rows[row, SLACK]:
            alone = globals_row[WAITING_JOBS] == 1.0
            value = rows[row, ACCURACY] if alone else rows[row, ACCURACY] / rows[row, LATENCY]
            if value > best_value:
                best, best_value = row, value
    return best


if __name__ == "__main__":
    comparison = slipstream.compare("edge/light", ["edf", "edf-fit", calm_or_busy], episodes=20, seed=0)
    for evaluation in comparison.evaluations:
        reward, accuracy = evaluation.mean("reward"), evaluation.mean("effective_accuracy")
        print(f"{evaluation.policy:14} reward {reward:8.1f}   effective accuracy {accuracy:.3f}")
