"""Heuristics of the taskgraph family: which task a processor takes, or which processor a task goes to."""

from __future__ import annotations

from slipstream.policies.base import choice
from slipstream.taskgraph.features import COIN, ROWS


@choice("taskgraph")
def random(globals_row, rows, mask):
    """Any row but waiting, each as likely as the others."""
    last = mask.shape[0] - 1
    listed = int(globals_row[ROWS])
    legal = 0
    for row in range(listed):
        legal += mask[row]
    left = int(globals_row[COIN] * legal)
    for row in range(listed):
        if mask[row]:
            if left == 0:
                return row
            left -= 1
    return last
