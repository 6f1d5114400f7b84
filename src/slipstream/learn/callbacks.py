"""Callbacks of a training: what experiment trackers are connected with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainingEvent:
    """State of a training after a rollout, an update or an evaluation."""

    update: int
    """Number of the update, from 1."""
    steps: int
    """Choices that were made."""
    seconds: float
    """Time since the training began, compilation excluded."""
    phase: str
    """`imitation`, `hindsight`, `ppo` or `reinforce`."""
    figures: dict[str, float]
    """What was measured, by name."""
    policy: Path | None = None
    """After an evaluation, the folder of the best policy; None without one."""


Callback = Callable[[TrainingEvent], None]


@dataclass(frozen=True)
class TrainingCallbacks:
    """Functions that a training calls; what they raise ends it."""

    on_rollout: Callback | None = None
    """Called after every rollout, before the network learns from it, with its reward rate and candidates."""
    on_update: Callback | None = None
    """Called after every update, with its losses and what the rollout gave."""
    on_evaluation: Callback | None = None
    """Called after every evaluation, with the rewards on held-out episodes and the last losses."""


def call(callback: Callback | None, event: TrainingEvent) -> None:
    """Call `callback`, if there is one."""
    if callback is not None:
        callback(event)
