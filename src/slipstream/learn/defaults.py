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
COMMON_DEFAULTS: Mapping[str, Any] = {"imitation.rollouts": 10, "imitation.n_epochs": 6}
"""What differs from `TrainSettings()` in every family: data of training episodes are cheap, and what imitation misses
is hard to regain."""
POLICY_GRADIENT: Mapping[str, Any] = {"algo": "reinforce", "reinforce.n_epochs": 3, "reinforce.batch_size": 4096}
"""REINFORCE on whole episodes with the same arrivals, which cancels their variance."""
FAMILY_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "edge": {"hindsight.rounds": 150},
    "dag": {**POLICY_GRADIENT, "reinforce.discount_horizon": 30.0},
    "taskgraph": {
        **POLICY_GRADIENT,
        "reinforce.discount_horizon": 100.0,
        "hindsight.rounds": 150,
        "hindsight.own_rounds": 110,
        "hindsight.horizon": 20.0,
    },
    "serving": {
        "hindsight.rounds": 200,
        "hindsight.own_rounds": 100,
        "hindsight.horizon": 6.0,
        "hindsight.steps_between": 64,
    },
    "cluster": {**POLICY_GRADIENT, "reinforce.discount_horizon": 100.0, "reinforce.learning_rate": 3e-4},
}
"""What differs further in each family: what follows the imitation. Without a warm start there is no hindsight."""
GENERAL_DEFAULTS: Mapping[str, Any] = {
    "network.logarithms": True,
    "imitation.vf_coef": 0.0,
    "groups": 32,
    "redraw": 4,
    "evaluation_episodes": 64,
    "reinforce.relative": True,
    "hindsight.relative": True,
}
"""What differs in a training on generated scenarios: many at a time, new ones often, each counting alike."""
ROLLOUTS = 100
"""Rollouts that a training with a time limit should have at least."""
LEAST_LANES, LEAST_STEPS, MOST_STEPS = 16, 8, 1024
"""Fewest lanes, and fewest and most steps of each, in a rollout that is sized to its training."""
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
    """Return the default settings with `changes`.

    Where the warm start is left to the race (`auto`, the default), they are those of the family, with rollouts that
    suit the steps, if steps are given. A training that goes on from a policy (`start_from`) needs no warm start.
    """
    start = changes.get("warm_start", AUTO)
    if start == AUTO and changes.get("start_from") is not None:
        start = None
    if start != AUTO:
        return TrainSettings().with_changes({**changes, "warm_start": start})
    own = {**COMMON_DEFAULTS, **FAMILY_DEFAULTS.get(scenario.family, {})}
    settings = TrainSettings().with_changes({**own, **changes, "warm_start": AUTO})
    if settings.steps is None:
        return settings
    return settings.with_changes(_without(given=changes, changes=_rollout(settings, settings.steps / ROLLOUTS)))


def general_settings(family: str, changes: Mapping[str, Any]) -> TrainSettings:
    """Return the default settings of a training on generated scenarios of `family`, with `changes`."""
    own = {**COMMON_DEFAULTS, **FAMILY_DEFAULTS.get(family, {}), **GENERAL_DEFAULTS}
    start = changes.get("warm_start", AUTO)
    if start == AUTO and changes.get("start_from") is not None:
        start = None
    if start is None:
        own["hindsight.rounds"] = 0
    return TrainSettings().with_changes({**own, **changes, "warm_start": start})


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
    began = clock()
    probe.update()
    if clock() - began < 0.05 * seconds:
        began = clock()
        probe.update()
    speed = PROBE_LANES * PROBE_STEPS / max(clock() - began, 1e-6)
    affordable = speed * seconds / ROLLOUTS
    changes = _rollout(settings, affordable)
    if settings.algo == "reinforce":
        # Whole episodes are played, by as many lanes as there is time for.
        same = settings.reinforce.same_arrivals
        lanes = int(min(settings.n_envs, affordable / max(1.0, episode_choices)))
        changes["n_envs"] = same * max(1, lanes // same)
        # The imitation before it gets as many choices as there is time for, whatever the number of lanes.
        changes["n_steps"] = max(LEAST_STEPS, min(MOST_STEPS, int(affordable / changes["n_envs"])))
        changes["episode_choices"] = max(settings.episode_choices, int(1.5 * episode_choices) + 1)
    return settings.with_changes(_without(given=given, changes=changes))


def _rollout(settings: TrainSettings, size: float) -> dict[str, int]:
    """Return lanes and steps of a rollout of about `size` choices, or of that of `settings` if it is smaller."""
    if size >= settings.n_envs * settings.n_steps:
        return {}
    lanes = max(LEAST_LANES, min(settings.n_envs, int(size**0.5)))
    return {"n_envs": lanes, "n_steps": max(LEAST_STEPS, min(settings.n_steps, int(size / lanes)))}


def _without(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `changes` of settings that are not `given`."""
    return {name: value for name, value in changes.items() if name not in given}
