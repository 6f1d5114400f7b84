"""Losses of single choices and their gradients, in compiled code.

Every loss is a mean over choices of a policy term, the squared error of the value, and an entropy bonus. Its gradient
at the logits and the value depends on the choice alone, so a block of choices runs forward and backward in one sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstream.jit.decorators import kernel
from slipstream.policies.compiled.vectors import ONE, ZERO

TWO = np.float32(2.0)

CLIPPED, LIKELIHOOD, EXPECTED = range(3)
"""Policy terms: PPO's clipped surrogate, log-probability times advantage, and expected action value."""

SAMPLE = np.dtype([("taken", "i4"), ("advantage", "f4"), ("log_prob", "f4"), ("value_target", "f4")])
"""Targets of a choice: candidate taken, its advantage, its log-probability when it was taken, target of the value."""

LOSS_SETTINGS = np.dtype(
    [
        ("term", "i8"),
        ("clip_range", "f4"),
        ("vf_coef", "f4"),
        ("ent_coef", "f4"),
        ("value_scale", "f4"),
        ("weight", "f4"),
    ]
)
"""Loss of a choice: policy term, clip range, coefficients of value and entropy, scale of the value, weight of all."""

POLICY, VALUE, ENTROPY, KL, CLIP_FRACTION = range(5)
N_STATS = 5
"""Statistics summed over choices: the three terms of the loss, approximate KL divergence, and clipped ratios."""


@dataclass(frozen=True)
class Objective:
    """Loss function: a policy term, and the coefficients of value error and entropy."""

    term: int
    vf_coef: float = 0.0
    ent_coef: float = 0.0
    clip_range: float = 0.0

    def as_array(self, value_scale: float, weight: float) -> np.ndarray:
        """Return the settings of the loss for compiled code; every choice has the weight `weight`."""
        return np.array([(self.term, self.clip_range, self.vf_coef, self.ent_coef, value_scale, weight)], LOSS_SETTINGS)


@kernel
def loss_gradient(loss, sample, action_values, first_row, registers, logits, count, value, gradients, sums):
    """Write the gradient of a choice's loss at its logits, return that at its value, and add the terms to `sums`.

    `logits` is the offset of the choice's logits in `registers` and of their gradients in `gradients`, `first_row` the
    index of its first candidate in `action_values`.
    """
    highest, total = registers[logits], ZERO
    for row in range(1, count):
        highest = max(highest, registers[logits + row])
    for row in range(count):
        probability = math.exp(registers[logits + row] - highest)
        gradients[logits + row] = probability
        total += probability
    log_total, inverse, entropy, expected = highest + math.log(total), ONE / total, ZERO, ZERO
    for row in range(count):
        gradients[logits + row] *= inverse
        entropy -= gradients[logits + row] * (registers[logits + row] - log_total)
    if loss.term == EXPECTED:
        for row in range(count):
            expected += gradients[logits + row] * action_values[first_row + row]
        for row in range(count):
            entropy_gradient = loss.ent_coef * (registers[logits + row] - log_total + entropy)
            logit_gradient = expected - action_values[first_row + row] + entropy_gradient
            gradients[logits + row] *= logit_gradient * loss.weight
        sums[POLICY] -= expected
    else:
        taken_gradient = policy_gradient(loss, sample, registers[logits + sample.taken] - log_total, sums)
        for row in range(count):
            logit_gradient = taken_gradient + loss.ent_coef * (registers[logits + row] - log_total + entropy)
            gradients[logits + row] *= logit_gradient * loss.weight
        gradients[logits + sample.taken] -= taken_gradient * loss.weight
    value_error = (value - sample.value_target) / loss.value_scale
    sums[VALUE] += value_error * value_error
    sums[ENTROPY] += entropy
    return TWO * loss.vf_coef * value_error / loss.value_scale * loss.weight


@kernel
def policy_gradient(loss, sample, log_prob, sums):
    """Return the derivative of the policy objective by the log-probability of the candidate taken."""
    if loss.term == LIKELIHOOD:
        sums[POLICY] -= sample.advantage * log_prob
        return sample.advantage
    change = log_prob - sample.log_prob
    ratio = math.exp(change)
    clipped = min(max(ratio, ONE - loss.clip_range), ONE + loss.clip_range)
    sums[POLICY] -= min(ratio * sample.advantage, clipped * sample.advantage)
    sums[KL] += ratio - ONE - change
    sums[CLIP_FRACTION] += ratio != clipped
    # Beyond the clip range the objective is constant, unless moving back would increase it.
    return ZERO if clipped * sample.advantage < ratio * sample.advantage else ratio * sample.advantage
