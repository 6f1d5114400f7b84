"""Settings of a training, as dataclasses that a JSON file can hold."""

from __future__ import annotations

import difflib
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from slipstream.errors import InputError
from slipstream.families.shared.variation import Variation
from slipstream.learn.algorithms.hindsight import HindsightSettings
from slipstream.learn.algorithms.imitation import ImitationSettings
from slipstream.learn.algorithms.ppo import PPOSettings
from slipstream.learn.algorithms.reinforce import ReinforceSettings
from slipstream.learn.networks.networks import NetworkSettings
from slipstream.learn.parsing import bare_type, parse_settings

ORACLE = "oracle"
"""Warm start that imitates the hindsight optimum."""
MOST = {"n_envs": 65_536, "n_steps": 65_536, "episode_choices": 1 << 20, "threads": 1024, "seed": 2**62 - 1}
"""Upper limits: memory of a machine, and range of the random generators."""
ORACLE_ROUNDS = 20
"""Rounds of that warm start where `hindsight.rounds` is 0."""
DEFAULT_STEPS = 6_000_000
"""Choices of a training with neither `steps` nor minutes."""


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a training; those of algorithms are named as in Stable-Baselines3."""

    algo: Literal["ppo", "reinforce"] = "ppo"
    """Algorithm: `ppo` or `reinforce`."""
    steps: int | None = None
    """Choices of the training, warm start included; schedules run over these, and the last rollout is completed.
    None: as many as fit into the minutes of the training, 6,000,000 where it has none."""
    seed: int = 0
    """Seed of initial weights, arrivals and sampling."""
    n_envs: int = 256
    """Lanes: environments simulated in parallel."""
    n_steps: int = 128
    """Choices of every lane per rollout (PPO); REINFORCE plays whole episodes."""
    episode_choices: int = 4096
    """Most choices of an episode in REINFORCE."""
    groups: int = 8
    """Groups of lanes, at most one per lane (REINFORCE: per `same_arrivals` lanes); with a variation, every group has a
    scenario of its own."""
    threads: int = 2
    """Threads of rollouts and gradients."""
    backend: Literal["compiled", "torch"] = "compiled"
    """What computes gradients: `compiled` code, or autograd (`torch`), as always for networks that cannot be
    compiled."""
    warm_start: str | None = None
    """Heuristic to imitate first, by name, `auto` for the winner of a race on training episodes, or `oracle` where it
    solves the episodes; none: from random weights. On generated scenarios several, with commas between them: the best
    of them on each scenario."""
    judges: str = ""
    """Heuristics that estimate regret, as `peft,mct`: the reward of a step is then minus its regret, estimated by the
    highest return of one of them over the rest of the episode. None: the scenario's own reward."""
    start_from: str | None = None
    """Folder of a trained policy of the same family whose weights are the initial ones; none: random weights."""
    open_columns: bool = False
    """With `start_from`: whether columns that never varied where that policy was trained are scaled and used, with
    initial weights of zero."""
    variation: Variation = field(default_factory=Variation)
    """Domain randomisation: how far training scenarios vary from the one given."""
    start_load: float = 1.0
    """Factor of the arrival rates at the start of a curriculum; after a third of the steps it is 1."""
    start_length: float = 0.0
    """Mean length of an episode at the start of a curriculum, in the family's timescale: episodes are truncated at
    random times. It grows tenfold over a third of the steps, then episodes are complete. 0: complete from the start."""
    redraw: int = 10
    """Updates after which groups get new scenarios, if they vary."""
    evaluate_every: int = 20
    """Updates between two evaluations on held-out seeds, each followed by a checkpoint."""
    evaluation_episodes: int = 32
    """Held-out episodes of an evaluation."""
    constraints: bool = True
    """Whether a policy that breaks a constraint of the family, such as the longest wait in cluster, is kept as the best
    only while none keeps them all."""
    hidden: tuple[str, ...] = (
        "time",
        "remaining",
        "finished",
        "missed",
        "utilisation",
        "completed",
        "model_code",
        "dataset_code",
    )
    """Columns hidden from the network: they identify the episode or the time in it, not the best candidate."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    reinforce: ReinforceSettings = field(default_factory=ReinforceSettings)
    imitation: ImitationSettings = field(default_factory=ImitationSettings)
    hindsight: HindsightSettings = field(default_factory=HindsightSettings)

    def __post_init__(self) -> None:
        for name, value in _numbers(self):
            _check_number(name, value)
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise InputError(f"training: {name} is {getattr(self, name)}: expected at most {most:,}")
        if self.algo not in ("ppo", "reinforce"):
            raise InputError(f"training: algo is '{self.algo}': expected 'ppo' or 'reinforce'")
        if self.backend not in ("compiled", "torch"):
            raise InputError(f"training: backend is '{self.backend}': expected 'compiled' or 'torch'")
        if self.algo == "reinforce" and self.n_envs < 2:
            raise InputError(
                "training: n_envs is 1 with reinforce, which compares lanes with the same arrivals: expected at least 2"
            )
        if self.hindsight.rounds and self.warm_start is None:
            raise InputError("training: hindsight goes on from a warm start: expected one, or hindsight.rounds=0")
        if self.open_columns and (self.start_from is None or self.network.kind != "rows"):
            raise InputError("training: open_columns is true: expected start_from, and a network of kind 'rows'")

    @property
    def group_bounds(self) -> list[int]:
        """First lane of every group, and the number of lanes; lanes with the same arrivals share a group."""
        unit = self.reinforce.same_arrivals if self.algo == "reinforce" else 1
        units = -(-self.n_envs // unit)
        groups = min(self.groups, units)
        return [min(self.n_envs, unit * (units * group // groups)) for group in range(groups + 1)]

    @property
    def planned_steps(self) -> int:
        """Number of choices that schedules run over."""
        return DEFAULT_STEPS if self.steps is None else self.steps

    def choices_per_lane(self, most: int) -> int:
        """Return the choices of each lane in a rollout: `most`, or fewer where `steps` is less than that."""
        return min(most, -(-self.planned_steps // self.n_envs))

    def limits(self, minutes: float | None) -> str:
        """Return in words when a training with these settings and `minutes` ends."""
        limits = []
        if self.steps is not None:
            limits.append(f"{self.steps:,} steps{self._surplus(self.steps)}")
        if minutes is not None:
            limits.append(f"{minutes:g} minutes")
        return ", or ".join(limits or [f"{DEFAULT_STEPS:,} steps"]) + (
            ", whichever is over first" if limits[1:] else ""
        )

    def _surplus(self, steps: int) -> str:
        """Return in words the number of steps that whole rollouts make of `steps`, where it is another."""
        if self.algo == "reinforce":
            return f" (the last {self.n_envs:,} episodes are played to their end)"
        size = self.n_envs * self.choices_per_lane(self.n_steps)
        if self.hindsight_rounds:
            longest = max(size, self.n_envs * self.choices_per_lane(self.hindsight.steps_between))
            return f" (to the end of a rollout of up to {longest:,})"
        made = -(-steps // size) * size
        return f" ({made:,} in whole rollouts of {size:,})" if made != steps else ""

    @property
    def imitation_rollouts(self) -> int:
        """Number of updates that imitate a heuristic."""
        return 0 if self.warm_start in (None, ORACLE) else self.imitation.rollouts

    @property
    def hindsight_rounds(self) -> int:
        """Number of updates that learn from hindsight, which is also how the oracle is imitated."""
        return self.hindsight.rounds or (ORACLE_ROUNDS if self.warm_start == ORACLE else 0)

    @property
    def algorithm(self) -> PPOSettings | ReinforceSettings:
        """Settings of the chosen algorithm."""
        return self.ppo if self.algo == "ppo" else self.reinforce

    @property
    def varies(self) -> bool:
        """Whether groups have scenarios other than the one given."""
        return not self.variation.is_identity or self.start_load != 1.0 or self.start_length != 0.0

    def load_at(self, progress: float) -> float:
        """Return the factor of the arrival rates at `progress` of the training."""
        return min(1.0, self.start_load + (1.0 - self.start_load) * 3.0 * progress)

    def length_at(self, progress: float) -> float:
        """Return the mean length of an episode at `progress` of the training; 0 if episodes are complete."""
        growing = self.start_length > 0.0 and progress < 1.0 / 3.0
        return self.start_length * (1.0 + 27.0 * progress) if growing else self.variation.length

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], label: str = "settings") -> TrainSettings:
        """Return the settings of JSON-ready data; errors begin with `label`."""
        settings: TrainSettings = parse_settings(cls, data, label)
        return settings

    def with_changes(self, changes: Mapping[str, Any]) -> TrainSettings:
        """Return the settings with some changed; 'ppo.clip_range' names a setting within a part."""
        own: dict[str, Any] = {}
        for key, value in changes.items():
            part, _, name = key.partition(".")
            if name and is_dataclass(getattr(self, part, None)):
                own[part] = _changed(own.get(part, getattr(self, part)), {name: value}, f"{part}.")
            else:
                own[key] = value
        changed: TrainSettings = _changed(self, own, "")
        return changed


AT_LEAST_ONE = {
    *("steps", "n_envs", "n_steps", "episode_choices", "groups", "threads", "redraw", "evaluate_every"),
    *("evaluation_episodes", "n_epochs", "batch_size", "same_arrivals", "rollouts", "gradient_steps"),
    *("buffer_rounds", "steps_between", "candidates", "episodes"),
}
"""Whole numbers that are at least 1, by the last part of their names; all others are at least 0."""
POSITIVE = ("learning_rate", "discount_horizon", "max_grad_norm", "clip_range", "start_load")
SHARES = ("gae_lambda",)
"""Numbers from 0 to 1."""
OTHER_WORDS = {"lanes": "n_envs", "envs": "n_envs", "lr": "learning_rate", "epochs": "n_epochs", "clip": "clip_range"}
"""Words that users try, and the names of the settings that they mean."""


def _numbers(settings: Any, part: str = "") -> Iterator[tuple[str, float]]:
    """Yield name and value of every number among `settings` and its parts; network and variation check their own."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value) and not isinstance(value, NetworkSettings | Variation):
            yield from _numbers(value, f"{one.name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield part + one.name, value


def _check_number(name: str, value: float) -> None:
    """Refuse a number that a setting cannot have."""
    last = name.rpartition(".")[2]
    least = 1 if last in AT_LEAST_ONE and name != "reinforce.batch_size" else 0
    if last in SHARES and not 0.0 <= value <= 1.0:
        raise InputError(f"training: {name} is {value}: expected a number from 0 to 1")
    if last in POSITIVE and not value > 0.0:
        raise InputError(f"training: {name} is {value}: expected more than 0")
    if not value >= least:
        raise InputError(f"training: {name} is {value}: expected at least {least}")
    if not math.isfinite(value) and name != "hindsight.oracle_seconds":
        raise InputError(f"training: {name} is {value}: expected a finite number")


def _unknown(name: str, part: str, known: list[str]) -> InputError:
    """Return the error that `name` is no setting, with the nearest one that is."""
    near = [OTHER_WORDS[name]] if OTHER_WORDS.get(name) in known else difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{part}{near[0]}'? Known: " if near else "expected one of "
    return InputError(f"training: unknown setting '{part}{name}': {hint}{', '.join(known)}")


def _whole(text: Any) -> int:
    """Return a whole number, also one written as 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _changed(settings: Any, changes: Mapping[str, Any], part: str) -> Any:
    """Return `settings` with `changes` applied; texts are converted to the type of the setting."""
    known = [one.name for one in fields(settings)]
    hints = typing.get_type_hints(type(settings))
    values = {}
    for name, value in changes.items():
        if name not in known:
            raise _unknown(name, part, known)
        before = getattr(settings, name)
        if is_dataclass(before) and not isinstance(value, type(before)):
            raise InputError(
                f"training: {part}{name} is '{value}': expected one of its settings, as in {name}.KEY=VALUE"
            )
        if isinstance(value, str) and isinstance(before, bool):
            if value not in ("true", "false"):
                raise InputError(f"training: {part}{name} is '{value}': expected true or false")
            value = value == "true"
        elif isinstance(value, str) and isinstance(before, tuple):
            value = tuple(text for text in map(str.strip, value.split(",")) if text)
        elif (kind := bare_type(hints[name])) in (int, float) and (value is not None or kind is hints[name]):
            try:
                value = _whole(value) if kind is int else kind(value)
            except (TypeError, ValueError, OverflowError):
                expected = "a whole number" if kind is int else "a number"
                raise InputError(f"training: {part}{name} is '{value}': expected {expected}") from None
        values[name] = value
    return replace(settings, **values)
