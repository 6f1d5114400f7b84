"""What a choice teaches, in compiled code: losses of single choices and their slopes.

Every loss is a mean over choices of a policy term, the squared error of the value, and a reward for entropy; its slopes
at the logits and the value need nothing but the choice itself, so a network can go forward and back in one sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstream.jit.decorators import kernel
from slipstream.policies.compiled.vectors import ONE, ZERO

TWO = np.float32(2.0)

CLIPPED, LIKELIHOOD, EXPECTED = range(3)
"""Policy terms: PPO's clipped gain, the log-probability of what was taken times its gain, the expected worth."""

LESSON = np.dtype([("taken", "i4"), ("gain", "f4"), ("log_chance", "f4"), ("goal", "f4")])
"""What is known about a choice: the candidate taken, its gain, its log-probability then, and the value's goal."""

RULES = np.dtype([("term", "i8"), ("clip", "f4"), ("value", "f4"), ("entropy", "f4"), ("scale", "f4"), ("share", "f4")])
"""How a choice is judged: policy term, clip range, weights of value and entropy, scale of the value, weight of all."""

POLICY, VALUE, ENTROPY, KL, CUT = range(5)
FIGURES = 5
"""What is summed up over choices: the three terms of the loss, how far the policy moved, and how often it was cut."""


@dataclass(frozen=True)
class Objective:
    """What a network is taught by: a policy term, and how much value and entropy weigh beside it."""

    term: int
    value_weight: float = 0.0
    entropy_weight: float = 0.0
    clip: float = 0.0

    def rules(self, value_scale: float, share: float) -> np.ndarray:
        """Return the rules as compiled code reads them; every choice weighs `share`."""
        return np.array([(self.term, self.clip, self.value_weight, self.entropy_weight, value_scale, share)], RULES)


@kernel
def choice_slopes(rule, lesson, worth, place, registers, logits, count, value, slopes, sums):
    """Write the slopes of one choice's loss at its logits, return that at its value, and sum up the terms.

    `logits` is where the choice's logits lie in the registers and their slopes in `slopes`, `place` where the worth of
    its candidates lies.
    """
    highest, total = registers[logits], ZERO
    for row in range(1, count):
        highest = max(highest, registers[logits + row])
    for row in range(count):
        chance = math.exp(registers[logits + row] - highest)
        slopes[logits + row] = chance
        total += chance
    log_total, inverse, entropy, expected = highest + math.log(total), ONE / total, ZERO, ZERO
    for row in range(count):
        slopes[logits + row] *= inverse
        entropy -= slopes[logits + row] * (registers[logits + row] - log_total)
    if rule.term == EXPECTED:
        for row in range(count):
            expected += slopes[logits + row] * worth[place + row]
        for row in range(count):
            push = expected - worth[place + row] + rule.entropy * (registers[logits + row] - log_total + entropy)
            slopes[logits + row] *= push * rule.share
        sums[POLICY] -= expected
    else:
        pull = policy_pull(rule, lesson, registers[logits + lesson.taken] - log_total, sums)
        for row in range(count):
            push = pull + rule.entropy * (registers[logits + row] - log_total + entropy)
            slopes[logits + row] *= push * rule.share
        slopes[logits + lesson.taken] -= pull * rule.share
    miss = (value - lesson.goal) / rule.scale
    sums[VALUE] += miss * miss
    sums[ENTROPY] += entropy
    return TWO * rule.value * miss / rule.scale * rule.share


@kernel
def policy_pull(rule, lesson, log_chance, sums):
    """Return how much a higher log-probability of what was taken would help."""
    if rule.term == LIKELIHOOD:
        sums[POLICY] -= lesson.gain * log_chance
        return lesson.gain
    change = log_chance - lesson.log_chance
    ratio = math.exp(change)
    limited = min(max(ratio, ONE - rule.clip), ONE + rule.clip)
    sums[POLICY] -= min(ratio * lesson.gain, limited * lesson.gain)
    sums[KL] += ratio - ONE - change
    sums[CUT] += ratio != limited
    # Beyond the limit, going further on brings nothing; going back still does.
    return ZERO if limited * lesson.gain < ratio * lesson.gain else ratio * lesson.gain
