"""What compiled heuristics of several families share."""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def random_row(mask, listed, coin):
    """Return any of the first `listed` rows that is legal, each as likely as the others; the last row if none is."""
    legal = 0
    for row in range(listed):
        legal += mask[row]
    left = int(coin * legal)
    for row in range(listed):
        if mask[row]:
            if left == 0:
                return row
            left -= 1
    return mask.shape[0] - 1
