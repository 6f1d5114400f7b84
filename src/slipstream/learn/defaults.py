"""Default settings of a training: what follows the warm start in each family, sized to the time that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipstream.families.contract import Scenario
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer

AUTO, NONE = "auto", "none"
"""Warm starts: the winner of a race of the heuristics, and random weights."""
DEFAULT_MINUTES = 5.0
"""Length of a training with neither minutes nor steps."""
FAMILY_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "edge": {"hindsight.rounds": 150},
    "dag": {"algo": "reinforce", "reinforce.n_epochs": 2},
    "taskgraph": {"hindsight.rounds": 150, "hindsight.candidates": 8, "algo": "reinforce"},
    "serving": {"hindsight.rounds": 150, "hindsight.candidates": 8},
    "cluster": {"hindsight.rounds": 100, "hindsight.candidates": 8},
}
"""What differs from `TrainSettings()` in each family. Hindsight needs a warm start, and is left out without one."""
ROLLOUTS = 60
"""Rollouts that a training with a time limit should have at least."""
LEAST_LANES, LEAST_STEPS = 16, 8
"""Smallest rollout of a training with a time limit."""
PROBE_LANES, PROBE_STEPS = 16, 8
"""Rollout of each of the two updates that measure the speed of a training."""


@dataclass(frozen=True)
class TimeShares:
    """How the seconds of a training with a time limit are divided."""

    seconds: float

    @property
    def race(self) -> float:
        """Seconds of the race of the heuristics."""
        return min(20.0, 0.1 * self.seconds)

    @property
    def reference(self) -> float:
        """Seconds in which the heuristics play held-out episodes, for each of two sets."""
        return min(20.0, 0.04 * self.seconds)

    @property
    def evaluation(self) -> float:
        """Seconds of one evaluation of the network."""
        return 0.03 * self.seconds

    @property
    def outcome(self) -> float:
        """Seconds of the last comparison with the heuristic."""
        return min(60.0, 0.08 * self.seconds)

    @property
    def between_evaluations(self) -> float:
        """Seconds between two evaluations."""
        return self.seconds / 15.0


def default_settings(scenario: Scenario, changes: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of the scenario's family with `changes`, which take precedence."""
    own = {key: value for key, value in FAMILY_DEFAULTS.get(scenario.family, {}).items() if key not in changes}
    chosen = {"warm_start": AUTO, **own, **changes}
    if chosen["warm_start"] is None and "hindsight.rounds" not in changes:
        chosen.pop("hindsight.rounds", None)
    return TrainSettings().with_changes(chosen)


def parse_warm_start(name: str | None) -> str | None:
    """Return the setting of a warm start given in words: None for 'none'."""
    return None if name in (None, NONE) else name


def resolve_warm_start(settings: TrainSettings, name: str | None) -> TrainSettings:
    """Return `settings` with the warm start `name`; without one, hindsight, which goes on from it, is left out."""
    hindsight = settings.hindsight if name is not None else replace(settings.hindsight, rounds=0)
    return replace(settings, warm_start=name, hindsight=hindsight)


def sized_to(
    scenario: Scenario,
    settings: TrainSettings,
    given: Mapping[str, Any],
    seconds: float,
    episode_choices: float,
    clock: Callable[[], float],
) -> TrainSettings:
    """Return `settings` with rollouts of which at least `ROLLOUTS` fit into `seconds`; what is `given` stays.

    The speed is measured at two small updates.
    """
    small = replace(resolve_warm_start(settings, None), algo="ppo", n_envs=PROBE_LANES, n_steps=PROBE_STEPS, steps=None)
    probe = Trainer(scenario, small)
    size = settings.n_envs * settings.n_steps
    began = clock()
    probe.update()
    if clock() - began < 0.05 * seconds:
        began = clock()
        probe.update()
    speed = PROBE_LANES * PROBE_STEPS / max(clock() - began, 1e-6)
    affordable = min(size, speed * seconds / ROLLOUTS)
    changes: dict[str, int] = {}
    if settings.algo == "reinforce":
        longest = max(1.0, min(episode_choices, settings.episode_choices))
        same = settings.reinforce.same_arrivals
        changes["n_envs"] = same * max(1, min(settings.n_envs, int(affordable / longest)) // same)
        changes["episode_choices"] = max(settings.episode_choices, int(1.5 * episode_choices) + 1)
    if affordable < size:
        lanes = max(LEAST_LANES, min(changes.get("n_envs", settings.n_envs), int(affordable**0.5)))
        changes = {"n_envs": lanes, **changes}
        changes["n_steps"] = max(LEAST_STEPS, min(settings.n_steps, int(affordable / changes["n_envs"])))
    return settings.with_changes({name: value for name, value in changes.items() if name not in given})
