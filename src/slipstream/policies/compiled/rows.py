"""Row selection shared by compiled heuristics of several families."""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def random_row(mask, listed, draw):
    """Return one of the legal rows among the first `listed`, uniformly by `draw` in [0, 1); the last row if none is."""
    legal = 0
    for row in range(listed):
        legal += mask[row]
    left = int(draw * legal)
    for row in range(listed):
        if mask[row]:
            if left == 0:
                return row
            left -= 1
    return mask.shape[0] - 1
